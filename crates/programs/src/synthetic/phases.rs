//! Phases: all threads write an array, neighbours in a line by different threads; then all of them
//! read all of it, several times.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::team::Member;

/// How often the array is written.
const WRITES: u64 = 4;
/// How often it is read in a round.
const READS: u32 = 32;
/// By what an element's values differ from its neighbour's.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

pub(crate) struct Phases {
    values: Array<u64>,
    sums: Array<u64>,
    rounds: u32,
}

impl Phases {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        Self {
            values: setup.layout.filled("values", 1 << setup.scale, 0),
            sums: setup.layout.padded("sums of values", vec![0; setup.threads]),
            rounds: setup.rounds,
        }
    }

    /// The value of an element after all writes.
    fn value(index: usize) -> u64 {
        (0..WRITES).fold(0, |value, write| next(value, index, write))
    }
}

/// The value of an element after the write with this number.
fn next(value: u64, index: usize, write: u64) -> u64 {
    value.wrapping_add((index as u64 + 1).wrapping_mul(STEP) ^ write)
}

impl Kernel for Phases {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for write in 0..WRITES {
            for index in (me.thread..self.values.len()).step_by(me.threads()) {
                let value = self.values.get(p, index);
                self.values.set(p, index, next(value, index, write));
                p.works(4);
            }
            me.barrier();
        }
        // Each thread has a sum of its own, so that none stands for another.
        let mut sum = me.thread as u64;
        for _ in 0..self.rounds * READS {
            for index in 0..self.values.len() {
                sum = sum.wrapping_add(self.values.get(p, index));
                p.works(2);
            }
        }
        self.sums.set(p, me.thread, sum);
    }

    fn verify(&self) -> Result<(), String> {
        let right = (0..self.values.len()).fold(0u64, |sum, i| sum.wrapping_add(Self::value(i)));
        let right = right.wrapping_mul(u64::from(self.rounds * READS));
        let wrong = self.values.values().enumerate().find(|&(i, value)| value != Self::value(i));
        if let Some((index, value)) = wrong {
            return Err(format!("value {index} is {value}, not {}", Self::value(index)));
        }
        let right = |thread: usize| right.wrapping_add(thread as u64);
        match self.sums.values().enumerate().find(|&(thread, sum)| sum != right(thread)) {
            Some((thread, sum)) => {
                Err(format!("the sum of thread {thread} is {sum}, not {}", right(thread)))
            }
            None => Ok(()),
        }
    }
}
