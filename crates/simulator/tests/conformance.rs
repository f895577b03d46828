//! The simulator keeps the promises that every back end makes, and no others.

use tombolo_memory::{Site, conformance};
use tombolo_simulator::{Config, Simulation, explore, find_failure};

fn conform(config: Config, seed: u64) {
    let mut simulation = Simulation::new(config, seed);
    let second = simulation.memory(1);
    simulation.spawn(0, move |first| conformance::check_all(&first, &second));
    simulation.run().unwrap();
}

fn config() -> Config {
    Config { hosts: 2, ..Config::default() }
}

#[test]
fn simulated_memory_conforms() {
    explore(0..50, |seed| conform(config(), seed));
}

#[test]
fn without_flushes_hosts_see_stale_bytes() {
    let unflushed = || config().without(Site::new("conformance"));
    assert!(find_failure(0..50, |seed| conform(unflushed(), seed)).is_some());
}
