//! Objects in the simulator: whatever the caches and the scheduler do, every history is
//! linearizable, and every step of the protocol is needed for that.

mod scenarios;
mod world;

use scenarios::SCENARIOS;
use tombolo_simulator::{explore, find_failure};
use world::config;

/// Seeds per scenario: enough to meet what is rare.
const SEEDS: u64 = 300;

/// Seeds per scenario within which the absence of a step must show.
const SEEDS_TO_MISS_A_STEP: u64 = 4_000;

#[test]
fn every_scenario_holds() {
    for (name, scenario) in SCENARIOS {
        if let Some((seed, why)) = find_failure(0..SEEDS, |seed| scenario(config(), seed)) {
            panic!("{name}, seed {seed}: {why}");
        }
    }
}

#[test]
fn every_step_is_needed() {
    let sites = tombolo_objects::SITES.iter().chain(tombolo_pod::SITES);
    let survivors: Vec<_> = sites
        .filter(|&&site| site.name() != "pod.clock.advance")
        .filter(|&&site| {
            SCENARIOS.iter().all(|(_, scenario)| {
                let seeds = 0..SEEDS_TO_MISS_A_STEP;
                find_failure(seeds, |seed| scenario(config().without(site), seed)).is_none()
            })
        })
        .collect();
    assert!(survivors.is_empty(), "nothing fails without {survivors:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    explore(0..5, |seed| {
        let steps = || {
            let mut world = world::World::new(config(), seed, 3, 2);
            scenarios::add_mixed_clients(&mut world, &["a", "b"], 5, 8);
            world.finish()
        };
        assert_eq!(steps(), steps());
    });
}
