//! Clocks, round trips, and what steps take.

use std::time::Duration;

use tombolo_memory::{Lines, LnrAddr, Memory, ScrAddr};

use crate::evidence::{Costs, Evidence};
use crate::meeting::{read_afresh, words_of};
use crate::pair::{Pair, TRIED, TRIED_COUNT};
use crate::{Error, sites};

/// Lines by which a number goes there and back.
const THERE: u64 = TRIED;
const BACK: u64 = TRIED + 1;

/// How often clocks are compared.
const COMPARISONS: u64 = 16;

/// Operations that one time is taken of: a clock takes longer than some of them.
const BATCH: u64 = 32;

impl<M: Memory> Pair<'_, '_, M> {
    /// By how much the hosts' clocks differ: no more than the least difference seen.
    pub(crate) fn clocks(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        let mut least = u64::MAX;
        for _ in 0..COMPARISONS {
            let own = self.memory.wall_clock_ms();
            let [other, ..] = self.tell(name, [own, 0, 0])?;
            least = least.min(own.abs_diff(other));
        }
        found.clocks_differ_ms = least;
        Ok(())
    }

    /// How long a line takes to be seen: half of what a number takes there and back.
    pub(crate) fn times(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        let rounds = self.options.effort.times;
        self.put(if self.is_first { THERE } else { BACK }, 0);
        self.sync(name)?;
        let mut taken = Vec::new();
        for number in 1..=rounds {
            let started = self.memory.uptime();
            let came = if self.is_first {
                self.put(THERE, number);
                self.come(BACK, number)
            } else {
                let came = self.come(THERE, number);
                self.put(BACK, number);
                came
            };
            if !came {
                break;
            }
            let half = (self.memory.uptime() - started) / 2;
            taken.push(nanoseconds(half));
        }
        self.sync(name)?;
        taken.iter().for_each(|&ns| found.visible.count(ns));
        taken.sort_unstable();
        let at = |percent: usize| {
            let last = taken.len().saturating_sub(1);
            taken.get(last * percent / 100).copied().unwrap_or(0)
        };
        found.visible_ns = [at(50), at(99), at(100)];
        Ok(())
    }

    fn put(&self, line: u64, number: u64) {
        self.memory.write(LnrAddr::of_line(line), &number.to_le_bytes());
        self.memory.publish(sites::CLEAN, [Lines::new(line, 1)], |_| ());
    }

    /// Whether a number comes; what is lost on the way is not waited for.
    fn come(&self, line: u64, number: u64) -> bool {
        let started = self.memory.uptime();
        while words_of(&read_afresh(self.memory, line))[0] != number {
            if self.memory.uptime() - started > self.options.effort.answer_within / 8 {
                return false;
            }
            self.memory.pause();
        }
        true
    }

    /// The times of steps on the first host, while the other waits.
    pub(crate) fn costs(&mut self, name: &'static str, found: &mut Evidence) -> Result<(), Error> {
        self.sync(name)?;
        if self.is_first {
            let word = ScrAddr::<u64>::new(0);
            let memory = self.memory;
            found.costs = Costs {
                load_ns: self.median(|_| _ = std::hint::black_box(memory.load(word))),
                replace_ns: self.median(|count| {
                    let old = memory.load(word);
                    _ = memory.compare_exchange(sites::REPLACE, word, old, old ^ count);
                }),
                clean_ns: self.median(|count| self.put(THERE, count)),
                read_ns: self.median(|_| {
                    std::hint::black_box(read_afresh(memory, THERE));
                }),
                clean_bytes_s: self.bandwidth(|lines, bytes| {
                    memory.write(lines.start(), bytes);
                    memory.publish(sites::CLEAN, [lines], |_| ());
                }),
                read_bytes_s: self.bandwidth(|lines, bytes| {
                    memory.consume(sites::INVALIDATE, |_| ((), Some(lines)));
                    memory.read(lines.start(), bytes);
                }),
            };
        }
        self.sync(name)
    }

    /// The median, in nanoseconds, of what an operation takes.
    fn median(&self, mut operation: impl FnMut(u64)) -> u64 {
        let batch = |first: u64| {
            let started = self.memory.uptime();
            (first..first + BATCH).for_each(&mut operation);
            nanoseconds(self.memory.uptime() - started) / BATCH
        };
        let mut taken: Vec<u64> =
            (0..self.batches()).map(|number| number * BATCH).map(batch).collect();
        taken.sort_unstable();
        taken[taken.len() / 2]
    }

    /// Bytes in a second, if all lines are one operation's.
    fn bandwidth(&self, mut operation: impl FnMut(Lines, &mut [u8])) -> u64 {
        let lines = Lines::new(TRIED, TRIED_COUNT);
        let mut bytes = vec![1; lines.bytes() as usize];
        let started = self.memory.uptime();
        (0..self.batches()).for_each(|_| operation(lines, &mut bytes));
        let taken = nanoseconds(self.memory.uptime() - started).max(1);
        let moved = u128::from(self.batches() * lines.bytes());
        (moved * 1_000_000_000 / u128::from(taken)) as u64
    }

    fn batches(&self) -> u64 {
        self.options.effort.times.div_ceil(BATCH)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
