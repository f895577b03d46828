//! Where objects are to be, for this host: behind one trait, fed by one profile of accesses.
//!
//! A host sees its own accesses, and notices others' writes, because they change an object's counter
//! or its entry. Others' reads leave no trace, so that reading costs nothing anybody else sees (the
//! paper keeps the last host in LNR, section 4, and stores there when reading). Who moves an object
//! that others read is asked to bring it back; that it remembers, and waits twice as long next time.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::KeyHash;

/// What this host has seen of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its accesses in a row, since it last noticed another host's.
    pub accesses: u32,
    /// How many of them were writes.
    pub writes: u32,
    /// How often others have had the object brought back, less how often it paid to have moved it.
    pub recalls: u32,
}

/// Where an object is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In LNR alone.
    Shared,
    /// In LNR, with a copy in this host's memory.
    Copied,
    /// In this host's memory alone.
    Partition,
}

/// Decides, at each access, where an object is to be. Called often.
pub trait Placement: Debug + Send + Sync {
    /// Where the object that was accessed is to be. It is done if there is room.
    fn place(&self, profile: &Profile) -> Place;
}

/// The paper's policies (sections 3.5.2 and 3.5.3): accesses in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// An object is copied once it was accessed so often.
    pub copy_after: u32,
    /// An object moves into the host's memory once it was accessed so often; twice as often each time
    /// it had to be brought back.
    pub move_after: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { copy_after: 2, move_after: 8 }
    }
}

impl Placement for Thresholds {
    fn place(&self, profile: &Profile) -> Place {
        let move_after = u64::from(self.move_after) << profile.recalls;
        if u64::from(profile.accesses) >= move_after {
            Place::Partition
        } else if profile.accesses >= self.copy_after {
            Place::Copied
        } else {
            Place::Shared
        }
    }
}

/// Profiles of the objects that were accessed last: one for all objects whose hashes fall together, of
/// which the last counts.
///
/// ```text
/// cell   hash (32 bits) | accesses (16) | writes (8) | recalls (8)
/// ```
pub(crate) struct Profiles {
    cells: Box<[AtomicU64]>,
}

const CELLS: usize = 1 << 16;
const MOST_RECALLS: u32 = 8;

impl Profiles {
    pub(crate) fn new() -> Self {
        Self { cells: (0..CELLS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes an access; `alone`: nothing tells that another host has been there since the last.
    pub(crate) fn access(&self, hash: KeyHash, write: bool, alone: bool) -> Profile {
        self.change(hash, |before| {
            let before = if alone {
                before
            } else {
                Profile { recalls: before.recalls, ..Profile::default() }
            };
            Profile {
                accesses: before.accesses + 1,
                writes: before.writes + u32::from(write),
                recalls: before.recalls,
            }
        })
    }

    /// Notes that an object was brought back for another host; `paid`: it had been worth it.
    pub(crate) fn recalled(&self, hash: KeyHash, paid: bool) {
        self.change(hash, |before| Profile {
            recalls: if paid {
                before.recalls.saturating_sub(1)
            } else {
                (before.recalls + 1).min(MOST_RECALLS)
            },
            ..Profile::default()
        });
    }

    /// What other threads note at the same time may be lost; nothing but speed depends on it.
    fn change(&self, hash: KeyHash, change: impl FnOnce(Profile) -> Profile) -> Profile {
        let cell = &self.cells[hash as usize % CELLS];
        let found = cell.load(Ordering::Relaxed);
        let same = (found >> 32) as u32 == hash;
        let after = change(if same { decode(found) } else { Profile::default() });
        cell.store(encode(hash, after), Ordering::Relaxed);
        after
    }
}

fn decode(cell: u64) -> Profile {
    Profile {
        accesses: (cell >> 16) as u32 & 0xffff,
        writes: (cell >> 8) as u32 & 0xff,
        recalls: cell as u32 & 0xff,
    }
}

fn encode(hash: KeyHash, profile: Profile) -> u64 {
    u64::from(hash) << 32
        | u64::from(profile.accesses.min(0xffff)) << 16
        | u64::from(profile.writes.min(0xff)) << 8
        | u64::from(profile.recalls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_in_a_row_count() {
        let profiles = Profiles::new();
        assert_eq!(profiles.access(7, false, true).accesses, 1);
        assert_eq!(profiles.access(7, true, true), Profile { accesses: 2, writes: 1, recalls: 0 });
        assert_eq!(
            profiles.access(7, false, false),
            Profile { accesses: 1, writes: 0, recalls: 0 }
        );
        profiles.recalled(7, false);
        assert_eq!(profiles.access(7, false, true), Profile { accesses: 1, writes: 0, recalls: 1 });
        assert_eq!(profiles.access(7 + CELLS as u32, false, true).recalls, 0, "another object");
        (0..100_000).for_each(|_| _ = profiles.access(9, true, true));
        assert_eq!(profiles.access(9, true, true).accesses, 0x1_0000);
    }

    #[test]
    fn who_had_to_bring_it_back_waits_longer() {
        let policy = Thresholds { copy_after: 2, move_after: 4 };
        let place = |accesses, recalls| policy.place(&Profile { accesses, writes: 0, recalls });
        assert_eq!(
            [1, 2, 4].map(|n| place(n, 0)),
            [Place::Shared, Place::Copied, Place::Partition]
        );
        assert_eq!(
            [4, 7, 8].map(|n| place(n, 1)),
            [Place::Copied, Place::Copied, Place::Partition]
        );
    }
}
