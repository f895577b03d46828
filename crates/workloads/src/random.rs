//! Random numbers whose bits are the same on every machine and with every version of every library:
//! ChaCha's are by definition, and what is made of them here uses nothing but exact arithmetic.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The generator of one thread.
pub(crate) fn generator(seed: u64, thread: u32) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&thread.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// A multiple of 2^-53, from 0 to below 1.
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number below `end`, each with a probability that is within 2^-64 of 1 / `end`.
pub(crate) fn below(rng: &mut ChaCha8Rng, end: u64) -> u64 {
    ((rng.next_u64() as u128 * end as u128) >> 64) as u64
}
