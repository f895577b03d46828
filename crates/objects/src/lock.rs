//! Holding an object's lock: the way to change it in place.

use std::time::Duration;

use smallvec::SmallVec;
#[cfg(doc)]
use tombolo_log::LogError;
use tombolo_memory::{Lines, Memory, Moment, Work};
use tombolo_sharing::{Counter, HEADER_BYTES, Header, PREFIX_BYTES, Part, object_bytes};

use crate::create::{Noting, Placed};
use crate::event::{Event, Slot, Target};
use crate::extent::Extent;
use crate::index::{Cell, Entry, Found};
use crate::logged::{BY_LOG, Locks};
use crate::placement::Place;
use crate::poison::BY_POISON;
use crate::read::{Looked, Started};
use crate::records::Held;
use crate::seen;
use crate::writer::Writer;
use crate::{Error, Objects, sites, underway};

/// An object whose record's lock this thread holds. Until it is dropped nobody else changes the
/// object, its slot or its record; dropping it cleans what was written and releases the lock.
pub(crate) struct Locked<'a, M: Memory> {
    objects: &'a Objects<M>,
    held: Held,
    entry: Entry,
    cell: &'a Cell,
    seen: u64,
    slot: Slot,
    extent: Extent,
    header: Header,
    /// This host has no stale line of the object.
    fresh: bool,
    /// It had none before: nobody else has written the object since.
    known: bool,
    dirty: SmallVec<[Lines; 2]>,
    /// Where the object will be once the write ends, with what was written so far; nobody else knows of it.
    elsewhere: Option<Box<Placed>>,
    /// Where it is noted that the object is being changed, and whether it is.
    place: underway::Place,
    noted: bool,
    /// When the lock was taken: nothing read under it was out of date by then.
    since: Moment,
    /// The record is not this object's any more: nothing to release.
    gone: bool,
}

pub(crate) enum TryLock<'a, M: Memory> {
    Locked(Writer<'a, M>),
    OtherKey,
    /// Somebody else has it, or it changed: look again.
    Busy,
}

