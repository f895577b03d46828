//! Replacing the value of an object in its slot: most writes are of an object that has a record, of which this host has no stale
//! line, and whose new value fits where the old one was. They take the same steps as [others](super), and give up, with nothing
//! changed, where there is more to be done or to be said. So little has to be kept from one step to the next, and they take few
//! instructions: what a write waits for is memory, and the processor looks ahead as far as its instructions go.
//!
//! Objects can be written together: all are locked, then all are written, then all lines are cleaned, and then all locks are
//! released. So what one of them would wait for memory does for all. Nobody waits for another with several locks in hand: what is not to be
//! written in its slot at once is written by itself, once those before it are through.

use std::iter::once;
use std::marker::PhantomData;

use smallvec::SmallVec;
use tombolo_memory::{Lines, LnrAddr, Memory, Site, Work};
use tombolo_sharing::{Counter, HEADER_BYTES, Header};

use super::Locked;
use super::guard::{Fit, fit};
use crate::candidate::{BATCH, Candidate};
use crate::extent::Extent;
use crate::index::{Cell, Entry, Found};
use crate::records::Held;
use crate::underway::{Change, Place};
use crate::{Error, Objects, Version, seen, sites};

/// An object whose lock this thread holds, and which will be overwritten. It is released by [`Objects::release`].
#[derive(Clone, Copy)]
struct InPlace<'a> {
    held: Held,
    entry: Entry,
    cell: Cell<'a>,
    lines: Lines,
    /// As it will be, and where its counter will be then.
    header: Header,
    counter: u32,
    place: Place,
}

