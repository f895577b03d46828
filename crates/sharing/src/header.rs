//! The header before an object's bytes in its slot.
//!
//! ```text
//! bytes  0..8   version: names the write that produced the value
//! bytes  8..12  length of the value
//! bytes 12..14  length of the key
//! bytes 14..16  mark of a slot that holds an object, or one whose value is not there
//! bytes 16..    key, then value
//! ```

use crate::{Error, MAX_KEY_BYTES, Version};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;

/// Bytes that hold any header and key.
pub const PREFIX_BYTES: usize = HEADER_BYTES + MAX_KEY_BYTES;

/// The last bytes of a header, without which it is none.
pub const MARK_BYTES: usize = size_of_val(&MARK);

const MARK: u16 = 0x0b1e;

/// The object's value is in a host's own memory, or lost with it.
const AWAY: u16 = 0xb1e0;

/// The first bytes of an object's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Names the write that produced the value.
    pub version: Version,
    /// Length of the key.
    pub key_bytes: u16,
    /// Length of the value.
    pub value_bytes: u32,
}

impl Header {
    /// The header of an object with this key.
    pub fn new(version: Version, key: &[u8], value_bytes: u32) -> Self {
        Self { version, key_bytes: key.len() as u16, value_bytes }
    }

    /// Its bytes.
    #[inline(always)]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let (key_bytes, mark) = (u64::from(self.key_bytes), u64::from(MARK));
        let lengths = mark << 48 | key_bytes << 32 | u64::from(self.value_bytes);
        (u128::from(lengths) << 64 | u128::from(self.version.0)).to_le_bytes()
    }

    /// The header at the start of `bytes`, if it describes an object that fits into `capacity`
    /// bytes. It may be torn; then it is anything that fits, or nothing.
    #[inline]
    pub fn decode(bytes: &[u8], capacity: u64) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk()?;
        let (value_bytes, rest) = rest.split_first_chunk()?;
        let (key_bytes, rest) = rest.split_first_chunk()?;
        let header = Self {
            version: Version(u64::from_le_bytes(*version)),
            value_bytes: u32::from_le_bytes(*value_bytes),
            key_bytes: u16::from_le_bytes(*key_bytes),
        };
        let sound = u16::from_le_bytes(*rest.first_chunk()?) == MARK
            && (1..=MAX_KEY_BYTES).contains(&usize::from(header.key_bytes))
            && header.total_bytes() <= capacity;
        sound.then_some(header)
    }

    /// The same, if its key has `key_bytes` bytes.
    #[inline(always)]
    pub fn decode_with(
        bytes: &[u8; HEADER_BYTES],
        key_bytes: usize,
        capacity: u64,
    ) -> Option<Self> {
        let bits = u128::from_le_bytes(*bytes);
        let (version, lengths) = (bits as u64, (bits >> 64) as u64);
        let same = lengths >> 32 == u64::from(MARK) << 16 | key_bytes as u64;
        let header = Self {
            version: Version(version),
            key_bytes: key_bytes as u16,
            value_bytes: lengths as u32,
        };
        (same && header.total_bytes() <= capacity).then_some(header)
    }

    /// The length of the key at the start of `bytes`, of an object in `capacity` bytes whose other
    /// parts may be torn: nobody changes that of an object.
    pub fn decode_key_bytes(bytes: &[u8], capacity: u64) -> Option<usize> {
        let key_bytes = u16::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
        let unwritten = Self { version: Version(0), key_bytes, value_bytes: 0 }.encode();
        let whole = Self::decode(&unwritten, capacity)?;
        let mark: &[u8; 2] = bytes.get(14..)?.first_chunk()?;
        // A writer may have died between its two bytes.
        let marks = MARK.to_le_bytes().into_iter().zip(AWAY.to_le_bytes());
        let sound =
            mark.iter().zip(marks).all(|(&byte, (here, away))| [here, away].contains(&byte));
        sound.then_some(usize::from(whole.key_bytes))
    }

    /// The first bytes of the slot of an object with a key of this length while its value is in the
    /// own memory of `host`, or lost with it.
    pub fn encode_away(key_bytes: u16, host: u8) -> [u8; HEADER_BYTES] {
        let away = Self { version: Version(0), key_bytes, value_bytes: host.into() };
        let mut bytes = away.encode();
        bytes[14..].copy_from_slice(&AWAY.to_le_bytes());
        bytes
    }

    /// With which host the value is of the object in `capacity` bytes that begin with `bytes`, and
    /// how long its key is, if it is not there.
    pub fn decode_away(bytes: &[u8], capacity: u64) -> Option<(u8, usize)> {
        let away = u16::from_le_bytes(*bytes.get(14..)?.first_chunk()?) == AWAY;
        let key_bytes = Self::decode_key_bytes(bytes, capacity).filter(|_| away)?;
        let host = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        Some((u8::try_from(host).ok()?, key_bytes))
    }

    /// Where the value starts in the slot.
    #[inline]
    pub fn value_offset(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.key_bytes)
    }

    /// Bytes of header, key and value.
    #[inline]
    pub fn total_bytes(&self) -> u64 {
        self.value_offset() + u64::from(self.value_bytes)
    }
}

