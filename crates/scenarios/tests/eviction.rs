//! Eviction under more seeds than the campaign has, and without each of its steps.

use tombolo_scenarios::campaign::{Conditions, Control, run};
use tombolo_scenarios::{SCENARIOS, Scenario, sites};
use tombolo_simulator::Mutant;

fn scenario(name: &str) -> Scenario {
    *SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap()
}

#[test]
fn hosts_evict_while_others_write_view_and_die() {
    let names = ["evict-and-write", "evict-and-view", "eviction", "use-clock", "evictor-dies"];
    let tally = run(&names.map(scenario), 0..60, &Conditions::default(), &Control::default());
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
}

#[test]
fn each_step_of_eviction_is_needed() {
    let steps = [
        ("objects.evict.viewed", "evict-and-view"),
        ("objects.evict.version", "evict-and-write"),
        ("kv.uses.clean", "eviction"),
        ("kv.uses.invalidate", "eviction"),
        ("kv.uses.tick", "use-clock"),
    ];
    for (step, name) in steps {
        let site = sites().find(|site| site.name() == step).unwrap();
        let without = Some(Mutant::Step(site));
        let conditions = Conditions { without, ..Conditions::default() };
        let tally = run(&[scenario(name)], 0..600, &conditions, &Control::default());
        assert!(!tally.failures.is_empty(), "{name} holds without {step}");
    }
}
