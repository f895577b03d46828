//! Every scenario holds, and every step is needed. The command `tombolo check` does the same at length.

use tombolo_memory::Site;
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

/// Steps (or what their names begin with) that nobody makes where hosts die, and why.
const NO_DEATHS: &[(&str, &str)] = &[
    ("objects.open.empty", "by who opens a pod with marks, and is left alone"),
    ("kv.", "hosts that die have no store, only objects"),
    ("pod.clock.", "nor deadlines"),
    ("objects.batch.", "nor do they read objects together"),
    ("log.segment.withdraw", "by a host that was fenced alive, and is not killed then"),
    ("objects.fenced.abandons", "by a host that was fenced alive, and is not killed then"),
    ("objects.open.torn", "by who opens a pod after all have died, and is left alone"),
];

/// Steps (or what their names begin with) at which hosts may die, but do in few schedules, or in none of those that
/// are run here. Under HCMeta all hosts die or none, since nobody clears up.
const SELDOM: &[&str] = &[
    "hcmeta.",
    "memory.store.alone",
    "pod.transfer.invalidate",
    "pod.transfer.answer",
    "pod.mail.clean",
    "pod.mail.take",
    "pod.mail.stay",
    "pod.mail.renew",
    "pod.mail.gone",
    "pod.mail.ring",
    "pod.mail.hear",
    "pod.mail.hear-first",
    "objects.copy.generation",
    "objects.copy.counter",
    "objects.home.clean",
    "objects.home.leave",
    "objects.event.return",
    "objects.event.lose",
    "objects.event.rescue",
    "objects.event.forget",
    "objects.undo.invalidate",
    "objects.rescue.generation",
    "objects.rescue.clean",
    "objects.delete.unmarked",
    "objects.chunk.empty",
    "objects.poison.rescue",
    "objects.compact.lock",
    "objects.lost.alone",
    "objects.join.unknown",
    "objects.open.invalidate",
    "objects.copy.entry-again",
    "objects.copy.unnamed",
    "objects.home.answer-meanwhile",
    "objects.event.settle",
    "objects.delete.found",
    "objects.lost.unmarked",
    "objects.latch.free",
    "objects.open.other",
    "pagecache.cut.pages",
    "pagecache.held.by-dead",
    "pagecache.read.grown",
    "pagecache.dead.keep",
    "pagecache.grown.by-dead",
    "pagecache.lost.head-size",
    "pagecache.header.",
    "pagecache.evict.clean",
    "pagecache.evict.size",
];

/// At each step a host has died: a thread of it had come to that step, and not yet to what it does next.
#[test]
fn hosts_die_at_every_step() {
    let deadly: Vec<Scenario> =
        SCENARIOS.iter().filter(|scenario| scenario.kind == Kind::Crash).copied().collect();
    let tally = run(&deadly, 0..2000, &Conditions::default(), &Control::default());
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
    let died_at = tally.coverage.deaths();
    let never = |site: &Site| NO_DEATHS.iter().any(|(name, _)| site.name().starts_with(name));
    let seldom = |site: &Site| SELDOM.iter().any(|name| site.name().starts_with(name));
    let survived: Vec<Site> =
        sites().filter(|site| !never(site) && !seldom(site) && !died_at.contains(site)).collect();
    assert!(survived.is_empty(), "nobody has died at {survived:?}");
    let unexpected: Vec<&Site> = died_at.iter().filter(|site| never(site)).collect();
    assert!(unexpected.is_empty(), "hosts do die at {unexpected:?}");
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
