//! An object whose lock is held: the changes it allows, and how the lock ends.

use std::time::Duration;

use smallvec::SmallVec;
use tombolo_memory::{Lines, Memory};
use tombolo_sharing::{Counter, HEADER_BYTES, Header, object_bytes};

use crate::error::changed_under_lock;
use crate::ids::LostTo;
use crate::replica::event::{Event, target};
use crate::storage::index::validated;
use crate::storage::intents::Change;
use crate::storage::records::RecordId;
use crate::write::lock::{HeldLock, Locked, Phase};
use crate::write::relocate::{Filled, OpenIntent, Placed};
use crate::{Error, Objects, sites};

/// How a value would lie in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Well,
    /// It would leave most of it empty.
    Wastes,
    /// It is too long, or the object may not be changed there.
    Not,
}

/// How an object of so many bytes would lie in a slot of so many.
pub(crate) fn fit(bytes: u64, capacity: u64) -> Fit {
    if bytes > capacity {
        Fit::Not
    } else if bytes * 4 < capacity && capacity > 1024 {
        Fit::Wastes
    } else {
        Fit::Well
    }
}

impl Phase {
    /// The object as written in another slot, if it was. From here on nothing is changed in the old
    /// one.
    fn take_elsewhere(&mut self) -> Option<Box<Placed>> {
        match std::mem::replace(self, Self::Unchanged) {
            Self::Elsewhere(placed) => Some(placed),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl<M: Memory> Locked<'_, M> {
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    pub(crate) fn objects(&self) -> &Objects<M> {
        self.objects
    }

    pub(crate) fn record(&self) -> Option<RecordId> {
        self.held.by().record()
    }

    /// Reads part of the value.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let from = self.value_at(offset, into.len())?;
        let memory = self.objects.memory();
        if let Phase::Elsewhere(placed) = &self.phase {
            placed.extent.read(memory, from, into);
            return Ok(());
        }
        self.invalidate_if_stale(from, into.len());
        self.extent.read(memory, from, into);
        if !memory.check(sites::POISON_READ, !self.objects.is_poisoned(&self.extent)) {
            return Err(Error::Poisoned);
        }
        self.extent.rely_on(memory, from, into.len() as u64, self.since);
        Ok(())
    }

    /// Changes part of the value. On an error because this host was fenced, nothing of what was
    /// changed before counts.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.objects.may_store().inspect_err(|_| self.leave_to_others())?;
        let to = self.value_at(offset, bytes.len())?;
        if matches!(self.phase, Phase::Elsewhere(_)) || !self.may_change_in_place() {
            return self.write_elsewhere(to, bytes);
        }
        self.invalidate_if_stale(to, bytes.len());
        self.store(to, bytes)?;
        self.renew_header(self.header.value_bytes)
    }

    /// Leaves a write that ends in the middle, with its intent, to the hosts that go on without
    /// this one: they undo it. To release the lock would say that it is whole.
    fn leave_to_others(&mut self) {
        if let Phase::InPlace { dirty, .. } = &mut self.phase {
            let dirty = std::mem::take(dirty);
            self.objects.memory().publish(sites::WRITE_CLEAN, dirty, |_| self.give());
            self.phase = Phase::Released;
        }
    }

    /// Whether nobody views the object, and, where writes can be undone, what this one overwrites
    /// is not too much to be recorded.
    fn may_change_in_place(&self) -> bool {
        if matches!(self.phase, Phase::InPlace { .. }) {
            return true;
        }
        // While the lock is held nobody begins to view the object.
        let pinned = self.objects.state(self.entry.hash).space.is_pinned(self.slot.line);
        self.objects.memory().check(sites::PIN_WRITE, !pinned)
            && self.objects.intents.may_change(self.header.total_bytes())
    }

    /// Changes part of the object in another slot, to which it moves when the write ends.
    fn write_elsewhere(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        if !matches!(self.phase, Phase::Elsewhere(_)) {
            let key = self.key()?;
            let mut value = vec![0; self.header.value_bytes as usize];
            self.read(0, &mut value)?;
            // Nobody waits for room with a lock in hand.
            let (objects, intent) = (self.objects, self.open_intent());
            let placed = objects.place(intent, self.entry.hash, &key, &value, Duration::ZERO)?;
            self.phase = Phase::Elsewhere(Box::new(placed));
        }
        if let Phase::Elsewhere(placed) = &self.phase {
            placed.extent.write(self.objects.memory(), to, bytes);
            self.header = placed.header;
        }
        Ok(())
    }

