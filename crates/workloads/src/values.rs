//! Values that tell which key and version they belong to.
//!
//! A value is a stream of pseudo-random 8-byte words (SplitMix64, whose step is the key's and whose
//! start is the version's), little-endian, cut off at the value's length. Every step of it can be
//! inverted, so for a given key the first word alone gives the version away, and the others confirm
//! both.

/// Fills `value` with what `version` of record `key_number` holds. The bytes depend on these two and
/// the length alone, and a shorter value is the start of a longer one.
pub fn fill_value(key_number: u64, version: u64, value: &mut [u8]) {
    let mut words = Words::new(key_number, version);
    let (chunks, rest) = value.as_chunks_mut();
    for chunk in chunks {
        *chunk = words.next();
    }
    let len = rest.len();
    rest.copy_from_slice(&words.next()[..len]);
}

/// Whether `value` is what [`fill_value`] makes of these, whole and unmixed.
pub fn is_value(key_number: u64, version: u64, value: &[u8]) -> bool {
    let mut words = Words::new(key_number, version);
    let (chunks, rest) = value.as_chunks();
    chunks.iter().all(|chunk| *chunk == words.next()) && *rest == words.next()[..rest.len()]
}

/// The version of record `key_number` that `value` is, whole and unmixed; `None` if it is none, or
/// shorter than 8 bytes.
///
/// The bytes after the eighth are what can go wrong: a value of 8 bytes is a version of every
/// record.
pub fn version_of(key_number: u64, value: &[u8]) -> Option<u64> {
    let first = u64::from_le_bytes(*value.first_chunk()?);
    let version = unmix(unmix(first).wrapping_sub(step(key_number)));
    is_value(key_number, version, value).then_some(version)
}

struct Words {
    state: u64,
    step: u64,
}

impl Words {
    fn new(key_number: u64, version: u64) -> Self {
        Self { state: mix(version), step: step(key_number) }
    }

    fn next(&mut self) -> [u8; 8] {
        self.state = self.state.wrapping_add(self.step);
        mix(self.state).to_le_bytes()
    }
}

/// Odd, so that the stream repeats only after 2^64 words.
fn step(key_number: u64) -> u64 {
    mix(key_number.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1
}

/// SplitMix64's output function.
fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The inverse of [`mix`].
fn unmix(mut word: u64) -> u64 {
    word = (word ^ word >> 31 ^ word >> 62).wrapping_mul(0x3196_42b2_d24d_8ec3);
    word = (word ^ word >> 27 ^ word >> 54).wrapping_mul(0x96de_1b17_3f11_9089);
    word ^ word >> 30 ^ word >> 60
}
