//! Versions of rows.

use std::fmt;

/// Bits of a version that count the changes of a row within an epoch.
const SEQUENCE_BITS: u32 = 24;

/// The greatest epoch.
pub const MAX_EPOCH: u64 = (1 << (u64::BITS - SEQUENCE_BITS)) - 1;

/// Which change of a row made it what it is: the epoch of the change (40 bits), and its number
/// among the changes of that row in that epoch (24 bits).
///
/// Of two changes of one key, the later one has the greater version. That holds for a key whose row
/// was deleted, too: an engine keeps a deleted row's version for as long as its epoch lasts.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The first version of a row in `epoch`.
    ///
    /// # Panics
    /// If `epoch` is greater than [`MAX_EPOCH`].
    pub fn first(epoch: u64) -> Self {
        assert!(epoch <= MAX_EPOCH, "epoch {epoch} has more than 40 bits");
        Self(epoch << SEQUENCE_BITS)
    }

    /// The version of a change in `epoch` of a row that has this one. `None` if the row has changed
    /// 16,777,216 times in that epoch: the epoch has to end first.
    pub fn next(self, epoch: u64) -> Option<Self> {
        if epoch > self.epoch() {
            return Some(Self::first(epoch));
        }
        let next = Self(self.0.checked_add(1)?);
        (next.epoch() == self.epoch()).then_some(next)
    }

    /// The epoch of the change.
    pub fn epoch(self) -> u64 {
        self.0 >> SEQUENCE_BITS
    }

    /// The number of the change within its epoch, from 0.
    pub fn sequence(self) -> u32 {
        (self.0 & ((1 << SEQUENCE_BITS) - 1)) as u32
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.sequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_within_an_epoch_and_from_epoch_to_epoch() {
        let first = Version::first(7);
        let second = first.next(7).unwrap();
        assert_eq!((second.epoch(), second.sequence()), (7, 1));
        assert!(second > first);
        assert_eq!(second.next(9), Some(Version::first(9)));
    }

    #[test]
    fn a_sequence_does_not_run_into_the_next_epoch() {
        let last = Version(Version::first(8).0 - 1);
        assert_eq!(last.epoch(), 7);
        assert_eq!(last.next(7), None);
        assert_eq!(last.next(8), Some(Version::first(8)));
        assert_eq!(Version(u64::MAX).next(MAX_EPOCH), None);
    }
}