    /// Moves the object into a slot in which another value of it has been placed, and ends the
    /// write.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish). The slot is given back, unless others have to.
    pub(crate) fn replace_by(mut self, placed: Placed) -> Result<(), Error> {
        self.objects.count(Counter::Writes);
        self.phase = Phase::Elsewhere(Box::new(placed));
        self.finish()
    }

    /// Ends what was done elsewhere: the object is there now, or, on an error, where and as it was.
    fn arrive(&mut self) -> Result<(), Error> {
        let Some(placed) = self.phase.take_elsewhere() else { return Ok(()) };
        self.give();
        let moved = self.objects.announce_move(self.entry, self.slot, *placed);
        self.follow(moved.and_then(|moved| moved.ok_or_else(changed_under_lock)))
    }

    fn key(&self) -> Result<Vec<u8>, Error> {
        let (from, length) = (HEADER_BYTES as u64, usize::from(self.header.key_bytes));
        let mut key = vec![0; length];
        self.invalidate_if_stale(from, length);
        self.extent.read(self.objects.memory(), from, &mut key);
        self.extent.rely_on(self.objects.memory(), from, length as u64, self.since);
        Ok(key)
    }

    /// How an object with this value would lie in its slot.
    fn fit(&self, key: &[u8], value: &[u8]) -> Result<Fit, Error> {
        let fits = fit(object_bytes(key, value)?, self.extent.bytes());
        Ok(if self.may_change_in_place() { fits } else { Fit::Not })
    }

