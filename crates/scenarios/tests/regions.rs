//! The scenarios of regions alone: a short way to what `tombolo check` does with all of them.

use tombolo_scenarios::campaign::{Conditions, Control, run};
use tombolo_scenarios::{SCENARIOS, Scenario, hunt, mutants};
use tombolo_simulator::Trial;

fn scenarios() -> Vec<Scenario> {
    SCENARIOS.iter().filter(|scenario| scenario.name.starts_with("region")).copied().collect()
}

#[test]
fn regions_hold() {
    let conditions = Conditions { failures: 2, ..Conditions::default() };
    let tally = run(&scenarios(), 1000..1060, &conditions, &Control::default());
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
}

/// A host died as it joined. The last other one wanted to leave, and waited for it for ever: no
/// thread looked whether it lived.
#[test]
fn a_host_that_died_as_it_joined_keeps_none_from_leaving() {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == "region-host-dies").unwrap();
    (190..210).for_each(|seed| (scenario.run)(&Trial::new(seed)));
}

#[test]
#[ignore = "`tombolo check --mutants` does the same, with all scenarios"]
fn each_step_of_regions_is_needed() {
    let conditions = Conditions::default();
    let crossed = run(&scenarios(), 0..20, &conditions, &Control::default()).coverage;
    let mut ours = mutants(&crossed);
    ours.retain(|mutant| mutant.to_string().starts_with("regions."));
    assert!(ours.len() > 10, "{ours:?}");
    let hunted = hunt(&scenarios(), &ours, &[0], 3000, &conditions, &Control::default());
    for found in &hunted {
        eprintln!("{}: {:?}", found.mutant, found.kills);
    }
    let spared: Vec<_> = hunted.iter().filter(|found| !found.is_killed()).collect();
    assert!(spared.is_empty(), "{spared:#?}");
}
