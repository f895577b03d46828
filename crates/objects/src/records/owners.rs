//! What this host knows of each record: a hint for finding free records and victims.
//!
//! An object has a record from one event to another, and a record one object. But a replica may know
//! from one shard of the log who has a record now, and not yet from another who had it before. So
//! there are sums, which come out right in whatever order shards are applied.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::Record;
use crate::event::KeyHash;

/// Records whose owners are in one line.
pub(super) const PER_LINE: u64 = tombolo_memory::LINE_BYTES / size_of::<AtomicU64>() as u64;

/// Per record: objects that have it (8 bits) | sum of their hashes (32) | counter when last sampled, low
/// bits (24). There may be many more records than are ever used, so blocks of them come to be when
/// first written.
pub(super) struct Owners {
    blocks: Box<[OnceLock<Block>]>,
}

/// The words of some records.
struct Block {
    /// How many of them are in use.
    used: AtomicU64,
    words: Box<[AtomicU64]>,
}

/// An object's use of a record, as of when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Owner(u64);

/// Records of a block.
const BLOCK: u64 = 4096;

const NOTED_BITS: u32 = 24;
const NOTED: u64 = (1 << NOTED_BITS) - 1;

/// What the object with this hash adds to the word of its record.
fn owned_by(hash: KeyHash) -> u64 {
    1 << 56 | u64::from(hash) << NOTED_BITS
}

fn in_use(word: u64) -> bool {
    word & !NOTED != 0
}

impl Owner {
    pub(super) fn hash(self) -> KeyHash {
        (self.0 >> NOTED_BITS) as u32
    }

    /// By how much the counter has grown since it was noted.
    pub(super) fn writes_until(self, counter: u32, counter_mask: u32) -> u32 {
        counter.wrapping_sub((self.0 & NOTED) as u32) & counter_mask & NOTED as u32
    }
}

impl Owners {
    pub(super) fn new(records: u64) -> Self {
        Self { blocks: (0..records.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect() }
    }

    /// Who uses `record`, if anybody does.
    pub(super) fn of(&self, record: Record) -> Option<Owner> {
        let (block, place) = place(record);
        let word = self.blocks[block].get()?.words[place].load(Ordering::Relaxed);
        in_use(word).then_some(Owner(word))
    }

    /// Those of `records` that are in use, and by whom. Blocks without any are passed over.
    pub(super) fn among(&self, records: Range<u64>) -> impl Iterator<Item = (Record, Owner)> {
        let blocks = records.start / BLOCK..records.end.div_ceil(BLOCK);
        let used = |&number: &u64| {
            let block = self.blocks[number as usize].get();
            block.is_some_and(|block| block.used.load(Ordering::Relaxed) > 0)
        };
        let of_block = move |number: u64| {
            let first = number * BLOCK;
            first.max(records.start)..(first + BLOCK).min(records.end)
        };
        let records = blocks.filter(used).flat_map(of_block).map(|number| number as Record);
        records.filter_map(|record| Some((record, self.of(record)?)))
    }

    /// The object with this hash uses `record`; whether nobody did.
    pub(super) fn add(&self, record: Record, hash: KeyHash) -> bool {
        !in_use(self.change(record, owned_by(hash)))
    }

    /// The object with this hash uses `record` no more; whether nobody does now.
    pub(super) fn remove(&self, record: Record, hash: KeyHash) -> bool {
        let before = self.change(record, owned_by(hash).wrapping_neg());
        before & !NOTED == owned_by(hash)
    }

    /// Changes who has a record, of which nothing is noted from then on; what was there before.
    fn change(&self, record: Record, by: u64) -> u64 {
        let (block, place) = self.block(record);
        let changed = |word: u64| (word & !NOTED).wrapping_add(by);
        let before = block.words[place].update(Ordering::Relaxed, Ordering::Relaxed, changed);
        match (in_use(before), in_use(changed(before))) {
            (false, true) => drop(block.used.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(block.used.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        before
    }

    /// Notes a record's counter, unless its use has changed since it was looked at.
    pub(super) fn note(&self, record: Record, owner: Owner, counter: u32) {
        let noted = owner.0 & !NOTED | u64::from(counter) & NOTED;
        let (block, place) = self.block(record);
        let word = &block.words[place];
        let _ = word.compare_exchange(owner.0, noted, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Bytes of local memory.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = self.blocks.iter().filter(|block| block.get().is_some()).count() as u64;
        size_of_val(&*self.blocks) as u64 + blocks * BLOCK * size_of::<AtomicU64>() as u64
    }

    /// The block of a record, and its place there.
    fn block(&self, record: Record) -> (&Block, usize) {
        let new = || Block {
            used: AtomicU64::new(0),
            words: (0..BLOCK).map(|_| AtomicU64::new(0)).collect(),
        };
        let (block, place) = place(record);
        (self.blocks[block].get_or_init(new), place)
    }
}

/// The number of a record's block, and its place there.
fn place(record: Record) -> (usize, usize) {
    let record = u64::from(record);
    ((record / BLOCK) as usize, (record % BLOCK) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_in_use_are_found() {
        let records = 3 * BLOCK + 5;
        let owners = Owners::new(records);
        let used = [0, 1, BLOCK - 1, 2 * BLOCK + 7, records - 1].map(|number| number as Record);
        used.iter().for_each(|&record| assert!(owners.add(record, record)));
        owners.add(BLOCK as Record, 5);
        owners.remove(BLOCK as Record, 5);
        let found = |range| owners.among(range).map(|(record, _)| record).collect::<Vec<_>>();
        assert_eq!(found(0..records), used);
        assert_eq!(found(1..records - 1), used[1..4]);
        assert_eq!(found(2..BLOCK - 1), []);
        assert_eq!(found(BLOCK..BLOCK), []);
        used.iter().for_each(|&record| assert!(owners.remove(record, record)));
        let blocks = owners.blocks.iter().filter_map(OnceLock::get);
        assert_eq!(blocks.map(|block| block.used.load(Ordering::Relaxed)).sum::<u64>(), 0);
    }

    /// A record went from one object to another, and on; a replica learns it from two shards of the log,
    /// whichever it applies first.
    #[test]
    fn owners_come_out_right_in_whatever_order_shards_are_applied() {
        // What the shards' logs say of record 3, at last that the object with hash 9 has it.
        let shards: [&[(KeyHash, bool)]; 2] =
            [&[(u32::MAX, true), (u32::MAX, false), (9, true)], &[(0, true), (0, false)]];
        for order in (0u32..1 << 5).filter(|order| order.count_ones() == 2) {
            let owners = Owners::new(4);
            let mut events = shards.map(|shard| shard.iter());
            let mut used = 0;
            for step in 0..5 {
                let &(hash, has) = events[(order >> step & 1) as usize].next().unwrap();
                if has {
                    used += i32::from(owners.add(3, hash));
                } else {
                    used -= i32::from(owners.remove(3, hash));
                }
            }
            assert_eq!((used, owners.of(3).map(Owner::hash)), (1, Some(9)), "{order:b}");
            assert!(owners.remove(3, 9) && owners.of(3).is_none(), "{order:b}");
        }
    }
}
