//! Requests to an object's owner, and its answers.
//!
//! ```text
//! request   kind (1 byte) | key in LNR (1) | length of the key (2) | zeros (4) |
//!           version or shard (8) | key, or line of the slot that holds it (40)
//! answer    outcome (8 bits) | entry, or bytes (32)
//! ```

use tombolo_pod::PAYLOAD_BYTES;
use tombolo_sharing::Version;

/// Keys of up to so many bytes go with the request.
pub(crate) const INLINE_KEY: usize = PAYLOAD_BYTES - 16;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That the object has an entry.
    Share,
    /// That the object in the slot at the line is one from now on.
    Create,
    /// That the object is deleted, if it is at this version, or at any.
    Delete(Option<Version>),
    /// The keys of a shard of the owner's, in the slot at the line.
    Keys(u64),
}

/// Where the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAt<'a> {
    Here(&'a [u8]),
    /// It begins the slot at this line.
    Line(u64),
}

pub(crate) fn encode(wish: Wish, key: KeyAt<'_>) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    let (kind, number) = match wish {
        Wish::Share => (1, 0),
        Wish::Create => (2, 0),
        Wish::Delete(None) => (3, 0),
        Wish::Delete(Some(version)) => (4, version.0),
        Wish::Keys(shard) => (5, shard),
    };
    payload[0] = kind;
    payload[8..16].copy_from_slice(&number.to_le_bytes());
    match key {
        KeyAt::Here(key) => {
            payload[2..4].copy_from_slice(&(key.len() as u16).to_le_bytes());
            payload[16..][..key.len()].copy_from_slice(key);
        }
        KeyAt::Line(line) => {
            payload[1] = 1;
            payload[16..24].copy_from_slice(&line.to_le_bytes());
        }
    }
    payload
}

pub(crate) fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<(Wish, KeyAt<'_>)> {
    let number = u64::from_le_bytes(*payload[8..].first_chunk()?);
    let wish = match payload[0] {
        1 => Wish::Share,
        2 => Wish::Create,
        3 => Wish::Delete(None),
        4 => Wish::Delete(Some(Version(number))),
        5 => Wish::Keys(number),
        _ => return None,
    };
    let key = match payload[1] {
        0 => {
            let length = u16::from_le_bytes(*payload[2..].first_chunk()?);
            KeyAt::Here(payload[16..].get(..usize::from(length))?)
        }
        _ => KeyAt::Line(u64::from_le_bytes(*payload[16..].first_chunk()?)),
    };
    Some((wish, key))
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done, and this is the number of the entry, if it is about one.
    Done(u32),
    /// There is no such object.
    Absent,
    /// There is one already.
    Exists,
    /// It is at another version.
    Changed,
    /// Somebody else is at it: ask again.
    Busy,
    /// There is no room in LNR, or in the slot for what is wanted, which takes so many bytes.
    NoRoom(u32),
    /// The owner came upon damage.
    Failed,
}

impl Outcome {
    pub(crate) fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Done(number) => (1, number),
            Self::Absent => (2, 0),
            Self::Exists => (3, 0),
            Self::Changed => (4, 0),
            Self::Busy => (5, 0),
            Self::NoRoom(bytes) => (6, bytes),
            Self::Failed => (7, 0),
        };
        kind << 32 | u64::from(number)
    }

    pub(crate) fn decode(answer: u64) -> Self {
        match answer >> 32 {
            1 => Self::Done(answer as u32),
            2 => Self::Absent,
            3 => Self::Exists,
            4 => Self::Changed,
            5 => Self::Busy,
            6 => Self::NoRoom(answer as u32),
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_back() {
        let version = Version(u64::MAX);
        for wish in [
            Wish::Share,
            Wish::Create,
            Wish::Delete(None),
            Wish::Delete(Some(version)),
            Wish::Keys(7),
        ] {
            for key in [KeyAt::Here(&[7; INLINE_KEY]), KeyAt::Here(b"a"), KeyAt::Line(1 << 31)] {
                assert_eq!(decode(&encode(wish, key)), Some((wish, key)));
            }
        }
        assert_eq!(decode(&[0; PAYLOAD_BYTES]), None);
    }

    #[test]
    fn outcomes_read_back() {
        for outcome in [
            Outcome::Done(u32::MAX),
            Outcome::Absent,
            Outcome::Exists,
            Outcome::Changed,
            Outcome::Busy,
            Outcome::NoRoom(9),
            Outcome::Failed,
        ] {
            assert!(outcome.encode() <= tombolo_pod::MAX_ANSWER);
            assert_eq!(Outcome::decode(outcome.encode()), outcome);
        }
    }
}
