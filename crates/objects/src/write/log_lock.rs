//! Locks without coherence records: a pair of log events about an object without one. That is how
//! the paper's AllLog variant writes (section 6.10); it takes no SCR, and every replica pays for
//! each write.
//!
//! An object that is locked so has [`LockedBy::Log`] where its record would be. No host reads it
//! meanwhile.
//! Taking the lock is conditional on the generation, so one writer gets it; releasing it starts a
//! new generation, so all other hosts' notes of earlier reads are void.

use tombolo_memory::Memory;

use crate::replica::event::{Event, target};
use crate::storage::index::validated::NEVER_VALIDATED;
use crate::storage::index::{Entry, Found, validated};
use crate::storage::records::LockedBy;
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Locks an object without a record; `false` if it changed meanwhile.
    pub(crate) fn lock_by_log(&self, found: &Found<'_>) -> Result<bool, Error> {
        let entry = found.entry;
        let mut now = *found;
        now.cell.validated_at = found.cell.validated_at(&entry).unwrap_or(NEVER_VALIDATED);
        let noted = self.validated_at(&now);
        if !self.commit(Event::Allocate { target: target(entry), by: LockedBy::Log })? {
            return Ok(false);
        }
        let index = &self.state(entry.hash).index;
        let locked = index.find_slot(self.memory(), entry.hash, entry.slot);
        if let Some(locked) = locked.filter(|locked| locked.entry.is_locked_by_log()) {
            // In the generation that the lock has started nothing was written yet.
            validated::set(
                self.memory(),
                locked.cell,
                locked.entry.generation,
                locked.cell.validated_at,
                noted,
            );
        }
        Ok(true)
    }

    /// Releases the lock of the object with this entry.
    pub(crate) fn unlock_by_log(&self, entry: Entry) -> Result<(), Error> {
        self.commit(Event::Deallocate { target: target(entry), by: LockedBy::Log }).map(|_| ())
    }
}
