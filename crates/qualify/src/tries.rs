//! The trials of a pair of hosts. Each part runs on both at once, and is written as one: a host
//! that `writes` does what the other then looks for.

use tombolo_memory::{FetchOp, Lines, LnrAddr, Memory, ScrAddr, Word};

use crate::evidence::{AfterDeath, Evidence};
use crate::meeting::{read, read_afresh, words_of};
use crate::pair::{Pair, TRIED};
use crate::{Error, LineBytes, SCR_BYTES, sites};

/// Lines that are written in a round.
const SOME: std::ops::Range<u64> = TRIED..TRIED + 8;

/// Lines that are written in each way to write back.
const FEW: std::ops::Range<u64> = TRIED..TRIED + 4;

/// Two lines that are written one after the other.
const EARLIER: u64 = TRIED + 8;
const LATER: u64 = TRIED + 9;

/// The line of a writer that dies.
const LAST: u64 = TRIED + 10;

/// Looks at a line that the other host has only stored.
const GLANCES: u64 = 64;

/// Comparisons that a host makes for one that has an effect, at most.
const ATTEMPTS: u64 = 64;

/// The fate of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    InTime,
    Late,
    Torn,
    Lost,
}

/// How many of a line's words are those of another.
fn words_in_common(found: &LineBytes, wanted: &LineBytes) -> usize {
    words_of(found).iter().zip(words_of(wanted)).filter(|(found, wanted)| *found == wanted).count()
}

impl<M: Memory> Pair<'_, '_, M> {
    /// Whether lines arrive that are written back, and whether a host that does not invalidate them
    /// sees them as they were.
    ///
    /// A platform evicts lines by itself, and hides stale ones then. So where some line was stale,
    /// or was not seen, this goes on until enough invalidates have had something to do.
    pub(crate) fn written_back(
        &mut self,
        name: &'static str,
        found: &mut Evidence,
    ) -> Result<(), Error> {
        let effort = self.options.effort;
        for first_writes in [true, false] {
            let mut stale_here = 0;
            for round in 0..10 * effort.rounds {
                let incoherent = !found.lines_are_coherent();
                if round >= effort.rounds && (!incoherent || stale_here >= effort.invalidated) {
                    break;
                }
                let [stale, late, torn_and_lost] = self.written_round(name, first_writes, round)?;
                stale_here += stale;
                found.lines += SOME.end - SOME.start;
                found.stale_lines += stale;
                found.late_lines += late;
                found.torn_lines += torn_and_lost >> 32;
                found.lost_lines += torn_and_lost & u64::from(u32::MAX);
            }
            found.unproven |= !found.lines_are_coherent() && stale_here < effort.invalidated;
        }
        Ok(())
    }

    /// How many lines were stale, how many came late, and how many were torn or lost.
    fn written_round(
        &mut self,
        name: &'static str,
        first_writes: bool,
        round: u64,
    ) -> Result<[u64; 3], Error> {
        let writes = first_writes == self.is_first;
        let number = |line: u64| round << 8 | line << 1 | u64::from(first_writes);
        let (mut stale, mut late, mut torn, mut lost) = (0, 0, 0, 0);
        SOME.for_each(|line| drop_bytes(read(self.memory, line)));
        self.sync(name)?;
        if writes {
            SOME.for_each(|line| self.write_back(line, &self.stamp(number(line))));
        }
        self.sync(name)?;
        for line in SOME.filter(|_| !writes) {
            let wanted = self.stamp(number(line));
            stale += u64::from(read(self.memory, line) != wanted);
            match self.arrival(line, &wanted) {
                Arrival::InTime => {}
                Arrival::Late => late += 1,
                Arrival::Torn => torn += 1,
                Arrival::Lost => lost += 1,
            }
        }
        self.sums(name, [stale, late, torn << 32 | lost])
    }

