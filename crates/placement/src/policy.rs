use crate::{Costs, Place, Placement, Profile};

/// MEGALON's policies (sections 3.5.2 and 3.5.3): accesses in a row, whatever they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A thing is copied once it was accessed so often.
    pub copy_after: u32,
    /// A thing moves into near memory once it was accessed so often; twice as often for each move
    /// that was in vain.
    pub move_after: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { copy_after: 2, move_after: 8 }
    }
}

impl Placement for Thresholds {
    fn place(&self, seen: &Profile, _: Place, _: &Costs) -> Place {
        let accesses = seen.accesses();
        if accesses >= doubled(u64::from(self.move_after), seen.in_vain) {
            Place::Partition
        } else if accesses >= u64::from(self.copy_after) {
            Place::Copied
        } else {
            Place::Shared
        }
    }
}

/// The policy of TPP and NOMAD: a thing that is seen a second time is brought, whatever that costs.
///
/// It is never given back by a decision. The caller does so when near memory runs short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recency;

impl Placement for Recency {
    fn place(&self, seen: &Profile, at: Place, _: &Costs) -> Place {
        match at {
            Place::Shared if seen.accesses() >= 2 => Place::Copied,
            _ => at,
        }
    }
}

/// Brings a thing once its reads have cost as much more than near ones as the moves would have.
///
/// The condition is `reads * (far - near) > (1 + others) * bring << in_vain`, where `give_back`
/// adds to `bring` if the thing was written. Hand-overs decide, not the share of reads: each makes
/// the caller bring the thing anew. What does not meet the condition goes, or stays, out.
/// A copy becomes [`Place::Partition`] by a write, which is the caller's doing, not by a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakEven;

impl Placement for BreakEven {
    fn place(&self, seen: &Profile, at: Place, costs: &Costs) -> Place {
        match at {
            _ if gain(seen, costs) <= price(seen, costs) => Place::Shared,
            Place::Partition => Place::Partition,
            Place::Shared | Place::Copied => Place::Copied,
        }
    }
}

/// The cost that the reads would have saved in near memory.
fn gain(seen: &Profile, costs: &Costs) -> u64 {
    u64::from(seen.reads).saturating_mul(costs.far.saturating_sub(costs.near))
}

/// The cost of having had the thing in near memory for these reads.
fn price(seen: &Profile, costs: &Costs) -> u64 {
    let give_back = if seen.writes > 0 { costs.give_back } else { 0 };
    let moves = 1 + u64::from(seen.others);
    doubled(moves.saturating_mul(costs.bring.saturating_add(give_back)), seen.in_vain)
}

