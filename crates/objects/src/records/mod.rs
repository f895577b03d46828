//! Coherence records in SCR: a counter each, whose lowest bit is the lock, and whether it is in use
//! (MEGALON, sections 3.4.1 and 3.5.1).
//!
//! The counter is odd while somebody writes, and says who: while a record is locked, the six bits next to the
//! lock are its holder's number. So what a dead host held can be found, and taken over. Taking the lock is one
//! compare-and-swap, and so is releasing it, which fails if the lock was taken over. Who holds the lock of a record that nobody owns yet, or owns no more, may free it. A record
//! may change hands and come to a counter it had before: what a host noted of an earlier one does not
//! count, since whose record it is follows from the log.
//!
//! How records lie in SCR, the [`Layout`] knows. Where their widths are mixed, records are wide while
//! there is room, which costs no events but holds few; narrow when they would have to be taken from
//! other objects. An object that is written so often that its narrow counter comes round gets a wide
//! record instead of the event that this would take.
//!
//! Which records are in use, and by which object, every replica knows from the log. The table of
//! [`Owners`] keeps it as a hint; only the compare-and-swap decides.

mod layout;
mod owners;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_memory::{Local, Memory};
use tombolo_pod::Pod;

pub(crate) use self::layout::Record;
use self::layout::{Contents, Layout, Steps, WIDE_BYTES};
use self::owners::{Owner, Owners};
use crate::event::KeyHash;
use crate::sites;

/// Used records out of which the one with the fewest writes is taken back.
const SAMPLE: usize = 8;

/// New records are narrow, if they can be, once this share of the bytes is in use, in percent.
const WIDE_PERCENT: u64 = 50;

/// A search gives up after so many records where hardly any are free: taking one back from another object
/// costs less than looking on then. It does so always where it looks for room for a wide record, since
/// narrow ones may be all over.
const PATIENCE: usize = 256;

/// Hardly any are free once this share of the bytes is in use, in percent.
const CROWDED_PERCENT: u64 = 90;

/// What a record held when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    allocated: bool,
    /// The counter; of a locked record that somebody else holds, all but its lowest seven bits.
    counter: u32,
    /// Who holds the lock.
    holder: Option<u8>,
}

impl Word {
    const fn free(counter: u32) -> Self {
        Self { allocated: false, counter, holder: None }
    }

    const fn allocated(counter: u32) -> Self {
        Self { allocated: true, counter, holder: None }
    }

    /// The counter, if the record is in use and nobody writes.
    #[inline]
    pub(crate) fn readable(self) -> Option<u32> {
        (self.allocated && self.holder.is_none()).then_some(self.counter)
    }

    /// Who has locked the record, if it is in use.
    #[inline]
    pub(crate) fn holder(self) -> Option<u8> {
        self.holder.filter(|_| self.allocated)
    }

    pub(crate) fn is_free(self) -> bool {
        !self.allocated && self.holder.is_none()
    }

    #[inline(always)]
    fn locked_by(self, host: u8) -> Self {
        Self { allocated: true, holder: Some(host), ..self }
    }
}

/// A record whose lock this thread holds; the counter was `counter` before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) record: Record,
    pub(crate) counter: u32,
}

/// The lock of a record that is in use, for one write, at a counter at which it was seen.
pub(crate) struct Turn<'a, M: Memory> {
    /// The lock, once it is taken.
    pub(crate) held: Held,
    /// Where the counter is after the write.
    pub(crate) after: u32,
    steps: Steps<'a, M>,
    abandoned: &'a AtomicBool,
}

impl<M: Memory> Turn<'_, M> {
    /// Takes the lock, if the counter still is what it was.
    #[inline(always)]
    pub(crate) fn lock(&self) -> bool {
        self.steps.lock()
    }

    /// Releases the lock after the write; whether it was not taken over.
    #[inline(always)]
    pub(crate) fn release(&self) -> bool {
        !self.abandoned.load(Ordering::Relaxed) && self.steps.release()
    }
}

/// Records of one width: their numbers, how many are in use, where the next search begins.
struct Group {
    numbers: Range<u64>,
    used: AtomicU64,
    cursor: AtomicU64,
}

