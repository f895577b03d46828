//! How a value lies in its object.
//!
//! ```text
//! bytes 0..6   the low bits of the deadline, in milliseconds since the Unix epoch; 0: none
//! bytes 6..8   mark: the deadline is whole, or its high bits follow the value
//! bytes 8..    the value
//! last 2       the high bits of the deadline, if the mark says so
//! ```
//!
//! Deadlines of the next nine thousand years are whole. So the place and length of usual values
//! follow from their object's.

use crate::Error;

pub(crate) const PREFIX_BYTES: usize = 8;
/// Bytes behind a value whose deadline is far.
pub(crate) const HIGH_BYTES: usize = 2;

const DEADLINE_BITS: u32 = 48;
const MARK: u64 = u16::from_le_bytes(*b"kv") as u64;
const FAR_MARK: u64 = u16::from_le_bytes(*b"kf") as u64;

/// The latest deadline that lies in the prefix alone: some nine thousand years from now.
const LAST_NEAR_MS: u64 = (1 << DEADLINE_BITS) - 1;

/// A value and when it expires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
}

/// The deadline of an object, or its part that stands in the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// The deadline; none, if the value lasts.
    Near(Option<u64>),
    /// The low bits of a deadline whose high bits follow the value.
    Far(u64),
}

impl Entry {
    /// A value that does not expire.
    pub fn lasting(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), deadline_ms: None }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + self.value.len() + HIGH_BYTES);
        encode_into(&mut bytes, &self.value, self.deadline_ms);
        bytes
    }

    /// Takes an object's bytes apart, without copying the value elsewhere.
    pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<Self, Error> {
        let prefix = *bytes.first_chunk().ok_or(Error::NotAValue)?;
        bytes.drain(..PREFIX_BYTES);
        let deadline_ms = decode(&prefix, &mut bytes)?;
        Ok(Self { value: bytes, deadline_ms })
    }
}

/// Whether a value with this deadline is nothing but a prefix and its bytes.
#[inline]
pub(crate) fn is_near(deadline_ms: Option<u64>) -> bool {
    deadline_ms.is_none_or(|ms| ms <= LAST_NEAR_MS)
}

/// Appends a value, as it lies in its object.
pub(crate) fn encode_into(bytes: &mut Vec<u8>, value: &[u8], deadline_ms: Option<u64>) {
    let far = deadline_ms.filter(|_| !is_near(deadline_ms));
    let prefix = match far {
        None => encode_prefix(deadline_ms),
        Some(ms) => (FAR_MARK << DEADLINE_BITS | ms & LAST_NEAR_MS).to_le_bytes(),
    };
    bytes.extend(prefix);
    bytes.extend_from_slice(value);
    if let Some(ms) = far {
        bytes.extend(((ms >> DEADLINE_BITS) as u16).to_le_bytes());
    }
}

/// The prefix of a value whose deadline [is near](is_near).
#[inline]
pub(crate) fn encode_prefix(deadline_ms: Option<u64>) -> [u8; PREFIX_BYTES] {
    // A deadline of 0 passed long ago, but would mean "none".
    let deadline = deadline_ms.map_or(0, |ms| ms.clamp(1, LAST_NEAR_MS));
    (MARK << DEADLINE_BITS | deadline).to_le_bytes()
}

/// Decodes the prefix of an object. Fails if the object is not a value of this crate.
pub(crate) fn decode_prefix(bytes: &[u8; PREFIX_BYTES]) -> Result<Prefix, Error> {
    let word = u64::from_le_bytes(*bytes);
    match word >> DEADLINE_BITS {
        MARK => Ok(Prefix::Near(near(word))),
        FAR_MARK => Ok(Prefix::Far(word & LAST_NEAR_MS)),
        _ => Err(Error::NotAValue),
    }
}

#[inline(always)]
fn near(word: u64) -> Option<u64> {
    Some(word & LAST_NEAR_MS).filter(|&deadline| deadline > 0)
}

/// The deadline of a value, of whose object `rest` holds all bytes behind the prefix; the value
/// alone is left of them.
#[inline(always)]
pub(crate) fn decode(
    prefix: &[u8; PREFIX_BYTES],
    rest: &mut Vec<u8>,
) -> Result<Option<u64>, Error> {
    let word = u64::from_le_bytes(*prefix);
    if word >> DEADLINE_BITS == MARK { Ok(near(word)) } else { decode_far(prefix, rest) }
}

#[cold]
fn decode_far(prefix: &[u8; PREFIX_BYTES], rest: &mut Vec<u8>) -> Result<Option<u64>, Error> {
    let (deadline_ms, value_bytes) = decode_parts(prefix, rest)?;
    rest.truncate(value_bytes);
    Ok(deadline_ms)
}

/// The deadline of a value, and the value's length, of whose object `rest` is what follows the
/// prefix.
pub(crate) fn decode_parts(
    prefix: &[u8; PREFIX_BYTES],
    rest: &[u8],
) -> Result<(Option<u64>, usize), Error> {
    match decode_prefix(prefix)? {
        Prefix::Near(deadline_ms) => Ok((deadline_ms, rest.len())),
        Prefix::Far(low) => {
            let (value, high) = rest.split_last_chunk::<HIGH_BYTES>().ok_or(Error::NotAValue)?;
            Ok((Some(far_deadline(low, *high)), value.len()))
        }
    }
}

/// The deadline with these low bits and high bytes.
pub(crate) fn far_deadline(low: u64, high: [u8; HIGH_BYTES]) -> u64 {
    u64::from(u16::from_le_bytes(high)) << DEADLINE_BITS | low
}

/// The length of the value in an object of so many bytes.
pub(crate) fn value_bytes(prefix: Prefix, object_bytes: u64) -> Result<u64, Error> {
    let around = match prefix {
        Prefix::Near(_) => PREFIX_BYTES,
        Prefix::Far(_) => PREFIX_BYTES + HIGH_BYTES,
    };
    object_bytes.checked_sub(around as u64).ok_or(Error::NotAValue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read() {
        // Deadlines of more than 48 bits used to be cut to those.
        let deadlines = [1, 1_800_000_000_000, LAST_NEAR_MS, LAST_NEAR_MS + 1, 1 << 60, u64::MAX];
        for deadline_ms in deadlines.into_iter().map(Some).chain([None]) {
            for value in ["", "hello"] {
                let entry = Entry { value: value.into(), deadline_ms };
                assert_eq!(Entry::decode(entry.encode()).unwrap(), entry);
                let object = entry.encode();
                let (prefix, rest) = object.split_first_chunk().unwrap();
                assert_eq!(decode_parts(prefix, rest).unwrap(), (deadline_ms, value.len()));
                let prefix = decode_prefix(prefix).unwrap();
                let bytes = value_bytes(prefix, object.len() as u64).unwrap();
                assert_eq!(bytes, value.len() as u64);
            }
        }
        let past = Entry { value: Vec::new(), deadline_ms: Some(0) };
        assert_eq!(Entry::decode(past.encode()).unwrap().deadline_ms, Some(1));
    }

    #[test]
    fn other_objects_are_refused() {
        for object in [&b"short"[..], b"long enough", b"\0\0\0\0\0\0kf", b"\0\0\0\0\0\0kf1"] {
            assert!(matches!(Entry::decode(object.to_vec()), Err(Error::NotAValue)), "{object:?}");
        }
    }
}