/// `cost`, doubled so many `times`; `u64::MAX` if it does not fit.
fn doubled(cost: u64, times: u32) -> u64 {
    cost.saturating_mul(1u64.checked_shl(times).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COSTS: Costs = Costs { far: 400, near: 100, bring: 900, give_back: 600 };
    const PLACES: [Place; 3] = [Place::Shared, Place::Copied, Place::Partition];

    fn seen(reads: u32, writes: u32, others: u32, in_vain: u32) -> Profile {
        Profile { reads, writes, others, in_vain }
    }

    #[test]
    fn thresholds_count_accesses_and_wait_longer_after_moves_in_vain() {
        let policy = Thresholds { copy_after: 2, move_after: 4 };
        let place = |reads, writes, in_vain| {
            let profile = seen(reads, writes, 9, in_vain);
            let places = PLACES.map(|at| policy.place(&profile, at, &COSTS));
            assert_eq!(places, [places[0]; 3], "where the thing is does not matter");
            places[0]
        };
        assert_eq!([1, 2, 4].map(|n| place(n, 0, 0)), PLACES);
        assert_eq!([1, 2, 4].map(|n| place(0, n, 0)), PLACES);
        assert_eq!(place(3, 1, 0), Place::Partition);
        assert_eq!(
            [4, 7, 8].map(|n| place(n, 0, 1)),
            [Place::Copied, Place::Copied, Place::Partition]
        );
    }

    #[test]
    fn recency_brings_at_the_second_sighting_and_never_gives_back() {
        let place = |reads, writes, at| Recency.place(&seen(reads, writes, 9, 9), at, &COSTS);
        assert_eq!(place(1, 0, Place::Shared), Place::Shared);
        assert_eq!(place(2, 0, Place::Shared), Place::Copied);
        assert_eq!(place(1, 1, Place::Shared), Place::Copied);
        assert_eq!(place(1, 0, Place::Copied), Place::Copied);
        assert_eq!(place(9, 9, Place::Copied), Place::Copied);
        assert_eq!(place(0, 1, Place::Partition), Place::Partition);
    }

    #[test]
    fn break_even_brings_what_its_reads_have_paid_for() {
        let place = |seen: Profile| BreakEven.place(&seen, Place::Shared, &COSTS);
        let brought_at = |others, writes, in_vain| {
            (0..1000).find(|&reads| place(seen(reads, writes, others, in_vain)) == Place::Copied)
        };
        assert_eq!(brought_at(0, 0, 0), Some(4), "three reads are as dear as bringing it");
        assert_eq!(brought_at(2, 0, 0), Some(10), "three moves");
        assert_eq!(brought_at(0, 1, 0), Some(6), "it has to be given back");
        assert_eq!(brought_at(0, 0, 3), Some(25));
    }

    #[test]
    fn a_page_that_is_mostly_read_but_goes_back_and_forth_is_left_out() {
        let place = |others| BreakEven.place(&seen(95, 5, others, 0), Place::Shared, &COSTS);
        assert_eq!(place(0), Place::Copied);
        assert_eq!(place(95), Place::Shared);
    }

    #[test]
    fn break_even_keeps_what_pays_and_gives_back_what_does_not() {
        let pays = PLACES.map(|at| BreakEven.place(&seen(100, 9, 0, 0), at, &COSTS));
        assert_eq!(pays, [Place::Copied, Place::Copied, Place::Partition]);
        let not = PLACES.map(|at| BreakEven.place(&seen(100, 9, 99, 0), at, &COSTS));
        assert_eq!(not, [Place::Shared; 3]);
    }

    #[test]
    fn near_memory_that_is_no_faster_gets_nothing() {
        let slow = Costs { near: 500, bring: 0, give_back: 0, ..COSTS };
        let place = BreakEven.place(&seen(u32::MAX, 0, 0, 0), Place::Shared, &slow);
        assert_eq!(place, Place::Shared);
    }

    fn profiles() -> impl Strategy<Value = Profile> {
        (counts(), counts(), counts(), prop_oneof![0..70u32, any::<u32>()])
            .prop_map(|(reads, writes, others, in_vain)| seen(reads, writes, others, in_vain))
    }

    fn counts() -> impl Strategy<Value = u32> {
        prop_oneof![0..100u32, any::<u32>(), Just(u32::MAX)]
    }

    fn amounts() -> impl Strategy<Value = u64> {
        prop_oneof![0..10_000u64, any::<u64>(), Just(u64::MAX)]
    }

    fn costs() -> impl Strategy<Value = Costs> {
        (amounts(), amounts(), amounts(), amounts())
            .prop_map(|(far, near, bring, give_back)| Costs { far, near, bring, give_back })
    }

    fn places() -> impl Strategy<Value = Place> {
        prop::sample::select(&PLACES[..])
    }

    /// The condition in numbers that hold it, as far as `in_vain` allows.
    fn worth(seen: &Profile, costs: &Costs) -> bool {
        let gain = u128::from(seen.reads) * u128::from(costs.far.saturating_sub(costs.near));
        let give_back = if seen.writes > 0 { costs.give_back } else { 0 };
        let bring = u128::from(costs.bring) + u128::from(give_back);
        let price = (1 + u128::from(seen.others)) * bring;
        price.checked_mul(1 << seen.in_vain.min(30)).is_some_and(|price| gain > price)
    }

    proptest! {
        #[test]
        fn no_profile_and_no_costs_overflow(
            profile in profiles(), costs in costs(), at in places(),
            copy_after in counts(), move_after in counts(),
        ) {
            Thresholds { copy_after, move_after }.place(&profile, at, &costs);
            Recency.place(&profile, at, &costs);
            BreakEven.place(&profile, at, &costs);
        }

        #[test]
        fn break_even_is_its_condition(
            profile in profiles(), in_vain in 0..20u32, costs in costs(), at in places(),
        ) {
            let profile = Profile { in_vain, ..profile };
            let place = BreakEven.place(&profile, at, &costs);
            if place != Place::Shared {
                prop_assert!(worth(&profile, &costs), "it never pays too much");
            } else if worth(&profile, &costs) {
                prop_assert_eq!(price(&profile, &costs), u64::MAX, "only what does not fit");
            }
        }

        #[test]
        fn only_thresholds_decide_that_a_thing_moves_in(
            profile in profiles(), costs in costs(),
        ) {
            for at in [Place::Shared, Place::Copied] {
                prop_assert_ne!(Recency.place(&profile, at, &costs), Place::Partition);
                prop_assert_ne!(BreakEven.place(&profile, at, &costs), Place::Partition);
            }
        }

        #[test]
        fn more_reads_bring_a_thing_no_later_and_more_others_no_sooner(
            profile in profiles(), more in counts(), costs in costs(),
        ) {
            let brought =
                |profile: &Profile| BreakEven.place(profile, Place::Shared, &costs) == Place::Copied;
            let read = Profile { reads: profile.reads.saturating_add(more), ..profile };
            let handed = Profile { others: profile.others.saturating_add(more), ..profile };
            let vain = Profile { in_vain: profile.in_vain.saturating_add(more), ..profile };
            prop_assert!(brought(&read) || !brought(&profile));
            prop_assert!(brought(&profile) || !brought(&handed));
            prop_assert!(brought(&profile) || !brought(&vain));
        }

        #[test]
        fn thresholds_are_reached_by_accesses_alone(
            profile in profiles(), copy_after in counts(), move_after in counts(),
        ) {
            let policy = Thresholds { copy_after, move_after };
            let place = policy.place(&profile, Place::Shared, &Costs::default());
            let accesses = profile.accesses();
            if place == Place::Partition {
                prop_assert!(accesses >= u64::from(move_after));
            } else if place == Place::Copied {
                prop_assert!(accesses >= u64::from(copy_after));
            } else {
                prop_assert!(accesses < u64::from(copy_after));
            }
        }
    }
}