    /// Whether lines are seen that were only stored, by a host that does nothing about it.
    pub(crate) fn only_stored(
        &mut self,
        name: &'static str,
        found: &mut Evidence,
    ) -> Result<(), Error> {
        for first_writes in [true, false] {
            let writes = first_writes == self.is_first;
            let rounds = self.options.effort.rounds.div_ceil(2);
            let mut unseen = 0;
            for round in 0..rounds {
                let number = |line: u64| 1 << 40 | round << 8 | line << 1 | u64::from(first_writes);
                SOME.for_each(|line| drop_bytes(read(self.memory, line)));
                self.sync(name)?;
                for line in SOME.filter(|_| writes) {
                    self.memory.write(LnrAddr::of_line(line), &self.stamp(number(line)));
                }
                self.sync(name)?;
                for line in SOME.filter(|_| !writes) {
                    let wanted = self.stamp(number(line));
                    let seen = (0..GLANCES).any(|_| {
                        let seen = read(self.memory, line) == wanted;
                        if !seen {
                            self.memory.pause();
                        }
                        seen
                    });
                    unseen += u64::from(!seen);
                }
                self.sync(name)?;
                if writes {
                    SOME.for_each(|line| self.clean(line));
                }
            }
            found.stored_lines += rounds * (SOME.end - SOME.start);
            let [unseen, ..] = self.sums(name, [unseen, 0, 0])?;
            found.unseen_lines += unseen;
        }
        Ok(())
    }

    /// Whether a host sees the other's words.
    pub(crate) fn words(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        let words = || (0..SCR_BYTES / 64).map(|line| ScrAddr::<u64>::new(64 * line));
        for first_writes in [true, false] {
            let writes = first_writes == self.is_first;
            let mut stale = 0;
            for round in 1..=self.options.effort.rounds {
                let number = round << 1 | u64::from(first_writes);
                let value = words_of(&self.stamp(number))[0];
                words().for_each(|word| _ = self.memory.load(word));
                self.sync(name)?;
                if writes {
                    words().for_each(|word| self.memory.store(word, value));
                }
                self.sync(name)?;
                if !writes {
                    stale += words().filter(|&word| self.memory.load(word) != value).count() as u64;
                }
            }
            found.words += self.options.effort.rounds * words().count() as u64;
            let [stale, ..] = self.sums(name, [stale, 0, 0])?;
            found.stale_words += stale;
        }
        Ok(())
    }

    /// Whether changes are lost that both hosts make at once.
    pub(crate) fn atomics(
        &mut self,
        name: &'static str,
        found: &mut Evidence,
    ) -> Result<(), Error> {
        let effort = self.options.effort;
        found.changes = 2 * effort.changes * effort.repetitions;
        for _ in 0..effort.repetitions {
            found.lost_adds[0] += self.adds::<u8>(name)?;
            found.lost_adds[1] += self.adds::<u16>(name)?;
            found.lost_adds[2] += self.adds::<u32>(name)?;
            found.lost_adds[3] += self.adds::<u64>(name)?;
            found.lost_replaces[0] += self.replaces::<u8>(name)?;
            found.lost_replaces[1] += self.replaces::<u16>(name)?;
            found.lost_replaces[2] += self.replaces::<u32>(name)?;
            found.lost_replaces[3] += self.replaces::<u64>(name)?;
        }
        Ok(())
    }

    fn adds<W: Word>(&mut self, name: &'static str) -> Result<u64, Error> {
        let at = self.zeroed::<W>(name)?;
        for _ in 0..self.options.effort.changes {
            self.memory.fetch(sites::ADD, at, FetchOp::Add, W::from_bits(1));
        }
        self.sync(name)?;
        let lost = missing::<W>(2 * self.options.effort.changes, self.memory.load(at));
        Ok(self.sums(name, [lost, 0, 0])?[0].div_ceil(2))
    }

    fn replaces<W: Word>(&mut self, name: &'static str) -> Result<u64, Error> {
        let (at, changes) = (self.zeroed::<W>(name)?, self.options.effort.changes);
        let (mut done, mut current) = (0, self.memory.load(at));
        for _ in 0..ATTEMPTS * changes {
            if done == changes {
                break;
            }
            let next = W::apply(FetchOp::Add, current, W::from_bits(1));
            current = match self.memory.compare_exchange(sites::REPLACE, at, current, next) {
                Ok(_) => {
                    done += 1;
                    next
                }
                Err(found) => found,
            };
        }
        let [done, ..] = self.sums(name, [done, 0, 0])?;
        let lost = missing::<W>(done, self.memory.load(at));
        Ok(self.sums(name, [lost, 0, 0])?[0].div_ceil(2))
    }

