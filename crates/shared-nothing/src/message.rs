//! The encoding of requests and replies.
//!
//! ```text
//! request  kind (1 byte) | the transaction's number at its worker (4) | what is asked for
//! reply    status (1 byte) | what was found
//! ```

use std::ops::Range;

use tombolo_database::{Conflict, Direction, MAX_KEY_WORDS, Mode, OrderedKey, TableId, Version};

use crate::partition::Lease;

/// Bytes of a row's key, of what is known of it, and of its length, at most.
pub(crate) const ITEM_BYTES: usize = 8 * MAX_KEY_WORDS + 64;

/// Where a row is, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) table: TableId,
    pub(crate) partition: u32,
}

/// A stretch of keys, and how many rows of it are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) lower: (OrderedKey, bool),
    pub(crate) upper: (OrderedKey, bool),
    pub(crate) direction: Direction,
    pub(crate) mode: Mode,
    pub(crate) limit: u32,
}

/// A request of one host to another. A transaction's *branch* is what it has done at one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'m> {
    /// A row.
    Read(Place, OrderedKey, Mode),
    /// A place for a row, unless there is one with this key.
    Insert(Place, OrderedKey),
    /// Rows of a stretch.
    Scan(Place, Stretch),
    /// Some changes of the branch: more follow.
    Stage(&'m [u8]),
    /// The last changes of the branch, which is to be prepared for a commit at a logical time.
    Prepare(u64, &'m [u8]),
    /// The branch commits: in an epoch, and at a logical time.
    Write(u64, u64),
    /// The branch ends without changes.
    Release,
}

/// The state of a row, or of the gap where it would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The number of the row's access in its branch; `None` if there is no such row.
    pub(crate) access: Option<u32>,
    pub(crate) is_valid: bool,
    pub(crate) version: Version,
    pub(crate) lease: Lease,
    /// Where the row lies in a buffer.
    pub(crate) row: Range<usize>,
}

/// The end of a reply to a scan, behind its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Whether there are no more rows.
    pub(crate) is_last: bool,
    /// When the latest row was deleted in the gaps that were met.
    pub(crate) gap_wts: u64,
}

/// A change of a row.
pub(crate) type Change<'m> = (u32, Option<&'m [u8]>);

/// How a request went.
pub(crate) const DONE: u8 = 0;
const LOCK: u8 = 1;
const GAP: u8 = 2;
const VALIDATION: u8 = 3;
/// The receiver does not know what is asked for.
pub(crate) const STRANGE: u8 = 4;
/// The branch's changes are more than its host's log buffer can take.
pub(crate) const TOO_LARGE: u8 = 5;
/// A host of the database has died.
pub(crate) const FAILED: u8 = 6;

pub(crate) fn status_of(conflict: Conflict) -> u8 {
    match conflict {
        Conflict::Gap => GAP,
        Conflict::Validation => VALIDATION,
        _ => LOCK,
    }
}

pub(crate) fn conflict_of(status: u8) -> Option<Conflict> {
    match status {
        LOCK => Some(Conflict::Lock),
        GAP => Some(Conflict::Gap),
        VALIDATION => Some(Conflict::Validation),
        _ => None,
    }
}

/// Puts numbers behind each other.
pub(crate) trait Encode {
    fn number<const N: usize>(&mut self, bytes: [u8; N]);

    fn key(&mut self, key: &OrderedKey);
}

impl Encode for Vec<u8> {
    fn number<const N: usize>(&mut self, bytes: [u8; N]) {
        self.extend_from_slice(&bytes);
    }

    fn key(&mut self, key: &OrderedKey) {
        key.words(MAX_KEY_WORDS).iter().for_each(|word| self.number(word.to_le_bytes()));
    }
}

/// Reads what was encoded.
pub(crate) struct Reader<'m> {
    bytes: &'m [u8],
    at: usize,
}

