//! Walking through the index with a cursor, while it changes and grows.
//!
//! The walk goes by the hash's bits in reverse. A group of buckets holds the hashes with some low bits in
//! common, which is an interval of reversed hashes; where there come to be twice as many groups, each has
//! one half of it. So a cursor that stands between two groups stays between two groups, and an object that
//! is there all the time is met.

use smallvec::SmallVec;
use tombolo_memory::Memory;

use super::growth::Group;
use super::{Found, Index, Of};
use crate::event::KeyHash;

/// One past the last cursor.
const END: u64 = 1 << 32;

/// Hashes of a group of buckets.
pub(crate) type Hashes = SmallVec<[KeyHash; 64]>;

impl Index {
    /// The hashes in the group of buckets at `cursor`, and the next cursor; a walk starts and ends with 0.
    pub(crate) fn scan<M: Memory>(&self, memory: &M, cursor: u64) -> (Hashes, u64) {
        let cursor = cursor.min(END - 1);
        let low_bits = (cursor as u32).reverse_bits().into();
        loop {
            if let Some((group, mut hashes)) = self.hashes_of_group(low_bits) {
                let next = interval_end(group);
                hashes.retain(|hash| u64::from(hash.reverse_bits()) >= cursor);
                hashes.sort_unstable();
                hashes.dedup();
                return (hashes, if next == END { 0 } else { next });
            }
            memory.pause();
        }
    }

    /// A group of buckets and the hashes in it, if neither a chain nor the group changes meanwhile.
    fn hashes_of_group(&self, low_bits: u64) -> Option<(Group, Hashes)> {
        let group = Group::of(low_bits, self.size());
        let mut hashes = Hashes::new();
        for number in group.buckets() {
            let head = self.main.get(number)?;
            let mut look = |found: Found<'_>| hashes.push(found.entry.hash);
            let header = self.show_chain(head, number as KeyHash, Of::Chain, &mut look)?;
            if !head.bucket.is_still(header) {
                return None;
            }
        }
        (Group::of(low_bits, self.size()) == group).then_some((group, hashes))
    }
}

/// Where the reversed hashes of a group end.
fn interval_end(group: Group) -> u64 {
    let (number, bits) = group.number();
    u64::from((number as u32).reverse_bits()) + (END >> bits)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tombolo_simulator::{Config, Simulation, Trial};

    use super::super::{Entry, IndexLimits, Sharing, Writer};
    use super::*;

    fn entry(hash: u32, slot: u64) -> Entry {
        let sharing = match slot.count_ones() % 4 {
            0 => Sharing::record((slot >> 30) as u32),
            1 => Sharing::home(slot as u8),
            2 => Sharing::lost(slot as u8),
            _ => Sharing::READ,
        };
        Entry::read_shared(hash, 7, slot).shared(sharing)
    }

    fn index(load_permille: u64) -> Index {
        Index::new(IndexLimits { segment_buckets: 1024, segments: 64, load_permille })
    }

    #[test]
    fn a_walk_meets_what_stays_while_the_table_grows() {
        let memory = Simulation::new(Config::default(), &Trial::new(1)).memory(0);
        let (index, mut writer) = (index(250), Writer::default());
        let hash = |n: u64| (n as u32).wrapping_mul(0x9e37_79b9);
        (1..=500).for_each(|n| index.insert(&mut writer, entry(hash(n), n)));
        let mut met = BTreeSet::new();
        let mut cursor = 0;
        let mut added = 500;
        loop {
            let (hashes, next) = index.scan(&memory, cursor);
            met.extend(hashes);
            for _ in 0..2 {
                added += 1;
                index.insert(&mut writer, entry(hash(added), added));
            }
            if next == 0 {
                break;
            }
            assert!(next > cursor);
            cursor = next;
        }
        assert!((1..=500).all(|n| met.contains(&hash(n))));
    }

    proptest! {
        #[test]
        fn behaves_like_a_list_of_entries(changes in prop::collection::vec((0..3u8, 0..64u32, 1..40u64), 1..400)) {
            let memory = Simulation::new(Config::default(), &Trial::new(1)).memory(0);
            let (index, mut writer) = (index(5), Writer::default());
            let mut model: Vec<Entry> = Vec::new();
            for (kind, hash, slot) in changes {
                // A hash with few distinct values: chains and equal hashes abound.
                let (hash, slot) = (hash.wrapping_mul(0x0400_0001), slot << 30);
                let known = model.iter().position(|e| e.hash == hash && e.slot == slot);
                match (kind, known) {
                    (0, None) => {
                        model.push(entry(hash, slot));
                        index.insert(&mut writer, entry(hash, slot));
                    }
                    (1, Some(at)) => {
                        let old = model.swap_remove(at);
                        prop_assert_eq!(index.remove(hash, slot, |_| true), Some(old));
                    }
                    (2, Some(at)) => {
                        let old = model[at];
                        model[at].generation += 1;
                        prop_assert_eq!(index.update(&memory, hash, slot, |e| Some(Entry { generation: e.generation + 1, ..e })), Some(old));
                    }
                    _ => {}
                }
                let mut found: Vec<Entry> = index.find(&memory, hash).iter().map(|f| f.entry).collect();
                let mut expected: Vec<Entry> = model.iter().copied().filter(|e| e.hash == hash).collect();
                found.sort_by_key(|e| e.slot);
                expected.sort_by_key(|e| e.slot);
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(index.len(), model.len() as u64);
            prop_assert_eq!(index.entries().count(), model.len());
        }
    }
}