    /// A word that is zero when both hosts are here.
    fn zeroed<W: Word>(&mut self, name: &'static str) -> Result<ScrAddr<W>, Error> {
        let at = ScrAddr::new(0);
        if self.is_first {
            self.memory.store(at, W::from_bits(0));
        }
        self.sync(name)?;
        Ok(at)
    }

    /// Whether stores are lost beside another host's, and whether words are stored whole.
    pub(crate) fn stores(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        for _ in 0..self.options.effort.repetitions {
            found.lost_stores[0] += self.neighbours::<u8>(name)?;
            found.lost_stores[1] += self.neighbours::<u16>(name)?;
            found.lost_stores[2] += self.neighbours::<u32>(name)?;
            found.lost_stores[3] += self.neighbours::<u64>(name)?;
            for writes in [self.is_first, !self.is_first] {
                found.torn_words += self.halves(name, writes)?;
            }
        }
        Ok(())
    }

    /// Each host stores every other cell of a word, or of two; a cell must stay as it was stored.
    fn neighbours<W: Word>(&mut self, name: &'static str) -> Result<u64, Error> {
        let own = u64::from(!self.is_first);
        let count = (8 / size_of::<W>() as u64).max(2);
        let cells = || (own..count).step_by(2).map(|cell| ScrAddr::<W>::new(64).element(cell));
        let mut lost = 0;
        let mut expect = |memory: &M, cell, value: W| lost += u64::from(memory.load(cell) != value);
        self.sync(name)?;
        for value in 1..=self.options.effort.changes {
            for cell in cells() {
                if value > 1 {
                    expect(self.memory, cell, W::from_bits(value - 1));
                }
                self.memory.store(cell, W::from_bits(value));
            }
        }
        self.sync(name)?;
        let last = W::from_bits(self.options.effort.changes);
        cells().for_each(|cell| expect(self.memory, cell, last));
        Ok(self.sums(name, [lost, 0, 0])?[0])
    }

    /// One host stores words whose halves are equal, and the other looks whether they are.
    fn halves(&mut self, name: &'static str, writes: bool) -> Result<u64, Error> {
        let at = ScrAddr::<u64>::new(128);
        if writes {
            self.memory.store(at, 0);
        }
        self.sync(name)?;
        let mut torn = 0;
        for value in 1..=self.options.effort.changes {
            if writes {
                self.memory.store(at, value << 32 | value);
            } else {
                let word = self.memory.load(at);
                torn += u64::from(word >> 32 != word & u64::from(u32::MAX));
            }
        }
        Ok(self.sums(name, [torn, 0, 0])?[0])
    }

    /// Whether a line that was cleaned earlier is seen by a host that sees one that was cleaned
    /// later.
    pub(crate) fn order(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        let last = self.options.effort.ordered;
        for _ in 0..self.options.effort.repetitions {
            for writes in [self.is_first, !self.is_first] {
                if writes {
                    [EARLIER, LATER].iter().for_each(|&line| self.write_back(line, &all(0)));
                }
                self.sync(name)?;
                let (mut looks, mut broken) = (0, 0);
                if writes {
                    for value in 1..=last {
                        self.write_back(EARLIER, &all(value));
                        self.write_back(LATER, &all(value));
                    }
                } else {
                    // Bounded: the last value may be lost.
                    while looks < 8 * last {
                        looks += 1;
                        let later = words_of(&read_afresh(self.memory, LATER));
                        let earlier = words_of(&read_afresh(self.memory, EARLIER));
                        broken += u64::from(earlier.iter().min() < later.iter().max());
                        if later.iter().min() == Some(&last) {
                            break;
                        }
                        self.memory.pause();
                    }
                }
                let [looks, broken, _] = self.sums(name, [looks, broken, 0])?;
                found.looks += looks;
                found.out_of_order += broken;
            }
        }
        Ok(())
    }

