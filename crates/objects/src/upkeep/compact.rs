//! Making room: objects move together, so that chunks become free for other sizes and other shards.
//!
//! A chunk with few objects is taken by a host that reserves none of its slots. It moves each
//! object to a slot of the same size in another chunk, by an event that is conditional on the
//! object's generation; one with a record, under its lock. When the log says that the chunk is
//! empty, it is free. Readers find an object in its old slot or in its new one; a read that began
//! in the old one begins again.
//!
//! Done a little at a time in the background, above a watermark; and whole chunks by a thread that
//! finds no room.

use tombolo_memory::Memory;
use tombolo_sharing::{HEADER_BYTES, Header, PREFIX_BYTES, Part};

use crate::host::lookup::Attempt;
use crate::host::reserve::Room;
use crate::ids::{NOTE_PREFIX, Slot};
use crate::replica::Shard;
use crate::storage::index::Found;
use crate::storage::space::{Space, Sparse};
use crate::write::locked_object::LockedObject;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Frees a chunk, whichever way takes least.
    pub(crate) fn make_room(&self) -> Result<Room, Error> {
        let mut freed = false;
        for shard in self.shards() {
            freed |= shard.state().space.free_empty(|| self.sync_shard(shard).map(drop))?;
        }
        if freed {
            return Ok(Room::Made);
        }
        let mut room = Room::None;
        for shard in self.shards() {
            match self.compact(shard, usize::MAX)? {
                Room::Made => return Ok(Room::Made),
                Room::None => {}
                otherwise => room = otherwise,
            }
        }
        Ok(room)
    }

    /// Moves up to `most` objects of a sparsely used chunk elsewhere.
    pub(crate) fn compact(&self, shard: &Shard<M>, most: usize) -> Result<Room, Error> {
        let space = &shard.state().space;
        let sync = || self.sync_shard(shard).map(drop);
        let chunk = match space.take_sparse(sync)? {
            Sparse::Taken(chunk) => chunk,
            Sparse::Busy => return Ok(Room::Others),
            Sparse::None => return Ok(Room::None),
        };
        let mut slots = chunk.slots.iter().take(most);
        let moved: Result<u64, Error> = slots.try_fold(0, |moved, &slot| {
            match self.evacuate(shard, slot) {
                Err(Error::Poisoned) => {}
                evacuated => evacuated?,
            }
            Ok(moved + u64::from(!space.holds_object(slot)))
        });
        let freed = space.put_back(&chunk);
        Ok(if freed || moved? > 0 { Room::Made } else { Room::NotNow })
    }

    /// Moves the object in `slot` to another slot of its class, unless that is not to be had, or
    /// the object is in use.
    fn evacuate(&self, shard: &Shard<M>, slot: Slot) -> Result<(), Error> {
        let state = shard.state();
        let Some(key) = self.key_in(&state.space, slot) else { return Ok(()) };
        if key.starts_with(NOTE_PREFIX) {
            // Its host's intent says where it is.
            return Ok(());
        }
        let (hash, tail) = (self.hash(&key)?, self.sync_shard(shard)?);
        let Some(found) = state.index.find_slot(self.memory(), hash, slot.line) else {
            return Ok(());
        };
        if found.entry.partition().is_some() {
            // Its slot is where it returns to.
            return Ok(());
        }
        let unlocked =
            found.entry.locked_by().is_none() || !self.memory().keeps(sites::COMPACT_LOCK);
        if unlocked {
            self.move_as_read(&found, tail, &key, slot)
        } else if let Attempt::Good(LockedObject::Shared(locked)) =
            self.try_lock(&found, tail, &key)?
        {
            locked.move_as_is(&key)
        } else {
            Ok(())
        }
    }

    /// The key of the object in a slot, if that can be told. Nobody else may put an object there
    /// meanwhile; so whatever is written there, it keeps its key.
    fn key_in(&self, space: &Space<M>, slot: Slot) -> Option<Vec<u8>> {
        let extent = space.extent(slot)?;
        let mut buffer = [0; PREFIX_BYTES];
        let prefix = &mut buffer[..PREFIX_BYTES.min(extent.bytes() as usize)];
        let doubtful = extent.covering(0, prefix.len() as u64);
        self.memory().consume(sites::READ_INVALIDATE, |_| ((), doubtful));
        extent.read(self.memory(), 0, prefix);
        if self.is_key_poisoned(&extent) {
            return None;
        }
        let header = Header::decode(prefix, extent.bytes())?;
        Some(prefix[HEADER_BYTES..][..usize::from(header.key_bytes)].to_vec())
    }

    /// Moves a read-shared object, whose bytes nobody can change without an event.
    fn move_as_read(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        from: Slot,
    ) -> Result<(), Error> {
        let mut value = Vec::new();
        let read = self.look(found, tail, key, Part::Whole, |snapshot, header| {
            self.copy_value(snapshot, header, Part::Whole, &mut value)
        })?;
        let Attempt::Good((header, Ok(()))) = read else { return Ok(()) };
        let Some(intent) = self.open_intent() else { return Ok(()) };
        let to = self.place_copy(intent, found.entry.hash, from, header, key, &value)?;
        let Some(to) = to else { return Ok(()) };
        self.announce_move(found.entry, from, to).map(drop)
    }
}
