//! Other places for objects than their slots: when they are copied, or moved.

mod copies;
mod move_in;
mod move_out;
mod recall;

use tombolo_memory::Memory;
use tombolo_sharing::Header;

use crate::host::policy::Place;
use crate::read::ReadSnapshot;
use crate::storage::index::Found;
use crate::write::lock::{Locked, TryLock};
use crate::write::locked_object::LockedObject;
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Moves an object that is about to be written into this host's memory, if it is to be there; `None`
    /// then, and the lock if it is not.
    pub(crate) fn place_before_write<'a>(
        &self,
        locked: Locked<'a, M>,
        key: &[u8],
    ) -> Result<Option<Locked<'a, M>>, Error> {
        if !self.partition.is_open() {
            return Ok(Some(locked));
        }
        let profile = self.profiles.access(locked.entry.hash, true, locked.known);
        if self.placement.place(&profile) == Place::Partition {
            locked.move_in(key)
        } else {
            Ok(Some(locked))
        }
    }

    /// Copies an object that was read into this host's memory, or moves it there, if it is to be there.
    pub(crate) fn place_after_read(
        &self,
        found: &Found<'_>,
        snapshot: &ReadSnapshot,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) {
        let profile = self.profiles.access(snapshot.entry.hash, false, snapshot.known);
        match self.placement.place(&profile) {
            Place::Shared => {}
            Place::Partition if self.partition.is_open() => {
                // The read is done; if the object cannot move now, it may at the next access.
                let _ = self.move_in_after_read(found, snapshot, header, key, value);
            }
            Place::Partition | Place::Copied => self.keep_copy(found, snapshot, header, key, value),
        }
    }

    fn move_in_after_read(
        &self,
        found: &Found<'_>,
        snapshot: &ReadSnapshot,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        if snapshot.entry.record().is_none() {
            self.move_in(snapshot.entry, header, key, value.to_vec())?;
        } else if let TryLock::Locked(LockedObject::Shared(locked)) =
            self.try_lock(found, snapshot.tail, key)?
        {
            locked.move_in(key)?;
        }
        Ok(())
    }
}