    /// Whether a line arrives in each way that there is to write it back.
    pub(crate) fn ways(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        for writes in [self.is_first, !self.is_first] {
            let own = if writes { self.options.ways.len() as u64 } else { 0 };
            let [count, ..] = self.sums(name, [own, 0, 0])?;
            for index in 0..count {
                let failed = self.way(name, writes, index)?;
                let number = if writes { self.options.ways[index as usize].number } else { 0 };
                let [number, failed, _] = self.sums(name, [number as u64, failed, 0])?;
                let bit = 1u64.checked_shl(number as u32).unwrap_or(0);
                found.ways_tried |= bit;
                found.ways_failed |= if failed > 0 { bit } else { 0 };
            }
        }
        Ok(())
    }

    /// How many lines did not arrive as they must.
    fn way(&mut self, name: &'static str, writes: bool, index: u64) -> Result<u64, Error> {
        let mut failed = 0;
        for round in 0..self.options.effort.rounds.div_ceil(8) {
            let first_writes = u64::from(writes == self.is_first);
            let number = |line: u64| first_writes << 42 | 1 << 41 | index << 32 | round << 8 | line;
            FEW.for_each(|line| drop_bytes(read(self.memory, line)));
            self.sync(name)?;
            for line in FEW.filter(|_| writes) {
                let bytes = self.stamp(number(line));
                (self.options.ways[index as usize].write)(self.memory, line, &bytes);
            }
            self.sync(name)?;
            for line in FEW.filter(|_| !writes) {
                let wanted = self.stamp(number(line));
                failed += u64::from(self.arrival(line, &wanted) != Arrival::InTime);
            }
        }
        Ok(failed)
    }

    /// Whether a line outlives its writer, which the second host starts.
    pub(crate) fn death(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        let wanted = self.stamp(1 << 43);
        drop_bytes(read(self.memory, LAST));
        self.sync(name)?;
        let dies = self.options.dying.filter(|_| !self.is_first);
        let died = dies.is_some_and(|dying| dying(self.memory, LAST, &wanted).is_ok());
        let [died, ..] = self.sums(name, [u64::from(died), 0, 0])?;
        let here = died > 0 && self.is_first && self.arrival(LAST, &wanted) == Arrival::InTime;
        let [here, ..] = self.sums(name, [u64::from(here), 0, 0])?;
        found.after_death = match (died, here) {
            (0, _) => AfterDeath::Untried,
            (_, 0) => AfterDeath::Lost,
            _ => AfterDeath::Survived,
        };
        Ok(())
    }

    fn write_back(&self, line: u64, bytes: &LineBytes) {
        self.memory.write(LnrAddr::of_line(line), bytes);
        self.clean(line);
    }

    fn clean(&self, line: u64) {
        self.memory.publish(sites::CLEAN, [Lines::new(line, 1)], |_| ());
    }

    /// The fate of a line that the other host has written back.
    fn arrival(&self, line: u64, wanted: &LineBytes) -> Arrival {
        let mut is_torn = false;
        for look in 0..=self.options.effort.looks {
            match words_in_common(&read_afresh(self.memory, line), wanted) {
                8 if look == 0 => return Arrival::InTime,
                8 => return Arrival::Late,
                words => is_torn |= words > 0,
            }
            self.memory.pause();
        }
        if is_torn { Arrival::Torn } else { Arrival::Lost }
    }
}

/// The line was read to be in this host's caches.
fn drop_bytes(bytes: LineBytes) {
    std::hint::black_box(bytes);
}

/// A line of equal words.
fn all(value: u64) -> LineBytes {
    crate::meeting::bytes_of(&[value; 8])
}

/// By how much a word differs from a number of changes, as far as its width tells.
fn missing<W: Word>(changes: u64, found: W) -> u64 {
    let difference = W::from_bits(changes.wrapping_sub(found.to_bits())).to_bits();
    let opposite = W::from_bits(difference.wrapping_neg()).to_bits();
    difference.min(opposite)
}
