//! Coherence records in SCR.
//!
//! ```text
//! record   allocated (1 bit) | counter (as many bits as the pod has chosen, up to 31)
//! ```
//!
//! The counter's lowest bit is the lock: odd while somebody writes. Taking the lock is one
//! compare-and-swap, releasing it one store. The counter is never reset, not even when the record
//! changes hands; who holds the lock of a record that nobody owns yet, or owns no more, may free it.
//!
//! Which records are in use, and by which object, every replica knows from the log. The table here
//! keeps it as a hint for finding free records and victims; only the compare-and-swap decides.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_memory::{Memory, ScrAddr};
use tombolo_pod::Pod;

use crate::event::KeyHash;
use crate::sites;

const ALLOCATED: u32 = 1 << 31;

/// Used records out of which the one with the fewest writes is taken back.
const SAMPLE: usize = 8;

/// What a record held when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u32);

impl Word {
    /// The counter, if the record is in use and nobody writes.
    pub(crate) fn readable(self) -> Option<u32> {
        let allocated = self.0 & ALLOCATED != 0;
        (allocated && self.0.is_multiple_of(2)).then_some(self.counter())
    }

    pub(crate) fn counter(self) -> u32 {
        self.0 & !ALLOCATED
    }
}

/// A record whose lock this thread holds; the counter was `counter` before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) record: u32,
    pub(crate) counter: u32,
}

pub(crate) struct Records<M> {
    memory: M,
    base: ScrAddr<u32>,
    counter_mask: u32,
    owners: Owners,
    used: AtomicU64,
    cursor: AtomicU64,
}

/// What this host knows of each record: in use (1 bit) | hash of its object (32) | counter when last
/// sampled (31). There may be many more records than are ever used, so blocks of them come to be
/// when first written.
struct Owners {
    count: u64,
    blocks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

const BLOCK: usize = 4096;

impl Owners {
    fn new(count: u64) -> Self {
        let blocks = (count as usize).div_ceil(BLOCK);
        Self { count, blocks: (0..blocks).map(|_| OnceLock::new()).collect() }
    }

    fn load(&self, record: u32) -> u64 {
        let block = self.blocks[record as usize / BLOCK].get();
        block.map_or(0, |block| block[record as usize % BLOCK].load(Ordering::Relaxed))
    }

    fn cell(&self, record: u32) -> &AtomicU64 {
        let new = || (0..BLOCK).map(|_| AtomicU64::new(0)).collect();
        &self.blocks[record as usize / BLOCK].get_or_init(new)[record as usize % BLOCK]
    }