impl<'m> Reader<'m> {
    pub(crate) fn new(bytes: &'m [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn short(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn key(&mut self) -> Option<OrderedKey> {
        let mut words = [0; MAX_KEY_WORDS];
        for word in &mut words {
            *word = self.long()?;
        }
        Some(OrderedKey::from_words(&words))
    }

    /// As many bytes as a number in front of them says: where they lie.
    fn stretch(&mut self) -> Option<Range<usize>> {
        let length = self.short()? as usize;
        let range = self.at..self.at.checked_add(length)?;
        self.bytes.get(range.clone())?;
        self.at = range.end;
        Some(range)
    }

    fn rest(&mut self) -> Option<&'m [u8]> {
        self.bytes.get(self.at..)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn place(&mut self) -> Option<Place> {
        Some(Place { table: TableId(self.short()? as u16), partition: self.short()? })
    }

    fn mode(&mut self) -> Option<Mode> {
        Some(if self.byte()? == 0 { Mode::Shared } else { Mode::Exclusive })
    }

    fn bound(&mut self) -> Option<(OrderedKey, bool)> {
        Some((self.key()?, self.byte()? != 0))
    }

    pub(crate) fn change(&mut self) -> Option<Change<'m>> {
        let access = self.short()?;
        if self.byte()? == 0 {
            return Some((access, None));
        }
        let row = self.stretch()?;
        Some((access, self.bytes.get(row)))
    }

    /// The state of a row, which lies in the same buffer.
    pub(crate) fn found(&mut self) -> Option<Found> {
        Some(Found {
            access: Some(self.short()?).filter(|&access| access != u32::MAX),
            is_valid: self.byte()? != 0,
            version: Version(self.long()?),
            lease: Lease { wts: self.long()?, rts: self.long()? },
            row: self.stretch()?,
        })
    }

    pub(crate) fn scan_end(&mut self) -> Option<ScanEnd> {
        Some(ScanEnd { is_last: self.byte()? != 0, gap_wts: self.long()? })
    }
}

fn put_place(to: &mut Vec<u8>, place: Place) {
    to.number(u32::from(place.table.0).to_le_bytes());
    to.number(place.partition.to_le_bytes());
}

fn put_bound(to: &mut Vec<u8>, bound: &(OrderedKey, bool)) {
    to.key(&bound.0);
    to.push(bound.1.into());
}

pub(crate) fn put_change(to: &mut Vec<u8>, (access, row): Change<'_>) {
    to.number(access.to_le_bytes());
    to.push(row.is_some().into());
    if let Some(row) = row {
        to.number((row.len() as u32).to_le_bytes());
        to.extend_from_slice(row);
    }
}

/// Appends what is known of a row, which lies in `buffer`.
pub(crate) fn put_found(to: &mut Vec<u8>, found: &Found, buffer: &[u8]) {
    to.number(found.access.unwrap_or(u32::MAX).to_le_bytes());
    to.push(found.is_valid.into());
    to.number(found.version.0.to_le_bytes());
    to.number(found.lease.wts.to_le_bytes());
    to.number(found.lease.rts.to_le_bytes());
    to.number((found.row.len() as u32).to_le_bytes());
    to.extend_from_slice(&buffer[found.row.clone()]);
}

/// The end of a scan's reply, in front of its rows.
pub(crate) fn put_scan_end(end: ScanEnd) -> [u8; 9] {
    let mut bytes = [0; 9];
    bytes[0] = end.is_last.into();
    bytes[1..].copy_from_slice(&end.gap_wts.to_le_bytes());
    bytes
}

