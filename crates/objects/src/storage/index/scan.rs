//! Walking through the index with a cursor, while it changes and grows.
//!
//! The walk goes by the hash's bits in reverse. A group of buckets holds the hashes with some low
//! bits in common, which is an interval of reversed hashes; where there come to be twice as many
//! groups, each has one half of it. So a cursor that stands between two groups stays between two
//! groups, and an object that is there all the time is met.

use std::ops::Range;

use smallvec::SmallVec;
use tombolo_memory::Memory;

use super::growth::Group;
use super::{Entry, Found, Index, Of, PlacedHead};
use crate::ids::KeyHash;

/// One past the last cursor.
const END: u64 = 1 << 32;

/// The results for entries in a group of buckets.
type OfGroup<T> = SmallVec<[T; 64]>;

impl Index {
    /// The hashes in the group of buckets at `cursor`, and the next cursor; a walk starts and ends
    /// with 0.
    pub(crate) fn scan<M: Memory>(&self, memory: &M, cursor: u64) -> (OfGroup<KeyHash>, u64) {
        let cursor = cursor.min(END - 1);
        let wanted = |entry: Entry| Some(entry.hash).filter(|&hash| reversed(hash) >= cursor);
        let (mut hashes, next) = self.group_at(memory, cursor, wanted);
        hashes.sort_unstable();
        hashes.dedup();
        (hashes, if next == END { 0 } else { next })
    }

    /// The results of `tell` for the entries of the group of buckets at `cursor`, and the next
    /// cursor; `None` behind the last one.
    pub(crate) fn sample<M: Memory, T: Copy>(
        &self,
        memory: &M,
        cursor: u32,
        tell: impl Fn(Entry) -> Option<T>,
    ) -> (OfGroup<T>, Option<u32>) {
        let (told, next) = self.group_at(memory, cursor.into(), tell);
        (told, u32::try_from(next).ok())
    }

    /// The results of `tell` for the entries whose hashes end with the same `bits` as this one,
    /// beginning with those that end like it. None that is there all the time is left out.
    pub(crate) fn like<M: Memory, T: Copy>(
        &self,
        memory: &M,
        hash: KeyHash,
        bits: u32,
        tell: impl Fn(Entry) -> Option<T> + Copy,
    ) -> impl Iterator<Item = T> {
        let (middle, all) = (reversed(hash), END >> bits);
        let start = middle / all * all;
        let ranges = [middle..start + all, start..middle];
        ranges.into_iter().flat_map(move |range| self.between(memory, range, tell))
    }

    /// The same of the entries with reversed hashes in this range.
    fn between<M: Memory, T: Copy>(
        &self,
        memory: &M,
        range: Range<u64>,
        tell: impl Fn(Entry) -> Option<T> + Copy,
    ) -> impl Iterator<Item = T> {
        let mut rest = range;
        let group = move || {
            let here = rest.clone();
            let tell = |entry: Entry| tell(entry).filter(|_| here.contains(&reversed(entry.hash)));
            let (told, next) =
                (!here.is_empty()).then(|| self.group_at(memory, here.start, tell))?;
            rest.start = next;
            Some(told)
        };
        std::iter::from_fn(group).flatten()
    }

    /// The results of `tell` for the entries in the group of buckets at `cursor`, and the next
    /// cursor, or [`END`].
    fn group_at<M: Memory, T: Copy>(
        &self,
        memory: &M,
        cursor: u64,
        tell: impl Fn(Entry) -> Option<T>,
    ) -> (OfGroup<T>, u64) {
        let low_bits = (cursor as u32).reverse_bits().into();
        loop {
            memory.step();
            if let Some((group, told)) = self.try_group(low_bits, &tell) {
                return (told, interval_end(group));
            }
            memory.pause();
        }
    }

    /// The same of the group with these bits, if neither a chain nor the group changes meanwhile.
    fn try_group<T: Copy>(
        &self,
        low_bits: u64,
        tell: &impl Fn(Entry) -> Option<T>,
    ) -> Option<(Group, OfGroup<T>)> {
        let group = Group::of(low_bits, self.size());
        group.buckets().filter_map(|number| self.main.get(number)).for_each(PlacedHead::prefetch);
        let mut told = OfGroup::new();
        for number in group.buckets() {
            let head = self.main.get(number)?;
            let mut look = |found: Found<'_>| told.extend(tell(found.entry));
            let header = self.show_chain(head, number as KeyHash, Of::Chain, &mut look)?;
            if !head.bucket.is_still(header) {
                return None;
            }
        }
        (Group::of(low_bits, self.size()) == group).then_some((group, told))
    }
}

fn reversed(hash: KeyHash) -> u64 {
    hash.reverse_bits().into()
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

    use super::super::{IndexLimits, IndexWriter, Sharing};
    use super::*;
    use crate::ids::LostTo;
    use crate::storage::records::{RecordId, Sets};

    fn entry(hash: u32, slot: u64) -> Entry {
        let sharing = match slot.count_ones() % 4 {
            0 => Sharing::record(RecordId((slot >> 30) as u32)),
            1 => Sharing::in_partition(slot as u8),
            2 => Sharing::lost(LostTo::of_code(slot as u8)),
            _ => Sharing::READ,
        };
        Entry::read_shared(hash, 7, slot).shared(sharing)
    }

    fn index(load_permille: u64) -> Index {
        let limits = IndexLimits { segment_buckets: 1024, segments: 64, load_permille };
        Index::new(limits, &Sets::new(48))
    }

    #[test]
    fn a_walk_meets_what_stays_while_the_table_grows() {
        let memory = Simulation::new(Config::default(), &Trial::new(1)).memory(0);
        let (index, mut writer) = (index(250), IndexWriter::default());
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

    #[test]
    fn a_walk_meets_all_whose_hashes_end_alike_once() {
        let memory = Simulation::new(Config::default(), &Trial::new(1)).memory(0);
        let (index, mut writer) = (index(250), IndexWriter::default());
        let hash = |n: u64| (n as u32).wrapping_mul(0x9e37_79b9);
        (1..=5_000).for_each(|n| index.insert(&mut writer, entry(hash(n), n)));
        for bits in [0, 3, 9, 12, 32] {
            let ends_alike = |other| u64::from(other ^ hash(77)).is_multiple_of(1 << bits);
            let met: Vec<u32> =
                index.like(&memory, hash(77), bits, |entry| Some(entry.hash)).collect();
            let expected: BTreeSet<u32> =
                (1..=5_000).map(hash).filter(|&h| ends_alike(h)).collect();
            assert_eq!(met.len(), expected.len());
            assert_eq!((met[0], met.into_iter().collect()), (hash(77), expected));
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_list_of_entries(changes in prop::collection::vec((0..3u8, 0..64u32, 1..40u64), 1..400)) {
            let memory = Simulation::new(Config::default(), &Trial::new(1)).memory(0);
            let (index, mut writer) = (index(5), IndexWriter::default());
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
