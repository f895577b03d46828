//! Keys, made before the time begins.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tombolo_workloads::ScrambledZipfian;

/// A key of 24 bytes, as YCSB's with `zeropadding=20`.
pub(super) type Key = [u8; 24];

pub(super) fn key(number: u64) -> Key {
    *format!("user{number:020}").as_bytes().first_chunk().expect("it has 24 bytes")
}

/// The skew of YCSB.
const THETA: f64 = 0.99;

/// Which objects an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Any, all alike.
    Uniform,
    /// Any, some much more often than others.
    Zipf,
    /// One after the other.
    InTurn,
}

impl Spread {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::InTurn => "in turn",
        }
    }
}

/// Numbers of objects, the same in every run.
pub(super) struct Numbers {
    spread: Spread,
    random: ChaCha8Rng,
    zipfian: ScrambledZipfian,
    next: u64,
}

impl Numbers {
    pub(super) fn new(spread: Spread, seed: u64, objects: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { spread, random, zipfian: ScrambledZipfian::new(objects, THETA), next: 0 }
    }

    fn next(&mut self) -> u64 {
        let objects = self.zipfian.items();
        match self.spread {
            Spread::Uniform => self.random.next_u64() % objects,
            Spread::Zipf => {
                self.zipfian.item((self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
            }
            Spread::InTurn => {
                self.next += 1;
                (self.next - 1) % objects
            }
        }
    }

    pub(super) fn take(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.next()).collect()
    }
}
