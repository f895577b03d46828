//! Holding an object's lock: the way to change it in place.

use std::marker::PhantomData;

use smallvec::SmallVec;
use tombolo_memory::{Lines, Memory, Moment, Work};
use tombolo_sharing::{Counter, HEADER_BYTES, Header, Part};

use crate::host::Locks;
use crate::host::blocked::Why;
use crate::host::lookup::Attempt;
use crate::ids::{KeyHash, Slot};
use crate::replica::event::{Event, target};
use crate::storage::index::validated::{NEVER_VALIDATED, READ_SHARED};
use crate::storage::index::{Cell, Entry, Found, validated};
use crate::storage::intents::IntentSlot;
use crate::storage::records::{LockedBy, RecordId, RecordLock};
use crate::storage::space::extent::Extent;
use crate::write::locked_object::LockedObject;
use crate::write::relocate::Placed;
use crate::{Error, Objects, sites};
use tombolo_placement::Place;

/// An object whose record's lock this thread holds. Until it is dropped nobody else changes the
/// object, its slot or its record; dropping it cleans what was written and releases the lock.
pub(crate) struct Locked<'a, M: Memory> {
    pub(crate) objects: &'a Objects<M>,
    pub(crate) held: HeldLock,
    pub(crate) entry: Entry,
    pub(crate) cell: Cell<'a>,
    pub(crate) slot: Slot,
    pub(crate) extent: Extent,
    pub(crate) header: Header,
    /// This host has no stale line of the object.
    pub(crate) fresh: bool,
    /// It had none before: nobody else has written the object since.
    pub(crate) known: bool,
    pub(crate) phase: Phase,
    /// Where it is recorded that the object is being changed, while it is.
    pub(crate) intent_slot: IntentSlot,
    /// The intent is that of a transaction, which has other objects locked, too.
    pub(crate) shares_intent: bool,
    /// When the lock was taken: nothing read under it was out of date by then.
    pub(crate) since: Moment,
    /// The thread that has written cleans: it alone knows whether what it has stored went past the
    /// caches. So this stays with its thread.
    pub(crate) stays: PhantomData<*const ()>,
}

/// How far the write of a locked object is.
pub(crate) enum Phase {
    /// Nothing of the object is changed.
    Unchanged,
    /// It is being changed in its slot, as an intent says; if `undone`, with its old bytes.
    InPlace { undone: bool, dirty: SmallVec<[Lines; 2]> },
    /// It is written in another slot, where it will be once the write ends. Other hosts do not know
    /// of that yet.
    Elsewhere(Box<Placed>),
    /// The lock is released, or not this host's any more.
    Released,
}

/// The lock of an object, which this thread holds.
#[derive(Clone, Copy)]
pub(crate) enum HeldLock {
    Record(RecordLock),
    Log,
}

impl HeldLock {
    pub(crate) fn by(self) -> LockedBy {
        match self {
            Self::Record(held) => LockedBy::Record(held.record),
            Self::Log => LockedBy::Log,
        }
    }

    /// The counter before the lock was taken.
    fn counter(self) -> u32 {
        match self {
            Self::Record(held) => held.counter,
            Self::Log => READ_SHARED,
        }
    }
}

