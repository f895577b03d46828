//! Every scenario holds, and every step is needed. The command `tombolo check` does the same at length.

use tombolo_scenarios::campaign::{Conditions, Control, exhaust, run};
use tombolo_scenarios::{Kind, SCENARIOS, Scenario, hunt, mutants, sites};
use tombolo_simulator::Trial;

#[test]
fn every_scenario_holds() {
    let tally = run(SCENARIOS, 0..300, &Conditions::default(), &Control::default());
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
    assert_eq!(tally.undecided, 0);
    let crossed = tally.coverage.sites();
    let known: Vec<_> = sites().collect();
    assert!(crossed.keys().all(|site| known.contains(site)), "a site is not registered");
    let missed: Vec<_> = known.iter().filter(|site| !crossed.contains_key(*site)).collect();
    assert!(missed.is_empty(), "never crossed: {missed:?}");
    assert!(!tally.coverage.crash_points().is_empty());
}

#[test]
fn every_schedule_with_one_preemption_holds() {
    let short: Vec<Scenario> =
        SCENARIOS.iter().filter(|scenario| scenario.kind == Kind::Short).copied().collect();
    let tally = exhaust(&short, 1, 0, &Conditions::default(), &Control::default());
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
}

#[test]
fn every_step_is_needed() {
    let conditions = Conditions::default();
    let crossed = run(SCENARIOS, 0..20, &conditions, &Control::default()).coverage;
    let hunted =
        hunt(SCENARIOS, &mutants(&crossed), &[0], 60_000, &conditions, &Control::default());
    let survivors: Vec<_> =
        hunted.iter().filter(|hunted| !hunted.is_killed()).map(|hunted| hunted.mutant).collect();
    assert!(survivors.is_empty(), "nothing fails without {survivors:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for scenario in SCENARIOS {
        for seed in 0..8 {
            let timeline = || {
                let trial = Trial::new(seed).recorded();
                (scenario.run)(&trial);
                let observed = trial.observed();
                (observed.steps, observed.timeline.render(usize::MAX), observed.schedule.clone())
            };
            assert!(timeline() == timeline(), "{}, seed {seed}", scenario.name);
        }
    }
}

#[test]
fn a_schedule_that_was_recorded_gives_the_same_run() {
    use tombolo_simulator::Adversary::Script;
    for scenario in SCENARIOS {
        for seed in 0..24 {
            let first = Trial::new(seed).recorded();
            (scenario.run)(&first);
            let schedule = first.observed().schedule.clone();
            let again = first.with_adversary(Script(schedule, None)).recorded();
            (scenario.run)(&again);
            let timeline = |trial: &Trial| trial.observed().timeline.render(usize::MAX);
            assert!(timeline(&first) == timeline(&again), "{}, seed {seed}", scenario.name);
        }
    }
}
