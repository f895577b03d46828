//! Room that is given out before there is an object: reserved, filled, and then published or given
//! back.
//!
//! A slot is reserved as for a new object, under an intent that says "what is here is no object
//! yet". Header and key are in memory before the room is given out, and nobody writes their line
//! afterwards but the holder of the room. So another agent, a DMA engine say, may fill the room
//! past this host's caches, which then count for nothing until the object is read. Publishing is a
//! create, or a move of the object into the room. If the host dies before, the host that cleans up
//! finds the intent, and frees the slot.
//!
//! As long as room is given out, its intent is in use. So a host gives out rooms for half of its
//! intents at most, and the other half stays for all other operations.

use std::marker::PhantomData;
use std::ops::Deref;

use tombolo_memory::{LnrAddr, Memory};
use tombolo_sharing::{Counter, Header, object_bytes_of};

use crate::error::{may_be_committed, no_such_slot};
use crate::host::reserve::PATIENCE;
use crate::ids::{KeyHash, NOTE_PREFIX, Slot};
use crate::storage::intents::Intent;
use crate::write::locked_object::LockedObject;
use crate::write::relocate::{Filled, OpenIntent, Placed};
use crate::{Error, Objects, Version, sites};

/// Room in the pod for the value of a key, which no host sees before it is published. Dropping it
/// gives the room back.
///
/// Bytes that nobody fills are whatever lay there before. The room holds its host's objects by a
/// `H`: a reference, or a counted handle that can be kept and sent elsewhere.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct ReservationBy<H: Deref<Target = Objects<M>>, M: Memory> {
    objects: H,
    hash: KeyHash,
    key: Box<[u8]>,
    /// Bytes of the value that were there when the room was given out.
    head_bytes: u64,
    placed: Option<Placed>,
    memory: PhantomData<fn() -> M>,
}

/// Room that borrows its host's objects.
pub type Reservation<'a, M> = ReservationBy<&'a Objects<M>, M>;

