//! Coherence records in SCR: a counter each, whose lowest bit is the lock, and whether it is in use
//! (MEGALON, sections 3.4.1 and 3.5.1).
//!
//! The counter is odd while somebody writes. Taking the lock is one compare-and-swap, releasing it one
//! store. Who holds the lock of a record that nobody owns yet, or owns no more, may free it. A record
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
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_memory::{Local, Memory};
use tombolo_pod::Pod;

pub(crate) use self::layout::Record;
use self::layout::{Layout, WIDE_BYTES};
use self::owners::Owners;
use crate::event::KeyHash;
use crate::sites;

const ALLOCATED: u32 = 1 << 31;

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

/// What a record held when it was looked at: allocated (1 bit) | counter (31), whatever its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u32);

impl Word {
    /// The counter, if the record is in use and nobody writes.
    pub(crate) fn readable(self) -> Option<u32> {
        (self.is_allocated() && !self.is_locked()).then_some(self.counter())
    }

    pub(crate) fn counter(self) -> u32 {
        self.0 & !ALLOCATED
    }

    fn is_allocated(self) -> bool {
        self.0 & ALLOCATED != 0
    }

    fn is_locked(self) -> bool {
        !self.0.is_multiple_of(2)
    }

    fn is_free(self) -> bool {
        !self.is_allocated() && !self.is_locked()
    }
}

/// A record whose lock this thread holds; the counter was `counter` before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) record: Record,
    pub(crate) counter: u32,
}

impl Held {
    fn word(self) -> Word {
        Word(ALLOCATED | self.counter | 1)
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
}

impl<M: Memory> Records<M> {
    pub(crate) fn new(pod: &Pod<M>, host: u8) -> Self {
        let layout = Layout::new(pod);
        let (first_wide, numbers) = (layout.first_wide(), layout.numbers());
        let hosts = pod.geometry().hosts;
        Self {
            owners: Owners::new(numbers),
            narrow: Group::new(0..first_wide, host, hosts),
            wide: Group::new(first_wide..numbers, host, hosts),
            layout,
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

    #[inline]
    pub(crate) fn load(&self, record: Record) -> Word {
        self.layout.load(record)
    }

    /// Takes the lock of a record that is in use and was seen at `counter`, which is even.
    pub(crate) fn lock(&self, record: Record, counter: u32) -> Option<Held> {
        let (free, locked) = (Word(ALLOCATED | counter), Word(ALLOCATED | counter | 1));
        let taken = self.layout.swap(sites::WRITE_LOCK, record, free, locked);
        taken.then_some(Held { record, counter })
    }

    /// Whether releasing this lock after a write makes the counter start again at zero.
    pub(crate) fn wraps(&self, held: Held) -> bool {
        held.counter | 1 == self.layout.counter_mask(held.record)
    }

    /// Releases a lock. The counter moves on if something was written; returns where it is then.
    pub(crate) fn unlock(&self, held: Held, written: bool) -> u32 {
        let next = held.counter.wrapping_add(2) & self.layout.counter_mask(held.record);
        let moved = written && self.layout.memory().keeps(sites::WRITE_COUNTER);
        let counter = if moved { next } else { held.counter };
        self.layout.store(held.record, held.word(), Word(ALLOCATED | counter));
        counter
    }

    /// Frees a record whose lock this thread holds and that no object has.
    pub(crate) fn free(&self, held: Held) {
        self.layout.store(held.record, held.word(), Word(held.counter));
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
            let claimed = Word(ALLOCATED | found.counter() | 1);
            let taken = self.layout.swap(sites::RECORD_CLAIM, record, found, claimed);
            taken.then_some(Held { record, counter: found.counter() })
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
        let mut sample: Vec<(u32, Record, KeyHash)> = group
            .from(start)
            .filter_map(|record| Some((record, self.owners.of(record)?)))
            .map(|(record, owner)| {
                self.owner_touched(record, true);
                let counter = self.load(record).counter();
                let writes = owner.writes_until(counter, self.layout.counter_mask(record));
                self.owners.note(record, owner, counter);
                (writes, record, owner.hash())
            })
            .take(SAMPLE)
            .collect();
        sample.sort_unstable();
        sample.into_iter().map(|(_, record, hash)| (record, hash)).collect()
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

    /// Frees all records: the pod is being opened, nobody uses any.
    pub(crate) fn free_all(&self) {
        self.layout.clear();
    }
}