impl<M: Memory> Objects<M> {
    /// Locks the object with `key`, allocating a record if it has none; `None` if there is no such
    /// object (MEGALON, section 3.4.5, "Write").
    pub(crate) fn lock(&self, key: &[u8]) -> Result<Option<Writer<'_, M>>, Error> {
        let hash = self.begin(key)?;
        self.persist(|| {
            let tail = self.sync(hash)?;
            for found in self.state(hash).index.find(self.memory(), hash) {
                let locked = match found.entry.home {
                    None => self.try_lock(&found, tail, key)?,
                    Some(host) if host == self.seat.host() => self.lock_at_home(found.entry, key),
                    Some(host) => {
                        self.bring_back_from(host, found.entry)?;
                        TryLock::Busy
                    }
                };
                match locked {
                    TryLock::Locked(Writer::Shared(locked)) => {
                        let stays = self.place_before_write(locked, key)?;
                        return Ok(stays.map(|locked| Some(Writer::Shared(locked))));
                    }
                    TryLock::Locked(resident) => return Ok(Some(Some(resident))),
                    TryLock::OtherKey => {}
                    TryLock::Busy => return Ok(None),
                }
            }
            Ok(Some(None))
        })
    }

    /// Moves an object that is about to be written into this host's memory, if it is to be there; `None`
    /// then, and the lock if it is not.
    fn place_before_write<'a>(
        &self,
        locked: Locked<'a, M>,
        key: &[u8],
    ) -> Result<Option<Locked<'a, M>>, Error> {
        if !self.home.is_open() {
            return Ok(Some(locked));
        }
        let profile = self.profiles.access(locked.entry.hash, true, locked.known);
        if self.placement.place(&profile) == Place::Home {
            locked.settle(key)
        } else {
            Ok(Some(locked))
        }
    }

    /// Whether there are other places for objects than their slots.
    pub(crate) fn places_objects(&self) -> bool {
        self.home.is_open() || self.copies.is_some()
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
        match self.placement.place(&profile) {
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
        if started.entry.record.is_none() {
            self.settle(started.entry, header, key, value.to_vec())?;
        } else if let TryLock::Locked(Writer::Shared(locked)) =
            self.try_lock(found, started.tail, key)?
        {
            locked.settle(key)?;
        }
        Ok(())
    }

    pub(crate) fn try_lock(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
    ) -> Result<TryLock<'_, M>, Error> {
        let held = match found.entry.record {
            Some(BY_LOG) => None,
            Some(record) => {
                let word = self.records.load(record);
                if let Some(holder) = word.holder() {
                    self.obstructed(holder, Some(found.entry));
                }
                word.readable().and_then(|counter| self.records.lock(record, counter))
            }
            // A record is worth allocating only for the right object.
            None => match self.look(found, tail, key, Part::Nothing, |_, _| ())? {
                Looked::Good(_) if self.locks == Locks::Log => self.lock_by_log(found.entry)?,
                Looked::Good(_) => self.allocate(found.entry)?,
                Looked::OtherKey => return Ok(TryLock::OtherKey),
                Looked::Changed => None,
            },
        };
        let Some(mut held) = held else { return Ok(TryLock::Busy) };
        let Some(place) = self.underway.reserve() else {
            self.let_go(held, found.entry)?;
            return Ok(TryLock::Busy);
        };
        let outcome = self.enter(&mut held, found.entry, key, place);
        if !matches!(outcome, Ok(TryLock::Locked(_))) {
            self.underway.end(place, false);
            self.let_go(held, found.entry)?;
        }
        if matches!(outcome, Err(Error::Poisoned))
            && !self.lose_poisoned(found.entry.hash, found.entry.slot)?
        {
            return Ok(TryLock::Busy);
        }
        outcome
    }

    /// Releases the lock of an object that is not entered after all.
    fn let_go(&self, held: Held, entry: Entry) -> Result<(), Error> {
        if held.record != BY_LOG {
            let _ = self.records.unlock(held, false);
            return Ok(());
        }
        let found = self.state(entry.hash).index.find_slot(self.memory(), entry.hash, entry.slot);
        found.map_or(Ok(()), |found| self.unlock_by_log(found.entry))
    }

    /// Looks at the object again, now that its lock is held.
    fn enter(
        &self,
        held: &mut Held,
        entry: Entry,
        key: &[u8],
        place: underway::Place,
    ) -> Result<TryLock<'_, M>, Error> {
        let memory = self.memory();
        memory.works(Work::Lock);
        let since = memory.moment();
        let again = memory.keeps(sites::WRITE_ENTRY_AGAIN);
        if again {
            self.sync(entry.hash)?;
        }
        let find = || self.state(entry.hash).index.find_slot(memory, entry.hash, entry.slot);
        let ours = |found: &Found<'_>| found.entry.record == Some(held.record);
        let Some(mut found) = find().filter(|found| !again || ours(found)) else {
            return Ok(TryLock::Busy);
        };
        if held.record != BY_LOG && self.records.wraps(*held) {
            self.begin_new_count(held, found.entry)?;
            let Some(renewed) = find() else { return Ok(TryLock::Busy) };
            found = renewed;
        }
        let space = &self.state(entry.hash).space;
        let Some(slot) = space.slot_at(entry.slot) else { return Ok(TryLock::Busy) };
        let Some(extent) = space.extent(slot) else { return Ok(TryLock::Busy) };
        // The log's lock has started a generation, in which nothing was written yet.
        let by_log = held.record == BY_LOG;
        let generation = if by_log { entry.generation } else { found.entry.generation };
        let known = seen::is_fresh(memory, self.noted(&found), generation, held.counter);
        let small = extent.count() <= self.small_lines;
        let length = (HEADER_BYTES + key.len()).min(extent.bytes() as usize);
        if !known {
            let doubtful = if small { extent.bytes() } else { length as u64 };
            self.drop_stale(&extent, 0, doubtful);
        }
        let mut buffer = [0; PREFIX_BYTES];
        extent.read(memory, 0, &mut buffer[..length]);
        if !memory.check(sites::POISON_READ, !self.is_key_poisoned(&extent)) {
            return Err(Error::Poisoned);
        }
        let Some(header) = Header::decode(&buffer[..length], extent.bytes()) else {
            let start = extent.start();
            return Err(Error::Damaged(format!("the slot at {start:?} holds no object")));
        };
        let same =
            usize::from(header.key_bytes) == key.len() && buffer[HEADER_BYTES..length] == *key;
        extent.rely_on(memory, 0, length as u64, since);
        if !memory.check(sites::KEY_COMPARE, same) {
            return Ok(TryLock::OtherKey);
        }
        if !memory.check(sites::POISON_READ, !self.is_poisoned(&extent)) {
            return Err(Error::Poisoned);
        }
        extent.take(memory);
        let locked = Locked {
            objects: self,
            held: *held,
            entry: found.entry,
            cell: found.cell,
            seen: found.seen,
            slot,
            extent,
            header,
            fresh: known || small,
            known,
            dirty: SmallVec::new(),
            elsewhere: None,
            place,
            noted: false,
            since,
            gone: false,
        };
        Ok(TryLock::Locked(Writer::Shared(locked)))
    }

    /// An event before the counter can be seen to start again: no note of an earlier read of the same
    /// counter counts any more. Where widths are mixed, it is one that gives the object a wide record,
    /// if there is one.
    fn begin_new_count(&self, held: &mut Held, entry: Entry) -> Result<(), Error> {
        let records = &self.records;
        if let Some(wider) = records.claim_wider(*held) {
            if self.marks.is_set(held.record) {
                self.marks.set(wider.record);
            }
            let event = Event::Allocate { target: target(entry), record: wider.record };
            let allocated = self.commit(event);
            if matches!(allocated, Ok(true)) {
                self.free_unmarked(std::mem::replace(held, wider));
                return Ok(());
            }
            self.free_unmarked(wider);
            allocated?;
        }
        self.commit(Event::Wrap(target(entry)))?;
        Ok(())
    }

    /// Drops lines before they are read or partly written under a lock: a partial store into a stale
    /// line would bring the rest of it back.
    fn drop_stale(&self, extent: &Extent, offset: u64, bytes: u64) {
        let lines = || extent.covering(offset, bytes);
        self.counters.add(Counter::InvalidatedLines, lines().map(Lines::count).sum());
        self.memory().consume(sites::WRITE_INVALIDATE, |_| ((), lines()));
    }

    /// Gives a read-shared object a record; `None` if the object changed meanwhile. The record is
    /// locked by this thread.
    fn allocate(&self, entry: Entry) -> Result<Option<Held>, Error> {
        let started = self.memory().uptime();
        let held = self.claim_record()?;
        let event = Event::Allocate { target: target(entry), record: held.record };
        match self.commit(event) {
            Ok(true) => {
                let took = self.memory().uptime().saturating_sub(started);
                self.count(Counter::Churn);
                self.counters.add(Counter::ChurnNs, took.as_nanos() as u64);
                Ok(Some(held))
            }
            lost => {
                self.records.free(held);
                lost.map(|_| None)
            }
        }
    }

    /// A free record, if need be one that was taken from another object.
    fn claim_record(&self) -> Result<Held, Error> {
        self.persist(|| {
            if let Some(held) = self.records.claim() {
                return Ok(Some(held));
            }
            // Who has the records, the log knows; nobody else may be applying it.
            if self.memory().keeps(sites::RECORD_SYNC) {
                self.sync_all()?;
            }
            let freed = self.reclaim_some()?;
            if freed.is_none() {
                self.take_records_over()?;
            }
            Ok(freed.and_then(|record| self.records.claim_freed(record)))
        })
    }
}

