//! Random numbers whose bits are the same on every machine, and the choices made with them.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tombolo_workloads::hash;

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The source that belongs to a seed and to the numbers of what it is for.
    pub fn new(seed: u64, stream: &[u64]) -> Self {
        let fold = |sum: u64, number: &u64| hash(sum.rotate_left(17) ^ number);
        Self(Xoshiro256PlusPlus::seed_from_u64(stream.iter().fold(seed, fold)))
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// From `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// One of `list`, which is not empty.
    pub fn choose<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    /// From 0 to below `end`, but not `one`, which is among them. `end` is at least 2.
    pub fn other_than(&mut self, one: u32, end: u32) -> u32 {
        let other = self.below(u64::from(end) - 1) as u32;
        other + u32::from(other >= one)
    }

    /// Changes the order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for index in (1..list.len()).rev() {
            list.swap(index, self.below(index as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_their_limits_and_reach_them() {
        let mut random = Random::new(1, &[2, 3]);
        let drawn: Vec<u64> = (0..1000).map(|_| random.within(5, 9)).collect();
        assert_eq!(drawn.iter().min(), Some(&5));
        assert_eq!(drawn.iter().max(), Some(&9));
        let others: Vec<u32> = (0..1000).map(|_| random.other_than(2, 4)).collect();
        assert!([0, 1, 3].iter().all(|number| others.contains(number)) && !others.contains(&2));
        assert!((0..1000).all(|_| random.percent(100) && !random.percent(0)));
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let first = |stream: &[u64]| Random::new(7, stream).word();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        assert_ne!(first(&[1, 2]), first(&[2, 1]));
        assert_ne!(first(&[0]), first(&[0, 0]));
    }
}
