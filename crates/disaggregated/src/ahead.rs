//! Records of a trace that are read some time before they are done.
//!
//! Nearly each record misses this machine's caches several times, in tables of which one says where
//! to look in the next. While many records wait for theirs, nobody does.

use tombolo_programs::Record;

use crate::machine::{Foreseen, Machine};

/// Records from one step to the next.
const APART: u64 = 4;
/// Records from when one comes until it is due.
const AHEAD: u64 = 4 * APART;
/// A power of two that all fit into.
const ROOM: usize = 32;

/// The records that are not yet due.
pub(crate) struct Ahead<const WORDS: usize> {
    records: [Record; ROOM],
    foreseen: [Foreseen<WORDS>; ROOM],
    /// How many have come.
    count: u64,
}

impl<const WORDS: usize> Default for Ahead<WORDS> {
    fn default() -> Self {
        let none = Record { thread: 0, address: 0, bytes: 1, write: false, instructions: 0 };
        Self { records: [none; ROOM], foreseen: [Foreseen::default(); ROOM], count: 0 }
    }
}

/// Where a record has its place.
#[inline]
fn at(number: u64) -> usize {
    number as usize % ROOM
}

impl<const WORDS: usize> Ahead<WORDS> {
    /// A record comes; the one that is due, if one is, and its page's place, if that is known.
    #[inline]
    pub(crate) fn next(
        &mut self,
        record: Record,
        machine: &Machine<WORDS>,
    ) -> Option<(Record, Option<usize>)> {
        let number = self.count;
        let seen = |steps: u64| at(number.wrapping_sub(steps * APART));
        self.records[at(number)] = record;
        machine.foresee(&record, &mut self.foreseen[seen(0)]);
        machine.foresee_miss(&mut self.foreseen[seen(1)]);
        machine.foresee_notes(&self.foreseen[seen(2)]);
        machine.foresee_cores(&self.foreseen[seen(3)]);
        self.count += 1;
        number.checked_sub(AHEAD).map(|due| (self.records[at(due)], self.foreseen[at(due)].place))
    }

    /// How many have come.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Those that have not been due.
    pub(crate) fn rest(&self) -> impl Iterator<Item = &Record> {
        (self.count.saturating_sub(AHEAD)..self.count).map(|number| &self.records[at(number)])
    }
}
