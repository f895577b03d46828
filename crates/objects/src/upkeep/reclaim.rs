//! Taking records back.

use tombolo_memory::Memory;
use tombolo_sharing::Counter;

use crate::ids::KeyHash;
use crate::replica::event::{Event, target};
use crate::storage::records::{LockedBy, RecordId, RecordLock};
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Takes a record that the object with this hash may have back from one that is little written,
    /// and frees it; which one.
    pub(crate) fn reclaim_some(&self, wanted: KeyHash) -> Result<Option<RecordId>, Error> {
        for (record, hash) in self.victims(wanted) {
            if self.reclaim(record, hash)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Takes `record` back from the object that has it, whose hash was `hash`: the object is
    /// read-shared from then on.
    fn reclaim(&self, record: RecordId, hash: KeyHash) -> Result<bool, Error> {
        let written_back = match self.write_back_before_reclaim(record, hash) {
            // There is nothing left to be written back, and the record is free.
            Err(error) if error.is_loss() => false,
            written_back => written_back?,
        };
        if !written_back {
            return Ok(false);
        }
        let records = &self.records;
        let Some(counter) = records.load(record).readable() else { return Ok(false) };
        let held = if self.memory().keeps(sites::RECLAIM_LOCK) {
            records.lock(record, counter)
        } else {
            Some(RecordLock { record, counter })
        };
        let Some(held) = held else { return Ok(false) };
        let not_dirty =
            self.memory().check(sites::RECLAIM_UNMARKED, !self.dirty_bits.is_set(record));
        let reclaimed = if not_dirty { self.deallocate(record, hash) } else { Ok(false) };
        if matches!(reclaimed, Ok(true)) {
            self.count(Counter::Reclaims);
            records.free(held);
        } else {
            let _ = records.unlock(held, false);
        }
        reclaimed
    }

    fn deallocate(&self, record: RecordId, hash: KeyHash) -> Result<bool, Error> {
        self.sync(hash)?;
        let found = self.state(hash).index.find(self.memory(), hash);
        let owner = found.iter().find(|found| found.entry.record() == Some(record));
        owner.map_or(Ok(false), |found| {
            self.commit(Event::Deallocate {
                target: target(found.entry),
                by: LockedBy::Record(record),
            })
        })
    }
}
