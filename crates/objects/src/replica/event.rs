//! The events that change the index on every host.

use tombolo_log::{Entry, PAYLOAD_BYTES};
use tombolo_memory::Site;

use crate::ids::{Generation, KeyHash, LostTo, Slot, SlotLine};
use crate::sites;
use crate::storage::index;
use crate::storage::intents::IntentSlot;
use crate::storage::records::{LockedBy, RecordId};

/// A change of the object at `slot`, decided on when its generation was `expected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) hash: KeyHash,
    pub(crate) slot: SlotLine,
    pub(crate) expected: Generation,
}

pub(crate) fn target(entry: index::Entry) -> Target {
    Target { hash: entry.hash, slot: entry.slot, expected: entry.generation }
}

/// An event. Each has an effect only if what it was decided on still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A new object; `expected` sums up the objects with this hash, which are other keys'. Its host
    /// has recorded its slot in this intent. With a record it is locked, as the record says.
    Create {
        hash: KeyHash,
        slot: Slot,
        expected: u32,
        intent_slot: IntentSlot,
        record: Option<RecordId>,
    },
    /// The object is gone, with its record if it has one.
    Delete(Target),
    /// The object's bytes are now in another slot.
    Move { target: Target, to: Slot },
    /// The object has a record, or another one, and is read-write-shared; or it is locked by this.
    Allocate { target: Target, by: LockedBy },
    /// The object has no record any more, or is locked no more: it is read-shared.
    Deallocate { target: Target, by: LockedBy },
    /// The object's counter starts again at zero.
    Wrap(Target),
    /// The object is in a host's own memory, and has no record.
    MoveIn { target: Target, host: u8 },
    /// The object is in its slot again.
    MoveOut(Target),
    /// The object's value is lost; if with a host, that may still write into its slot. It has no
    /// record.
    Lose { target: Target, to: LostTo },
    /// The object's bytes are now in another slot, and a host may still write into the old one.
    Rescue { target: Target, to: Slot, host: u8 },
    /// The object is gone, and a host may still write into its slot.
    Remove { target: Target, host: u8 },
    /// A host that was fenced writes nowhere any more. (The slot of this target is none.)
    Forget { target: Target, host: u8 },
}

impl Event {
    /// The hash of the object's key, which tells in which shard of the log the event belongs.
    pub(crate) fn hash(&self) -> KeyHash {
        match *self {
            Self::Create { hash, .. } => hash,
            Self::Delete(target)
            | Self::Move { target, .. }
            | Self::Allocate { target, .. }
            | Self::Deallocate { target, .. }
            | Self::Wrap(target)
            | Self::MoveIn { target, .. }
            | Self::Lose { target, .. }
            | Self::Rescue { target, .. }
            | Self::Forget { target, .. }
            | Self::Remove { target, .. }
            | Self::MoveOut(target) => target.hash,
        }
    }

    /// By which name the simulator can take it out.
    pub(crate) fn site(&self) -> Site {
        match self {
            Self::Create { .. } => sites::EVENT_CREATE,
            Self::Delete(_) => sites::EVENT_DELETE,
            Self::Move { .. } => sites::EVENT_MOVE,
            Self::Allocate { .. } => sites::EVENT_ALLOCATE,
            Self::Deallocate { .. } => sites::EVENT_DEALLOCATE,
            Self::Wrap(_) => sites::EVENT_WRAP,
            Self::MoveIn { .. } => sites::EVENT_MOVE_IN,
            Self::MoveOut(_) => sites::EVENT_MOVE_OUT,
            Self::Lose { .. } => sites::EVENT_LOSE,
            Self::Rescue { .. } => sites::EVENT_RESCUE,
            Self::Forget { .. } => sites::EVENT_FORGET,
            Self::Remove { .. } => sites::EVENT_REMOVE,
        }
    }
}

