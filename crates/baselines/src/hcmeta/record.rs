//! Coherence records: which hosts may trust their caches for an object.
//!
//! ```text
//! record   locked (1 bit) | used lately (1) | version (30 - hosts) |
//!          a bit per host: its caches are current
//! ```
//!
//! A writer holds the lock, moves the version on, and clears the bits of all other hosts. The
//! version is what lets readers do without a lock; it is never reset, not even when a record
//! changes hands. A reader would have to sleep through 2^(30 - hosts) writes, or a multiple, to be
//! deceived.

/// Hosts at most: each has a bit in a record, which leaves the version as many.
pub(crate) const MAX_HOSTS: u8 = 16;

const LOCKED: u32 = 1 << 31;
const USED: u32 = 1 << 30;

/// How records are read by one of so many hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    hosts: u32,
    /// This host's bit.
    own: u32,
}

impl Layout {
    pub(crate) fn new(hosts: u8, host: u8) -> Self {
        Self { hosts: u32::from(hosts), own: 1 << host }
    }

    /// A record that no object has.
    pub(crate) const UNUSED: u32 = LOCKED;

    pub(crate) fn is_locked(record: u32) -> bool {
        record & LOCKED != 0
    }

    pub(crate) fn locked(record: u32) -> u32 {
        record | LOCKED
    }

    /// Whether the object was used since the clock last went over it.
    pub(crate) fn is_used(record: u32) -> bool {
        record & USED != 0
    }

    pub(crate) fn unused(record: u32) -> u32 {
        record & !USED
    }

    /// Whether this host's caches are current.
    pub(crate) fn is_current(self, record: u32) -> bool {
        record & self.own != 0
    }

    /// The same, and used, by this host whose caches are current now.
    pub(crate) fn validated(self, record: u32) -> u32 {
        record | self.own | USED
    }

    /// Whether nobody has written, or given the record to another object, between two looks.
    pub(crate) fn is_same(self, one: u32, other: u32) -> bool {
        (one ^ other) & !(USED | self.all()) == 0
    }

    /// How often the object was written between two looks.
    pub(crate) fn writes(self, earlier: u32, later: u32) -> u32 {
        let version = |record: u32| (record & !(LOCKED | USED)) >> self.hosts;
        version(later).wrapping_sub(version(earlier)) & (USED - 1) >> self.hosts
    }

    /// Unlocked, used, at the next version if `moved`; this host's caches alone are current, if
    /// they are, and the others' only if `others`.
    pub(crate) fn released(self, record: u32, moved: bool, current: bool, others: bool) -> u32 {
        let step = if moved { 1 << self.hosts } else { 0 };
        let version = (record & !self.all()).wrapping_add(step) & !(LOCKED | USED);
        let bits = if others { record & self.all() & !self.own } else { 0 };
        version | bits | if current { self.own } else { 0 } | USED
    }

    fn all(self) -> u32 {
        (1 << self.hosts) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_moves_the_version_and_leaves_one_bit() {
        let layout = Layout::new(3, 1);
        let shared = layout.released(Layout::UNUSED, true, false, false);
        assert!(!Layout::is_locked(shared) && Layout::is_used(shared));
        assert!(!layout.is_current(shared) && layout.is_current(layout.validated(shared)));
        let all = shared | 0b111;
        assert!(layout.is_same(shared, Layout::unused(all)));
        let written = layout.released(Layout::locked(all), true, true, false);
        assert!(!layout.is_same(all, written) && written & 0b111 == 0b010);
        let unchanged = layout.released(Layout::locked(all), false, true, true);
        assert_eq!(unchanged, all);
        assert_eq!((layout.writes(all, written), layout.writes(all, unchanged)), (1, 0));
    }

    #[test]
    fn a_version_goes_round_without_touching_other_bits() {
        let layout = Layout::new(16, 0);
        let last = layout.released((1 << 30) - 1, true, false, false);
        assert_eq!(last, USED);
        assert_eq!(layout.writes((1 << 30) - 1, last), 1);
    }
}
