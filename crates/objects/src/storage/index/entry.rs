//! The index's entry of an object, and its form in few bits.

use crate::ids::{Generation, KeyHash, LostTo, SlotLine};
use crate::storage::records::{LockedBy, RecordId};

/// The index's entry of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: KeyHash,
    pub(crate) generation: Generation,
    pub(crate) slot: SlotLine,
    pub(crate) sharing: Sharing,
}

/// How an object is shared, in 28 bits: 0 if it is in its slot and has no record, a record's number
/// and 1 if it has that one; the highest values stand for hosts. It is taken apart only by who
/// wants to know, so that entries are moved word by word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing(u32);

pub(super) const LAST: u32 = (1 << 28) - 1;
const PARTITIONS: u32 = LAST - u8::MAX as u32;
const LAST_LOST: u32 = PARTITIONS - 2;
const LOST: u32 = LAST_LOST - u8::MAX as u32;

impl Sharing {
    /// It is in its slot, and has no record.
    pub(crate) const READ: Self = Self(0);

    /// It is in its slot, and has this record.
    pub(crate) const fn record(record: RecordId) -> Self {
        Self(record.0 + 1)
    }

    /// It is in its slot, has no record, and is locked by an event.
    pub(crate) const BY_LOG: Self = Self(LAST_LOST + 1);

    /// It is in the memory of this host.
    pub(crate) fn in_partition(host: u8) -> Self {
        Self(LAST - u32::from(host))
    }

    /// Its value is lost.
    pub(crate) fn lost(to: LostTo) -> Self {
        Self(LAST_LOST - u32::from(to.code()))
    }

    #[inline(always)]
    pub(crate) fn code(self) -> u32 {
        self.0
    }

    /// The place with this [`code`](Self::code), which is one.
    #[inline(always)]
    pub(super) fn of_code(code: u32) -> Self {
        Self(code)
    }

    /// The inverse of [`code`](Self::code) for any number; `None` if it is no code.
    pub(crate) fn decode(code: u32) -> Option<Self> {
        (code <= LAST).then_some(Self(code))
    }
}

impl Entry {
    /// An object that is in its slot, and has no record.
    pub(crate) fn read_shared(hash: KeyHash, generation: Generation, slot: SlotLine) -> Self {
        Self { hash, generation, slot, sharing: Sharing::READ }
    }

    /// The same object, shared like this.
    pub(crate) fn shared(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Whether its value is there, for all to read.
    #[inline(always)]
    pub(crate) fn is_in_its_slot(&self) -> bool {
        self.is_plain() || self.is_locked_by_log()
    }

    /// The same, and nobody has locked it by the log.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.sharing.0 < LOST
    }

    /// Whether it is locked by an event.
    #[inline(always)]
    pub(crate) fn is_locked_by_log(&self) -> bool {
        self.sharing == Sharing::BY_LOG
    }

    /// By what it is locked, or may be; `None` if by nothing, or if it is not in its slot.
    #[inline(always)]
    pub(crate) fn locked_by(&self) -> Option<LockedBy> {
        if self.is_locked_by_log() {
            return Some(LockedBy::Log);
        }
        self.record().map(LockedBy::Record)
    }

    /// Its record.
    #[inline(always)]
    pub(crate) fn record(&self) -> Option<RecordId> {
        let Sharing(code) = self.sharing;
        (1..LOST).contains(&code).then(|| RecordId(code - 1))
    }

    /// The host in whose memory the object is, if it is not in its slot.
    #[inline(always)]
    pub(crate) fn partition(&self) -> Option<u8> {
        let Sharing(code) = self.sharing;
        (PARTITIONS..=LAST).contains(&code).then(|| (LAST - code) as u8)
    }

    /// With what its value was lost, if it is.
    #[inline(always)]
    pub(crate) fn lost(&self) -> Option<LostTo> {
        let Sharing(code) = self.sharing;
        (LOST..=LAST_LOST).contains(&code).then(|| LostTo::of_code((LAST_LOST - code) as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_be_shared_reads_back() {
        let told = |sharing: Sharing| {
            let sharing = Sharing::decode(sharing.code()).unwrap();
            let entry = Entry::read_shared(1, 2, 3).shared(sharing);
            (entry.locked_by(), entry.record(), entry.partition(), entry.lost())
        };
        assert_eq!(told(Sharing::READ), (None, None, None, None));
        for record in [0, 1, LOST - 2].map(RecordId) {
            let by = Some(LockedBy::Record(record));
            assert_eq!(told(Sharing::record(record)), (by, Some(record), None, None));
        }
        assert_eq!(told(Sharing::BY_LOG), (Some(LockedBy::Log), None, None, None));
        for host in [0, 1, u8::MAX] {
            assert_eq!(told(Sharing::in_partition(host)), (None, None, Some(host), None));
        }
        for to in [LostTo::Host(0), LostTo::Host(1), LostTo::MemoryError] {
            assert_eq!(told(Sharing::lost(to)), (None, None, None, Some(to)));
        }
        assert_eq!(Sharing::decode(LAST + 1), None);
    }
}
