//! Programs as streams of uses of pages.
//!
//! None of them computes anything. Each says in its head what it stands for.

mod chase;
mod liblinear;
mod micro;
mod pagerank;
mod redis;
mod scan;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tombolo_workloads::Zipfian;

pub use chase::Chase;
pub use liblinear::Liblinear;
pub use micro::{Hottest, Micro};
pub use pagerank::PageRank;
pub use redis::Redis;
pub use scan::Scan;

/// Random numbers of a load.
#[derive(Debug)]
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number from 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `end`.
    fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(end)) >> 32) as u32
    }

    /// All numbers below `end` in a random order.
    fn order(&mut self, end: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..end).collect();
        for last in (1..end).rev() {
            order.swap(last as usize, self.below(last + 1) as usize);
        }
        order
    }
}

/// YCSB's scrambled Zipf distribution with a skew of 0.99.
///
/// YCSB draws a rank of ten thousand million, whatever the number of items, and hashes it to an
/// item. So draws of ranks that no item has spread over all items: a third of the draws do.
#[derive(Debug)]
struct Scrambled {
    dice: Dice,
    zipfian: Zipfian,
    /// Share of draws that spread over all items.
    spread: f64,
    /// Item of each rank, beginning with the hottest.
    order: Vec<u32>,
}

/// Ranks that YCSB draws.
const RANKS: u64 = 10_000_000_000;
const SKEW: f64 = 0.99;

impl Scrambled {
    /// Items that stand for `whole` ones at full scale. Those that are hot are anywhere.
    fn new(items: u32, whole: u64, seed: u64) -> Self {
        let order = Dice::new(seed ^ 1).order(items);
        Self { order, ..Self::in_order(items, whole, seed) }
    }

    /// Items that are hot come first.
    fn in_order(items: u32, whole: u64, seed: u64) -> Self {
        let zeta = |items: u64| Zipfian::new(items, SKEW).zeta();
        let spread = 1.0 - zeta(whole) / zeta(RANKS);
        let zipfian = Zipfian::new(items.into(), SKEW);
        Self { dice: Dice::new(seed), zipfian, spread, order: (0..items).collect() }
    }

    fn next(&mut self) -> u32 {
        if self.dice.unit() < self.spread {
            return self.dice.below(self.order.len() as u32);
        }
        self.order[self.zipfian.rank(self.dice.unit()) as usize]
    }
}