/// Objects that are locked, and which key and value each will have.
type Batch<'a, 'v> = SmallVec<[(InPlace<'a>, &'v [u8], &'v [u8]); BATCH]>;

impl InPlace<'_> {
    fn change(&self) -> Change {
        Change { record: self.held.record, slot: self.entry.slot, undone: false }
    }

    /// Where the value belongs.
    fn value_start(&self) -> LnrAddr {
        self.lines.start().plus(self.header.value_offset())
    }

    /// All that is written: header, key and value begin in one line.
    fn dirty(&self) -> Lines {
        Lines::covering(self.lines.start(), self.header.total_bytes())
    }
}

impl<M: Memory> Objects<M> {
    /// Replaces the value of the object with `key` in its slot, by `head` and `rest`; `None` if it takes more than that.
    #[inline]
    pub(crate) fn write_in_place<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &[u8; HEAD],
        rest: &[u8],
    ) -> Option<Result<Version, Error>> {
        self.answer_at_once();
        let begun = self.begin_lookup(self.hash(key).ok()?)?;
        // A read-modify-write waits for whatever is under way: it is done before there is more than the bucket.
        let version = self.next_versions(1);
        let locked = self.with_place(|place| {
            let candidate = self.candidate_to_write(&begun)?;
            self.fetch_candidate(&candidate, rest.len());
            self.lock_in_place(&candidate, place, key, version, HEAD + rest.len())
        })?;
        self.begin_to_write(&locked);
        if HEAD > 0 {
            self.memory().write(locked.value_start(), head);
        }
        self.memory().write_all(once((locked.value_start().plus(HEAD as u64), rest)));
        let dirty = self.unless_poisoned(&locked);
        self.clean_and(sites::WRITE_CLEAN, dirty, || Some(self.release(&locked, dirty.is_none())))
    }

    /// Has a note reserved for what is locked, if that is.
    #[inline(always)]
    fn with_place<T>(&self, lock: impl FnOnce(Place) -> Option<T>) -> Option<T> {
        let place = self.underway.reserve()?;
        let locked = lock(place);
        if locked.is_none() {
            self.underway.end(place, false);
        }
        locked
    }

    /// Creates the objects with these keys, or replaces their values, each as [`put`](Self::put) does, in their order; what became of
    /// each. Several together take less time than one after the other. They are not written at one instant.
    pub fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<Version, Error>> {
        let mut outcomes = Vec::with_capacity(pairs.len());
        let mut batch = SmallVec::new();
        for pairs in pairs.chunks(BATCH) {
            self.answer_at_once();
            let hashes: SmallVec<[_; BATCH]> =
                pairs.iter().map(|(key, _)| self.hash(key.as_ref()).ok()).collect();
            let mut candidates = self.candidates(hashes.iter().copied());
            for (candidate, (_, value)) in candidates.iter().zip(pairs) {
                let fetch = |candidate| self.fetch_candidate(candidate, value.as_ref().len());
                candidate.iter().for_each(fetch);
            }
            let versions = self.next_versions(pairs.len() as u64);
            let found = hashes.iter().zip(&mut candidates);
            for (((key, value), (hash, candidate)), number) in pairs.iter().zip(found).zip(0..) {
                let (key, value) = (key.as_ref(), value.as_ref());
                hash.iter().for_each(|&hash| self.renew(candidate, hash));
                let version = Version(versions.0 + number);
                let locked = candidate.as_ref().and_then(|candidate| {
                    self.with_place(|place| {
                        self.lock_in_place(candidate, place, key, version, value.len())
                    })
                });
                match locked {
                    Some(locked) => batch.push((locked, key, value)),
                    // If something is wrong, who writes it by itself says what.
                    None => {
                        self.write_together(&mut batch, &mut outcomes);
                        outcomes.push(self.put(key, value));
                    }
                }
            }
            self.write_together(&mut batch, &mut outcomes);
        }
        outcomes
    }

    /// Writes objects that are locked, and says what became of each. None is left in the batch.
    fn write_together(
        &self,
        batch: &mut Batch<'_, '_>,
        outcomes: &mut Vec<Result<Version, Error>>,
    ) {
        batch.iter().for_each(|(locked, ..)| self.begin_to_write(locked));
        let values = batch.iter().map(|&(ref locked, _, value)| (locked.value_start(), value));
        self.memory().write_all(values);
        let dirty: SmallVec<[_; BATCH]> =
            batch.iter().map(|(locked, ..)| self.unless_poisoned(locked)).collect();
        let first = outcomes.len();
        self.clean_and(sites::BATCH_CLEAN, dirty.iter().copied().flatten(), || {
            let each = batch.iter().zip(&dirty);
            outcomes
                .extend(each.map(|((locked, ..), dirty)| self.release(locked, dirty.is_none())));
        });
        for ((_, key, value), outcome) in batch.drain(..).zip(&mut outcomes[first..]) {
            if outcome.as_ref().is_err_and(Error::is_loss) {
                *outcome = self.put(key, value);
            }
        }
    }

    #[inline(always)]
    fn fetch_candidate(&self, candidate: &Candidate<'_, M>, bytes: usize) {
        let &Candidate { ref found, lines, .. } = candidate;
        if let Some(record) = found.entry.own_record() {
            self.fetch_to_write(found, record, lines, bytes);
        }
    }

    /// Locks an object that was found, if it has `key`, and the value can be written into its slot with nothing else to be done.
    #[inline(always)]
    fn lock_in_place<'a>(
        &'a self,
        candidate: &Candidate<'a, M>,
        place: Place,
        key: &[u8],
        version: Version,
        value_bytes: usize,
    ) -> Option<InPlace<'a>> {
        let memory = self.memory();
        let &Candidate { found: Found { entry, cell }, lines, .. } = candidate;
        let record = entry.own_record()?;
        let bytes = (HEADER_BYTES + key.len()) as u64 + value_bytes as u64;
        let usual = lines.count() <= self.small_lines
            && fit(bytes, lines.bytes()) == Fit::Well
            && !self.underway.is_undone(bytes)
            && !self.home.is_open();
        if !usual || self.records.is_abandoned() {
            return None;
        }
        let counter = self.records.load(record).readable()?;
        if !seen::is_fresh(memory, cell.seen, counter)
            || self.records.wraps(Held { record, counter })
        {
            return None;
        }
        let held = self.records.lock(record, counter)?;
        let header = Header::new(version, key, value_bytes as u32);
        let counter = self.records.after_write(held);
        let locked = InPlace { held, entry, cell, lines, header, counter, place };
        if !self.may_overwrite(candidate, key) {
            // Whoever has taken it over does with it what is to be done.
            let _ = self.records.unlock(held, false);
            return None;
        }
        Some(locked)
    }

    /// Looks again, with the lock held: at the log, at the object, and whether somebody views it.
    #[inline(always)]
    fn may_overwrite(&self, candidate: &Candidate<'_, M>, key: &[u8]) -> bool {
        let &Candidate { shard, end, ref found, lines, .. } = candidate;
        let memory = self.memory();
        memory.works(Work::Operation);
        memory.works(Work::Lock);
        let since = memory.moment();
        if !memory.check(sites::WRITE_ENTRY_AGAIN, shard.is_still(end)) {
            return false;
        }
        let Some(before) = self.header_with(lines, key) else { return false };
        if !memory.check(sites::POISON_READ, !memory.poisoned(lines)) {
            return false;
        }
        memory.relies_on(lines.start(), (HEADER_BYTES + key.len()) as u64, since);
        // While the lock is held nobody begins to view the object.
        let pinned = || shard.state().space.is_pinned(found.entry.slot);
        let undone = self.underway.is_undone(before.total_bytes());
        !undone && memory.check(sites::PIN_WRITE, !pinned())
    }

    /// Notes that an object is written, and stores its header. (The key is there, and the value comes next.)
    ///
    /// What this host will have seen of the object is noted, too: until its lock is released nobody finds the counter at which that
    /// counts; and if another host takes it over, an event starts a new generation first, of which nothing is seen.
    #[inline(always)]
    fn begin_to_write(&self, locked: &InPlace<'_>) {
        let memory = self.memory();
        self.count(Counter::Writes);
        memory.takes(locked.lines);
        let &InPlace { entry, cell, counter, .. } = locked;
        seen::set(memory, cell, entry.generation, cell.seen, counter);
        self.underway.note_write(locked.place, locked.change());
        memory.write(locked.lines.start(), &locked.header.encode());
    }

    /// The lines that are dirty now, unless this host has met a memory error there.
    #[inline(always)]
    fn unless_poisoned(&self, locked: &InPlace<'_>) -> Option<Lines> {
        let whole = !self.memory().poisoned(locked.lines);
        self.memory().check(sites::POISON_WRITE, whole).then(|| locked.dirty())
    }

    /// Cleans lines, and then releases locks.
    #[inline(always)]
    fn clean_and<T>(
        &self,
        site: Site,
        dirty: impl IntoIterator<Item = Lines> + Clone,
        release: impl FnOnce() -> T,
    ) -> T {
        let cleaned = dirty.clone().into_iter().map(Lines::count).sum();
        self.counters.add(Counter::CleanedLines, cleaned);
        self.memory().publish(site, dirty, |_| release())
    }

    /// Releases the lock of an object whose lines are clean; or loses the object, if it is poisoned.
    ///
    /// # Errors
    /// [`LogError::Fenced`](tombolo_log::LogError::Fenced) if it was not this host's any more; [`Error::Poisoned`] if the object is lost now.
    #[inline(always)]
    fn release(&self, locked: &InPlace<'_>, poisoned: bool) -> Result<Version, Error> {
        let version = locked.header.version;
        if poisoned {
            return self.lose_in_place(*locked).map(|()| version);
        }
        let &InPlace { held, lines, header, counter, place, .. } = locked;
        self.memory().gives(lines, header.total_bytes());
        self.underway.through(place, held.record);
        if !self.records.unlock_at(held, counter) {
            return Err(self.is_fenced());
        }
        self.underway.end(place, true);
        Ok(version)
    }

    #[cold]
    fn lose_in_place(&self, locked: InPlace<'_>) -> Result<(), Error> {
        let slot = self.state(locked.entry.hash).space.slot_at(locked.entry.slot);
        let dirty = SmallVec::from_slice(&[locked.dirty()]);
        let InPlace { held, entry, cell, lines, header, place, .. } = locked;
        Locked {
            objects: self,
            held,
            entry,
            cell,
            // While it is locked nobody divides its chunk otherwise.
            slot: slot.ok_or_else(super::changed_under_lock)?,
            extent: Extent::of(lines),
            header,
            fresh: true,
            known: true,
            dirty,
            elsewhere: None,
            place,
            noted: Some(false),
            since: self.memory().moment(),
            gone: false,
            stays: PhantomData,
        }
        .finish()
    }
}