/// Bytes that an object takes in its slot.
///
/// # Errors
/// [`Error::TooLarge`].
pub fn object_bytes(key: &[u8], value: &[u8]) -> Result<u64, Error> {
    object_bytes_of(key.len(), value.len() as u64)
}

/// Bytes that an object with a key and a value of so many bytes takes in its slot.
///
/// # Errors
/// [`Error::TooLarge`].
pub fn object_bytes_of(key_bytes: usize, value_bytes: u64) -> Result<u64, Error> {
    let bytes = value_bytes.saturating_add((HEADER_BYTES + key_bytes) as u64);
    let most = u64::from(u32::MAX);
    if bytes > most { Err(Error::TooLarge { bytes, most }) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_read_back(version: u64, key_bytes in 1..=MAX_KEY_BYTES, value_bytes: u32) {
            let header = Header::new(Version(version), &vec![0; key_bytes], value_bytes);
            prop_assert_eq!(Header::decode(&header.encode(), u64::MAX), Some(header));
            prop_assert_eq!(Header::decode(&header.encode(), header.total_bytes() - 1), None);
            let with = |key_bytes, capacity| Header::decode_with(&header.encode(), key_bytes, capacity);
            prop_assert_eq!(with(key_bytes, header.total_bytes()), Some(header));
            prop_assert_eq!(with(key_bytes, header.total_bytes() - 1), None);
            prop_assert_eq!(with(key_bytes + 1, u64::MAX), None);
        }

        #[test]
        fn what_is_away_is_no_object(key_bytes in 1..=MAX_KEY_BYTES as u16, host: u8) {
            let bytes = Header::encode_away(key_bytes, host);
            prop_assert_eq!(Header::decode(&bytes, u64::MAX), None);
            let key_bytes = usize::from(key_bytes);
            prop_assert_eq!(Header::decode_with(&bytes, key_bytes, u64::MAX), None);
            prop_assert_eq!(Header::decode_away(&bytes, u64::MAX), Some((host, key_bytes)));
            prop_assert_eq!(Header::decode_key_bytes(&bytes, u64::MAX), Some(key_bytes));
        }

        #[test]
        fn the_key_of_an_object_whose_header_is_torn_can_be_told(
            key_bytes in 1..=MAX_KEY_BYTES as u16, host: u8, version: u64, torn in 0..=HEADER_BYTES
        ) {
            let key_length = usize::from(key_bytes);
            let here = Header::new(Version(version), &vec![0; key_length], 7).encode();
            let away = Header::encode_away(key_bytes, host);
            for (before, after) in [(here, away), (away, here)] {
                let mut bytes = before;
                bytes[..torn].copy_from_slice(&after[..torn]);
                prop_assert_eq!(Header::decode_key_bytes(&bytes, u64::MAX), Some(key_length));
            }
        }

        #[test]
        fn torn_headers_never_reach_beyond_the_slot(mut bytes: [u8; 16], marked: bool, capacity: u64) {
            if marked {
                bytes[14..].copy_from_slice(&MARK.to_le_bytes());
            }
            if let Some(header) = Header::decode(&bytes, capacity) {
                prop_assert!(header.total_bytes() <= capacity);
                prop_assert!((1..=MAX_KEY_BYTES).contains(&usize::from(header.key_bytes)));
            }
        }
    }
}
