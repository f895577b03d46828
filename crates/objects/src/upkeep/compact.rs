//! Making room: objects move together, so that chunks become free for other sizes and other shards.
//!
//! A chunk with few objects is taken by a host that promises none of its slots. It moves each object to
//! a slot of the same size in another chunk, by an event that is conditional on the object's generation;
//! one with a record, under its lock. When the log says that the chunk is empty, it is free. Readers
//! find an object in its old slot or in its new one; a read that began in the old one begins again.
//!
//! Done a little at a time in the background, above a watermark; and whole chunks by whoever finds no
//! room.

use std::time::Duration;

use tombolo_memory::Memory;
use tombolo_sharing::{HEADER_BYTES, Header, PREFIX_BYTES, Part};

use crate::ids::{KeyHash, Slot};
use crate::read::Looked;
use crate::replica::Shard;
use crate::storage::index::Found;
use crate::storage::space::chunk_table::ChunkState;
use crate::storage::space::{Space, Sparse};
use crate::write::lock::TryLock;
use crate::write::writer::Writer;
use crate::{Error, Objects, sites};

/// What came of an attempt to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// A chunk is free, or emptier than before.
    Made,
    /// Others are at it.
    Others,
    /// There is none to be made now: objects are in use, or chunks changed hands meanwhile.
    NotNow,
    /// There is none to be made.
    None,
}

impl<M: Memory> Objects<M> {
    /// A slot for an object with this hash, promised to it, in a pod that is full as things are.
    pub(crate) fn reserve_after_making_room(
        &self,
        hash: KeyHash,
        bytes: u64,
        patience: Duration,
    ) -> Result<Slot, Error> {
        let full = || Error::LnrFull { bytes };
        let (space, mut waiting_since) = (&self.state(hash).space, None);
        let reserved = self.persist(|| {
            let table = &self.shards()[0].state().space;
            let (before, passed_over) = (table.words()?, space.passed_over());
            match self.reserve_free(hash, bytes) {
                Err(Error::LnrFull { .. }) => {}
                reserved => return reserved.map(Some),
            }
            let room = match self.make_room()? {
                Room::None if before.iter().any(|word| word.state == ChunkState::Moving) => {
                    Room::Others
                }
                // Whether there was room at any one moment, nobody knows.
                Room::None if before != table.words()? => Room::NotNow,
                Room::None if passed_over != space.passed_over() => Room::NotNow,
                room => room,
            };
            if room == Room::NotNow {
                let now = self.memory().uptime();
                if now.saturating_sub(*waiting_since.get_or_insert(now)) > patience {
                    return Err(full());
                }
            }
            if room == Room::None { Err(full()) } else { Ok(None) }
        });
        reserved.map_err(|error| if matches!(error, Error::Busy { .. }) { full() } else { error })
    }

    /// Frees a chunk, whichever way takes least.
    fn make_room(&self) -> Result<Room, Error> {
        let mut freed = false;
        for shard in self.shards() {
            freed |= shard.state().space.free_empty(|| Ok(shard.sync().map(drop)?))?;
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
        let sync = || Ok(shard.sync().map(drop)?);
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

    /// Moves the object in `slot` to another slot of its class, unless that is not to be had, or the
    /// object is in use.
    fn evacuate(&self, shard: &Shard<M>, slot: Slot) -> Result<(), Error> {
        let state = shard.state();
        let Some(key) = self.key_in(&state.space, slot) else { return Ok(()) };
        let (hash, tail) = (self.hash(&key)?, shard.sync()?);
        let Some(found) = state.index.find_slot(self.memory(), hash, slot.line) else {
            return Ok(());
        };
        if found.entry.home().is_some() {
            // Its slot is where it returns to.
            return Ok(());
        }
        let unlocked = found.entry.record().is_none() || !self.memory().keeps(sites::COMPACT_LOCK);
        if unlocked {
            self.move_as_read(&found, tail, &key, slot)
        } else if let TryLock::Locked(Writer::Shared(locked)) = self.try_lock(&found, tail, &key)? {
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
        let read = self.look(found, tail, key, Part::Whole, |started, header| {
            self.copy_value(started, header, Part::Whole, &mut value)
        })?;
        let Looked::Good((header, Ok(()))) = read else { return Ok(()) };
        let Some(noting) = self.noting() else { return Ok(()) };
        let to = self.place_copy(noting, found.entry.hash, from, header, key, &value)?;
        let Some(to) = to else { return Ok(()) };
        self.announce_move(found.entry, from, to).map(drop)
    }
}
