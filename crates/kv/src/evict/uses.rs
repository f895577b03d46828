//! This host's table of the use of values: in its own memory, by the hashes of keys.
//!
//! A cell has the tick of the clock of uses at which its value was used last, by this host or by
//! another one that told so; a count of uses, which grows with their logarithm and decays; and when
//! this host told others last. A use is one store, at most, into the host's own memory.
//!
//! The clock advances as values are put: by [`TICKS_A_LAP`] while as many bytes are put as the
//! values may take up. So an age says how much was put since, whatever time that took.
//!
//! Keys whose hashes end alike share a cell, and then seem as young as the younger one. The table
//! has four cells for each object, up to 2^24 cells.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Ticks of the clock in which as many bytes are put as there is room for.
pub(crate) const TICKS_A_LAP: u64 = 1024;

/// A host tells of a value's use once in so many ticks.
const TELL_TICKS: u64 = TICKS_A_LAP / 32;

/// A count of uses loses one in so many ticks without a use.
const DECAY_TICKS: u64 = TICKS_A_LAP / 8;

/// The count of a value that has just been put: it shall not go at once.
const FIRST_COUNT: u8 = 5;

/// Cells of the smallest table; each next one has four times as many.
const LEAST_CELLS: usize = 1 << 12;
const LEVELS: usize = 7;
const CELLS_AN_OBJECT: u64 = 4;

pub(crate) struct Uses {
    /// Made as they are needed. A larger one begins with what the smaller one had.
    tables: [OnceLock<Box<[AtomicU32]>>; LEVELS],
    /// The one in use; none before the first, if 0.
    level: AtomicUsize,
    /// The clock, as this host has seen it last.
    now: AtomicU64,
}

/// The table's entry of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    tick: u16,
    /// 0: nothing is known.
    count: u8,
    told: u8,
}

impl Cell {
    fn decode(bits: u32) -> Self {
        Self { tick: bits as u16, count: (bits >> 16) as u8, told: (bits >> 24) as u8 }
    }

    fn encode(self) -> u32 {
        u32::from(self.told) << 24 | u32::from(self.count) << 16 | u32::from(self.tick)
    }

    fn age(self, now: u64) -> u64 {
        u64::from((now as u16).wrapping_sub(self.tick))
    }

    /// The count, less what it has lost since the last use.
    fn decayed(self, now: u64) -> u8 {
        let lost = u8::try_from(self.age(now) / DECAY_TICKS).unwrap_or(u8::MAX);
        self.count.saturating_sub(lost).max(1)
    }

    /// After a use at `now`, where `dice` is as good as random.
    fn used(self, now: u64, dice: u32) -> Self {
        let count = match self.count {
            0 => FIRST_COUNT,
            _ if self.tick == now as u16 => self.count,
            _ => {
                let count = self.decayed(now);
                let against = u32::from(count.saturating_sub(FIRST_COUNT)) * 2 + 1;
                count.saturating_add(u8::from(dice.is_multiple_of(against)))
            }
        };
        Self { tick: now as u16, count, ..self }
    }
}

/// When a host tells of a use, in few bits.
fn telling(now: u64) -> u8 {
    (now / TELL_TICKS) as u8
}

impl Uses {
    pub(crate) fn new() -> Self {
        Self {
            tables: [const { OnceLock::new() }; LEVELS],
            level: AtomicUsize::new(0),
            now: AtomicU64::new(0),
        }
    }

    /// Has as many cells as so many objects need.
    pub(crate) fn fit(&self, objects: u64) {
        let mut level = self.level.load(Ordering::Acquire);
        while level < LEVELS && (level == 0 || cells(level) < objects * CELLS_AN_OBJECT) {
            let before = self.table();
            // A use that is noted meanwhile may be forgotten.
            self.tables[level].get_or_init(|| {
                let known = |at: usize| {
                    before.map_or(0, |table| table[at % table.len()].load(Ordering::Relaxed))
                };
                (0..cells(level + 1) as usize).map(|at| AtomicU32::new(known(at))).collect()
            });
            level += 1;
            self.level.fetch_max(level, Ordering::AcqRel);
        }
    }

    fn table(&self) -> Option<&[AtomicU32]> {
        let level = self.level.load(Ordering::Acquire).checked_sub(1)?;
        self.tables[level].get().map(|table| &**table)
    }

