//! The simulator keeps the promises that every back end makes, and no others.

use tombolo_memory::{Site, conformance};
use tombolo_simulator::{Config, Mutant, Simulation, Trial, find_failure};

fn conform(trial: &Trial) {
    let mut simulation = Simulation::new(Config::default(), trial);
    let second = simulation.memory(1);
    simulation.spawn(0, move |first| conformance::check_all(&first, &second));
    simulation.run().unwrap();
}

/// Conformance speaks for single operations: whose a line is is a matter of protocols.
fn trial() -> Trial {
    Trial::new(0).unsanitized()
}

#[test]
fn simulated_memory_conforms() {
    assert_eq!(find_failure(&trial(), 0..50, conform), None);
}

#[test]
fn without_flushes_hosts_see_stale_bytes() {
    let unflushed = trial().leaving_out(Mutant::Step(Site::new("conformance")));
    assert!(find_failure(&unflushed, 0..50, conform).is_some());
}
