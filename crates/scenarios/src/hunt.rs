//! Mutants: a step of a protocol is left out, and some scenario has to fail.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_simulator::{Caches, Mutant, catch, enumerate};

use crate::Kind;
use crate::Scenario;
use crate::campaign::{Conditions, Control};
use crate::registry::WRITTEN_FOR;

/// Seeds under which every scenario is tried for a mutant, before only those are in which its step
/// was met: in the others nothing is different without it.
const FIRST_LOOK: u64 = 8;

/// Seeds under which these are tried, before the most promising ones are.
const LOOK_AROUND: u64 = 100;

/// Scenarios that are tried on.
const PROMISING: usize = 2;

/// Preemptions in schedules that are enumerated.
const PREEMPTIONS: usize = 3;

/// The fate of a mutant.
#[derive(Clone, Debug)]
pub struct Hunted {
    /// The mutant.
    pub mutant: Mutant,
    /// Schedules it took, from each start.
    pub schedules: Vec<u64>,
    /// How it was found, from each start.
    pub kills: Vec<Option<Kill>>,
}

impl Hunted {
    /// Whether it was found from every start.
    pub fn is_killed(&self) -> bool {
        self.kills.iter().all(Option::is_some)
    }
}

/// Leaves out one step at a time, and looks for a failure within `bound` schedules from each of the
/// `starts`.
pub fn hunt(
    scenarios: &[Scenario],
    mutants: &[Mutant],
    starts: &[u64],
    bound: u64,
    conditions: &Conditions,
    control: &Control,
) -> Vec<Hunted> {
    let from = |mutant| starts.iter().map(move |&start| (mutant, start));
    let jobs: Vec<(Mutant, u64)> = mutants.iter().copied().flat_map(from).collect();
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<(u64, Option<Kill>)>> = vec![OnceLock::new(); jobs.len()];
    std::thread::scope(|scope| {
        for _ in 0..conditions.jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(mutant, start)) = jobs.get(number) else { break };
                    let conditions = Conditions { without: Some(mutant), ..conditions.clone() };
                    results[number]
                        .get_or_init(|| hunt_from(scenarios, start, bound, &conditions, control));
                }
            });
        }
    });
    let mut results = results.into_iter().map(|result| result.into_inner().expect("all are done"));
    let mut found: Vec<Hunted> = mutants
        .iter()
        .map(|&mutant| {
            let (schedules, kills) = results.by_ref().take(starts.len()).unzip();
            Hunted { mutant, schedules, kills }
        })
        .collect();
    found.sort_by_key(|hunted| hunted.mutant);
    found
}

/// How a mutant was found: the scenario, the seed, and what went wrong.
pub type Kill = (&'static str, u64, String);

/// Every scenario under a few seeds, and then those in which the step matters most under many;
/// before that, what was written for the step.
fn hunt_from(
    scenarios: &[Scenario],
    start: u64,
    bound: u64,
    conditions: &Conditions,
    control: &Control,
) -> (u64, Option<Kill>) {
    let site = match conditions.without {
        Some(Mutant::Step(site) | Mutant::Fence(site)) => site,
        None => return (0, None),
    };
    let written_for = WRITTEN_FOR.iter().find(|(name, _)| *name == site.name());
    let written_for = written_for
        .and_then(|(_, wanted)| scenarios.iter().find(|scenario| scenario.name == *wanted));
    let (mut schedules, mut kill) = (0, None);
    if let Some(scenario) = written_for {
        // Seeds first: where they suffice, they do so soon.
        let few = bound / 20;
        (schedules, kill) = run_from(scenario, start..start + few, conditions, control);
        if kill.is_none() && scenario.kind == Kind::Short {
            let most = bound * 2 / 3 - few;
            let (more, found) = enumerate_from(scenario, start, most, conditions, control);
            (schedules, kill) = (schedules + more, found);
        }
        if kill.is_none() {
            let most = (bound * 3 / 4).saturating_sub(schedules);
            let seeds = start + few..start + few + most;
            let (more, found) = run_from(scenario, seeds, conditions, control);
            (schedules, kill) = (schedules + more, found);
        }
    }
    let mut weights = vec![(0, 0); scenarios.len()];
    let mut candidates: Vec<usize> = (0..scenarios.len()).collect();
    let mut seed = start;
    while kill.is_none() && schedules < bound && !control.is_stopped() {
        for &index in &candidates {
            schedules += 1;
            control.ran(1);
            let (scenario, trial) = (&scenarios[index], conditions.trial(seed));
            if let Err(what) = catch(|| (scenario.run)(&trial)) {
                kill = Some((scenario.name, seed, what));
                break;
            }
            if let Some(crossed) = trial.observed().coverage.sites().get(&site) {
                weights[index].0 += crossed.mattered;
                weights[index].1 += crossed.times;
            }
        }
        seed += 1;
        if seed == start + FIRST_LOOK && weights.iter().any(|&(_, times)| times > 0) {
            candidates.retain(|&index| weights[index].1 > 0);
        }
        if seed == start + LOOK_AROUND {
            candidates.sort_by_key(|&index| std::cmp::Reverse(weights[index]));
            candidates.truncate(PROMISING);
        }
    }
    (schedules, kill)
}

/// The scenario, with these seeds.
fn run_from(
    scenario: &Scenario,
    seeds: Range<u64>,
    conditions: &Conditions,
    control: &Control,
) -> (u64, Option<Kill>) {
    let mut schedules = 0;
    for seed in seeds.take_while(|_| !control.is_stopped()) {
        control.ran(1);
        schedules += 1;
        let trial = conditions.trial(seed);
        if let Err(what) = catch(|| (scenario.run)(&trial)) {
            return (schedules, Some((scenario.name, seed, what)));
        }
    }
    (schedules, None)
}

/// The scenario's schedules with few preemptions, up to `bound` of them for each kind of caches.
fn enumerate_from(
    scenario: &Scenario,
    seed: u64,
    bound: u64,
    conditions: &Conditions,
    control: &Control,
) -> (u64, Option<Kill>) {
    let mut schedules = 0;
    for eager in [true, false] {
        let caches = Caches { sticky: !eager, late: !eager };
        let left = Cell::new(bound / 2);
        let goes_on = || {
            control.ran(1);
            left.set(left.get().saturating_sub(1));
            left.get() > 0 && !control.is_stopped()
        };
        let trial = conditions.trial(seed);
        let found = enumerate(&trial, PREEMPTIONS, caches, scenario.run, goes_on);
        schedules += found.schedules;
        if let Some((_, what)) = found.failure {
            return (schedules, Some((scenario.name, seed, what)));
        }
    }
    (schedules, None)
}
