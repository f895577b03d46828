//! Runs that failed, made short enough to understand.

use tombolo_simulator::{Adversary, Caches, Death, Schedule, Timeline, Trial, catch, minimise};

use crate::Scenario;

/// Runs that shortening a schedule may take.
const MINIMISING: usize = 3_000;

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// How hosts died.
    pub death: Death,
    /// The rule that was broken.
    pub what: String,
    /// The adversary's schedule that leads to it.
    pub schedule: Schedule,
    /// How caches behave, if the schedule was enumerated.
    pub caches: Option<Caches>,
    /// The actions of hosts, up to the failure.
    pub timeline: Timeline,
}

/// Runs a failure again to see what the adversary did, and shortens that.
pub fn explain(scenario: &Scenario, trial: &Trial, what: String) -> Failure {
    let again = trial.recorded();
    let what = catch(|| (scenario.run)(&again)).err().unwrap_or(what);
    let schedule = again.observed().schedule.clone();
    shorten(scenario, trial, what, (schedule, None))
}

pub(crate) fn shorten(
    scenario: &Scenario,
    trial: &Trial,
    what: String,
    (schedule, caches): (Schedule, Option<Caches>),
) -> Failure {
    let script =
        |schedule: Schedule| trial.with_adversary(Adversary::Script(schedule, caches)).recorded();
    let mut schedule = schedule;
    // A minimal schedule of one kind of failure, not of whichever comes first.
    let same = |trial: &Trial| {
        if let Err(found) = catch(|| (scenario.run)(trial)) {
            assert!(kind(&found) != kind(&what));
        }
    };
    if catch(|| same(&script(schedule.clone()))).is_err() {
        schedule = minimise(trial, &schedule, caches, MINIMISING, same);
    }
    let last = script(schedule.clone());
    let what = catch(|| (scenario.run)(&last)).err().unwrap_or(what);
    shown(scenario, &last, what, (schedule, caches))
}

/// Runs a failure again, and shows it as it was.
pub fn unshortened(scenario: &Scenario, trial: &Trial, what: String) -> Failure {
    let again = trial.recorded();
    let what = catch(|| (scenario.run)(&again)).err().unwrap_or(what);
    let schedule = again.observed().schedule.clone();
    shown(scenario, &again, what, (schedule, None))
}

fn shown(
    scenario: &Scenario,
    run: &Trial,
    what: String,
    (schedule, caches): (Schedule, Option<Caches>),
) -> Failure {
    let timeline = run.observed().timeline.clone();
    let (scenario, seed, death) = (scenario.name, run.seed, run.death);
    Failure { scenario, seed, death, what, schedule, caches, timeline }
}

/// The common part of all reports of one kind: the rule that was broken, or how it begins.
fn kind(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    let rule = line.split_once(") was ").map(|(_, rule)| rule.to_owned());
    rule.unwrap_or_else(|| line.split(|c: char| !c.is_alphabetic()).take(2).collect())
}
