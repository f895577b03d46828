//! HWcc records: one word in SCR for each row that hosts share.
//!
//! ```text
//! latch (7 bits): number of the host that holds it, plus 1 | writer (1) | readers (6) | dirty (1)
//! clock (1) | gap (1) | state (2) | a bit per host: its caches are current (16)
//! line of the row (29)
//! ```
//!
//! The latch is taken by one compare-and-swap. The host that holds it changes the word as it likes,
//! and releases it by one store. (Tigon paper, section 3.2; the paper's has-next-key bit of a row
//! is kept here as the gap bit of the row behind it.)

use tombolo_database::Locks;

/// Hosts of a database at most: each has a bit in a record.
pub const MAX_HOMES: u8 = 16;

/// Lines of LNR that a record can name: 32 GiB.
pub(crate) const MAX_LINES: u64 = 1 << LINE_BITS;

const LINE_BITS: u32 = 29;
const CURRENT: u32 = LINE_BITS;
const STATE: u32 = CURRENT + MAX_HOMES as u32;
const GAP: u64 = 1 << (STATE + 2);
const CLOCK: u64 = GAP << 1;
const DIRTY: u64 = CLOCK << 1;
const READERS: u32 = STATE + 5;
const MAX_READERS: u8 = 63;
const WRITER: u64 = 1 << (READERS + 6);
const LATCH: u32 = READERS + 7;

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The record is of no row any more: the row is at its home alone.
    Free,
    /// The row is there.
    Valid,
    /// There is no row with this key, but its place is kept: the row was deleted, or is being
    /// inserted.
    Ghost,
}

/// A record's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record(pub(crate) u64);

impl Record {
    /// A record that nobody has latched, of the row in the lines from `line` on.
    pub(crate) fn new(line: u64, state: State, locks: Locks) -> Self {
        debug_assert!(line < MAX_LINES);
        Self(line).with_state(state).with_locks(locks)
    }

    pub(crate) fn is_latched(self) -> bool {
        self.0 >> LATCH != 0
    }

    pub(crate) fn latched(self, home: u8) -> Self {
        Self(self.unlatched().0 | (u64::from(home) + 1) << LATCH)
    }

    pub(crate) fn unlatched(self) -> Self {
        Self(self.0 & ((1 << LATCH) - 1))
    }

    pub(crate) fn line(self) -> u64 {
        self.0 & (MAX_LINES - 1)
    }

    pub(crate) fn state(self) -> State {
        match self.0 >> STATE & 3 {
            1 => State::Valid,
            2 => State::Ghost,
            _ => State::Free,
        }
    }

    pub(crate) fn with_state(self, state: State) -> Self {
        let code = match state {
            State::Free => 0,
            State::Valid => 1,
            State::Ghost => 2,
        };
        Self(self.0 & !(3 << STATE) | code << STATE)
    }

    pub(crate) fn locks(self) -> Locks {
        Locks { readers: (self.0 >> READERS) as u8 & MAX_READERS, writer: self.0 & WRITER != 0 }
    }

    pub(crate) fn with_locks(self, locks: Locks) -> Self {
        let cleared = self.0 & !(WRITER | u64::from(MAX_READERS) << READERS);
        let writer = if locks.writer { WRITER } else { 0 };
        Self(cleared | u64::from(locks.readers) << READERS | writer)
    }

    /// Whether the caches of `home` hold the row as it is.
    pub(crate) fn is_current(self, home: u8) -> bool {
        self.0 >> (CURRENT + u32::from(home)) & 1 == 1
    }

    /// The caches of `home` hold the row as it is now.
    pub(crate) fn with_current(self, home: u8) -> Self {
        Self(self.0 | 1 << (CURRENT + u32::from(home)))
    }

    /// No host's caches are known to hold the row as it is.
    pub(crate) fn without_current(self) -> Self {
        Self(self.0 & !(((1 << MAX_HOMES) - 1) << CURRENT))
    }

    /// Whether the row in LNR is newer than its home's own copy.
    pub(crate) fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub(crate) fn with_dirty(self, dirty: bool) -> Self {
        Self(if dirty { self.0 | DIRTY } else { self.0 & !DIRTY })
    }

    /// Whether another host than its home has used the row since the clock last went over it.
    pub(crate) fn is_used(self) -> bool {
        self.0 & CLOCK != 0
    }

    pub(crate) fn with_used(self, used: bool) -> Self {
        Self(if used { self.0 | CLOCK } else { self.0 & !CLOCK })
    }

    /// Whether the row before this one in the shared index is the one before it at its home, too:
    /// no row is between them.
    pub(crate) fn closes_gap(self) -> bool {
        self.0 & GAP != 0
    }

    pub(crate) fn with_gap_closed(self, closed: bool) -> Self {
        Self(if closed { self.0 | GAP } else { self.0 & !GAP })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_keeps_to_itself() {
        let readers = Locks { readers: MAX_READERS, writer: false };
        let record = Record::new(MAX_LINES - 1, State::Ghost, readers)
            .latched(MAX_HOMES - 1)
            .with_current(15)
            .with_dirty(true)
            .with_used(true)
            .with_gap_closed(true);
        assert!(record.is_latched() && record.is_dirty() && record.is_used());
        assert!(record.closes_gap() && record.is_current(15) && !record.is_current(0));
        assert_eq!((record.line(), record.state()), (MAX_LINES - 1, State::Ghost));
        assert_eq!(record.locks(), readers);
        let bare = record
            .unlatched()
            .without_current()
            .with_dirty(false)
            .with_used(false)
            .with_gap_closed(false)
            .with_locks(Locks::default())
            .with_state(State::Free);
        assert_eq!(bare.0, MAX_LINES - 1);
    }
}
