//! Which object gives its entry up when another one needs it.

use std::ops::Range;

use tombolo_memory::Memory;
use tombolo_sharing::Error;

use super::partition::{Shard, Sharing};
use super::record::Layout;
use super::table::EntryNumber;
use super::{HcMeta, sites};

/// How an owner chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victims {
    /// One that was not used since the clock went over its entry last.
    #[default]
    NotUsed,
    /// The one that was written least since it got its entry, however often it was read: so the
    /// published prototype does, among ten that it draws by lot.
    LeastWritten,
}

impl<M: Memory> HcMeta<M> {
    /// Takes an entry that an object with this hash may have from another object.
    pub(crate) fn evict(
        &self,
        number: usize,
        shard: &mut Shard,
        sharing: &mut Sharing,
        hash: u64,
    ) -> Result<Option<EntryNumber>, Error> {
        let set = self.table.set(self.enrolment.host(), hash);
        match self.options.victims {
            Victims::NotUsed => {
                for _ in 0..2 * set.len() + 1 {
                    let entry = self.under_clock(sharing, &set);
                    if let Some(record) = self.not_used(entry)
                        && self.take(number, shard, sharing, (entry, record))?
                    {
                        return Ok(Some(entry));
                    }
                }
            }
            Victims::LeastWritten => {
                for candidate in self.by_writes(sharing, set) {
                    if self.take(number, shard, sharing, candidate)? {
                        return Ok(Some(candidate.0));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Moves a set's clock on; the entry that it was at.
    fn under_clock(&self, sharing: &mut Sharing, set: &Range<EntryNumber>) -> EntryNumber {
        let hand = &mut sharing.hands[self.index_of(set.start) / set.len()];
        let entry = set.start + u32::from(*hand);
        *hand = ((usize::from(*hand) + 1) % set.len()) as u8;
        entry
    }

    /// The record of an entry, unless its object was used since the last time, or is locked.
    fn not_used(&self, entry: EntryNumber) -> Option<u32> {
        let (memory, at) = (self.memory(), self.table.record(entry));
        let record = memory.load(at);
        if Layout::is_locked(record) {
            return None;
        }
        if Layout::is_used(record) {
            // A faster thread uses it, and has it spared by that.
            let _ = memory.compare_exchange(sites::CLOCK, at, record, Layout::unused(record));
            return None;
        }
        Some(record)
    }

    /// The entries of a set with their records, those of objects that were written least first; of
    /// two that are alike, lot decides.
    fn by_writes(&self, sharing: &Sharing, set: Range<EntryNumber>) -> Vec<(EntryNumber, u32)> {
        let mut entries: Vec<_> =
            set.map(|entry| (entry, self.memory().load(self.table.record(entry)))).collect();
        let first = self.memory().random() % entries.len() as u64;
        entries.rotate_left(first as usize);
        entries.retain(|&(_, record)| !Layout::is_locked(record));
        entries.sort_by_key(|&(entry, record)| {
            self.layout.writes(sharing.first_records[self.index_of(entry)], record)
        });
        entries
    }

    /// Takes an entry with this record from its object, unless others are at it; `shard`, which has
    /// this number, is locked already.
    fn take(
        &self,
        number: usize,
        shard: &mut Shard,
        sharing: &mut Sharing,
        (entry, record): (EntryNumber, u32),
    ) -> Result<bool, Error> {
        let Some(victim) = sharing.hashes[self.index_of(entry)] else { return Ok(false) };
        let of_victim = self.partition.shard_of(victim);
        let mut other = None;
        let shard = if of_victim == number {
            shard
        } else {
            let Some(locked) = self.partition.shards()[of_victim].try_lock() else {
                return Ok(false);
            };
            &mut **other.insert(locked)
        };
        self.unshare(shard, sharing, victim, entry, record)
    }
}
