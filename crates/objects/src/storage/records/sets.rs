//! Which records an object may have: so few that an entry of the index needs nine bits to say which
//! one it has, and has room for what its host has seen of the object. All else of a record's number
//! follows from the hash of the object's key.
//!
//! Records form sets of sixteen narrow ones, which lie in a line of SCR or less, or as many wide
//! ones as fit there. Sets form *levels*, each of half of the sets that are left, or a little less:
//! a power of two. The lowest bits of a hash say which set of each level its object may have a
//! record of. So those who may have a set's records are an interval of reversed hashes, as the
//! entries in a group of the index's buckets are.
//!
//! Small levels are filled first, so records in use lie in few lines while there are few. A host
//! that finds a set full tries the one of the next level; some nine in ten of all records are in
//! use before an object finds all of its sets full.

use std::ops::Range;

use super::layout::RecordId;
use crate::ids::KeyHash;

/// Levels, at most.
const LEVELS: usize = 15;

/// Narrow records of a set.
const NARROW: u32 = 16;

/// Wide records that lie where the narrow ones of a set do.
const WIDE: u32 = 4;

/// Bits of a place within a set.
const PLACE_BITS: u32 = 5;

/// No place: its level is one more than there are.
pub(crate) const NOWHERE: u32 = (LEVELS as u32) << PLACE_BITS;

/// Some levels are as good as full if so many of a hundred of their records are in use: then a
/// larger one is tried first.
const FULL_PERCENT: u64 = 75;

/// Some of the sets: as many as a power of two.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    first: u32,
    /// One less than there are.
    mask: u32,
}

impl Level {
    #[inline(always)]
    fn set(self, hash: KeyHash) -> u32 {
        self.first + (hash & self.mask)
    }
}

/// Which of the records that an object may have it has: level (4 bits) | place in the set (5), less
/// than [`NOWHERE`].
pub(crate) type SetPlace = u32;

/// The records of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set(u32);

/// The sets of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// The largest first.
    levels: [Level; LEVELS + 1],
    /// How many levels there are.
    count: usize,
    /// Records that are not wide.
    records: u32,
}

impl Sets {
    /// Of so many records that are not wide.
    pub(crate) fn new(records: u64) -> Self {
        let mut levels = [Level::default(); LEVELS + 1];
        let mut rest = records.div_ceil(NARROW.into()) as u32;
        let (mut count, mut first) = (0, 0);
        while rest > 0 && count < LEVELS {
            let most = if count + 1 < LEVELS { (rest / 2).max(1) } else { rest };
            let mask = (1 << most.ilog2()) - 1;
            levels[count] = Level { first, mask };
            (count, first, rest) = (count + 1, first + mask + 1, rest - mask - 1);
        }
        Self { levels, count, records: records as u32 }
    }

    /// How many records that are not wide a set has, at most.
    pub(super) fn narrow_of_set(&self) -> u64 {
        self.records.min(NARROW).into()
    }

    fn levels(&self) -> &[Level] {
        &self.levels[..self.count]
    }

    /// The record of the object with this hash that is at `place`.
    #[inline(always)]
    pub(crate) fn record(&self, hash: KeyHash, place: SetPlace) -> RecordId {
        let set = self.levels[(place >> PLACE_BITS) as usize % (LEVELS + 1)].set(hash);
        RecordId(match place % (1 << PLACE_BITS) {
            narrow @ ..NARROW => set * NARROW + narrow,
            wide => self.records + set * WIDE + (wide - NARROW),
        })
    }

    /// Where among those that an object with this hash may have `record` is, if it is one of them.
    pub(crate) fn place(&self, hash: KeyHash, RecordId(record): RecordId) -> Option<SetPlace> {
        let (set, place) = match record.checked_sub(self.records) {
            None => (record / NARROW, record % NARROW),
            Some(wide) => (wide / WIDE, NARROW + wide % WIDE),
        };
        let level = self.levels().iter().position(|level| level.set(hash) == set)?;
        Some((level as u32) << PLACE_BITS | place)
    }

