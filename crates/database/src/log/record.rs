//! A transaction's changes as one record: whole, or not there.
//!
//! ```text
//! record  bytes (4) | CRC-32C of all that follows (4) | epoch (8) | changes
//! change  version (8) | table (2) | bytes of the key (2) | bytes of the row (4) | partition (4)
//!         | key | row
//! ```
//!
//! All numbers are little-endian. A deleted row has `u32::MAX` bytes. The same bytes lie in buffers
//! and in files.

use crate::{TableId, Version};

/// Bytes of a record without changes.
pub(crate) const RECORD_BYTES: usize = 16;
/// Bytes of a change besides key and row.
const CHANGE_BYTES: usize = 20;

const DELETED: u32 = u32::MAX;

/// A transaction's change of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The table.
    pub table: TableId,
    /// The row's partition; 0 for an engine or a table without.
    pub partition: u32,
    /// The row's key.
    pub key: &'a [u8],
    /// The row's version from here on.
    pub version: Version,
    /// The row from here on, or that there is none.
    pub row: Option<&'a [u8]>,
}

/// A transaction's changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) epoch: u64,
    changes: &'a [u8],
}

/// Bytes of the record of a transaction that changes rows with keys and rows of so many bytes. A
/// deleted row counts as one of 0 bytes.
pub fn record_bytes(changes: impl IntoIterator<Item = (usize, usize)>) -> u64 {
    let bytes = changes.into_iter().map(|(key, row)| CHANGE_BYTES + key + row).sum::<usize>();
    (RECORD_BYTES + bytes) as u64
}

/// Appends the record of a transaction to `to`.
pub(crate) fn encode<'a>(epoch: u64, changes: impl Iterator<Item = Change<'a>>, to: &mut Vec<u8>) {
    let start = to.len();
    to.extend([0; RECORD_BYTES]);
    changes.for_each(|change| encode_change(&change, to));
    seal(epoch, &mut to[start..]);
}

/// Appends the record of changes that are encoded already.
pub(crate) fn encode_all(epoch: u64, changes: &[u8], to: &mut Vec<u8>) {
    let start = to.len();
    to.extend([0; RECORD_BYTES]);
    to.extend(changes);
    seal(epoch, &mut to[start..]);
}

/// Fills in what a record begins with.
fn seal(epoch: u64, record: &mut [u8]) {
    let bytes = record.len() as u32;
    record[8..16].copy_from_slice(&epoch.to_le_bytes());
    let checksum = crc32c::crc32c(&record[8..]);
    record[..4].copy_from_slice(&bytes.to_le_bytes());
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Appends a change to `to`.
///
/// # Panics
/// If its key has more than 65,535 bytes.
pub(crate) fn encode_change(change: &Change<'_>, to: &mut Vec<u8>) {
    let key_bytes = u16::try_from(change.key.len()).expect("the catalog bounds keys");
    let row_bytes = change.row.map_or(DELETED, |row| row.len() as u32);
    to.extend(change.version.0.to_le_bytes());
    to.extend(change.table.0.to_le_bytes());
    to.extend(key_bytes.to_le_bytes());
    to.extend(row_bytes.to_le_bytes());
    to.extend(change.partition.to_le_bytes());
    to.extend(change.key);
    to.extend(change.row.unwrap_or_default());
}

/// The length of the record that `bytes` begin with, or rather what they say it is.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize)
}

impl<'a> Record<'a> {
    /// The record that `bytes` begin with, and its length. `None` if there is none, or it is
    /// damaged.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let length = length(bytes)?;
        let record = bytes.get(..length)?;
        let changes = record.get(RECORD_BYTES..)?;
        let checksum = u32::from_le_bytes(*record[4..].first_chunk()?);
        if crc32c::crc32c(&record[8..]) != checksum {
            return None;
        }
        let epoch = u64::from_le_bytes(*record[8..].first_chunk()?);
        let record = Self { epoch, changes };
        record.changes().all(|change| change.is_some()).then_some((record, length))
    }

    /// Its changes; an item is `None` where the rest is no change.
    fn changes(self) -> impl Iterator<Item = Option<Change<'a>>> {
        let mut rest = self.changes;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let change = decode_change(rest);
            rest = change.map_or(&[], |(_, rest)| rest);
            Some(change.map(|(change, _)| change))
        })
    }

    /// Its changes, which are whole: that was checked before.
    pub(crate) fn whole_changes(self) -> impl Iterator<Item = Change<'a>> {
        self.changes().flatten()
    }
}

fn decode_change(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<CHANGE_BYTES>()?;
    let version = Version(u64::from_le_bytes(*head.first_chunk()?));
    let table = TableId(u16::from_le_bytes(*head[8..].first_chunk()?));
    let key_bytes = u16::from_le_bytes(*head[10..].first_chunk()?);
    let row_bytes = u32::from_le_bytes(*head[12..].first_chunk()?);
    let partition = u32::from_le_bytes(*head[16..].first_chunk()?);
    let (key, rest) = rest.split_at_checked(usize::from(key_bytes))?;
    let (row, rest) = match row_bytes {
        DELETED => (None, rest),
        bytes => rest.split_at_checked(bytes as usize).map(|(row, rest)| (Some(row), rest))?,
    };
    Some((Change { table, partition, key, version, row }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<Change<'static>> {
        let change = |key, row| Change {
            table: TableId(3),
            partition: 7,
            key,
            version: Version::first(5),
            row,
        };
        vec![change(b"a", Some(b"one")), change(b"bc", None), change(b"d", Some(b""))]
    }

    fn record() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(5, changes().into_iter(), &mut bytes);
        bytes
    }

    #[test]
    fn a_record_reads_back() {
        let mut bytes = record();
        let length = bytes.len();
        let sizes = changes().into_iter().map(|c| (c.key.len(), c.row.map_or(0, <[u8]>::len)));
        assert_eq!(record_bytes(sizes), length as u64);
        bytes.extend([9; 5]);
        let (found, end) = Record::decode(&bytes).unwrap();
        assert_eq!((found.epoch, end), (5, length));
        assert_eq!(found.whole_changes().collect::<Vec<_>>(), changes());
    }

    #[test]
    fn a_record_that_is_cut_or_changed_anywhere_is_none() {
        let bytes = record();
        for cut in 0..bytes.len() {
            assert!(Record::decode(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                assert!(Record::decode(&bytes).is_none(), "changed at {at}");
            }
        }
    }
}