impl<M: Memory> Objects<M> {
    /// Locks the object with `key`, allocating a record if it has none; `None` if there is no such
    /// object (MEGALON, section 3.4.5, "Write").
    pub(crate) fn lock(&self, key: &[u8]) -> Result<Option<LockedObject<'_, M>>, Error> {
        let hash = self.begin(key)?;
        self.repeat(|| self.lookup(hash, |found, tail| self.lock_found(found, tail, key)))
    }

    /// Locks an object that may have `key`, wherever it is.
    fn lock_found(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
    ) -> Result<Attempt<LockedObject<'_, M>>, Error> {
        let entry = found.entry;
        let lines = self.state(entry.hash).space.lines_at(entry.slot);
        if let (Some(record), Some(lines)) = (entry.record(), lines) {
            self.fetch_to_write(found, record, lines, 0);
        }
        let locked = match entry.partition() {
            None => self.try_lock(found, tail, key)?,
            Some(host) if host == self.enrolment.host() => self.lock_in_partition(entry, key)?,
            Some(host) => {
                self.blocked(Why::InPartition { host, entry })?;
                Attempt::Changed
            }
        };
        let Attempt::Good(LockedObject::Shared(locked)) = locked else { return Ok(locked) };
        let stays = self.place_before_write(locked, key)?;
        Ok(stays.map_or(Attempt::Changed, |locked| Attempt::Good(LockedObject::Shared(locked))))
    }

    /// Has the record and, unless they may be stale, the lines of an object fetched that will be
    /// locked: the lock waits for what was under way before it, and what comes after it waits for
    /// the lock. So many bytes are to be written, or any number if that is 0.
    #[inline(always)]
    pub(crate) fn fetch_to_write(
        &self,
        found: &Found<'_>,
        record: RecordId,
        lines: Lines,
        bytes: usize,
    ) {
        self.records.prefetch(record);
        if found.cell.validated_at != NEVER_VALIDATED {
            self.memory().prefetch_to_write(self.fetched(lines, Part::Whole), bytes);
        }
    }

    /// Moves an object that is about to be written into this host's memory, if it is to be there;
    /// `None` then, and the lock if it is not.
    fn place_before_write<'a>(
        &self,
        locked: Locked<'a, M>,
        key: &[u8],
    ) -> Result<Option<Locked<'a, M>>, Error> {
        if !self.partition.is_open() {
            return Ok(Some(locked));
        }
        let profile = self.profiles.access(locked.entry.hash, true, locked.known);
        if self.placement.place(&profile, Place::Shared, &self.costs) == Place::Partition {
            locked.move_in(key)
        } else {
            Ok(Some(locked))
        }
    }

    pub(crate) fn try_lock(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
    ) -> Result<Attempt<LockedObject<'_, M>>, Error> {
        self.try_lock_with(found, tail, key, None)
    }

    /// The same, perhaps with an intent that the caller has reserved, and uses for other objects,
    /// too.
    pub(crate) fn try_lock_with(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        intent_slot: Option<IntentSlot>,
    ) -> Result<Attempt<LockedObject<'_, M>>, Error> {
        let held = match found.entry.locked_by() {
            Some(LockedBy::Log | LockedBy::Partition) => None,
            Some(LockedBy::Record(record)) => {
                let word = self.records.load(record);
                if let Some(holder) = word.holder() {
                    self.obstructed(holder, found.entry);
                }
                let counter = word.readable();
                counter.and_then(|counter| self.records.lock(record, counter)).map(HeldLock::Record)
            }
            // A record is worth allocating only for the right object.
            None => match self.look(found, tail, key, Part::Nothing, |_, _| ())? {
                Attempt::Good(_) if self.locks == Locks::Log => {
                    self.lock_by_log(found)?.then_some(HeldLock::Log)
                }
                Attempt::Good(_) => {
                    let waits = intent_slot.is_none();
                    self.allocate(found.entry, waits)?.map(HeldLock::Record)
                }
                Attempt::OtherKey => return Ok(Attempt::OtherKey),
                Attempt::Changed => None,
            },
        };
        held.map_or(Ok(Attempt::Changed), |held| {
            self.enter_or_unlock(held, found.entry, key, intent_slot)
        })
    }

    /// Looks at an object that has just been locked; releases it if it is not the one with `key`.
    fn enter_or_unlock(
        &self,
        mut held: HeldLock,
        entry: Entry,
        key: &[u8],
        shared: Option<IntentSlot>,
    ) -> Result<Attempt<LockedObject<'_, M>>, Error> {
        let Some(intent_slot) = shared.or_else(|| self.intents.reserve()) else {
            self.unlock_unentered(held, entry)?;
            return Ok(Attempt::Changed);
        };
        let mut outcome = self.enter(&mut held, entry, key, intent_slot);
        if let Ok(Attempt::Good(LockedObject::Shared(locked))) = &mut outcome {
            locked.shares_intent = shared.is_some();
        } else {
            if shared.is_none() {
                self.intents.end(intent_slot, false);
            }
            self.unlock_unentered(held, entry)?;
        }
        if matches!(outcome, Err(Error::Poisoned)) && !self.lose_poisoned(entry.hash, entry.slot)? {
            return Ok(Attempt::Changed);
        }
        outcome
    }

    /// Releases the lock of an object that is not entered after all.
    fn unlock_unentered(&self, held: HeldLock, entry: Entry) -> Result<(), Error> {
        if let HeldLock::Record(held) = held {
            let _ = self.records.unlock(held, false);
            return Ok(());
        }
        let found = self.state(entry.hash).index.find_slot(self.memory(), entry.hash, entry.slot);
        found.map_or(Ok(()), |found| self.unlock_by_log(found.entry))
    }

    /// Looks at the object again, now that its lock is held.
    pub(crate) fn enter(
        &self,
        held: &mut HeldLock,
        entry: Entry,
        key: &[u8],
        intent_slot: IntentSlot,
    ) -> Result<Attempt<LockedObject<'_, M>>, Error> {
        let memory = self.memory();
        memory.works(Work::Lock);
        let since = memory.moment();
        let again = memory.keeps(sites::WRITE_ENTRY_AGAIN);
        if again {
            self.sync(entry.hash)?;
        }
        let find = || self.state(entry.hash).index.find_slot(memory, entry.hash, entry.slot);
        let ours = |found: &Found<'_>| found.entry.locked_by() == Some(held.by());
        let Some(mut found) = find().filter(|found| !again || ours(found)) else {
            return Ok(Attempt::Changed);
        };
        if let HeldLock::Record(held) = held
            && self.records.wraps(*held)
        {
            self.begin_new_count(held, found.entry)?;
            let Some(renewed) = find() else { return Ok(Attempt::Changed) };
            found = renewed;
        }
        let space = &self.state(entry.hash).space;
        let Some(slot) = space.slot_at(entry.slot) else { return Ok(Attempt::Changed) };
        let Some(extent) = space.extent(slot) else { return Ok(Attempt::Changed) };
        let known = validated::is_fresh(memory, self.validated_at(&found), held.counter());
        let small = extent.count() <= self.small_lines;
        let length = (HEADER_BYTES + key.len()).min(extent.bytes() as usize);
        if !known {
            let doubtful = if small { extent.bytes() } else { length as u64 };
            self.drop_stale(&extent, 0, doubtful);
        }
        let mut buffer: SmallVec<[u8; 128]> = SmallVec::from_elem(0, length);
        extent.read(memory, 0, &mut buffer);
        if !memory.check(sites::POISON_READ, !self.is_key_poisoned(&extent)) {
            return Err(Error::Poisoned);
        }
        let Some(header) = Header::decode(&buffer, extent.bytes()) else {
            let start = extent.start();
            return Err(Error::Damaged(format!("the slot at {start:?} holds no object")));
        };
        let same = usize::from(header.key_bytes) == key.len() && buffer[HEADER_BYTES..] == *key;
        extent.rely_on(memory, 0, length as u64, since);
        if !memory.check(sites::KEY_COMPARE, same) {
            return Ok(Attempt::OtherKey);
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
            slot,
            extent,
            header,
            fresh: known || small,
            known,
            phase: Phase::Unchanged,
            intent_slot,
            shares_intent: false,
            since,
            stays: PhantomData,
        };
        Ok(Attempt::Good(LockedObject::Shared(locked)))
    }

    /// An event before the counter can be seen to start again: no note of an earlier read of the
    /// same counter counts any more. Where widths are mixed, it is one that gives the object a wide
    /// record, if there is one.
    fn begin_new_count(&self, held: &mut RecordLock, entry: Entry) -> Result<(), Error> {
        let records = &self.records;
        if let Some(wider) = records.claim_wider(entry.hash, *held) {
            self.dirty_bits.hand_on(held.record, wider.record);
            let event =
                Event::Allocate { target: target(entry), by: LockedBy::Record(wider.record) };
            let allocated = self.commit(event);
            if matches!(allocated, Ok(true)) {
                self.free_record(std::mem::replace(held, wider));
                return Ok(());
            }
            self.free_record(wider);
            allocated?;
        }
        self.commit(Event::Wrap(target(entry)))?;
        Ok(())
    }

    /// Drops lines before they are read or partly written under a lock: a partial store into a
    /// stale line would bring the rest of it back.
    pub(crate) fn drop_stale(&self, extent: &Extent, offset: u64, bytes: u64) {
        let lines = || extent.covering(offset, bytes);
        self.counters.add(Counter::InvalidatedLines, lines().map(Lines::count).sum());
        self.memory().consume(sites::WRITE_INVALIDATE, |_| ((), lines()));
    }

    /// Gives a read-shared object a record; `None` if the object changed meanwhile, or there is no
    /// record at once and the caller does not wait for one. The record is locked by this thread.
    fn allocate(&self, entry: Entry, waits: bool) -> Result<Option<RecordLock>, Error> {
        let started = self.memory().uptime();
        let claimed = match waits {
            true => Some(self.claim_record(entry.hash)?),
            false => self.try_claim_record(entry.hash)?,
        };
        let Some(held) = claimed else { return Ok(None) };
        let event = Event::Allocate { target: target(entry), by: LockedBy::Record(held.record) };
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

    /// A free record for the object with this hash, if need be one that was taken from another.
    fn claim_record(&self, hash: KeyHash) -> Result<RecordLock, Error> {
        self.retry_with_backoff(|| self.try_claim_record(hash))
    }

    /// The same; `None` if there is none at once.
    pub(crate) fn try_claim_record(&self, hash: KeyHash) -> Result<Option<RecordLock>, Error> {
        if let Some(held) = self.records.claim(hash) {
            return Ok(Some(held));
        }
        // The log says which objects have the records; no other thread may be applying it.
        if self.memory().keeps(sites::RECORD_SYNC) {
            self.sync_all()?;
        }
        let mut freed = None;
        self.blocked(Why::NoRecord { hash, freed: &mut freed })?;
        Ok(freed.and_then(|record| self.records.claim_freed(hash, record)))
    }
}
