//! Every scenario holds under a few seeds, and runs can be done again.
//!
//! That every step is needed, that hosts may die at every step, and more seeds, is what the command
//! `tombolo check` shows: it fails if a step or a death is missed.

use tombolo_scenarios::campaign::{Conditions, Control, run};
use tombolo_scenarios::{SCENARIOS, sites};
use tombolo_simulator::{Aim, Death, Fate, Trial};

#[test]
fn every_scenario_holds() {
    let tally = run(SCENARIOS, 0..20, &Conditions::default(), &Control::default());
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
    assert_eq!(tally.undecided, 0);
    assert!(!tally.coverage.crash_points().is_empty());
}

/// Seeds from the named one on, since code that changes moves schedules.
const SEEDS: u64 = 100;

/// Deaths after which something was wrong once: the scenario, the first seed, the step, which time,
/// operations later, and what became of dirty lines.
const ONCE_WRONG: &[(&str, u64, &str, u32, u32, Fate)] = &[
    ("host-dies", 335, "objects.chain.assign", 1, 3, Fate::Some),
    ("host-dies", 351, "objects.chain.assign", 1, 3, Fate::Written),
    ("several-die", 92, "objects.event.move", 1, 2, Fate::Some),
    ("openers-die", 119, "objects.event.generation", 3, 4, Fate::One),
    ("dies-again", 75, "pod.mail.more", 1, 3, Fate::Written),
    ("messages-host-dies", 276, "messages.receive.invalidate", 1, 3, Fate::Lost),
    ("messages-two-die", 466, "messages.clear.audience", 2, 2, Fate::Written),
];

#[test]
fn what_went_wrong_once_does_not_again() {
    for &(name, seed, site, crossing, operations, fate) in ONCE_WRONG {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
        let site = sites().find(|known| known.name() == site).unwrap();
        let aim = Aim { site, crossing, operations, fate, line: None };
        let deaths = (seed..seed + SEEDS).map(|seed| {
            let trial = Trial::new(seed).with_death(Death::Aimed(aim));
            (scenario.run)(&trial);
            trial.observed().hits
        });
        assert!(deaths.sum::<u64>() > 0, "{name}, from seed {seed} on: nobody dies at {site:?}");
    }
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
        for seed in 0..8 {
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