    fn bytes(&self) -> u64 {
        let blocks = self.blocks.iter().filter(|block| block.get().is_some()).count();
        (size_of_val(&*self.blocks) + blocks * BLOCK * size_of::<AtomicU64>()) as u64
    }
}

const IN_USE: u64 = 1 << 63;
const NOTED: u64 = (1 << 31) - 1;

impl<M: Memory> Records<M> {
    pub(crate) fn new(pod: &Pod<M>, host: u8) -> Self {
        let count = pod.geometry().records;
        Self {
            memory: pod.memory().clone(),
            base: pod.areas().records,
            counter_mask: ((1u64 << pod.geometry().counter_bits) - 1) as u32,
            owners: Owners::new(count),
            used: AtomicU64::new(0),
            // Hosts start apart, so that they do not claim the same records.
            cursor: AtomicU64::new(count / u64::from(tombolo_pod::MAX_HOSTS) * u64::from(host)),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.owners.count
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether `record` is one, whoever said so.
    pub(crate) fn exists(&self, record: u32) -> bool {
        u64::from(record) < self.count()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.owners.bytes()
    }

    #[inline]
    pub(crate) fn load(&self, record: u32) -> Word {
        Word(self.memory.load(self.at(record)))
    }

    /// Takes the lock of a record that is in use and was seen at `counter`, which is even.
    pub(crate) fn lock(&self, record: u32, counter: u32) -> Option<Held> {
        let (free, locked) = (ALLOCATED | counter, ALLOCATED | counter | 1);
        let taken = self.memory.compare_exchange(sites::WRITE_LOCK, self.at(record), free, locked);
        taken.ok().map(|_| Held { record, counter })
    }

    /// Whether releasing this lock after a write makes the counter start again at zero.
    pub(crate) fn wraps(&self, held: Held) -> bool {
        held.counter | 1 == self.counter_mask
    }

    /// Releases a lock. The counter moves on if something was written; returns where it is then.
    pub(crate) fn unlock(&self, held: Held, written: bool) -> u32 {
        let next = held.counter.wrapping_add(2) & self.counter_mask;
        let moved = written && self.memory.keeps(sites::WRITE_COUNTER);
        let counter = if moved { next } else { held.counter };
        self.memory.store(self.at(held.record), ALLOCATED | counter);
        counter
    }

    /// Frees a record whose lock this thread holds and that no object has.
    pub(crate) fn free(&self, held: Held) {
        self.memory.store(self.at(held.record), held.counter);
    }

    /// A free record, now in use by nobody and locked by this thread.
    pub(crate) fn claim(&self) -> Option<Held> {
        let count = self.count();
        if self.used() >= count {
            return None;
        }
        let start = self.cursor.load(Ordering::Relaxed);
        let records = (start..start + count).map(|record| (record % count) as u32);
        for record in records {
            if self.owners.load(record) & IN_USE != 0 {
                continue;
            }
            let Word(found) = self.load(record);
            if found & ALLOCATED == 0 && self.take_free(record, found) {
                self.cursor.store(u64::from(record) + 1, Ordering::Relaxed);
                return Some(Held { record, counter: found });
            }
        }
        None
    }

    /// Takes and locks a record that was `found` free; whether nobody was faster.
    fn take_free(&self, record: u32, found: u32) -> bool {
        let (at, claimed) = (self.at(record), ALLOCATED | found | 1);
        self.memory.compare_exchange(sites::RECORD_CLAIM, at, found, claimed).is_ok()
    }

    /// The hash of the object that has `record`, if this replica knows of one.
    pub(crate) fn owner(&self, record: u32) -> Option<KeyHash> {
        let owner = self.owners.load(record);
        (owner & IN_USE != 0).then_some((owner >> 31) as u32)
    }

    /// Some used records, those with the fewest writes since they were last sampled first.
    pub(crate) fn victims(&self) -> Vec<(u32, KeyHash)> {
        let count = self.count();
        let start = self.memory.random() % count;
        let mut sample: Vec<(u32, u32, KeyHash)> = (start..start + count)
            .map(|record| (record % count) as u32)
            .filter_map(|record| {
                let owner = self.owners.load(record);
                (owner & IN_USE != 0).then(|| self.sample(record, owner))
            })
            .take(SAMPLE)
            .collect();
        sample.sort_unstable();
        sample.into_iter().map(|(_, record, hash)| (record, hash)).collect()
    }

    fn sample(&self, record: u32, owner: u64) -> (u32, u32, KeyHash) {
        let counter = self.load(record).counter();
        let writes = counter.wrapping_sub((owner & NOTED) as u32) & self.counter_mask;
        let noted = owner & !NOTED | u64::from(counter);
        let cell = self.owners.cell(record);
        let _ = cell.compare_exchange(owner, noted, Ordering::Relaxed, Ordering::Relaxed);
        (writes, record, (owner >> 31) as u32)
    }

    /// The log says that `record` belongs to an object with this hash.
    pub(crate) fn assigned(&self, record: u32, hash: KeyHash) {
        let before =
            self.owners.cell(record).swap(IN_USE | u64::from(hash) << 31, Ordering::Relaxed);
        if before & IN_USE == 0 {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The log says that `record` belongs to no object.
    pub(crate) fn unassigned(&self, record: u32) {
        if self.owners.cell(record).swap(0, Ordering::Relaxed) & IN_USE != 0 {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Frees all records: the pod is being opened, nobody uses any.
    pub(crate) fn free_all(&self) {
        for record in 0..self.count() as u32 {
            let counter = self.load(record).counter();
            self.memory.store(self.at(record), counter & !1);
        }
    }

    fn at(&self, record: u32) -> ScrAddr<u32> {
        self.base.element(u64::from(record))
    }
}
