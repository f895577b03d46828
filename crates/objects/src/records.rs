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

/// What this host knows of each record: objects that have it (8 bits) | sum of their hashes (32) |
/// counter when last sampled, low bits (24). There may be many more records than are ever used, so
/// blocks of them come to be when first written.
///
/// An object has a record from one event to another, and a record one object. But a replica may know
/// from one shard of the log who has a record now, and not yet from another who had it before. So
/// there are sums, which come out right in whatever order shards are applied.
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

const NOTED_BITS: u32 = 24;
const NOTED: u64 = (1 << NOTED_BITS) - 1;

/// What the object with this hash adds to the word of its record.
fn owned_by(hash: KeyHash) -> u64 {
    1 << 56 | u64::from(hash) << NOTED_BITS
}

fn in_use(owner: u64) -> bool {
    owner & !NOTED != 0
}

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
            if in_use(self.owners.load(record)) {
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

    /// Some used records, those with the fewest writes since they were last sampled first.
    pub(crate) fn victims(&self) -> Vec<(u32, KeyHash)> {
        let count = self.count();
        let start = self.memory.random() % count;
        let mut sample: Vec<(u32, u32, KeyHash)> = (start..start + count)
            .map(|record| (record % count) as u32)
            .filter_map(|record| {
                let owner = self.owners.load(record);
                in_use(owner).then(|| self.sample(record, owner))
            })
            .take(SAMPLE)
            .collect();
        sample.sort_unstable();
        sample.into_iter().map(|(_, record, hash)| (record, hash)).collect()
    }

    fn sample(&self, record: u32, owner: u64) -> (u32, u32, KeyHash) {
        let counter = self.load(record).counter();
        let writes =
            counter.wrapping_sub((owner & NOTED) as u32) & self.counter_mask & NOTED as u32;
        let noted = owner & !NOTED | u64::from(counter) & NOTED;
        let cell = self.owners.cell(record);
        let _ = cell.compare_exchange(owner, noted, Ordering::Relaxed, Ordering::Relaxed);
        (writes, record, (owner >> NOTED_BITS) as u32)
    }

    /// The log says that `record` belongs to an object with this hash.
    pub(crate) fn assigned(&self, record: u32, hash: KeyHash) {
        if !in_use(self.add_owner(record, owned_by(hash))) {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The log says that `record` belongs to the object with this hash no more.
    pub(crate) fn unassigned(&self, record: u32, hash: KeyHash) {
        let before = self.add_owner(record, owned_by(hash).wrapping_neg());
        if before & !NOTED == owned_by(hash) {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Changes who has a record, of which nothing is noted from then on; what was there before.
    fn add_owner(&self, record: u32, change: u64) -> u64 {
        let add = |owner: u64| (owner & !NOTED).wrapping_add(change);
        self.owners.cell(record).update(Ordering::Relaxed, Ordering::Relaxed, add)
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

#[cfg(test)]
mod tests {
    use tombolo_pod::Geometry;
    use tombolo_simulator::{Config, Simulation, Trial};

    use super::*;

    /// A record went from one object to another, and on; a replica learns it from two shards of the log,
    /// whichever it applies first.
    #[test]
    fn owners_come_out_right_in_whatever_order_shards_are_applied() {
        let config = Config { scr_bytes: 8 << 10, lnr_bytes: 1 << 20, ..Config::default() };
        let geometry = Geometry::plan(8 << 10, 1 << 20, Default::default()).unwrap();
        let memory = Simulation::new(config, &Trial::new(1)).memory(0);
        let pod = Pod::format(memory, geometry).unwrap();
        // What two shards' logs say of record 3, at last that the object with hash 9 has it.
        let shards: [&[(KeyHash, bool)]; 2] =
            [&[(u32::MAX, true), (u32::MAX, false), (9, true)], &[(0, true), (0, false)]];
        for order in 0u32..1 << 5 {
            if order.count_ones() != 2 {
                continue;
            }
            let records = Records::new(&pod, 0);
            let mut events = shards.map(|shard| shard.iter());
            for step in 0..5 {
                let (hash, has) = events[(order >> step & 1) as usize].next().unwrap();
                if *has {
                    records.assigned(3, *hash);
                } else {
                    records.unassigned(3, *hash);
                }
            }
            assert_eq!((records.used(), records.victims()), (1, vec![(3, 9)]), "{order:b}");
            records.unassigned(3, 9);
            assert_eq!((records.used(), records.victims()), (0, Vec::new()), "{order:b}");
        }
    }
}
