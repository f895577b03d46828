//! Replacing the value of an object in its slot: most writes are of an object that has a record, of
//! which this host has no stale line, and whose new value fits where the old one was. They take the
//! same steps as [others](super), and give up, with nothing changed, where there is more to be done
//! or to be said. So little has to be kept from one step to the next, and they take few
//! instructions: what a write waits for is memory, and the processor looks ahead as far as its
//! instructions go.
//!
//! Objects can be written together: all are locked, then all are written and cleaned with one
//! fence, and then all locks are released. So what one of them would wait for memory does for all.
//! Nobody waits for another with several locks in hand: what is not to be written in its slot at
//! once is written by itself, once those before it are through.

use std::marker::PhantomData;

use smallvec::SmallVec;
use tombolo_memory::{Lines, Memory, Site, Whole, Work};
use tombolo_sharing::{Counter, HEADER_BYTES, Header};

use crate::error::changed_under_lock;
use crate::host::lookup::Candidate;
use crate::storage::index::{Cell, Entry, Found, ToNote, validated};
use crate::storage::intents::{Change, ReservedIntent, WriteIntent};
use crate::storage::records::{LockedBy, PreparedLock};
use crate::storage::space::extent::Extent;
use crate::storage::space::pins::PinWord;
use crate::write::lock::{HeldLock, Locked, Phase};
use crate::write::locked::{Fit, fit};
use crate::{Error, Objects, Version, sites};

/// How an object will be written once it is locked: all that can be known before. Memory takes its
/// time until the record and the object's first line are there, and what is done meanwhile costs
/// nothing.
pub(crate) struct WritePlan<'a, M: Memory> {
    /// Its lock, at the counter at which this host has seen the object: if that has moved on, there
    /// may be stale lines.
    prepared: PreparedLock<'a, M>,
    entry: Entry,
    cell: Cell<'a>,
    validated_at: ToNote<'a>,
    pins: PinWord<'a, M>,
    /// All of its slot, and those that will be written.
    lines: Lines,
    pub(crate) dirty: Lines,
    header: Header,
    intent: WriteIntent<'a, M>,
}

impl<M: Memory> WritePlan<'_, M> {
    /// The bytes that are written of it.
    #[inline(always)]
    pub(crate) fn whole<'v>(&self, key: &'v [u8], head: &'v [u8], rest: &'v [u8]) -> Whole<'v> {
        Whole::new(self.dirty, self.header.encode(), key, head, rest)
    }
}

