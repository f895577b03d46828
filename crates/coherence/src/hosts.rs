//! Sets of hosts.

/// Hosts, a bit each. Up to 64 of them are one word, and what is done with them an instruction or
/// two.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hosts<const WORDS: usize = 1>([u64; WORDS]);

impl<const WORDS: usize> Default for Hosts<WORDS> {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl<const WORDS: usize> std::fmt::Debug for Hosts<WORDS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<const WORDS: usize> Hosts<WORDS> {
    /// How many there may be.
    pub const MOST: usize = 64 * WORDS;

    /// One host.
    #[inline]
    pub fn one(host: usize) -> Self {
        let mut hosts = Self::default();
        hosts.insert(host);
        hosts
    }

    /// The first `count` of them.
    ///
    /// # Panics
    /// If there are more than [`MOST`](Self::MOST).
    #[inline]
    pub fn first(count: usize) -> Self {
        assert!(count <= Self::MOST, "{count} hosts, where there may be {}", Self::MOST);
        let mut hosts = Self::default();
        for (number, word) in hosts.0.iter_mut().enumerate() {
            *word = match count.saturating_sub(64 * number) {
                0 => 0,
                left => u64::MAX >> (64 - left.min(64)),
            };
        }
        hosts
    }

    /// Whether a host is there.
    #[inline]
    pub fn has(&self, host: usize) -> bool {
        self.0[host / 64] & 1 << (host % 64) != 0
    }

    /// A host comes to it.
    #[inline]
    pub fn insert(&mut self, host: usize) {
        self.0[host / 64] |= 1 << (host % 64);
    }

    /// A host goes.
    #[inline]
    pub fn remove(&mut self, host: usize) {
        self.0[host / 64] &= !(1 << (host % 64));
    }

    /// Those that are in both.
    #[inline]
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// Those that are not in the other.
    #[inline]
    #[must_use]
    pub fn without(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Their numbers.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<WORDS> {
        let (mut words, mut at) = (self.0, 0);
        std::iter::from_fn(move || {
            loop {
                if let Some(bit) = take_lowest(words.get_mut(at)?) {
                    return Some(64 * at + bit);
                }
                at += 1;
            }
        })
    }
}

impl<const WORDS: usize> FromIterator<usize> for Hosts<WORDS> {
    fn from_iter<T: IntoIterator<Item = usize>>(hosts: T) -> Self {
        let mut set = Self::default();
        hosts.into_iter().for_each(|host| set.insert(host));
        set
    }
}

/// The numbers of the bits that are set.
pub fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || take_lowest(&mut bits))
}

/// Clears the lowest bit that is set; its number.
#[inline]
fn take_lowest(bits: &mut u64) -> Option<usize> {
    let lowest = (*bits != 0).then(|| bits.trailing_zeros() as usize)?;
    *bits &= *bits - 1;
    Some(lowest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn hosts_are_a_set(
            a in prop::collection::btree_set(0usize..192, 0..40),
            b in prop::collection::btree_set(0usize..192, 0..40),
            count in 0usize..=192,
        ) {
            let set = |hosts: &BTreeSet<usize>| hosts.iter().copied().collect::<Hosts<3>>();
            let all = |hosts: Hosts<3>| hosts.iter().collect::<BTreeSet<usize>>();
            prop_assert_eq!(&all(set(&a)), &a);
            prop_assert_eq!(set(&a).count() as usize, a.len());
            prop_assert_eq!(set(&a).is_empty(), a.is_empty());
            prop_assert_eq!(all(set(&a).and(set(&b))), &a & &b);
            prop_assert_eq!(all(set(&a).without(set(&b))), &a - &b);
            prop_assert_eq!(all(Hosts::first(count)), (0..count).collect());
            let mut less = set(&a);
            less.remove(count.min(191));
            prop_assert!(!less.has(count.min(191)) && Hosts::<3>::one(count.min(191)).count() == 1);
        }
    }
}
