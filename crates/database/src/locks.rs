//! Locks of rows that count their readers: for engines that lock rows.

/// How a transaction locks a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// For a reader: others may read it, too.
    Shared,
    /// For a writer.
    Exclusive,
}

/// The most readers of a row.
const MAX_READERS: u8 = 63;

/// How a row is locked. Which transactions have locked it, only they know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// Transactions that have locked it for a reader, 63 at most.
    pub readers: u8,
    /// Whether a transaction has locked it for a writer.
    pub writer: bool,
}

impl Locks {
    /// Those of one transaction that has locked the row as `held` says.
    pub fn of(held: Option<Mode>) -> Self {
        let (shared, exclusive) = (held == Some(Mode::Shared), held == Some(Mode::Exclusive));
        Self { readers: shared.into(), writer: exclusive }
    }

    /// After a transaction that holds `held` has got `wanted`; `None` if others are in the way.
    pub fn acquire(self, wanted: Mode, held: Option<Mode>) -> Option<Self> {
        if held >= Some(wanted) {
            return Some(self);
        }
        let others = self.readers - u8::from(held == Some(Mode::Shared));
        match wanted {
            _ if self.writer => None,
            Mode::Shared if self.readers == MAX_READERS => None,
            Mode::Shared => Some(Self { readers: self.readers + 1, writer: false }),
            Mode::Exclusive if others > 0 => None,
            Mode::Exclusive => Some(Self { readers: 0, writer: true }),
        }
    }

    /// After a transaction that holds `held` has let go.
    pub fn release(self, held: Mode) -> Self {
        match held {
            Mode::Shared => Self { readers: self.readers.saturating_sub(1), writer: self.writer },
            Mode::Exclusive => Self { readers: self.readers, writer: false },
        }
    }

    /// Whether no transaction has locked it.
    pub fn is_free(self) -> bool {
        self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_exclude_each_other() {
        use Mode::{Exclusive, Shared};
        let none = Locks::default();
        let one = none.acquire(Shared, None).unwrap();
        let two = one.acquire(Shared, None).unwrap();
        assert_eq!(two.acquire(Exclusive, Some(Shared)), None);
        let upgraded = one.acquire(Exclusive, Some(Shared)).unwrap();
        assert_eq!(upgraded.acquire(Shared, None), None);
        assert_eq!(upgraded.acquire(Shared, Some(Exclusive)), Some(upgraded));
        assert!(upgraded.release(Exclusive).is_free());
        assert_eq!(two.release(Shared), one);
        let full = Locks { readers: MAX_READERS, writer: false };
        assert_eq!(full.acquire(Shared, None), None);
    }
}