impl Group {
    fn new(numbers: Range<u64>, host: u8, hosts: u64) -> Self {
        // Hosts start apart, so that they do not claim the same records.
        let count = numbers.end - numbers.start;
        let start = count / hosts * u64::from(host);
        Self { numbers, used: AtomicU64::new(0), cursor: AtomicU64::new(start) }
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// All numbers, going round from `start` on.
    fn from(&self, start: u64) -> impl Iterator<Item = Record> {
        let (first, count) = (self.numbers.start, self.numbers.end - self.numbers.start);
        (start..start + count).map(move |number| (first + number % count) as Record)
    }
}

pub(crate) struct Records<M> {
    layout: Layout<M>,
    owners: Owners,
    /// Those of the only width, or the narrow ones.
    narrow: Group,
    wide: Group,
    host: u8,
    abandoned: Abandoned,
}

/// Whether this host was fenced while it committed an event, and so does not know what it has: then what it
/// has locked or taken stays so, and others will find out. Shared by all that takes and releases something.
#[derive(Clone, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set<M: Memory>(&self, memory: &M) {
        if memory.keeps(sites::FENCED_ABANDONS) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<M: Memory> Records<M> {
    pub(crate) fn new(pod: &Pod<M>, host: u8, abandoned: Abandoned) -> Self {
        let layout = Layout::new(pod);
        let (first_wide, numbers) = (layout.first_wide(), layout.numbers());
        let hosts = pod.geometry().hosts;
        Self {
            owners: Owners::new(numbers),
            narrow: Group::new(0..first_wide, host, hosts),
            wide: Group::new(first_wide..numbers, host, hosts),
            layout,
            host,
            abandoned,
        }
    }

    /// How many records there could be at once.
    pub(crate) fn count(&self) -> u64 {
        self.narrow.numbers.end
    }

    pub(crate) fn used(&self) -> u64 {
        self.narrow.used() + self.wide.used()
    }

    /// How many wide records are in use, where widths are mixed.
    pub(crate) fn used_wide(&self) -> u64 {
        self.wide.used()
    }

    /// Bytes of SCR that records in use take, and that there are for records.
    pub(crate) fn scr_bytes(&self) -> (u64, u64) {
        let narrow = self.narrow.used() * self.layout.least_bytes();
        (narrow + self.wide.used() * WIDE_BYTES, self.layout.bytes())
    }

    /// Whether more than so many percent of the space for records is in use.
    pub(crate) fn over(&self, percent: u64) -> bool {
        let (used, bytes) = self.scr_bytes();
        used > bytes * percent / 100
    }

    /// Whether `record` is one, whoever said so.
    pub(crate) fn exists(&self, record: Record) -> bool {
        u64::from(record) < self.layout.numbers()
    }

    /// Bytes of local memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.owners.bytes()
    }

    /// Has a record fetched that will be loaded soon.
    #[inline]
    pub(crate) fn prefetch(&self, record: Record) {
        self.layout.prefetch(record);
    }

    #[inline(always)]
    pub(crate) fn load(&self, record: Record) -> Word {
        self.layout.load(record)
    }

    /// Takes the lock of a record that is in use and was seen at `counter`, which is even.
    #[inline(always)]
    pub(crate) fn lock(&self, record: Record, counter: u32) -> Option<Held> {
        let open = Word::allocated(counter);
        let taken = self.layout.swap(sites::WRITE_LOCK, record, open, open.locked_by(self.host));
        taken.then_some(Held { record, counter })
    }

