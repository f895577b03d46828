//! The machine as a whole: no page and no write is lost, and one seed gives one run.

use proptest::prelude::*;
use tombolo_timing::Profile;

use crate::load::{Chase, Hottest, Liblinear, Micro, PageRank, Redis, Scan};
use crate::memory::{Marks, Memory};
use crate::{Counters, Load, Machine, Policy, Round, System, Tier};

const POLICIES: [Policy; 6] = [
    Policy::None,
    Policy::Tpp,
    Policy::MEMTIS,
    Policy::MEMTIS_QUICK,
    Policy::Nomad,
    Policy::BreakEven,
];

fn profile() -> Profile {
    Profile::parse("nomad-a", include_str!("../../../profiles/nomad-a.toml")).unwrap()
}

/// A machine with 16 GiB in each tier, at a 1024th of its size.
fn machine(policy: Policy) -> Machine {
    Machine::new(&profile(), policy, 16.0, 16.0, 1.0 / 1024.0)
}

/// Rounds of a load on pages that fill the fast tier first.
fn rounds(policy: Policy, pages: u32, threads: usize, load: &mut dyn Load) -> Vec<Round> {
    let places = (0..pages).map(|_| Tier::Fast);
    let mut system = System::new(machine(policy), threads, places);
    let run = |_| {
        let round = system.run(load);
        system.rest(1.0);
        system.check().unwrap_or_else(|wrong| panic!("{policy:?}: {wrong}"));
        round
    };
    (0..3).map(run).collect()
}

fn micro(is_write: bool, seed: u64) -> Micro {
    Micro::new(0..7000, 7_000_000, Hottest::Anywhere, is_write, 30_000, seed)
}

fn last(rounds: &[Round]) -> Counters {
    rounds.last().unwrap().counters
}

#[test]
fn no_policy_loses_a_page_or_a_write() {
    for policy in POLICIES {
        rounds(policy, 7000, 1, &mut micro(true, 1));
        rounds(policy, 7000, 1, &mut micro(false, 2));
        rounds(policy, 6000, 1, &mut Redis::new(3000, 3_000_000, 6000, 20_000, 3));
        rounds(policy, 6000, 8, &mut PageRank::new(200, 5800, 2, 8, 4));
        rounds(policy, 6000, 8, &mut Liblinear::new(50, 5950, 3, 8, 5));
        rounds(policy, 6000, 1, &mut Chase::new(6, 1000, 6, 6));
        rounds(policy, 7000, 1, &mut Scan::new(0..7000));
    }
}

#[test]
fn one_seed_gives_one_run() {
    for policy in POLICIES {
        let run = |seed| rounds(policy, 7000, 1, &mut micro(true, seed));
        let (first, again, other) = (run(1), run(1), run(2));
        assert_eq!(last(&first), last(&again), "{policy:?}");
        assert_eq!(first[2].seconds, again[2].seconds, "{policy:?}");
        assert_ne!(first[2].seconds, other[2].seconds, "{policy:?}");
    }
}

#[test]
fn without_migration_nothing_moves_and_nothing_faults() {
    let counters = last(&rounds(Policy::None, 7000, 1, &mut micro(true, 1)));
    assert_eq!((counters.promotions, counters.demotions(), counters.hint_faults), (0, 0, 0));
}

/// TPP faults until the batch of 15 is full, NOMAD once.
#[test]
fn a_promotion_takes_many_faults_with_tpp_and_one_with_nomad() {
    let faults = |policy| {
        let counters = last(&rounds(policy, 7000, 1, &mut micro(false, 1)));
        assert!(counters.promotions > 100, "{counters:?}");
        counters.hint_faults as f64 / counters.promotions as f64
    };
    let (tpp, nomad) = (faults(Policy::Tpp), faults(Policy::Nomad));
    assert!((15.0..=18.0).contains(&tpp), "{tpp}");
    assert!((1.0..=1.6).contains(&nomad), "{nomad}");
}

/// A working set that exceeds the fast tier is swapped by NOMAD, and left alone by thrash control.
#[test]
fn thrash_control_stops_promotions_that_only_swap() {
    let promotions = |policy| {
        let counters = last(&rounds(policy, 7000, 1, &mut micro(false, 1)));
        (counters.promotions, counters.seconds())
    };
    let (nomad, ours) = (promotions(Policy::Nomad), promotions(Policy::BreakEven));
    assert!(2 * ours.0 < nomad.0, "{ours:?} {nomad:?}");
    assert!(ours.1 < nomad.1, "{ours:?} {nomad:?}");
}

impl Counters {
    /// Time of all threads.
    fn seconds(&self) -> f64 {
        (self.user_ps + self.fault_ps + self.promotion_ps) as f64 / 1e12
    }
}

/// Writes to pages that are copied are seen, and the promotion is tried again.
#[test]
fn a_page_that_is_written_while_it_is_copied_stays() {
    let places = (0..4000).map(|_| Tier::Slow);
    let mut system = System::new(machine(Policy::Nomad), 16, places);
    let counters = system.run(&mut Liblinear::new(20, 3980, 4, 16, 1)).counters;
    system.check().unwrap();
    assert!(counters.aborts > 0 && counters.promotions > 0, "{counters:?}");
}

/// One step of what may happen to a page.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u32),
    Migrate(u32),
    Begin(u32),
    End(bool),
    Demote(u32),
    Reclaim(u32),
}

const PAGES: u32 = 12;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = 0..PAGES;
    let step = prop_oneof![
        page.clone().prop_map(Step::Write),
        page.clone().prop_map(Step::Migrate),
        page.clone().prop_map(Step::Begin),
        any::<bool>().prop_map(Step::End),
        page.clone().prop_map(Step::Demote),
        (0..4u32).prop_map(Step::Reclaim),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// After any steps in any order: each frame holds one thing, shadows are as their pages,
    /// and a page has what was written last.
    #[test]
    fn every_page_is_in_one_frame_with_its_last_write(steps in steps(), fast in 1..10u32) {
        let places = (0..PAGES).map(|page| if page % 2 == 0 { Tier::Fast } else { Tier::Slow });
        let mut memory = Memory::new([fast, 16], places);
        let mut under_way = None;
        for step in steps {
            match step {
                Step::Write(page) => {
                    memory.drop_shadow(page);
                    memory.write(page);
                }
                // The promoter's page is its own, until it ends.
                Step::Migrate(page) if under_way.is_none() => {
                    memory.migrate(page);
                }
                Step::Begin(page) if under_way.is_none() && memory.tier(page) == Tier::Slow => {
                    under_way = memory.begin(page);
                }
                Step::End(keeps_shadow) => {
                    if let Some(transaction) = under_way.take() {
                        let is_dirty = memory.has(transaction.page, Marks::DIRTY);
                        prop_assert_eq!(memory.end(transaction, keeps_shadow), !is_dirty);
                    }
                }
                Step::Demote(page) => {
                    memory.demote_to_shadow(page);
                }
                Step::Reclaim(count) => {
                    let before = memory.shadows();
                    prop_assert_eq!(memory.reclaim_shadows(count), count.min(before));
                }
                _ => {}
            }
            let checked = memory.check(usize::from(under_way.is_some()));
            prop_assert!(checked.is_ok(), "{:?} after {:?}", checked, step);
        }
    }
}