/// ```text
/// byte 0      kind                 bytes 16..24  slot of the object; of a new one its record + 1
/// byte 1      class of new slot    bytes 24..32  new slot
/// bytes 4..8  hash                 bytes 32..36  record, host, or place of an intent
/// bytes 8..12 expected             bytes 36..40  chunks of the new slot
/// ```
impl Entry for Event {
    fn encode(&self) -> [u8; PAYLOAD_BYTES] {
        const NO_SLOT: Slot = Slot { line: 0, class: 0, chunks: 0 };
        let (kind, target, to, record) = match *self {
            Self::Create { hash, slot, expected, intent_slot, record } => {
                let record = record.map_or(0, |record| u64::from(record.0) + 1);
                (1, Target { hash, slot: record, expected }, slot, intent_slot.into())
            }
            Self::Delete(target) => (2, target, NO_SLOT, 0),
            Self::Move { target, to } => (3, target, to, 0),
            Self::Allocate { target, by } => (4, target, NO_SLOT, by.code()),
            Self::Deallocate { target, by } => (5, target, NO_SLOT, by.code()),
            Self::Wrap(target) => (6, target, NO_SLOT, 0),
            Self::MoveIn { target, host } => (7, target, NO_SLOT, host.into()),
            Self::MoveOut(target) => (8, target, NO_SLOT, 0),
            Self::Lose { target, to } => (9, target, NO_SLOT, to.code().into()),
            Self::Rescue { target, to, host } => (10, target, to, host.into()),
            Self::Forget { target, host } => (11, target, NO_SLOT, host.into()),
            Self::Remove { target, host } => (12, target, NO_SLOT, host.into()),
        };
        let mut payload = [0; PAYLOAD_BYTES];
        payload[0] = kind;
        payload[1] = to.class;
        payload[4..8].copy_from_slice(&target.hash.to_le_bytes());
        payload[8..12].copy_from_slice(&target.expected.to_le_bytes());
        payload[16..24].copy_from_slice(&target.slot.to_le_bytes());
        payload[24..32].copy_from_slice(&to.line.to_le_bytes());
        payload[32..36].copy_from_slice(&record.to_le_bytes());
        payload[36..40].copy_from_slice(&to.chunks.to_le_bytes());
        payload
    }

    fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*payload[at..].first_chunk()?));
        let long = |at: usize| Some(u64::from_le_bytes(*payload[at..].first_chunk()?));
        let target = Target { hash: word(4)?, slot: long(16)?, expected: word(8)? };
        let to = Slot { line: long(24)?, class: payload[1], chunks: word(36)? };
        let record = word(32)?;
        let host = u8::try_from(record).ok();
        Some(match payload[0] {
            1 => {
                let Target { hash, expected, slot: locked } = target;
                let record = locked.checked_sub(1).map(u32::try_from).transpose().ok()?;
                Self::Create {
                    hash,
                    slot: to,
                    expected,
                    intent_slot: IntentSlot::try_from(word(32)?).ok()?,
                    record: record.map(RecordId),
                }
            }
            2 => Self::Delete(target),
            3 => Self::Move { target, to },
            4 => Self::Allocate { target, by: LockedBy::of_code(record) },
            5 => Self::Deallocate { target, by: LockedBy::of_code(record) },
            6 => Self::Wrap(target),
            7 => Self::MoveIn { target, host: host? },
            8 => Self::MoveOut(target),
            9 => Self::Lose { target, to: LostTo::of_code(host?) },
            10 => Self::Rescue { target, to, host: host? },
            11 => Self::Forget { target, host: host? },
            12 => Self::Remove { target, host: host? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_its_encoding() {
        let target = Target { hash: 1, slot: 2 << 34, expected: 3 };
        let slot = Slot { line: 4 << 34, class: 5, chunks: 6 };
        for event in [
            Event::Create {
                hash: 7,
                slot,
                expected: 8,
                intent_slot: IntentSlot::try_from(9).unwrap(),
                record: None,
            },
            Event::Create {
                hash: 7,
                slot,
                expected: 8,
                intent_slot: IntentSlot::try_from(9).unwrap(),
                record: Some(RecordId(0)),
            },
            Event::Delete(target),
            Event::Move { target, to: slot },
            Event::Allocate { target, by: LockedBy::Record(RecordId(9)) },
            Event::Deallocate { target, by: LockedBy::Record(RecordId(10)) },
            Event::Deallocate { target, by: LockedBy::Log },
            Event::Wrap(target),
            Event::MoveIn { target, host: 11 },
            Event::MoveOut(target),
            Event::Lose { target, to: LostTo::Host(12) },
            Event::Lose { target, to: LostTo::MemoryError },
            Event::Rescue { target, to: slot, host: 13 },
            Event::Forget { target, host: 14 },
            Event::Remove { target, host: 15 },
        ] {
            assert_eq!(Event::decode(&event.encode()), Some(event));
        }
        assert_eq!(Event::decode(&[0; PAYLOAD_BYTES]), None);
    }
}
