//! How a value lies in its object.
//!
//! ```text
//! bytes 0..6   deadline, in milliseconds since the Unix epoch; 0 if there is none
//! bytes 6..8   mark
//! bytes 8..    the value
//! ```

use crate::Error;

pub(crate) const PREFIX_BYTES: usize = 8;

const DEADLINE_BITS: u32 = 48;
const MARK: u64 = u16::from_le_bytes(*b"kv") as u64;

/// The latest deadline there can be: some nine thousand years from now.
const LAST_MS: u64 = (1 << DEADLINE_BITS) - 1;

/// A value and when it expires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
}

impl Entry {
    /// A value that does not expire.
    pub fn lasting(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), deadline_ms: None }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + self.value.len());
        encode_into(&mut bytes, &self.value, self.deadline_ms);
        bytes
    }

    /// Takes an object's bytes apart, without copying the value elsewhere.
    pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<Self, Error> {
        let deadline_ms = decode_prefix(bytes.first_chunk().ok_or(Error::NotAValue)?)?;
        bytes.drain(..PREFIX_BYTES);
        Ok(Self { value: bytes, deadline_ms })
    }
}

/// Appends a value, as it lies in its object.
pub(crate) fn encode_into(bytes: &mut Vec<u8>, value: &[u8], deadline_ms: Option<u64>) {
    bytes.extend(encode_prefix(deadline_ms));
    bytes.extend_from_slice(value);
}

#[inline]
pub(crate) fn encode_prefix(deadline_ms: Option<u64>) -> [u8; PREFIX_BYTES] {
    // A deadline of 0 passed long ago, but would mean "none".
    let deadline = deadline_ms.map_or(0, |ms| ms.clamp(1, LAST_MS));
    (MARK << DEADLINE_BITS | deadline).to_le_bytes()
}

#[inline(always)]
pub(crate) fn decode_prefix(bytes: &[u8; PREFIX_BYTES]) -> Result<Option<u64>, Error> {
    let word = u64::from_le_bytes(*bytes);
    if word >> DEADLINE_BITS != MARK {
        return Err(Error::NotAValue);
    }
    Ok(Some(word & LAST_MS).filter(|&deadline| deadline > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read() {
        for deadline_ms in [None, Some(1), Some(1_800_000_000_000), Some(LAST_MS)] {
            let entry = Entry { value: b"hello".to_vec(), deadline_ms };
            assert_eq!(Entry::decode(entry.encode()).unwrap(), entry);
        }
        let past = Entry { value: Vec::new(), deadline_ms: Some(0) };
        assert_eq!(Entry::decode(past.encode()).unwrap().deadline_ms, Some(1));
        let never = Entry { value: Vec::new(), deadline_ms: Some(u64::MAX) };
        assert_eq!(Entry::decode(never.encode()).unwrap().deadline_ms, Some(LAST_MS));
    }

    #[test]
    fn other_objects_are_refused() {
        assert!(matches!(Entry::decode(b"short".to_vec()), Err(Error::NotAValue)));
        assert!(matches!(Entry::decode(b"long enough".to_vec()), Err(Error::NotAValue)));
    }
}
