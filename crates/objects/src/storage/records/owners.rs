//! This host's table of the owners of records: a hint for finding free records and victims.
//!
//! An object has a record from one event to another, and a record one object. But a replica may
//! know from one shard of the log who has a record now, and not yet from another who had it before.
//! So there are sums, which come out right in whatever order shards are applied.

use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::RecordId;
use crate::ids::KeyHash;

/// Records whose owners are in one line.
pub(super) const PER_LINE: u64 = tombolo_memory::LINE_BYTES / size_of::<AtomicU64>() as u64;

/// Per record: objects that have it (8 bits) | sum of their hashes (32) | counter when last
/// sampled, low bits (24).
pub(super) struct Owners(Box<[AtomicU64]>);

/// An object's use of a record, as of when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Owner(u64);

const NOTED_BITS: u32 = 24;
const NOTED: u64 = (1 << NOTED_BITS) - 1;

/// The term of the object with this hash in the word of its record.
fn owned_by(hash: KeyHash) -> u64 {
    1 << 56 | u64::from(hash) << NOTED_BITS
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
        Self((0..records).map(|_| AtomicU64::new(0)).collect())
    }

    /// The owner of `record`, if it has one.
    pub(super) fn of(&self, record: RecordId) -> Option<Owner> {
        let word = self.word(record).load(Ordering::Relaxed);
        (word & !NOTED != 0).then_some(Owner(word))
    }

    /// The object with this hash uses `record`.
    pub(super) fn add(&self, record: RecordId, hash: KeyHash) {
        self.change(record, owned_by(hash));
    }

    /// The object with this hash uses `record` no more.
    pub(super) fn remove(&self, record: RecordId, hash: KeyHash) {
        self.change(record, owned_by(hash).wrapping_neg());
    }

    /// Changes who has a record, of which nothing is noted from then on.
    fn change(&self, record: RecordId, by: u64) {
        let changed = |word: u64| (word & !NOTED).wrapping_add(by);
        self.word(record).update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }

    /// Notes a record's counter, unless its use has changed since it was looked at.
    pub(super) fn note(&self, record: RecordId, owner: Owner, counter: u32) {
        let noted = owner.0 & !NOTED | u64::from(counter) & NOTED;
        let word = self.word(record);
        let _ = word.compare_exchange(owner.0, noted, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Bytes of local memory.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }

    fn word(&self, record: RecordId) -> &AtomicU64 {
        &self.0[record.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record went from one object to another, and on; a replica learns it from two shards of the
    /// log, whichever it applies first.
    #[test]
    fn owners_come_out_right_in_whatever_order_shards_are_applied() {
        // The shards' logs on record 3: at last the object with hash 9 has it.
        let shards: [&[(KeyHash, bool)]; 2] =
            [&[(u32::MAX, true), (u32::MAX, false), (9, true)], &[(0, true), (0, false)]];
        for order in (0u32..1 << 5).filter(|order| order.count_ones() == 2) {
            let owners = Owners::new(4);
            let mut events = shards.map(|shard| shard.iter());
            for step in 0..5 {
                let &(hash, has) = events[(order >> step & 1) as usize].next().unwrap();
                if has {
                    owners.add(RecordId(3), hash);
                } else {
                    owners.remove(RecordId(3), hash);
                }
            }
            assert_eq!(owners.of(RecordId(3)).map(Owner::hash), Some(9), "{order:b}");
            owners.remove(RecordId(3), 9);
            assert!(owners.of(RecordId(3)).is_none(), "{order:b}");
        }
    }
}