impl<M: Memory> Objects<M> {
    /// Reserves room for a value of so many bytes.
    ///
    /// # Errors
    /// [`Error::TooManyReservations`]; those of [`create`](Self::create), but for
    /// [`Error::Exists`].
    pub fn reserve_room(&self, key: &[u8], bytes: u64) -> Result<Reservation<'_, M>, Error> {
        Self::reserve_room_by(self, key, &[], bytes)
    }

    /// As [`reserve_room`](Self::reserve_room), for a value of `head` and so many bytes behind it,
    /// where the room keeps `objects`.
    ///
    /// # Errors
    /// Those of [`reserve_room`](Self::reserve_room).
    pub fn reserve_room_by<H: Deref<Target = Self>>(
        objects: H,
        key: &[u8],
        head: &[u8],
        bytes: u64,
    ) -> Result<ReservationBy<H, M>, Error> {
        let hash = objects.begin(key)?;
        if key.starts_with(NOTE_PREFIX) {
            return Err(Error::ReservedKey);
        }
        let head_bytes = head.len() as u64;
        // (So many bytes may be more than the header can say.)
        object_bytes_of(key.len(), head_bytes.saturating_add(bytes))?;
        let header = Header::new(objects.next_version(), key, (head_bytes + bytes) as u32);
        let first = [&header.encode(), key, head].concat();
        let placed = objects.place_room(hash, header, &first)?;
        Ok(ReservationBy {
            objects,
            hash,
            key: key.into(),
            head_bytes,
            placed: Some(placed),
            memory: PhantomData,
        })
    }

    /// Room in a free slot, whose first bytes are in memory.
    fn place_room(&self, hash: KeyHash, header: Header, first: &[u8]) -> Result<Placed, Error> {
        let intent_slot = self.intents.give_out()?;
        let intent = OpenIntent { intent_slot, torn: None, alone: true, in_partition: false };
        let placed = self.reserve(hash, header.total_bytes(), PATIENCE).and_then(|slot| {
            let extent = self.state(hash).space.extent(slot).ok_or_else(no_such_slot)?;
            Ok(Placed { slot, extent, header, intent, filled: Filled::Cleaned })
        });
        let placed = placed.inspect_err(|_| self.take_back_intent(intent))?;
        if self.memory().keeps(sites::PLACE_NOTED) {
            let places = Intent::Places { to: placed.slot.line, torn: None };
            self.intents.set(intent_slot, places);
        }
        placed.extent.take_blank(self.memory());
        self.fill(&placed, 0, first);
        Ok(placed)
    }

    fn take_back_intent(&self, intent: OpenIntent) {
        self.intents.taken_back();
        self.close_intent(intent);
    }

    /// Stores bytes in a slot that is no object's yet. They are in memory when this returns.
    fn fill(&self, placed: &Placed, offset: u64, bytes: &[u8]) {
        let memory = self.memory();
        placed.extent.write(memory, offset, bytes);
        let lines = placed.extent.covering(offset, bytes.len() as u64);
        memory.publish(sites::ROOM_CLEAN, lines, |_| ());
    }

    /// Makes what is in the room the value of its key, if that has none, or as `replace` says.
    /// `None` if that has to be tried again.
    fn publish_room(
        &self,
        hash: KeyHash,
        key: &[u8],
        room: &mut Option<Placed>,
        replace: bool,
    ) -> Result<Option<Version>, Error> {
        let Some(placed) = room.as_ref() else { return Ok(None) };
        match self.absent(hash, key) {
            Ok(None) => Ok(None),
            Ok(Some(expected)) => {
                self.check_index(hash)?;
                if !self.announce_new(hash, placed, expected)? {
                    self.is_no_object(placed);
                    return Ok(None);
                }
                self.count(Counter::Creates);
                Ok(self.end_room(hash, room, None))
            }
            Err(Error::Exists) if replace => match self.lock(key) {
                Ok(None) => Ok(None),
                Ok(Some(LockedObject::Shared(locked))) => {
                    let version = placed.header.version;
                    let Some(placed) = room.take() else { return Ok(None) };
                    self.intents.taken_back();
                    locked.replace_by(placed).map(|()| Some(version))
                }
                Ok(Some(LockedObject::Entry(mut entry))) => {
                    let mut value = vec![0; placed.header.value_bytes as usize];
                    placed.extent.read(self.memory(), placed.header.value_offset(), &mut value);
                    entry.set(key, &value)?;
                    let version = entry.header().version;
                    entry.finish().map(|()| Some(version))
                }
                Err(error) if error.is_loss() => self.publish_instead_of_lost(hash, key, room),
                Err(error) => Err(error),
            },
            Err(error) if error.is_loss() && replace => {
                self.publish_instead_of_lost(hash, key, room)
            }
            Err(error) => Err(error),
        }
    }

    fn publish_instead_of_lost(
        &self,
        hash: KeyHash,
        key: &[u8],
        room: &mut Option<Placed>,
    ) -> Result<Option<Version>, Error> {
        let (Some(entry), Some(placed)) = (self.lost_to_replace(key)?, room.as_ref()) else {
            return Ok(None);
        };
        let (moved, left) = self.announce_instead(&entry, placed);
        if moved? {
            return Ok(self.end_room(hash, room, left));
        }
        self.is_no_object(placed);
        Ok(None)
    }

    /// The room holds the object that the log names now, which was in `from` before.
    fn end_room(
        &self,
        hash: KeyHash,
        room: &mut Option<Placed>,
        from: Option<Slot>,
    ) -> Option<Version> {
        let placed = room.take()?;
        self.intents.taken_back();
        self.end_placing(hash, &placed, from, Ok(true));
        Some(placed.header.version)
    }

    /// The slot holds no object yet, after all.
    fn is_no_object(&self, placed: &Placed) {
        let Placed { slot, intent, .. } = placed;
        self.intents.set(intent.intent_slot, Intent::Places { to: slot.line, torn: None });
    }
}

impl<H: Deref<Target = Objects<M>>, M: Memory> ReservationBy<H, M> {
    /// The key for which it is.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Bytes that can be filled.
    pub fn len(&self) -> u64 {
        let bytes = |placed: &Placed| u64::from(placed.header.value_bytes) - self.head_bytes;
        self.placed.as_ref().map_or(0, bytes)
    }