    fn cell(&self, hash: u32) -> Option<&AtomicU32> {
        let table = self.table()?;
        Some(&table[hash as usize % table.len()])
    }

    /// The clock is at `now`.
    pub(crate) fn set_now(&self, now: u64) {
        self.now.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// This host has used a value; whether others are to be told.
    pub(crate) fn note(&self, hash: u32) -> bool {
        let Some(cell) = self.cell(hash) else { return false };
        let (now, before) = (self.now(), Cell::decode(cell.load(Ordering::Relaxed)));
        let tell = before.count == 0 || before.told != telling(now);
        if before.tick == now as u16 && !tell {
            return false;
        }
        let after = Cell { told: telling(now), ..before.used(now, dice(hash, now)) };
        cell.store(after.encode(), Ordering::Relaxed);
        tell
    }

    /// Another host has used a value.
    pub(crate) fn heard(&self, hash: u32) {
        let Some(cell) = self.cell(hash) else { return };
        let (now, before) = (self.now(), Cell::decode(cell.load(Ordering::Relaxed)));
        cell.store(before.used(now, dice(hash, now)).encode(), Ordering::Relaxed);
    }

    /// The tick at which a value was used last; 0, if nothing is known of it.
    pub(crate) fn last_use(&self, hash: u32) -> u64 {
        self.known(hash).map_or(0, |(cell, now)| now.saturating_sub(cell.age(now)).max(1))
    }

    /// How often it was used: a count that decays. Equal ones differ by the last use.
    pub(crate) fn frequency(&self, hash: u32) -> u64 {
        let frequency = |(cell, now): (Cell, u64)| {
            let last = now.saturating_sub(cell.age(now)) & ((1 << 48) - 1);
            u64::from(cell.decayed(now)) << 48 | last
        };
        self.known(hash).map_or(0, frequency)
    }

    fn known(&self, hash: u32) -> Option<(Cell, u64)> {
        let cell = Cell::decode(self.cell(hash)?.load(Ordering::Relaxed));
        (cell.count > 0).then(|| (cell, self.now()))
    }
}

/// Cells of the table at a level, from 1 on.
fn cells(level: usize) -> u64 {
    (LEAST_CELLS << (2 * (level.max(1) - 1))) as u64
}

/// As good as random, and the same for equal seeds of the simulator.
fn dice(hash: u32, now: u64) -> u32 {
    (hash ^ (now as u32).wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_told_once_in_a_while() {
        let uses = Uses::new();
        assert!(!uses.note(7), "there is no table");
        uses.fit(1);
        uses.set_now(100);
        assert_eq!((uses.last_use(7), uses.frequency(7)), (0, 0));
        assert!(uses.note(7) && !uses.note(7));
        assert_eq!(uses.last_use(7), 100);
        uses.set_now(101);
        assert!(!uses.note(7));
        assert_eq!(uses.last_use(7), 101);
        uses.set_now(101 + TELL_TICKS);
        uses.heard(7);
        assert!(uses.note(7), "what others tell is no reason not to");
    }

    #[test]
    fn a_larger_table_knows_what_the_smaller_one_did() {
        let uses = Uses::new();
        uses.fit(1);
        uses.set_now(9);
        uses.note(5);
        uses.note(5 + LEAST_CELLS as u32 * 3);
        uses.fit(LEAST_CELLS as u64);
        assert_eq!(uses.table().unwrap().len(), 4 * LEAST_CELLS);
        assert_eq!(uses.last_use(5), 9);
        uses.set_now(20);
        uses.note(5);
        assert_eq!((uses.last_use(5), uses.last_use(5 + LEAST_CELLS as u32)), (20, 9));
    }

    #[test]
    fn counts_grow_slowly_and_decay() {
        let uses = Uses::new();
        uses.fit(1);
        let count = |hash| uses.frequency(hash) >> 48;
        for tick in 1..2000 {
            uses.set_now(tick);
            uses.note(1);
            if tick % 100 == 0 {
                uses.note(2);
            }
        }
        uses.note(3);
        assert!(count(1) > count(2) + 10, "{} {}", count(1), count(2));
        assert_eq!(count(3), u64::from(FIRST_COUNT));
        let before = count(1);
        uses.set_now(2000 + 4 * DECAY_TICKS);
        assert_eq!(count(1), before - 4);
    }
}
