//! Other places for objects than their slots: when they are copied, or moved.

mod copies;
mod move_in;
mod move_out;
mod recall;

use tombolo_memory::Memory;
use tombolo_placement::Place;
use tombolo_sharing::Header;

use crate::read::Started;
use crate::storage::index::Found;
use crate::write::lock::{Locked, TryLock};
use crate::write::writer::Writer;
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Moves an object that is about to be written into this host's memory, if it is to be there; `None`
    /// then, and the lock if it is not.
    pub(crate) fn place_before_write<'a>(
        &self,
        locked: Locked<'a, M>,
        key: &[u8],
    ) -> Result<Option<Locked<'a, M>>, Error> {
        if !self.home.is_open() {
            return Ok(Some(locked));
        }
        let profile = self.profiles.access(locked.entry.hash, true, locked.known);
        if self.placement.place(&profile, Place::Shared, &self.costs) == Place::Home {
            locked.settle(key)
        } else {
            Ok(Some(locked))
        }
    }

    /// Copies an object that was read into this host's memory, or moves it there, if it is to be there.
    pub(crate) fn place_after_read(
        &self,
        found: &Found<'_>,
        started: &Started,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) {
        let profile = self.profiles.access(started.entry.hash, false, started.known);
        match self.placement.place(&profile, Place::Shared, &self.costs) {
            Place::Shared => {}
            Place::Home if self.home.is_open() => {
                // The read is done; if the object cannot move now, it may at the next access.
                let _ = self.move_in(found, started, header, key, value);
            }
            Place::Home | Place::Copied => self.keep_copy(found, started, header, key, value),
        }
    }

    fn move_in(
        &self,
        found: &Found<'_>,
        started: &Started,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        if started.entry.record().is_none() {
            self.settle(started.entry, header, key, value.to_vec())?;
        } else if let TryLock::Locked(Writer::Shared(locked)) =
            self.try_lock(found, started.tail, key)?
        {
            locked.settle(key)?;
        }
        Ok(())
    }
}
