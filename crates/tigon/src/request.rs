//! Requests of one host to another: rows of the other's partitions that are to be shared.
//!
//! ```text
//! request   what (1 byte) | table (1) | partition (2) | count, or the record that is locked (4)
//!           key (48)
//! ```

use tombolo_database::{MAX_KEY_WORDS, Mode, OrderedKey, TableId};
use tombolo_pod::PAYLOAD_BYTES;

use crate::index::RecordAt;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The row with the key; if there is none, the rows beside its place.
    One,
    /// The row at the key or behind it, so many rows behind that and one more, and the row before
    /// the key.
    After(u32),
    /// The row at the key or behind it, and so many rows before that and one more.
    Before(u32),
    /// A ghost with this key, for a transaction that has locked this record like this. If it is the
    /// next row's, the transaction has a reader's lock of the ghost from the beginning: the gap was
    /// its, and half of it is the ghost's now.
    Ghost(Option<(Mode, RecordAt)>),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) wish: Wish,
    pub(crate) table: TableId,
    pub(crate) partition: u32,
    pub(crate) key: OrderedKey,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The row is shared.
    Done = 1,
    /// The ghost was made, and is locked for a reader.
    Locked = 6,
    /// Another transaction is in the way.
    Conflict = 2,
    /// There is no room for another shared row.
    NoRoom = 3,
    /// The request is of nothing that this host has.
    Strange = 4,
    /// A host has died.
    Failed = 5,
}

impl Answer {
    pub(crate) fn decode(code: u64) -> Self {
        match code {
            1 => Self::Done,
            2 => Self::Conflict,
            3 => Self::NoRoom,
            5 => Self::Failed,
            6 => Self::Locked,
            _ => Self::Strange,
        }
    }
}

impl Request {
    pub(crate) fn encode(&self) -> [u8; PAYLOAD_BYTES] {
        let (what, number) = match self.wish {
            Wish::One => (1, 0),
            Wish::After(count) => (2, count),
            Wish::Before(count) => (3, count),
            Wish::Ghost(None) => (4, 0),
            Wish::Ghost(Some((Mode::Shared, at))) => (5, at.0),
            Wish::Ghost(Some((Mode::Exclusive, at))) => (6, at.0),
        };
        let mut payload = [0; PAYLOAD_BYTES];
        payload[..2].copy_from_slice(&[what, self.table.0 as u8]);
        payload[2..4].copy_from_slice(&(self.partition as u16).to_le_bytes());
        payload[4..8].copy_from_slice(&number.to_le_bytes());
        for (bytes, word) in payload[8..].chunks_mut(8).zip(self.key.words(MAX_KEY_WORDS)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        payload
    }

    pub(crate) fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<Self> {
        let number = u32::from_le_bytes(payload[4..8].try_into().expect("4 bytes"));
        let wish = match payload[0] {
            1 => Wish::One,
            2 => Wish::After(number),
            3 => Wish::Before(number),
            4 => Wish::Ghost(None),
            5 => Wish::Ghost(Some((Mode::Shared, RecordAt(number)))),
            6 => Wish::Ghost(Some((Mode::Exclusive, RecordAt(number)))),
            _ => return None,
        };
        let words: [u64; MAX_KEY_WORDS] = std::array::from_fn(|word| {
            u64::from_le_bytes(payload[8 + 8 * word..][..8].try_into().expect("8 bytes"))
        });
        Some(Self {
            wish,
            table: TableId(payload[1].into()),
            partition: u16::from_le_bytes([payload[2], payload[3]]).into(),
            key: OrderedKey::from_words(&words),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_back() {
        let wishes = [
            Wish::One,
            Wish::After(7),
            Wish::Before(255),
            Wish::Ghost(None),
            Wish::Ghost(Some((Mode::Shared, RecordAt(u32::MAX)))),
            Wish::Ghost(Some((Mode::Exclusive, RecordAt(0)))),
        ];
        for wish in wishes {
            for key in [
                OrderedKey::END,
                OrderedKey::new(&[0xff; 47], MAX_KEY_WORDS),
                OrderedKey::new(b"a", 1),
            ] {
                let request = Request { wish, table: TableId(63), partition: 65_535, key };
                assert_eq!(Request::decode(&request.encode()), Some(request));
            }
        }
        assert_eq!(Request::decode(&[0; PAYLOAD_BYTES]), None);
    }
}
