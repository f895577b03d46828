//! The content of an intent, and its words.
//!
//! ```text
//! word 0   kind (8 bits; "announces" has two, the second for an object that was in the partition)
//!          in the kind "took over" whose lock it was (8 bits), else whether a torn object is
//!          recorded as it was (1 bit)
//!          by what a torn object is locked: its code + 1, or 0 (32 bits, at 32)
//! word 1   line of the object's slot, 0 of a new one      word 2   line of its new slot
//! word 3   version in the new slot, or of what is deleted, unless that may be of any
//! ```

use tombolo_sharing::NOTE_WORDS;

use crate::Version;
use crate::ids::SlotLine;
use crate::storage::records::{LockedBy, RecordId};

/// A change of an object in its slot, which is torn until that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The code of [`by`](Self::by): intents are copied often, and this is half as long.
    by: u32,
    pub(crate) slot: SlotLine,
    /// Whether the object is recorded as it was before.
    pub(crate) undone: bool,
}

impl Change {
    #[inline(always)]
    pub(crate) fn new(by: LockedBy, slot: SlotLine, undone: bool) -> Self {
        Self { by: by.code(), slot, undone }
    }

    /// By what the object is locked.
    #[inline(always)]
    pub(crate) fn by(&self) -> LockedBy {
        LockedBy::of_code(self.by)
    }

    /// Whether the object is in the host's partition.
    pub(crate) fn is_in_partition(&self) -> bool {
        self.by() == LockedBy::Partition
    }
}

/// The object that is torn meanwhile.
pub(crate) type Torn = Option<Change>;

/// The intent that a host has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// It changes the object in place.
    Writes(Change),
    /// It has taken over the lock of this host.
    TookOver { record: RecordId, from: u8 },
    /// This slot holds no object yet.
    Places { to: SlotLine, torn: Torn },
    /// An object is in a slot that may be its own already, and the one it came from no more; or it
    /// came from the host's own memory, and its value in the slot that it has left may be an older
    /// one.
    Announces {
        from: Option<SlotLine>,
        to: SlotLine,
        version: Version,
        torn: Torn,
        from_partition: bool,
    },
    /// A new object is in this slot.
    Created { to: SlotLine },
    /// The object may be gone from its slot; it was of this version, or of any.
    Deletes { slot: SlotLine, version: Option<Version>, torn: Torn },
    /// The object is being written into its slot.
    MovesOut { slot: SlotLine },
    /// It has changed the object, and all of that is in memory.
    Through { by: LockedBy },
}

const WRITES: u64 = 1;
const TOOK_OVER: u64 = 2;
const PLACES: u64 = 3;
const ANNOUNCES: u64 = 4;
const DELETES: u64 = 5;
const MOVES_OUT: u64 = 6;
const THROUGH: u64 = 7;
const DELETES_ANY: u64 = 9;
const CREATED: u64 = 10;
const ANNOUNCES_FROM_PARTITION: u64 = 11;

/// In an intent's first word.
const UNDONE: u64 = 1 << 8;

pub(super) type Words = [u64; NOTE_WORDS as usize];

/// The words to store for an intent; `None` where a word does not matter. The intent that was there
/// before counts until the first word is another.
pub(super) type Changes = [Option<u64>; NOTE_WORDS as usize];

impl Intent {
    // (Who makes an intent knows of what kind it is; so most of this is done beforehand.)
    #[inline(always)]
    pub(super) fn encode(self) -> Changes {
        let head =
            |kind: u64, by: Option<u32>| Some(kind | by.map_or(0, |by| (u64::from(by) + 1) << 32));
        let with = |kind: u64, torn: Torn| {
            let undone = torn.is_some_and(|change| change.undone);
            head(kind | if undone { UNDONE } else { 0 }, torn.map(|change| change.by))
        };
        match self {
            Self::Writes(change) => [with(WRITES, Some(change)), Some(change.slot), None, None],
            Self::TookOver { record, from } => {
                [head(TOOK_OVER | u64::from(from) << 8, Some(record.0)), None, None, None]
            }
            Self::Places { to, torn } => {
                [with(PLACES, torn), torn.map(|change| change.slot), Some(to), None]
            }
            Self::Announces { from, to, version, torn, from_partition } => {
                let kind = if from_partition { ANNOUNCES_FROM_PARTITION } else { ANNOUNCES };
                let from = Some(from.unwrap_or(0));
                [with(kind, torn), from, Some(to), Some(version.0)]
            }
            Self::Deletes { slot, version, torn } => {
                let kind = if version.is_some() { DELETES } else { DELETES_ANY };
                [with(kind, torn), Some(slot), None, version.map(|version| version.0)]
            }
            Self::Created { to } => [head(CREATED, None), None, Some(to), None],
            Self::MovesOut { slot } => [head(MOVES_OUT, None), Some(slot), None, None],
            Self::Through { by } => [head(THROUGH, Some(by.code())), None, None, None],
        }
    }

