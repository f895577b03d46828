//! Objects that may go when there is no room: found in this host's index, looked at, and deleted.
//!
//! The policy is a crate above. It chooses from what the index tells of objects, and looks at one
//! before it decides. The deletion names the version that it saw. So a write that came after the
//! look is never undone by it: the event is void, or the lock shows another version.
//!
//! No step waits for another host. An object that is locked, or viewed, is left alone.

use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_sharing::{Counter, Eviction, Part, Resident};

use crate::host::lookup::Attempt;
use crate::ids::KeyHash;
use crate::storage::index::Found;
use crate::write::locked_object::LockedObject;
use crate::{Error, Objects, Version, sites};

impl<M: Memory> Objects<M> {
    /// Shows the objects of a group of buckets to `visit` that may be evicted; returns the cursor
    /// of the next group. Any number is a cursor. A walk by these cursors meets all objects in the
    /// order of hashes, which is as good as random, and goes on for ever. Objects in hosts' own
    /// memory, and lost ones, are left out. It looks at this host's memory alone; a step costs
    /// about as much as a lookup, and may find nothing.
    pub fn sample(&self, cursor: u64, mut visit: impl FnMut(Resident)) -> u64 {
        let number = (cursor >> KeyHash::BITS) as usize % self.shards().len();
        let state = self.shards()[number].state();
        let (plain, next) = state
            .index
            .sample(self.memory(), cursor as KeyHash, |entry| entry.is_plain().then_some(entry));
        for entry in plain {
            let slot = state.space.slot_at(entry.slot);
            let Some(lines) = slot.and_then(|slot| state.space.slot_lines(slot)) else { continue };
            visit(Resident {
                hash: entry.hash,
                generation: entry.generation,
                slot: entry.slot,
                bytes: lines * LINE_BYTES,
            });
        }
        let shard = number as u64;
        next.map_or((shard + 1) << KeyHash::BITS, |next| shard << KeyHash::BITS | u64::from(next))
    }

    /// Reads the key of an object that was sampled into `key`, and the first bytes of its value
    /// into `head`; its version, or `None` if it has changed, is in use, has no such bytes, or
    /// cannot be read. It does not wait.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Fenced`], [`Error::Damaged`].
    pub fn inspect(
        &self,
        resident: Resident,
        key: &mut Vec<u8>,
        head: &mut [u8],
    ) -> Result<Option<Version>, Error> {
        let tail = self.sync(resident.hash)?;
        let Some(found) = self.find_resident(resident) else { return Ok(None) };
        let Some(snapshot) = self.start(&found, tail, Part::Nothing) else { return Ok(None) };
        let read = self.read_key(&snapshot);
        if !snapshot.still_holds(self)? || self.is_key_poisoned(&snapshot.extent) {
            return Ok(None);
        }
        let Some(read) = read else { return Ok(None) };
        *key = read;
        let (part, mut bytes) = (Part::Range(0, head.len() as u64), Vec::new());
        let looked = self.look(&found, tail, key, part, |snapshot, header| {
            self.copy_value(snapshot, header, part, &mut bytes)
        });
        match looked {
            Ok(Attempt::Good((header, Ok(())))) => {
                head.copy_from_slice(&bytes);
                Ok(Some(header.version))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_loss() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object that was inspected, if it is still at that version, and no host views it
    /// or has it locked. A view that begins meanwhile keeps what it shows.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Fenced`], [`Error::Damaged`].
    pub fn evict(
        &self,
        resident: Resident,
        key: &[u8],
        version: Version,
    ) -> Result<Eviction, Error> {
        let tail = self.sync(resident.hash)?;
        let Some(found) = self.find_resident(resident) else { return Ok(Eviction::Changed) };
        let viewed = self.state(resident.hash).space.is_pinned(resident.slot);
        if !self.memory().check(sites::EVICT_VIEWED, !viewed) {
            return Ok(Eviction::InUse);
        }
        if found.entry.locked_by().is_none() {
            return self.evict_read_shared(&found, version);
        }
        match self.try_lock(&found, tail, key) {
            Ok(Attempt::Good(LockedObject::Shared(locked))) => {
                let same = locked.header().version == version;
                if !self.memory().check(sites::EVICT_VERSION, same) {
                    return Ok(Eviction::Changed);
                }
                locked.delete()?;
                Ok(Eviction::Done)
            }
            Ok(_) => Ok(Eviction::InUse),
            Err(error) if error.is_loss() => Ok(Eviction::Changed),
            Err(error) => Err(error),
        }
    }

    /// The same of an object without a record, which nobody can write without an event: one that
    /// makes this one void.
    fn evict_read_shared(&self, found: &Found<'_>, version: Version) -> Result<Eviction, Error> {
        let Some(intent) = self.open_intent() else { return Ok(Eviction::InUse) };
        if !self.delete_with_intent(intent, found.entry, Some(version))? {
            return Ok(Eviction::Changed);
        }
        self.count(Counter::Deletes);
        Ok(Eviction::Done)
    }

    /// Bytes of LNR in slots that hold objects, as far as this host has applied the log.
    pub fn used_bytes(&self) -> u64 {
        self.shards().iter().map(|shard| shard.state().space.used_bytes()).sum()
    }

    /// The entry of an object that was sampled, if no event has been about it since.
    fn find_resident(&self, resident: Resident) -> Option<Found<'_>> {
        let index = &self.state(resident.hash).index;
        let found = index.find_slot(self.memory(), resident.hash, resident.slot)?;
        let same = found.entry.generation == resident.generation && found.entry.is_plain();
        same.then_some(found)
    }
}
