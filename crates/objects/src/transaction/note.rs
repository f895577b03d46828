//! The redo note of a transaction: an object that says what every object is to be that the
//! transaction changes. The transaction is committed exactly if there is, or was, such an object.
//!
//! ```text
//! for each object
//!   record (4 bytes) | length of the new object, or 0 of one that is deleted (4)
//!   line of its slot (8) | version before (8) | new object: header, key, value
//! ```
//!
//! A record tells other hosts which locks are the transaction's; the slot tells the host that opens
//! a pod in which all have died. An object that changes fits its slot, and does not leave it before
//! its lock is released.

use tombolo_pod::Stay;

use crate::Version;
use crate::ids::{NOTE_PREFIX, SlotLine};
use crate::storage::intents::IntentSlot;
use crate::storage::records::RecordId;

/// The fate of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redo {
    pub(crate) record: RecordId,
    pub(crate) slot: SlotLine,
    /// The version that the object had.
    pub(crate) before: Version,
    /// The object as it is to be, with its header; `None` if it is to be gone.
    pub(crate) image: Option<Vec<u8>>,
}

/// The key of the note that the transaction of a host has with this intent. A host has one
/// transaction at a time for each of its intents.
pub(crate) fn note_key(stay: Stay, intent_slot: IntentSlot) -> Vec<u8> {
    let (stay, intent_slot) = (stay.number, u32::from(intent_slot));
    [NOTE_PREFIX, &stay.to_le_bytes(), &intent_slot.to_le_bytes()].concat()
}

pub(crate) fn encode(redo: &Redo, into: &mut Vec<u8>) {
    let image = redo.image.as_deref().unwrap_or(&[]);
    into.extend(redo.record.0.to_le_bytes());
    into.extend((image.len() as u32).to_le_bytes());
    into.extend(redo.slot.to_le_bytes());
    into.extend(redo.before.0.to_le_bytes());
    into.extend_from_slice(image);
}

/// The inverse; `None` if no transaction wrote this.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Redo>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (record, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (slot, rest) = rest.split_first_chunk()?;
        let (before, rest) = rest.split_first_chunk()?;
        let (image, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        all.push(Redo {
            record: RecordId(u32::from_le_bytes(*record)),
            slot: u64::from_le_bytes(*slot),
            before: Version(u64::from_le_bytes(*before)),
            image: (!image.is_empty()).then(|| image.to_vec()),
        });
        bytes = rest;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_reads_back_and_no_part_of_one() {
        let redo = |image: Option<&[u8]>| Redo {
            record: RecordId(7),
            slot: 1 << 40,
            before: Version(2 << 40),
            image: image.map(<[u8]>::to_vec),
        };
        let all = vec![redo(Some(b"object")), redo(None), redo(Some(b"o"))];
        let mut bytes = Vec::new();
        all.iter().for_each(|redo| encode(redo, &mut bytes));
        assert_eq!(decode(&bytes), Some(all.clone()));
        for end in 1..bytes.len() {
            assert!(decode(&bytes[..end]).is_none_or(|part| all.starts_with(&part)));
        }
    }
}