    pub(super) fn decode([head, slot, to, version]: Words) -> Option<Self> {
        let by = ((head >> 32) as u32).checked_sub(1);
        let torn = by.map(|by| Change { by, slot, undone: head & UNDONE != 0 });
        Some(match head & 0xff {
            WRITES => Self::Writes(torn?),
            TOOK_OVER => Self::TookOver { record: RecordId(by?), from: (head >> 8) as u8 },
            PLACES => Self::Places { to, torn },
            kind @ (ANNOUNCES | ANNOUNCES_FROM_PARTITION) => {
                let (from, from_partition) =
                    ((slot != 0).then_some(slot), kind == ANNOUNCES_FROM_PARTITION);
                Self::Announces { from, to, version: Version(version), torn, from_partition }
            }
            DELETES => Self::Deletes { slot, version: Some(Version(version)), torn },
            DELETES_ANY => Self::Deletes { slot, version: None, torn },
            CREATED => Self::Created { to },
            MOVES_OUT => Self::MovesOut { slot },
            THROUGH => Self::Through { by: LockedBy::of_code(by?) },
            _ => return None,
        })
    }

    /// The object that is torn if its lock is still held.
    pub(crate) fn torn(self) -> Torn {
        match self {
            Self::Writes(change) => Some(change),
            Self::Places { torn, .. }
            | Self::Announces { torn, .. }
            | Self::Deletes { torn, .. } => torn,
            Self::TookOver { .. }
            | Self::Created { .. }
            | Self::MovesOut { .. }
            | Self::Through { .. } => None,
        }
    }

    /// The slot that an object may have left, and from which its header has not been taken yet.
    pub(crate) fn left(self) -> Option<SlotLine> {
        match self {
            Self::Announces { from, .. } => from,
            Self::Deletes { slot, .. } => Some(slot),
            Self::Writes(_)
            | Self::TookOver { .. }
            | Self::Places { .. }
            | Self::Created { .. }
            | Self::MovesOut { .. }
            | Self::Through { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(intent: Intent) -> Option<Intent> {
        Intent::decode(intent.encode().map(Option::unwrap_or_default))
    }

    #[test]
    fn every_note_reads_back() {
        let (slot, to, version) = (1 << 40, 2 << 40, Version(3 << 40));
        let change = Change::new(LockedBy::Record(RecordId(4)), slot, false);
        for torn in [None, Some(change), Some(Change { undone: true, ..change })] {
            for intent in [
                Intent::Writes(Change::new(LockedBy::Log, slot, torn.is_some())),
                Intent::TookOver { record: RecordId(u32::MAX - 2), from: 63 },
                Intent::Places { to, torn },
                Intent::Announces { from: Some(slot), to, version, torn, from_partition: false },
                Intent::Announces { from: Some(slot), to, version, torn, from_partition: true },
                Intent::Deletes { slot, version: Some(version), torn },
                Intent::Deletes { slot, version: None, torn },
                Intent::Created { to },
                Intent::MovesOut { slot },
                Intent::Through { by: LockedBy::Partition },
            ] {
                assert_eq!(read_back(intent), Some(intent));
            }
        }
        let new = Intent::Announces { from: None, to, version, torn: None, from_partition: false };
        assert_eq!(read_back(new), Some(new));
        assert_eq!(Intent::decode([0; 4]), None);
    }

    /// The format's description had a kind that there is not, and another meaning of one.
    #[test]
    fn kinds_are_those_that_the_format_describes() {
        let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md"));
        let (_, table) = text.split_once("| note kind |").unwrap();
        let rows = table.lines().skip(2).map_while(|row| row.strip_prefix("| ")?.split_once(" |"));
        let described: Vec<u64> = rows.map(|(kind, _)| kind.parse().unwrap()).collect();
        let known = |kind: &u64| Intent::decode([kind | 1 << 32, 0, 0, 0]).is_some();
        let kinds: Vec<u64> = [0].into_iter().chain((1..256).filter(known)).collect();
        assert_eq!(described, kinds);
    }
}