    /// Whether an object with this hash may have this record.
    pub(crate) fn may_have(&self, hash: KeyHash, record: RecordId) -> bool {
        self.place(hash, record).is_some()
    }

    /// The lowest bits of the hashes whose objects may have this record, and how many bits these
    /// are.
    pub(crate) fn hashes(&self, RecordId(record): RecordId) -> (KeyHash, u32) {
        let set = record.checked_sub(self.records).map_or(record / NARROW, |wide| wide / WIDE);
        let level = self.levels().iter().find(|level| set.wrapping_sub(level.first) <= level.mask);
        level.map_or((0, 0), |level| (set - level.first, level.mask.count_ones()))
    }

    /// How many of the lowest bits of a hash say of which set of the largest level its object may
    /// have a record.
    pub(crate) fn bits(&self) -> u32 {
        self.levels[0].mask.count_ones()
    }

    /// The sets of which an object with this hash may have a record, in the order in which they are
    /// best tried where so many records are in use, each wide one counted as the four that it takes
    /// the place of.
    pub(super) fn of(&self, hash: KeyHash, used: u64) -> impl Iterator<Item = Set> {
        let mut records = 0;
        let is_full = |level: &&Level| {
            records += (u64::from(level.mask) + 1) * u64::from(NARROW);
            used * 100 >= records * FULL_PERCENT
        };
        let full = self.levels().iter().rev().take_while(is_full).count().min(self.count - 1);
        let (larger, smaller) = self.levels().split_at(self.count - full);
        larger.iter().rev().chain(smaller).map(move |level| Set(level.set(hash)))
    }

    /// The numbers of a set's records that are not wide.
    pub(super) fn narrow(&self, Set(set): Set) -> Range<u32> {
        set * NARROW..((set + 1) * NARROW).min(self.records)
    }

    /// The numbers of the wide records that lie in the same place, where there are such.
    pub(super) fn wide(&self, Set(set): Set) -> Range<u32> {
        let wide = set * WIDE..((set + 1) * WIDE).min(self.records / 4);
        self.records + wide.start..self.records + wide.end
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    proptest! {
        /// An object may have the records of its sets, and no others.
        #[test]
        fn records_read_back(records in 1..20_000u64, hash: KeyHash, used: u64) {
            let sets = Sets::new(records);
            let of: Vec<Set> = sets.of(hash, used % (records + 1)).collect();
            let all: BTreeSet<u32> =
                of.iter().flat_map(|&set| sets.narrow(set).chain(sets.wide(set))).collect();
            prop_assert!(!all.is_empty());
            for number in 0..(records + records / 4) as u32 {
                let record = RecordId(number);
                let place = sets.place(hash, record);
                prop_assert_eq!(place.is_some(), all.contains(&number));
                let (low_bits, bits) = sets.hashes(record);
                prop_assert!(place.is_none() || hash & ((1 << bits) - 1) == low_bits);
                if let Some(place) = place {
                    prop_assert!(place < NOWHERE && sets.record(hash, place) == record);
                }
            }
        }
    }

    /// How many objects find a free record, of as many as there are records.
    #[test]
    fn hardly_any_record_is_left_while_an_object_finds_none() {
        for records in [16, 1_000, 100_000, 1 << 20, 1_500_000] {
            let sets = Sets::new(records);
            let mut taken = vec![false; records as usize];
            let mut dice = SmallRng::seed_from_u64(records);
            let mut used = 0;
            while used < records {
                let mut free = sets
                    .of(dice.next_u32(), used)
                    .flat_map(|set| sets.narrow(set))
                    .filter(|&record| !taken[record as usize]);
                let Some(record) = free.next() else { break };
                taken[record as usize] = true;
                used += 1;
            }
            println!("{records}: {used}");
            assert!(used * 100 >= records * 80, "{used} of {records}");
        }
    }
}
