//! The accesses that this host has seen to the objects it used last, for its placement.
//!
//! A host counts its own accesses. It notices other hosts' writes, because a write changes an
//! object's counter or its entry. Reads by others leave no trace, so that a read costs the others
//! nothing. (The paper keeps the last host in LNR, section 4, and a read stores there.) A host that
//! moved an object that others read is asked to bring it back. It remembers that, and waits twice
//! as long next time.

use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_placement::{Costs, Profile};

use crate::ids::KeyHash;

/// Nanoseconds for a line of CXL memory, one of DRAM, and a copy of 4 KiB from one to the other.
pub(crate) const COSTS: Costs = Costs { far: 355, near: 100, bring: 942, give_back: 942 };

/// Profiles by the key's hash. Objects whose hashes fall together share a cell, which the last of
/// them to be accessed has.
///
/// A profile's window begins when this host notices another host's access, so `others` is 0. A
/// recall for another host means that the move was in vain, unless it had been worth it.
///
/// ```text
/// cell   upper half of the hash (16 bits) | 0 (8) | in_vain (8) | reads (16) | writes (16)
/// ```
pub(crate) struct Profiles {
    cells: Box<[AtomicU64]>,
}

const CELLS: usize = 1 << 16;
const MOST_IN_VAIN: u32 = 8;

impl Profiles {
    pub(crate) fn new() -> Self {
        Self { cells: (0..CELLS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes an access; `alone`: nothing tells that another host has been there since the last.
    pub(crate) fn access(&self, hash: KeyHash, write: bool, alone: bool) -> Profile {
        self.change(hash, |before| {
            let before = if alone { before } else { window(before.in_vain) };
            Profile {
                reads: before.reads + u32::from(!write),
                writes: before.writes + u32::from(write),
                ..before
            }
        })
    }

    /// Notes that an object was brought back for another host; `paid`: it had been worth it.
    pub(crate) fn recalled(&self, hash: KeyHash, paid: bool) {
        self.change(hash, |Profile { in_vain, .. }| {
            window(if paid { in_vain.saturating_sub(1) } else { (in_vain + 1).min(MOST_IN_VAIN) })
        });
    }

    /// A note that another thread takes at the same time may be lost: only speed depends on it.
    fn change(&self, hash: KeyHash, change: impl FnOnce(Profile) -> Profile) -> Profile {
        let cell = &self.cells[hash as usize % CELLS];
        let found = cell.load(Ordering::Relaxed);
        let same = (found >> 48) as u32 == hash >> 16;
        let after = change(if same { decode(found) } else { Profile::default() });
        cell.store(encode(hash, after), Ordering::Relaxed);
        after
    }
}

/// A window that begins.
fn window(in_vain: u32) -> Profile {
    Profile { in_vain, ..Profile::default() }
}

fn decode(cell: u64) -> Profile {
    Profile {
        reads: (cell >> 16) as u32 & 0xffff,
        writes: cell as u32 & 0xffff,
        others: 0,
        in_vain: (cell >> 32) as u32 & 0xff,
    }
}

fn encode(hash: KeyHash, profile: Profile) -> u64 {
    u64::from(hash >> 16) << 48
        | u64::from(profile.in_vain) << 32
        | u64::from(profile.reads.min(0xffff)) << 16
        | u64::from(profile.writes.min(0xffff))
}

#[cfg(test)]
mod tests {
    use tombolo_placement::{Place, Placement, Thresholds};

    use super::*;

    fn profile(reads: u32, writes: u32, in_vain: u32) -> Profile {
        Profile { reads, writes, others: 0, in_vain }
    }

    #[test]
    fn accesses_in_a_row_count() {
        let profiles = Profiles::new();
        assert_eq!(profiles.access(7, false, true), profile(1, 0, 0));
        assert_eq!(profiles.access(7, true, true), profile(1, 1, 0));
        assert_eq!(profiles.access(7, false, false), profile(1, 0, 0));
        profiles.recalled(7, false);
        assert_eq!(profiles.access(7, false, true), profile(1, 0, 1));
        assert_eq!(profiles.access(7, true, false), profile(0, 1, 1), "that stays in mind");
        profiles.recalled(7, true);
        assert_eq!(profiles.access(7, true, true), profile(0, 1, 0));
        assert_eq!(
            profiles.access(7 + CELLS as u32, false, true),
            profile(1, 0, 0),
            "another object"
        );
    }

    #[test]
    fn counts_stay_within_their_cells() {
        let profiles = Profiles::new();
        let hash = KeyHash::MAX;
        (0..100).for_each(|_| profiles.recalled(hash, false));
        (0..100_000).for_each(|_| _ = profiles.access(hash, true, true));
        (0..100_000).for_each(|_| _ = profiles.access(hash, false, true));
        assert_eq!(profiles.access(hash, true, true), profile(0xffff, 0x1_0000, MOST_IN_VAIN));
    }

    #[test]
    fn objects_that_are_written_alone_move_though_each_move_was_in_vain() {
        let profiles = Profiles::new();
        (0..100).for_each(|_| profiles.recalled(7, false));
        let accesses = (1..)
            .find(|_| {
                let validated_at = profiles.access(7, true, true);
                Thresholds::default().place(&validated_at, Place::Shared, &COSTS)
                    == Place::Partition
            })
            .unwrap();
        assert_eq!(accesses, 8 << MOST_IN_VAIN);
    }
}