    /// Whether there is nothing to be filled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes into the room, from `offset` on. They are in memory when this returns.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (length, end) = (self.len(), offset.saturating_add(bytes.len() as u64));
        if end > length {
            return Err(Error::OutOfRange { offset, end, length });
        }
        if let Some(placed) = &self.placed {
            self.objects.fill(
                placed,
                placed.header.value_offset() + self.head_bytes + offset,
                bytes,
            );
        }
        Ok(())
    }

    /// Where the room is in LNR, for another agent to fill it: places and bytes of its pieces, in
    /// order. One piece unless the value is longer than a chunk.
    pub fn pieces(&mut self) -> impl Iterator<Item = (LnrAddr, u64)> {
        let (head_bytes, length) = (self.head_bytes, self.len());
        self.placed.iter_mut().for_each(|placed| placed.filled = Filled::ByAny);
        self.placed.iter().flat_map(move |placed| {
            placed.extent.pieces_of(placed.header.value_offset() + head_bytes, length)
        })
    }

    /// The room itself, to be filled in place; `None` if it does not lie in one piece, or cannot
    /// be looked into. Publishing brings what was stored there into memory.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let mut pieces = self.pieces();
        let (only, None) = (pieces.next(), pieces.next()) else { return None };
        drop(pieces);
        let Some((at, bytes)) = only else { return Some(&mut []) };
        self.objects.memory().view_mut(at, bytes)
    }

    /// The address of the room in this process, to be filled through other means than this
    /// library; `None` as of [`bytes_mut`](Self::bytes_mut). All stores there must have ended
    /// before the room is published or dropped.
    pub fn address(&mut self) -> Option<usize> {
        self.bytes_mut().map(|bytes| bytes.as_mut_ptr().expose_provenance())
    }

    /// Makes the room the value of its key, whatever that had before: all hosts see it from now
    /// on. Returns the value's version. On an error the room is given back, and the old value
    /// stays.
    ///
    /// # Errors
    /// Those of [`Objects::put`]; [`Error::Poisoned`] if the memory of the room has an error.
    pub fn publish(mut self) -> Result<Version, Error> {
        self.publish_as(true)
    }

    /// The same, if the key has no value.
    ///
    /// # Errors
    /// [`Error::Exists`], and those of [`publish`](Self::publish).
    pub fn publish_new(mut self) -> Result<Version, Error> {
        self.publish_as(false)
    }

    fn publish_as(&mut self, replace: bool) -> Result<Version, Error> {
        let Self { objects, hash, key, placed, .. } = self;
        objects.answer_at_once();
        objects.may_store()?;
        if let Some(room) = placed.as_ref()
            && !objects.memory().check(sites::POISON_PLACE, !objects.is_poisoned(&room.extent))
        {
            objects.space_of(room.slot.line)?.set_poisoned(&room.extent);
            return Err(Error::Poisoned);
        }
        let published =
            objects.retry_with_backoff(|| objects.publish_room(*hash, key, placed, replace));
        if published.as_ref().is_err_and(may_be_committed) && placed.take().is_some() {
            // Only the hosts that clean up after this one can tell what the room is.
            objects.intents.taken_back();
        }
        published
    }
}

impl<H: Deref<Target = Objects<M>>, M: Memory> Drop for ReservationBy<H, M> {
    fn drop(&mut self) {
        if let Some(placed) = self.placed.take() {
            self.objects.give_back(self.hash, &placed);
        }
    }
}

impl<M: Memory> Objects<M> {
    /// Frees room that has not become an object's.
    fn give_back(&self, hash: KeyHash, placed: &Placed) {
        let lines = placed.uncleaned();
        self.memory().publish(sites::ROOM_CLEAN, lines, |memory| placed.extent.give(memory, 0));
        self.intents.taken_back();
        // A host that was fenced leaves everything as it is, and its intent, to others.
        if self.may_store().is_ok() {
            self.end_placing(hash, placed, None, Ok(false));
        }
    }
}
