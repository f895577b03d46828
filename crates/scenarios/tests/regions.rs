//! Faults of regions that the simulator has found, each at its seeds.

use tombolo_scenarios::SCENARIOS;
use tombolo_simulator::Trial;

/// A host died as it joined. The last other one wanted to leave, and waited for it for ever: no
/// thread looked whether it lived.
#[test]
fn a_host_that_died_as_it_joined_keeps_none_from_leaving() {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == "region-host-dies").unwrap();
    (190..210).for_each(|seed| (scenario.run)(&Trial::new(seed)));
}
