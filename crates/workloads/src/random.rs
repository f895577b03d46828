//! Random numbers whose bits are the same on every machine and with every version of every library:
//! ChaCha's and SplitMix64's are by definition, and what is made of them here uses nothing but
//! exact arithmetic.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// 2^64 divided by the golden ratio, SplitMix64's step.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator of one thread.
pub(crate) fn generator(seed: u64, thread: u32) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&thread.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// A random word as a multiple of 2^-53, from 0 to below 1.
pub(crate) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// A random word as a number below `end`, each with a probability that is within 2^-64 of 1 /
/// `end`.
pub(crate) fn below(word: u64, end: u64) -> u64 {
    ((u128::from(word) * u128::from(end)) >> 64) as u64
}

/// Words that look random, from a state that goes up by an odd step. Each can be computed from any
/// other.
pub(crate) struct SplitMix {
    pub(crate) state: u64,
    pub(crate) step: u64,
}

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(self.step);
        mix(self.state)
    }
}

/// SplitMix64's output function.
pub(crate) fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The inverse of [`mix`].
pub(crate) fn unmix(mut word: u64) -> u64 {
    word = (word ^ word >> 31 ^ word >> 62).wrapping_mul(0x3196_42b2_d24d_8ec3);
    word = (word ^ word >> 27 ^ word >> 54).wrapping_mul(0x96de_1b17_3f11_9089);
    word ^ word >> 30 ^ word >> 60
}
