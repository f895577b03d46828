//! Mixed: all threads follow keys through a table that is never written, and count what they find
//! in counters that all of them write.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::{Random, mix};
use crate::team::{Member, share};

/// Streams of random numbers: the table's, and the keys'.
const TABLE: u64 = 23;
/// Counters there are.
const COUNTERS: usize = 4096;
/// One in so many lookups is counted.
const COUNTED: usize = 64;
/// Lookups in a round, for each entry of the table.
const LOOKUPS: usize = 4;

pub(crate) struct Mixed {
    table: Array<u32>,
    counters: Array<u64>,
    rounds: u32,
    threads: usize,
}

impl Mixed {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let mut random = Random::new(setup.parameters.seed, TABLE);
        let entries = (0..1usize << setup.scale).map(|_| random.below(COUNTERS) as u32);
        Self {
            table: setup.layout.array("table", entries),
            counters: setup.layout.filled("counters", COUNTERS, 0),
            rounds: setup.rounds,
            threads: setup.threads,
        }
    }

    fn lookups(&self) -> usize {
        self.table.len() * LOOKUPS * self.rounds as usize
    }

    /// The entry that is looked up, after one that was found.
    fn key(&self, lookup: usize, found: u32) -> usize {
        mix(lookup as u64 ^ u64::from(found) << 32) as usize % self.table.len()
    }
}

impl Kernel for Mixed {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        let mut found = 0;
        for lookup in me.share(self.lookups()) {
            found = self.table.follow(p, self.key(lookup, found));
            if lookup % COUNTED == 0 {
                self.counters.update(p, found as usize, |count| count + 1);
            }
            p.works(8);
        }
    }

    fn verify(&self) -> Result<(), String> {
        let mut right = vec![0; COUNTERS];
        for thread in 0..self.threads {
            let mut found = 0;
            for lookup in share(self.lookups(), thread, self.threads) {
                found = self.table.peek(self.key(lookup, found));
                right[found as usize] += u64::from(lookup % COUNTED == 0);
            }
        }
        let counted: Vec<u64> = self.counters.values().collect();
        match (0..COUNTERS).find(|&counter| counted[counter] != right[counter]) {
            Some(at) => Err(format!("counter {at} is {}, not {}", counted[at], right[at])),
            None => Ok(()),
        }
    }
}
