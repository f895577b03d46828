//! Values that tell which key and version they belong to.
//!
//! A value is a stream of pseudo-random 8-byte words (SplitMix64, whose start is the version's, and
//! whose step is the key's and the length's), little-endian, cut off at the value's length. Every
//! step of it can be inverted, so for a given key and length the first word alone gives the version
//! away, and the second confirms it: from 16 bytes on, every change within one word, in particular
//! of one byte, is certain to be found, and any other escapes once in 2^64 times.
//!
//! Shorter values have no room for that. Half of their bits are the lowest of the version, the
//! others confirm them.

use crate::random::{GOLDEN, SplitMix, mix, unmix};

const WORD: usize = size_of::<u64>();
/// Values from here on hold a whole version and its confirmation.
const LONG: usize = 2 * WORD;

/// Why a value is no version of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    /// It holds no bytes at all.
    #[error("the value of record {key_number} is empty")]
    Empty {
        /// The record it was read from.
        key_number: u64,
    },
    /// It begins as one version and ends as another.
    #[error(
        "the value of record {key_number} is torn: it is version {version} before byte {offset}, \
         and version {end_version} at its end"
    )]
    Torn {
        /// The record it was read from.
        key_number: u64,
        /// The version it begins as.
        version: u64,
        /// The first byte that is not that version's.
        offset: usize,
        /// The version it ends as.
        end_version: u64,
    },
    /// It begins as a version, but something else follows.
    #[error(
        "the value of record {key_number} is damaged: it is version {version} before byte {offset} \
         only"
    )]
    Damaged {
        /// The record it was read from.
        key_number: u64,
        /// The version it begins as.
        version: u64,
        /// The first byte that is not that version's.
        offset: usize,
    },
    /// It begins as no version: it is another record's or of another length, or damaged from the
    /// start.
    #[error("the {length_bytes} bytes read from record {key_number} are no version of it")]
    Foreign {
        /// The record it was read from.
        key_number: u64,
        /// How long it is.
        length_bytes: usize,
    },
}

/// Fills `value` with what `version` of record `key_number` holds. The bytes depend on these two
/// and the length alone.
pub fn fill_value(key_number: u64, version: u64, value: &mut [u8]) {
    let len = value.len();
    let step = step(key_number, len);
    if len < LONG {
        value.copy_from_slice(&short(step, version, len)[..len]);
        return;
    }
    let mut words = SplitMix { state: mix(version), step };
    let (chunks, rest) = value.as_chunks_mut();
    for chunk in chunks {
        *chunk = words.next().to_le_bytes();
    }
    let len = rest.len();
    rest.copy_from_slice(&words.next().to_le_bytes()[..len]);
}

/// The version of record `key_number` that `value` is, whole and unmixed; of values shorter than 16
/// bytes only the lowest [`version_bits`] of it.
///
/// # Errors
///
/// [`Corruption`] says what the value is instead. From 16 bytes on, nothing but chances of 2^-64
/// escapes; a wrong value of fewer bytes `n` escapes with a probability of up to 2^-4`n`.
pub fn check_value(key_number: u64, value: &[u8]) -> Result<u64, Corruption> {
    let step = step(key_number, value.len());
    let Some(first) = value.first_chunk().filter(|_| value.len() >= LONG) else {
        return check_short(key_number, step, value);
    };
    let start = unmix(u64::from_le_bytes(*first)).wrapping_sub(step);
    let version = unmix(start);
    match mismatch(SplitMix { state: start, step }, value) {
        None => Ok(version),
        Some(offset) => Err(diagnose(key_number, version, step, offset, value)),
    }
}

/// How many bits of a version a value of `length_bytes` tells, the lowest first: all 64 from 16
/// bytes on, 4 per byte below.
pub fn version_bits(length_bytes: usize) -> u32 {
    if length_bytes < LONG { 4 * length_bytes as u32 } else { u64::BITS }
}

/// Odd, so that a stream repeats only after 2^64 words, and different for all keys below 2^63.
fn step(key_number: u64, len: usize) -> u64 {
    let odd = key_number.wrapping_mul(2).wrapping_add(1);
    odd.wrapping_mul(GOLDEN).wrapping_add(mix(len as u64) << 1)
}

/// The first byte of `value` that is not of `words`.
fn mismatch(mut words: SplitMix, value: &[u8]) -> Option<usize> {
    let (chunks, rest) = value.as_chunks();
    let differs = |chunk: &[u8], word: u64| {
        chunk.iter().zip(word.to_le_bytes()).position(|(&found, expected)| found != expected)
    };
    for (index, chunk) in chunks.iter().enumerate() {
        let word = words.next();
        if *chunk != word.to_le_bytes() {
            return differs(chunk, word).map(|byte| index * WORD + byte);
        }
    }
    differs(rest, words.next()).map(|byte| chunks.len() * WORD + byte)
}

#[cold]
fn diagnose(key_number: u64, version: u64, step: u64, offset: usize, value: &[u8]) -> Corruption {
    if offset < LONG {
        return Corruption::Foreign { key_number, length_bytes: value.len() };
    }
    match end_version(step, offset / WORD + 1, value) {
        Some(end_version) if end_version != version => {
            Corruption::Torn { key_number, version, offset, end_version }
        }
        _ => Corruption::Damaged { key_number, version, offset },
    }
}

/// The version that `value` is of from the word at `index` on, if that and another word agree.
fn end_version(step: u64, index: usize, value: &[u8]) -> Option<u64> {
    let end = value.get(index * WORD..).filter(|end| end.len() >= LONG)?;
    let state = unmix(u64::from_le_bytes(*end.first_chunk()?)).wrapping_sub(step);
    let start = state.wrapping_sub(step.wrapping_mul(index as u64));
    mismatch(SplitMix { state, step }, end).is_none().then(|| unmix(start))
}

/// A value of `len` bytes, fewer than [`LONG`], and zeros.
fn short(step: u64, version: u64, len: usize) -> [u8; LONG] {
    let bits = version_bits(len);
    let mask = (1 << bits) - 1;
    let (pad, version) = (mix(step), version & mask);
    let confirmation = mix(pad.wrapping_add(version)) & mask;
    (u128::from(confirmation) << bits | u128::from((pad ^ version) & mask)).to_le_bytes()
}

fn check_short(key_number: u64, step: u64, value: &[u8]) -> Result<u64, Corruption> {
    if value.is_empty() {
        return Err(Corruption::Empty { key_number });
    }
    let mut bytes = [0; LONG];
    bytes[..value.len()].copy_from_slice(value);
    let mask = (1 << version_bits(value.len())) - 1;
    let version = (u128::from_le_bytes(bytes) as u64 ^ mix(step)) & mask;
    if short(step, version, value.len()) == bytes {
        Ok(version)
    } else {
        Err(Corruption::Foreign { key_number, length_bytes: value.len() })
    }
}