    /// Replaces the value, in place or, if it does not fit or leaves most of its slot empty, in
    /// another slot. On an error nothing is changed.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.arrive()?;
        self.objects.may_store()?;
        self.objects.count(Counter::Writes);
        match self.fit(key, value)? {
            Fit::Not => return self.move_to_other_slot(key, value),
            Fit::Wastes if self.move_to_other_slot(key, value).is_ok() => return Ok(()),
            Fit::Wastes => self.objects.may_store()?,
            Fit::Well => {}
        }
        // Header and key lines are fresh already; every other byte of the object is overwritten.
        self.store(self.header.value_offset(), value)?;
        self.renew_header(value.len() as u32)?;
        self.fresh = true;
        Ok(())
    }

    /// Deletes the object, and frees its record.
    pub(crate) fn delete(mut self) -> Result<(), Error> {
        self.arrive()?;
        self.give();
        if !self.objects.delete_with_intent(self.open_intent(), self.entry, None)? {
            return Err(changed_under_lock());
        }
        self.objects.count(Counter::Deletes);
        if let HeldLock::Record(held) = self.held {
            self.objects.free_record(held);
        }
        self.phase = Phase::Released;
        self.objects.intents.end(self.intent_slot, false);
        Ok(())
    }

    /// Where it is recorded what becomes of the object's slot.
    pub(crate) fn open_intent(&self) -> OpenIntent {
        let torn = match self.phase {
            Phase::InPlace { undone, .. } => Some(self.change(undone)),
            _ => None,
        };
        OpenIntent { intent_slot: self.intent_slot, torn, alone: false, in_partition: false }
    }

    /// Ends the write.
    ///
    /// # Errors
    /// [`LogError::Fenced`](tombolo_log::LogError::Fenced) if the lock was taken over from this
    /// host: what was written does not count, or may not. [`Error::Poisoned`] if the object is lost
    /// to a memory error. Those of a commit, if the object was written in another slot.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.arrive()?;
        self.release()
    }

    pub(crate) fn give(&self) {
        self.extent.give(self.objects.memory(), self.header.total_bytes());
    }

    /// Where in the slot a part of the value is.
    fn value_at(&self, offset: u64, bytes: usize) -> Result<u64, Error> {
        let end = offset.saturating_add(bytes as u64);
        let length = u64::from(self.header.value_bytes);
        if end > length {
            return Err(Error::OutOfRange { offset, end, length });
        }
        Ok(self.header.value_offset() + offset)
    }

    fn invalidate_if_stale(&self, from: u64, bytes: usize) {
        if !self.fresh {
            // Bytes that this guard has written itself must not be dropped, but they are dirty:
            // dropping a dirty line writes it back first.
            self.objects.drop_stale(&self.extent, from, bytes as u64);
        }
    }

    fn change(&self, undone: bool) -> Change {
        Change::new(self.held.by(), self.slot.line, undone)
    }

    /// Others can tell from here on that the object is being changed.
    fn set_intent(&mut self) -> Result<(), Error> {
        let objects = self.objects;
        if matches!(self.phase, Phase::InPlace { .. }) {
            return Ok(());
        }
        let undone = objects.intents.is_undone(self.header.total_bytes());
        let change = self.change(undone);
        if undone {
            let mut object = vec![0; self.header.total_bytes() as usize];
            self.invalidate_if_stale(0, object.len());
            self.extent.read(objects.memory(), 0, &mut object);
            let whole = !objects.is_poisoned(&self.extent);
            if !objects.memory().check(sites::POISON_UNDO, whole) {
                return Err(Error::Poisoned);
            }
            self.extent.rely_on(objects.memory(), 0, object.len() as u64, self.since);
            objects.intents.set_undo(self.intent_slot, change, &object);
        } else {
            objects.intents.set_write(self.intent_slot, change);
        }
        self.phase = Phase::InPlace { undone, dirty: SmallVec::new() };
        Ok(())
    }

    fn store(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        self.set_intent()?;
        self.extent.write(self.objects.memory(), to, bytes);
        if let Phase::InPlace { dirty, .. } = &mut self.phase {
            for lines in self.extent.covering(to, bytes.len() as u64) {
                if !dirty.iter().any(|dirty| dirty.contain(lines)) {
                    dirty.push(lines);
                }
            }
        }
        Ok(())
    }

    fn renew_header(&mut self, value_bytes: u32) -> Result<(), Error> {
        let version = self.objects.next_version();
        self.header = Header { version, value_bytes, ..self.header };
        self.store(0, &self.header.encode())
    }

    fn move_to_other_slot(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        // Once the log names the new slot, the old one may be another object's.
        self.give();
        let intent = self.open_intent();
        let moved = self.objects.relocate(intent, self.entry, self.slot, key, value);
        self.follow(moved)
    }

    /// Moves the object to another slot of the same size, if there is one.
    pub(crate) fn move_as_is(mut self, key: &[u8]) -> Result<(), Error> {
        let mut value = vec![0; self.header.value_bytes as usize];
        self.read(0, &mut value)?;
        let (objects, intent) = (self.objects, self.open_intent());
        let to =
            objects.place_copy(intent, self.entry.hash, self.slot, self.header, key, &value)?;
        let Some(to) = to else { return Ok(()) };
        self.phase = Phase::Elsewhere(Box::new(to));
        self.arrive()
    }

    /// Sees that the object can be changed in its slot to one of so many bytes: as it is, it moves
    /// to a larger slot if it has to, or if somebody views it.
    pub(crate) fn make_room(&mut self, key: &[u8], bytes: u64) -> Result<(), Error> {
        let objects = self.objects;
        let pinned = objects.state(self.entry.hash).space.is_pinned(self.slot.line);
        let stays = objects.memory().check(sites::PIN_WRITE, !pinned);
        if stays && bytes <= self.extent.bytes() {
            return Ok(());
        }
        let mut value = vec![0; self.header.value_bytes as usize];
        self.read(0, &mut value)?;
        let (intent, bytes) = (self.open_intent(), bytes.max(self.header.total_bytes()));
        let (hash, patience) = (self.entry.hash, Duration::ZERO);
        let placed =
            objects.place_within(intent, hash, bytes, self.header, key, &value, patience)?;
        self.phase = Phase::Elsewhere(Box::new(placed));
        self.arrive()
    }

    /// Stores the whole object, header included, over what is in its slot. No intent says so: a
    /// redo note does. Returns the lines that are dirty then.
    pub(crate) fn store_image(&mut self, header: Header, image: &[u8]) -> SmallVec<[Lines; 2]> {
        self.extent.write(self.objects.memory(), 0, image);
        (self.header, self.fresh) = (header, true);
        self.extent.covering(0, image.len() as u64).collect()
    }

    /// Goes on in the slot to which the object has moved; or where it was, if it could not.
    fn follow(&mut self, moved: Result<Placed, Error>) -> Result<(), Error> {
        let objects = self.objects;
        if moved.is_err() && objects.may_store().is_ok() {
            self.extent.take(objects.memory());
        }
        let to = moved?;
        let index = &objects.state(self.entry.hash).index;
        let found = index.find_slot(objects.memory(), self.entry.hash, to.slot.line);
        let found = found.ok_or_else(changed_under_lock)?;
        to.extent.take(objects.memory());
        self.phase = Phase::Unchanged;
        self.entry = found.entry;
        self.cell = found.cell;
        self.slot = to.slot;
        self.extent = to.extent;
        self.header = to.header;
        // Where another agent has stored, this host's caches may have older lines.
        let by_any = to.filled == Filled::ByAny;
        self.fresh = !(by_any && objects.memory().keeps(sites::ROOM_NOT_VALIDATED));
        Ok(())
    }

    /// Cleans what was written and releases the lock.
    ///
    /// # Errors
    /// [`LogError::Fenced`](tombolo_log::LogError::Fenced) if it was not this host's any more;
    /// [`Error::Poisoned`] if the object is lost now.
    fn release(&mut self) -> Result<(), Error> {
        let objects = self.objects;
        let dirty = match &mut self.phase {
            Phase::InPlace { dirty, .. } => std::mem::take(dirty),
            _ => SmallVec::new(),
        };
        let written = !dirty.is_empty();
        let cleaned = dirty.iter().map(|lines| lines.count()).sum();
        objects.counters.add(Counter::CleanedLines, cleaned);
        if written && self.extent_is_poisoned() {
            return self.lose(dirty);
        }
        objects.memory().publish(sites::WRITE_CLEAN, dirty, |_| self.unlock(written))
    }

    /// Releases the lock, of an object whose lines are clean.
    ///
    /// # Errors
    /// [`LogError::Fenced`](tombolo_log::LogError::Fenced) if it was not this host's any more.
    pub(crate) fn unlock(&mut self, written: bool) -> Result<(), Error> {
        let objects = self.objects;
        self.give();
        let phase = std::mem::replace(&mut self.phase, Phase::Released);
        let noted = matches!(phase, Phase::InPlace { .. });
        let (released, counter) = if let HeldLock::Record(held) = self.held {
            if noted {
                objects.intents.through(self.intent_slot, self.held.by());
            }
            let counter = objects.records.unlock(held, written);
            (counter.is_some(), counter)
        } else {
            // The record says nothing of who has the lock, so the intent does.
            if noted {
                objects.intents.clear(self.intent_slot);
            }
            // If the log is stuck, so is the object, and the next thread that wants it is told of
            // the log.
            (objects.unlock_by_log(self.entry).is_ok(), None)
        };
        if released && !self.shares_intent {
            objects.intents.end(self.intent_slot, noted);
        }
        if let Some(counter) = counter.filter(|_| self.fresh) {
            validated::set(
                objects.memory(),
                self.cell,
                self.entry.generation,
                self.cell.validated_at,
                counter,
            );
        }
        if released { Ok(()) } else { Err(objects.is_fenced()) }
    }

    fn extent_is_poisoned(&self) -> bool {
        let objects = self.objects;
        !objects.memory().check(sites::POISON_WRITE, !objects.is_poisoned(&self.extent))
    }

    /// Part of what was written is nobody's but this host's: the object is lost, before its lock is
    /// released.
    #[cold]
    fn lose(&mut self, dirty: SmallVec<[Lines; 2]>) -> Result<(), Error> {
        let (objects, entry) = (self.objects, self.entry);
        objects.memory().publish(sites::WRITE_CLEAN, dirty, |_| self.give());
        self.phase = Phase::Released;
        let space = &objects.state(entry.hash).space;
        space.set_poisoned(&self.extent);
        space.mark_away(&self.extent, LostTo::MemoryError);
        let lost =
            objects.commit(Event::Lose { target: target(entry), to: LostTo::MemoryError })?;
        if !lost {
            return Err(changed_under_lock());
        }
        objects.count(Counter::Poisoned);
        // Before the record can be another object's.
        objects.intents.clear(self.intent_slot);
        if let HeldLock::Record(held) = self.held {
            objects.free_record(held);
        }
        objects.intents.end(self.intent_slot, false);
        Err(Error::Poisoned)
    }
}

impl<M: Memory> Drop for Locked<'_, M> {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Released) {
            // A caller that drops it does not ask for the outcome.
            let _ = self.arrive();
            let _ = self.release();
        }
    }
}