impl<M: Memory> Objects<M> {
    /// Replaces the value of the object with `key` in its slot, by `head` and `rest`; `None` if it
    /// takes more than that.
    #[inline]
    pub(crate) fn write_in_place<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &[u8; HEAD],
        rest: &[u8],
    ) -> Option<Result<Version, Box<Error>>> {
        self.answer_at_once();
        let pending = self.begin_lookup(self.hash(key).ok()?)?;
        // A read-modify-write waits for whatever is under way: it is done before there is more than
        // the bucket.
        let version = self.next_versions(1);
        let intent_slot = self.intents.reserve_for_now()?;
        let candidate = self.candidate_to_write(&pending)?;
        self.fetch_candidate(&candidate, rest.len());
        let plan = self.plan(&candidate, &intent_slot, key, version, HEAD + rest.len())?;
        let values = [self.memory().prepare(plan.whole(key, head, rest), true)];
        self.take(&candidate, &plan, key)?;
        intent_slot.keep();
        self.begin_to_write(&plan);
        let cleaned = plan.dirty.count();
        Some(self.write_and(sites::WRITE_CLEAN, &values, cleaned, || self.release(&plan)))
    }

    #[inline(always)]
    pub(crate) fn fetch_candidate(&self, candidate: &Candidate<'_, M>, bytes: usize) {
        let &Candidate { ref found, lines, .. } = candidate;
        if let Some(record) = found.entry.record() {
            self.fetch_to_write(found, record, lines, bytes);
        }
    }

    /// How a value of so many bytes will be written into the slot of an object that was found, if
    /// that takes no more than its lock.
    #[inline(always)]
    pub(crate) fn plan<'a>(
        &'a self,
        candidate: &Candidate<'a, M>,
        intent_slot: &ReservedIntent<'a, M>,
        key: &[u8],
        version: Version,
        value_bytes: usize,
    ) -> Option<WritePlan<'a, M>> {
        let &Candidate { found: Found { entry, cell }, lines, .. } = candidate;
        let (record, counter) = (entry.record()?, validated::counter(cell.validated_at)?);
        let bytes = (HEADER_BYTES + key.len()) as u64 + value_bytes as u64;
        let usual = lines.count() <= self.small_lines
            && fit(bytes, lines.bytes()) == Fit::Well
            && self.intents.overwrites(bytes)
            && !self.partition.is_open();
        if !usual {
            return None;
        }
        let prepared = self.records.prepare_lock(record, counter)?;
        let validated_at = cell.to_note(entry.generation, prepared.after)?;
        let pins = candidate.shard.state().space.pins_of(entry.slot)?;
        let header = Header::new(version, key, value_bytes as u32);
        let dirty = Lines::covering(lines.start(), bytes);
        let intent = intent_slot.of_write(Change::new(LockedBy::Record(record), entry.slot, false));
        Some(WritePlan { prepared, entry, cell, validated_at, pins, lines, dirty, header, intent })
    }

    /// Takes an object's lock, if it has `key`, this host has no stale line of it, and it can be
    /// written as planned.
    #[inline(always)]
    pub(crate) fn take(
        &self,
        candidate: &Candidate<'_, M>,
        plan: &WritePlan<'_, M>,
        key: &[u8],
    ) -> Option<()> {
        if !plan.prepared.lock() {
            return None;
        }
        if !self.may_overwrite(candidate, plan, key) {
            // If the lock was taken over, that host does with it what is to be done.
            let _ = self.records.unlock(plan.prepared.held, false);
            return None;
        }
        Some(())
    }

    /// Looks again, with the lock held: at the log, at the object, and whether somebody views it.
    #[inline(always)]
    fn may_overwrite(
        &self,
        candidate: &Candidate<'_, M>,
        plan: &WritePlan<'_, M>,
        key: &[u8],
    ) -> bool {
        let &Candidate { end, lines, .. } = candidate;
        let memory = self.memory();
        memory.works(Work::Operation);
        memory.works(Work::Lock);
        let since = memory.moment();
        if !memory.check(sites::WRITE_ENTRY_AGAIN, end.is_still()) {
            return false;
        }
        let Some(before) = self.header_with(lines, key) else { return false };
        if !memory.check(sites::POISON_READ, !memory.poisoned(lines)) {
            return false;
        }
        memory.relies_on(lines.start(), (HEADER_BYTES + key.len()) as u64, since);
        // While the lock is held nobody begins to view the object.
        self.intents.overwrites(before.total_bytes())
            && memory.check(sites::PIN_WRITE, !plan.pins.is_set())
    }

    /// Notes that an object is about to be written.
    ///
    /// The counter after the write is noted, too, as seen by this host. Until the object's lock is
    /// released, nobody finds the counter at which that note counts. If another host takes the lock
    /// over, an event starts a new generation first, of which nothing is seen.
    #[inline(always)]
    pub(crate) fn begin_to_write(&self, plan: &WritePlan<'_, M>) {
        let memory = self.memory();
        memory.takes(plan.lines);
        validated::set_locked(memory, plan.validated_at);
        plan.intent.begin();
    }

    /// Writes values, cleans their lines, and then releases locks.
    #[inline(always)]
    pub(crate) fn write_and<T>(
        &self,
        site: Site,
        values: &[M::Prepared<'_>],
        cleaned: u64,
        release: impl FnOnce() -> T,
    ) -> T {
        let counts = [(Counter::Writes, values.len() as u64), (Counter::CleanedLines, cleaned)];
        self.counters.add_all(counts);
        self.memory().publish_whole(site, values, |_| release())
    }

    /// Releases the lock of an object whose lines are clean; or loses the object, if this host has
    /// met a memory error there.
    ///
    /// # Errors
    /// [`LogError::Fenced`](tombolo_log::LogError::Fenced) if it was not this host's any more;
    /// [`Error::Poisoned`] if the object is lost now.
    #[inline(always)]
    pub(crate) fn release(&self, plan: &WritePlan<'_, M>) -> Result<Version, Box<Error>> {
        let &WritePlan { ref prepared, lines, header, ref intent, .. } = plan;
        let whole = !self.memory().poisoned(lines);
        if !self.memory().check(sites::POISON_WRITE, whole) {
            return self.lose_in_place(plan).map(|()| header.version).map_err(Box::new);
        }
        self.memory().gives(lines, header.total_bytes());
        intent.through();
        if !prepared.release() {
            return Err(Box::new(self.is_fenced()));
        }
        intent.end();
        Ok(header.version)
    }

    #[cold]
    fn lose_in_place(&self, plan: &WritePlan<'_, M>) -> Result<(), Error> {
        let &WritePlan { entry, cell, lines, header, dirty, .. } = plan;
        let slot = self.state(entry.hash).space.slot_at(entry.slot);
        let dirty = SmallVec::from_slice(&[dirty]);
        Locked {
            objects: self,
            held: HeldLock::Record(plan.prepared.held),
            entry,
            cell,
            // While it is locked nobody divides its chunk otherwise.
            slot: slot.ok_or_else(changed_under_lock)?,
            extent: Extent::of(lines),
            header,
            fresh: true,
            known: true,
            phase: Phase::InPlace { undone: false, dirty },
            intent_slot: plan.intent.slot(),
            shares_intent: false,
            since: self.memory().moment(),
            stays: PhantomData,
        }
        .finish()
    }
}
