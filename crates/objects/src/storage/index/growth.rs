//! Which bucket heads the chain of a hash, in a table that grows by one bucket at a time: linear
//! hashing with partial expansions (P.-Å. Larson, VLDB 1980).
//!
//! Buckets form groups of four to eight. The lowest bits of a hash say its group, and these are the
//! lowest bits of the numbers of all its buckets; what is above them in a number is the bucket's
//! *place* in the group. Groups grow one after the other, each by one bucket. Groups of eight are
//! twice as many groups of four: with as many buckets as a power of two, a bucket's number is the
//! lowest bits of its hashes.
//!
//! So no bucket has more than 4/3 of the entries that others have, on average, where it is twice as
//! many if buckets are split in two. That is why few of them overflow.

use crate::ids::KeyHash;

/// Buckets of a group, at least, and so of a table. It has twice as many at most.
pub(super) const LEAST: u64 = 4;

/// How much of a hash says where in its group it belongs: its lowest bits, above those of the
/// group.
const PARTS: usize = 64;

/// By how many buckets the group has, modulo eight, and by part of the hash: the place. A row is
/// one cache line.
const PLACES: [[u8; PARTS]; 2 * LEAST as usize] = places();

const fn places() -> [[u8; PARTS]; 2 * LEAST as usize] {
    let mut places = [[0; PARTS]; 2 * LEAST as usize];
    let mut buckets = LEAST;
    while buckets <= 2 * LEAST {
        let mut part = 0;
        while part < PARTS {
            places[(buckets % (2 * LEAST)) as usize][part] = place(buckets, part as u8);
            part += 1;
        }
        buckets += 1;
    }
    places
}

/// Of the hashes that will leave the first four places, how many have done so, in groups of four to
/// eight buckets; of eight, as nearly as can be for all buckets to have as many.
const HAVE_LEFT: [u8; 5] = [0, 3, 5, 7, 8];

/// The place in a group of so many buckets.
const fn place(buckets: u64, part: u8) -> u8 {
    let (of_four, of_eight) = (part % 4, part % 8);
    // The lowest bits count most: of a large table's hashes only these are left.
    let order = (part >> 3).reverse_bits() >> 5;
    if of_eight == of_four || order >= HAVE_LEFT[(buckets - LEAST) as usize] {
        return of_four;
    }
    match (buckets, of_eight) {
        (5, _) => 4,
        (6, _) => 4 + of_eight % 2,
        (7, 7) => 4 + order % 3,
        _ => of_eight,
    }
}

/// How many buckets a table has, as a word from which a lookup has little to work out.
///
/// ```text
/// buckets + 2^bits - 1 (56 bits) | bits of a hash that say its group (8)
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl Size {
    /// [`LEAST`] buckets, or more.
    pub(super) fn of(buckets: u64) -> Self {
        let bits = buckets.ilog2() - LEAST.ilog2();
        Self((buckets + (1 << bits) - 1) << u8::BITS | u64::from(bits))
    }

    pub(super) fn buckets(self) -> u64 {
        self.rounded_up() + 1 - (1 << self.bits())
    }

    pub(super) fn one_more(self) -> Self {
        Self::of(self.buckets() + 1)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        (self.0 as u8).into()
    }

    #[inline(always)]
    fn rounded_up(self) -> u64 {
        self.0 >> u8::BITS
    }
}

/// The group of buckets to which a hash belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    /// Bits of a hash that say its group.
    bits: u32,
    hash: u64,
    /// The hash without these bits.
    rest: u64,
    /// How many buckets the group has.
    buckets: u64,
}

impl Group {
    #[inline(always)]
    pub(super) fn of(hash: u64, size: Size) -> Self {
        let bits = size.bits();
        let rest = hash >> bits;
        // The count is the rounded-up size less the hash's lowest bits, shifted. It is quicker to
        // take all of the hash, and put the rest back.
        let buckets = size.rounded_up().wrapping_sub(hash).cast_signed() >> bits;
        Self { bits, hash, rest, buckets: rest.wrapping_add_signed(buckets) }
    }

    /// The number of the bucket at a place: it ends as the hash does.
    #[inline(always)]
    fn bucket(self, place: u64) -> u64 {
        self.hash.wrapping_add(place.wrapping_sub(self.rest) << self.bits)
    }

    /// The numbers of its buckets.
    pub(super) fn buckets(self) -> impl Iterator<Item = u64> {
        (0..self.buckets).map(move |place| self.bucket(place))
    }

    /// The bits that all its hashes end with, and how many.
    pub(super) fn number(self) -> (u64, u32) {
        (self.bucket(0), self.bits)
    }
}

/// The bucket for `hash`.
#[inline(always)]
pub(super) fn bucket_number(hash: KeyHash, size: Size) -> u64 {
    let group = Group::of(hash.into(), size);
    let row = group.buckets as usize % PLACES.len();
    group.bucket(PLACES[row][group.rest as usize % PARTS].into())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How many of 2^16 hashes, all that there are of 16 bits, each bucket has.
    fn shares(buckets: u64) -> Vec<u32> {
        let mut shares = vec![0; buckets as usize];
        let size = Size::of(buckets);
        (0..1 << 16).for_each(|hash| shares[bucket_number(hash, size) as usize] += 1);
        shares
    }

    #[test]
    fn with_as_many_buckets_as_a_power_of_two_a_number_is_the_lowest_bits() {
        for buckets in [4, 8, 1 << 10, 1 << 20, 1 << 31] {
            for hash in (0..1000).map(|n: u32| n.wrapping_mul(0x9e37_79b9)) {
                assert_eq!(bucket_number(hash, Size::of(buckets)), u64::from(hash) % buckets);
            }
        }
    }

    #[test]
    fn no_bucket_has_many_more_than_others() {
        for buckets in 4..=64 {
            let shares = shares(buckets);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most * 3 <= least * 4, "{buckets} buckets: {least} to {most}");
        }
    }

    /// A table that has hardly more bits than its numbers take.
    #[test]
    fn buckets_of_a_large_table_have_twice_as_many_at_most() {
        for buckets in (1 << 13..=1 << 14).step_by(1 << 10) {
            let shares = shares(buckets);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most <= &(2 * least), "{buckets} buckets: {least} to {most}");
        }
    }

    #[test]
    fn a_table_that_grows_changes_one_group() {
        for buckets in 4..512 {
            let (size, next) = (Size::of(buckets), Size::of(buckets).one_more());
            assert!(size.buckets() == buckets && next.buckets() == buckets + 1);
            let grown = Group::of(buckets, size);
            for hash in 0..1 << 12 {
                let (before, after) = (bucket_number(hash, size), bucket_number(hash, next));
                let is_in = Group::of(hash.into(), size).number() == grown.number();
                assert!(before == after || is_in, "{hash} with {buckets} buckets");
                assert!(after <= buckets && (after < buckets || is_in));
                assert_eq!(grown.buckets().any(|bucket| bucket == before), is_in);
            }
        }
    }
}