    /// Prepares to take the lock of a record for a write, if it takes no more than that.
    #[inline(always)]
    pub(crate) fn turn(&self, record: Record, counter: u32) -> Option<Turn<'_, M>> {
        let held = Held { record, counter };
        if self.is_abandoned() || self.wraps(held) {
            return None;
        }
        let (open, after) = (Word::allocated(counter), self.after_write(held));
        let locked = open.locked_by(self.host);
        let contents = Contents { open, locked, written: Word::allocated(after) };
        let steps = self.layout.steps(record, contents);
        Some(Turn { held, after, steps, abandoned: &self.abandoned.0 })
    }

    /// Whether releasing this lock after a write makes the counter start again at zero.
    #[inline(always)]
    pub(crate) fn wraps(&self, held: Held) -> bool {
        held.counter | 1 == self.layout.counter_mask(held.record)
    }

    /// Where the counter of this lock's record moves on to once something was written under it.
    #[inline(always)]
    pub(crate) fn after_write(&self, held: Held) -> u32 {
        let next = held.counter.wrapping_add(2) & self.layout.counter_mask(held.record);
        if self.layout.memory().keeps(sites::WRITE_COUNTER) { next } else { held.counter }
    }

    /// Releases a lock. The counter moves on if something was written; returns where it is then, or
    /// `None` if the lock was taken over: then nothing that was written under it counts.
    pub(crate) fn unlock(&self, held: Held, written: bool) -> Option<u32> {
        let counter = if written { self.after_write(held) } else { held.counter };
        self.unlock_at(held, counter).then_some(counter)
    }

    /// The same, with the counter where it is to be; whether the lock was not taken over.
    #[inline(always)]
    pub(crate) fn unlock_at(&self, held: Held, counter: u32) -> bool {
        self.release(held, Word::allocated(counter))
    }

    /// Whether this host does not know what it may still write or release.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.is_set()
    }

    /// This host does not know any more what it may release.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(self.layout.memory());
    }

    #[inline(always)]
    fn release(&self, held: Held, to: Word) -> bool {
        !self.abandoned.is_set() && self.layout.release(held.record, self.word(held), to)
    }

    /// Takes over the lock of a record that was found like this, locked by a host that was fenced. The
    /// counter is another then: an event has to start a new generation before the lock is released.
    pub(crate) fn take_over(&self, record: Record, found: Word) -> Option<Held> {
        let counter = found.counter & self.layout.counter_mask(record) & !1;
        let ours = Word::allocated(counter).locked_by(self.host);
        let taken = self.layout.swap(sites::WRITE_LOCK, record, found, ours);
        taken.then_some(Held { record, counter })
    }

    /// Gives a lock back to the host from which it was taken over.
    pub(crate) fn hand_back(&self, held: Held, host: u8) {
        self.release(held, Word::allocated(held.counter).locked_by(host));
    }

    /// Whether the locks of a host that may still be at something can be taken over.
    pub(crate) fn may_take_over_early(&self) -> bool {
        self.layout.is_released_at_once()
    }

    /// The records that `host` has locked, by the numbers of what they are.
    pub(crate) fn locked_by(&self, host: u8) -> impl Iterator<Item = Record> {
        let numbers = (0..self.layout.numbers()).map(|number| number as Record);
        numbers.filter(move |&record| {
            let wide = self.layout.wide_over(record);
            self.load(record).holder() == Some(host)
                && wide.is_none_or(|wide| self.load(wide).holder().is_none())
        })
    }

    #[inline(always)]
    fn word(&self, held: Held) -> Word {
        Word::allocated(held.counter).locked_by(self.host)
    }

    /// Frees a record whose lock this thread holds and that no object has; unless its lock was taken over.
    pub(crate) fn free(&self, held: Held) {
        self.release(held, Word::free(held.counter));
    }

    /// A free record, now in use by nobody and locked by this thread.
    pub(crate) fn claim(&self) -> Option<Held> {
        let roomy = !self.over(WIDE_PERCENT);
        roomy.then(|| self.claim_wide()).flatten().or_else(|| self.claim_from(&self.narrow))
    }

    /// The same, where this host has just freed `record`.
    pub(crate) fn claim_freed(&self, record: Record) -> Option<Held> {
        self.narrow.cursor.store(self.layout.first_narrow_in(record), Ordering::Relaxed);
        self.claim_from(&self.narrow)
    }

    /// A free wide record, if there are such.
    pub(crate) fn claim_wide(&self) -> Option<Held> {
        self.claim_from(&self.wide)
    }

    /// A free wide record for an object that has a narrow one.
    pub(crate) fn claim_wider(&self, held: Held) -> Option<Held> {
        (!self.layout.is_wide(held.record)).then(|| self.claim_wide()).flatten()
    }

    fn claim_from(&self, group: &Group) -> Option<Held> {
        let (used, bytes) = self.scr_bytes();
        if used >= bytes {
            return None;
        }
        let hurried = std::ptr::eq(group, &self.wide) || used * 100 > bytes * CROWDED_PERCENT;
        let patience = if hurried { PATIENCE } else { usize::MAX };
        let start = group.cursor.load(Ordering::Relaxed);
        let mut looked = 0;
        let held = group.from(start).take(patience).find_map(|record| {
            looked += 1;
            self.owner_touched(record, false);
            if self.owners.of(record).is_some() {
                return None;
            }
            let found = Some(self.load(record)).filter(|found| found.is_free())?;
            let claimed = found.locked_by(self.host);
            let taken = self.layout.swap(sites::RECORD_CLAIM, record, found, claimed);
            taken.then_some(Held { record, counter: found.counter })
        });
        group.cursor.store(start + looked, Ordering::Relaxed);
        held
    }

    /// The hash of the object that has `record`, if this replica knows of one.
    pub(crate) fn owner(&self, record: Record) -> Option<KeyHash> {
        self.owners.of(record).map(|owner| owner.hash())
    }

    /// Some used records, those whose bytes have served the fewest writes since they were last sampled
    /// first.
    pub(crate) fn victims(&self) -> Vec<(Record, KeyHash)> {
        let memory = self.layout.memory();
        let (used, _) = self.scr_bytes();
        if used == 0 {
            return Vec::new();
        }
        let wide = self.wide.used() * WIDE_BYTES;
        let group = if memory.random() % used < wide { &self.wide } else { &self.narrow };
        let start = memory.random() % (group.numbers.end - group.numbers.start);
        let mut sample: Vec<(u32, Record, KeyHash)> = self
            .used_in(group, start)
            .map(|(record, owner)| {
                self.owner_touched(record, true);
                let counter = self.load(record).counter;
                let writes = owner.writes_until(counter, self.layout.counter_mask(record));
                self.owners.note(record, owner, counter);
                (writes, record, owner.hash())
            })
            .take(SAMPLE)
            .collect();
        sample.sort_unstable();
        sample.into_iter().map(|(_, record, hash)| (record, hash)).collect()
    }

    /// Those records of a group that are in use, going round from `start` on.
    fn used_in(&self, group: &Group, start: u64) -> impl Iterator<Item = (Record, Owner)> {
        let Range { start: first, end } = group.numbers;
        let round = [first + start..end, first..first + start];
        round.into_iter().flat_map(|numbers| self.owners.among(numbers))
    }

    /// The log says that `record` belongs to an object with this hash.
    pub(crate) fn assigned(&self, record: Record, hash: KeyHash) {
        self.owner_touched(record, true);
        if self.owners.add(record, hash) {
            self.group(record).used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The log says that `record` does not belong to the object with this hash any more.
    pub(crate) fn unassigned(&self, record: Record, hash: KeyHash) {
        self.owner_touched(record, true);
        if self.owners.remove(record, hash) {
            self.group(record).used.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tells what of this host's memory it takes to know who owns a record.
    fn owner_touched(&self, record: Record, write: bool) {
        self.layout.memory().touches(Local::Owners, write, || {
            let line = u64::from(record) / owners::PER_LINE;
            line..line + 1
        });
    }

    fn group(&self, record: Record) -> &Group {
        if self.layout.is_wide(record) { &self.wide } else { &self.narrow }
    }

    /// Records that are allocated and no object's, as far as this replica knows.
    pub(crate) fn unowned(&self) -> u64 {
        let numbers = (0..self.layout.numbers()).map(|number| number as Record);
        let unowned = numbers.filter(|&record| {
            let wide = self.layout.wide_over(record).map(|wide| self.load(wide).allocated);
            self.load(record).allocated && wide != Some(true) && self.owners.of(record).is_none()
        });
        unowned.count() as u64
    }

    /// Frees all records: the pod is being opened, nobody uses any.
    pub(crate) fn free_all(&self) {
        self.layout.clear();
    }
}
