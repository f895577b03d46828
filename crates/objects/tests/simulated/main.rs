//! Objects in the simulator: whatever the caches and the scheduler do, every history is
//! linearizable, and every step of the protocol is needed for that.

mod scenarios;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use scenarios::SCENARIOS;
use tombolo_memory::Site;
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
    let sites: Vec<Site> = tombolo_objects::SITES
        .iter()
        .chain(tombolo_pod::SITES)
        .chain(tombolo_simulator::SITES)
        // Deadlines are what the key-value store tests.
        .filter(|site| site.name() != "pod.clock.advance")
        .copied()
        .collect();
    let next = AtomicUsize::new(0);
    let survivors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(&site) = sites.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !is_missed(site) {
                        survivors.lock().unwrap().push(site);
                    }
                }
            });
        }
    });
    let survivors = survivors.into_inner().unwrap();
    assert!(survivors.is_empty(), "nothing fails without {survivors:?}");
}

/// Whether some scenario fails without `site`.
fn is_missed(site: Site) -> bool {
    let all = |seed| {
        SCENARIOS.iter().for_each(|(_, scenario)| scenario(config().without(site), seed));
    };
    find_failure(0..SEEDS_TO_MISS_A_STEP, all).is_some()
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