impl<'m> Request<'m> {
    /// Encodes it into `to`, in place of what is there.
    pub(crate) fn encode(&self, transaction: u32, to: &mut Vec<u8>) {
        to.clear();
        let kind = match self {
            Self::Read(..) => 1,
            Self::Insert(..) => 2,
            Self::Scan(..) => 3,
            Self::Stage(_) => 4,
            Self::Prepare(..) => 5,
            Self::Write(..) => 6,
            Self::Release => 7,
        };
        to.push(kind);
        to.number(transaction.to_le_bytes());
        match self {
            Self::Read(place, key, mode) => {
                put_place(to, *place);
                to.key(key);
                to.push((*mode == Mode::Exclusive).into());
            }
            Self::Insert(place, key) => {
                put_place(to, *place);
                to.key(key);
            }
            Self::Scan(place, stretch) => {
                put_place(to, *place);
                put_bound(to, &stretch.lower);
                put_bound(to, &stretch.upper);
                to.push((stretch.direction == Direction::Backward).into());
                to.push((stretch.mode == Mode::Exclusive).into());
                to.number(stretch.limit.to_le_bytes());
            }
            Self::Stage(changes) => to.extend_from_slice(changes),
            Self::Prepare(at, changes) => {
                to.number(at.to_le_bytes());
                to.extend_from_slice(changes);
            }
            Self::Write(epoch, at) => {
                to.number(epoch.to_le_bytes());
                to.number(at.to_le_bytes());
            }
            Self::Release => {}
        }
    }

    /// A request, and the number of its transaction.
    pub(crate) fn decode(bytes: &'m [u8]) -> Option<(u32, Self)> {
        let mut reader = Reader::new(bytes);
        let (kind, transaction) = (reader.byte()?, reader.short()?);
        let request = match kind {
            1 => Self::Read(reader.place()?, reader.key()?, reader.mode()?),
            2 => Self::Insert(reader.place()?, reader.key()?),
            3 => Self::Scan(
                reader.place()?,
                Stretch {
                    lower: reader.bound()?,
                    upper: reader.bound()?,
                    direction: match reader.byte()? {
                        0 => Direction::Forward,
                        _ => Direction::Backward,
                    },
                    mode: reader.mode()?,
                    limit: reader.short()?,
                },
            ),
            4 => Self::Stage(reader.rest()?),
            5 => Self::Prepare(reader.long()?, reader.rest()?),
            6 => Self::Write(reader.long()?, reader.long()?),
            7 => Self::Release,
            _ => return None,
        };
        Some((transaction, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_back() {
        let (place, key) = (Place { table: TableId(63), partition: 7 }, OrderedKey::new(b"a", 2));
        let stretch = Stretch {
            lower: (key, true),
            upper: (OrderedKey::END, false),
            direction: Direction::Backward,
            mode: Mode::Exclusive,
            limit: u32::MAX,
        };
        let requests = [
            Request::Read(place, key, Mode::Shared),
            Request::Insert(place, OrderedKey::END),
            Request::Scan(place, stretch),
            Request::Stage(b"changes"),
            Request::Prepare(u64::MAX, b""),
            Request::Write(1, 2),
            Request::Release,
        ];
        let mut bytes = Vec::new();
        for request in requests {
            request.encode(9, &mut bytes);
            assert_eq!(Request::decode(&bytes), Some((9, request)));
            for cut in 0..5 {
                assert_eq!(Request::decode(&bytes[..cut]), None);
            }
        }
        assert_eq!(Request::decode(&[0; 64]), None);
    }

    #[test]
    fn rows_and_changes_read_back() {
        let row = b"a row";
        let found = Found {
            access: Some(3),
            is_valid: true,
            version: Version(7),
            lease: Lease { wts: 1, rts: 2 },
            row: 0..row.len(),
        };
        let mut bytes = Vec::new();
        put_found(&mut bytes, &found, row);
        let read = Reader::new(&bytes).found().unwrap();
        assert_eq!((&bytes[read.row.clone()], read.access), (&row[..], Some(3)));
        assert_eq!((read.version, read.lease), (found.version, found.lease));
        assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).found(), None);
        bytes.clear();
        put_change(&mut bytes, (1, None));
        put_change(&mut bytes, (2, Some(row)));
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.change(), Some((1, None)));
        assert_eq!(reader.change(), Some((2, Some(&row[..]))));
        assert!(reader.is_at_end());
    }
}