pub(crate) fn target(entry: Entry) -> Target {
    Target { hash: entry.hash, slot: entry.slot, expected: entry.generation }
}

impl<M: Memory> Locked<'_, M> {
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    pub(crate) fn objects(&self) -> &Objects<M> {
        self.objects
    }

    pub(crate) fn record(&self) -> u32 {
        self.held.record
    }

    /// Reads part of the value.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let from = self.value_at(offset, into.len())?;
        let memory = self.objects.memory();
        if let Some(placed) = &self.elsewhere {
            placed.extent.read(memory, from, into);
            return Ok(());
        }
        self.freshen(from, into.len());
        self.extent.read(memory, from, into);
        if !memory.check(sites::POISON_READ, !self.objects.is_poisoned(&self.extent)) {
            return Err(Error::Poisoned);
        }
        self.extent.rely_on(memory, from, into.len() as u64, self.since);
        Ok(())
    }

    /// Changes part of the value.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.objects.may_store()?;
        let to = self.value_at(offset, bytes.len())?;
        if !self.objects.underway.may_change(self.header.total_bytes()) {
            return self.write_elsewhere(to, bytes);
        }
        self.freshen(to, bytes.len());
        self.store(to, bytes)?;
        self.renew_header(self.header.value_bytes)
    }

    /// Changes part of the object in another slot, to which it moves when the write ends: where writes can be
    /// undone, and what this one overwrites is too much to be noted.
    fn write_elsewhere(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        if self.elsewhere.is_none() {
            let key = self.key()?;
            let mut value = vec![0; self.header.value_bytes as usize];
            self.read(0, &mut value)?;
            // Nobody waits for room with a lock in hand.
            let (objects, noting) = (self.objects, self.noting());
            let placed = objects.place(noting, self.entry.hash, &key, &value, Duration::ZERO)?;
            self.elsewhere = Some(Box::new(placed));
        }
        if let Some(placed) = &self.elsewhere {
            placed.extent.write(self.objects.memory(), to, bytes);
            self.header = placed.header;
        }
        Ok(())
    }

    /// Ends what was done elsewhere: the object is there now, or, on an error, where and as it was.
    fn arrive(&mut self) -> Result<(), Error> {
        let Some(placed) = self.elsewhere.take() else { return Ok(()) };
        self.give();
        let moved = self.objects.announce_move(self.entry, self.slot, *placed);
        self.follow(moved.and_then(|moved| moved.ok_or_else(changed_under_lock)))
    }

    fn key(&self) -> Result<Vec<u8>, Error> {
        let (from, length) = (HEADER_BYTES as u64, usize::from(self.header.key_bytes));
        let mut key = vec![0; length];
        self.freshen(from, length);
        self.extent.read(self.objects.memory(), from, &mut key);
        self.extent.rely_on(self.objects.memory(), from, length as u64, self.since);
        Ok(key)
    }

    /// Replaces the value, in place or, if it does not fit or leaves most of its slot empty, in
    /// another slot. On an error nothing is changed.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.arrive()?;
        self.objects.may_store()?;
        self.objects.count(Counter::Writes);
        let bytes = object_bytes(key, value)?;
        let capacity = self.extent.bytes();
        let noted = self.objects.underway.may_change(self.header.total_bytes());
        if bytes > capacity || !noted {
            return self.move_to_other_slot(key, value);
        }
        let wasteful = bytes * 4 < capacity && capacity > 1024;
        if wasteful {
            if self.move_to_other_slot(key, value).is_ok() {
                return Ok(());
            }
            self.objects.may_store()?;
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
        if !self.objects.delete_noted(self.noting(), self.entry, None)? {
            return Err(changed_under_lock());
        }
        self.objects.count(Counter::Deletes);
        if self.held.record != BY_LOG {
            self.objects.free_unmarked(self.held);
        }
        self.gone = true;
        self.objects.underway.end(self.place, false);
        Ok(())
    }

    /// Where it is noted what becomes of the object's slot.
    fn noting(&self) -> Noting {
        let torn = self.noted.then_some((self.held.record, self.slot.line));
        Noting { place: self.place, torn, alone: false }
    }

    /// Ends the write.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if the lock was taken over from this host: what was written does not count, or
    /// may not. [`Error::Poisoned`] if the object is lost to a memory error. Those of a commit, if the object was written in another slot.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.arrive()?;
        self.release()
    }

    fn give(&self) {
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

    fn freshen(&self, from: u64, bytes: usize) {
        if !self.fresh {
            // What this guard has written itself must not be dropped, but it is dirty: dropping a
            // dirty line writes it back first.
            self.objects.drop_stale(&self.extent, from, bytes as u64);
        }
    }

    /// Others can tell from here on that the object is being changed.
    fn note(&mut self) -> Result<(), Error> {
        let objects = self.objects;
        if self.noted {
            return Ok(());
        }
        if objects.underway.is_undone() {
            let mut object = vec![0; self.header.total_bytes() as usize];
            self.freshen(0, object.len());
            self.extent.read(objects.memory(), 0, &mut object);
            let whole = !objects.is_poisoned(&self.extent);
            if !objects.memory().check(sites::POISON_UNDO, whole) {
                return Err(Error::Poisoned);
            }
            self.extent.rely_on(objects.memory(), 0, object.len() as u64, self.since);
            objects.underway.note_undo(self.place, self.held.record, self.slot.line, &object);
        } else {
            objects.underway.note_write(self.place, self.held.record, self.slot.line);
        }
        self.noted = true;
        Ok(())
    }

    fn store(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        self.note()?;
        self.extent.write(self.objects.memory(), to, bytes);
        for lines in self.extent.covering(to, bytes.len() as u64) {
            if !self.dirty.contains(&lines) {
                self.dirty.push(lines);
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
        let noting = self.noting();
        let moved = self.objects.relocate(noting, self.entry, self.slot, key, value);
        self.follow(moved)
    }

    /// Moves the object to another slot of the same size, if there is one.
    pub(crate) fn move_as_is(mut self, key: &[u8]) -> Result<(), Error> {
        let mut value = vec![0; self.header.value_bytes as usize];
        self.read(0, &mut value)?;
        let (objects, noting) = (self.objects, self.noting());
        let to =
            objects.place_copy(noting, self.entry.hash, self.slot, self.header, key, &value)?;
        let Some(to) = to else { return Ok(()) };
        self.elsewhere = Some(Box::new(to));
        self.arrive()
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
        self.dirty.clear();
        self.noted = false;
        self.entry = found.entry;
        self.cell = found.cell;
        self.seen = found.seen;
        self.slot = to.slot;
        self.extent = to.extent;
        self.header = to.header;
        self.fresh = true;
        Ok(())
    }

    /// Moves the object into this host's memory, and frees its record; `None` then, and itself if
    /// the object stays.
    fn settle(mut self, key: &[u8]) -> Result<Option<Self>, Error> {
        let objects = self.objects;
        if self.held.record == BY_LOG || !objects.may_settle(self.header) {
            return Ok(Some(self));
        }
        let mut value = vec![0; self.header.value_bytes as usize];
        self.read(0, &mut value)?;
        self.give();
        let settled = objects.settle(self.entry, self.header, key, value);
        if matches!(settled, Ok(true)) {
            // Before the record can be another object's.
            objects.underway.clear(self.place);
            objects.records.free(self.held);
            self.gone = true;
            objects.underway.end(self.place, false);
            return Ok(None);
        }
        if objects.may_store().is_ok() {
            self.extent.take(objects.memory());
        }
        settled.map(|_| Some(self))
    }
}

impl<M: Memory> Locked<'_, M> {
    /// Cleans what was written and releases the lock.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if it was not this host's any more; [`Error::Poisoned`] if the object is lost now.
    fn release(&mut self) -> Result<(), Error> {
        let objects = self.objects;
        let written = !self.dirty.is_empty();
        let cleaned = self.dirty.iter().map(|lines| lines.count()).sum();
        objects.counters.add(Counter::CleanedLines, cleaned);
        let dirty = std::mem::take(&mut self.dirty);
        if written && self.extent_is_poisoned() {
            return self.lose(dirty);
        }
        let (released, counter) = objects.memory().publish(sites::WRITE_CLEAN, dirty, |_| {
            self.give();
            if self.held.record == BY_LOG {
                // The record says nothing of who has the lock, so the note does.
                if self.noted {
                    objects.underway.clear(self.place);
                }
                // If the log is stuck, so is the object, and whoever wants it is told of the log.
                return (objects.unlock_by_log(self.entry).is_ok(), None);
            }
            if self.noted {
                objects.underway.through(self.place, self.held.record);
            }
            let counter = objects.records.unlock(self.held, written);
            (counter.is_some(), counter)
        });
        if released {
            objects.underway.end(self.place, self.noted);
        }
        self.gone = true;
        if let Some(counter) = counter.filter(|_| self.fresh) {
            seen::set(objects.memory(), self.cell, self.seen, self.entry.generation, counter);
        }
        if released { Ok(()) } else { Err(objects.is_fenced()) }
    }

    fn extent_is_poisoned(&self) -> bool {
        let objects = self.objects;
        !objects.memory().check(sites::POISON_WRITE, !objects.is_poisoned(&self.extent))
    }

    /// Part of what was written is nobody's but this host's: the object is lost, before its lock is released.
    #[cold]
    fn lose(&mut self, dirty: SmallVec<[Lines; 2]>) -> Result<(), Error> {
        let (objects, entry) = (self.objects, self.entry);
        objects.memory().publish(sites::WRITE_CLEAN, dirty, |_| self.give());
        self.gone = true;
        let space = &objects.state(entry.hash).space;
        space.set_poisoned(&self.extent);
        space.mark_away(&self.extent, BY_POISON);
        let lost = objects.commit(Event::Lose { target: target(entry), host: BY_POISON })?;
        if !lost {
            return Err(changed_under_lock());
        }
        objects.count(Counter::Poisoned);
        if self.held.record != BY_LOG {
            objects.free_unmarked(self.held);
        }
        objects.underway.end(self.place, self.noted);
        Err(Error::Poisoned)
    }
}

impl<M: Memory> Drop for Locked<'_, M> {
    fn drop(&mut self) {
        if !self.gone {
            // Whoever drops it does not ask.
            let _ = self.arrive();
            let _ = self.release();
        }
    }
}

pub(crate) fn changed_under_lock() -> Error {
    Error::Damaged("an object changed while its lock was held".to_owned())
}
