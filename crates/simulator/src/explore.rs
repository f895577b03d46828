//! Running a test many times: under many seeds, under every schedule of a kind, and under ever
//! shorter ones.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::adversary::{Adversary, Caches};
use crate::schedule::{Action, Schedule, Turn};
use crate::trial::Trial;

thread_local! {
    /// Whether panics on this OS thread are expected, and not to be reported on the way.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test` under every seed.
///
/// # Panics
/// If one fails, with the seed and what it said.
pub fn explore(seeds: Range<u64>, test: impl Fn(&Trial)) {
    if let Some((seed, why)) = find_failure(&Trial::new(0), seeds, test) {
        panic!("seed {seed}: {why}");
    }
}

/// The first seed under which `test` panics, and what it said; under the conditions of `trial`.
pub fn find_failure(
    trial: &Trial,
    seeds: Range<u64>,
    test: impl Fn(&Trial),
) -> Option<(u64, String)> {
    seeds
        .into_iter()
        .find_map(|seed| catch(|| test(&trial.with_seed(seed))).err().map(|why| (seed, why)))
}

/// Runs `test`; if it panics, what it said.
///
/// # Errors
/// The message of its panic.
pub fn catch(test: impl FnOnce()) -> Result<(), String> {
    silence_expected_panics();
    let before = QUIET.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(test));
    QUIET.set(before);
    outcome.map_err(|panic| message(&*panic))
}

/// The outcome of running every schedule of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exhausted {
    /// Schedules run.
    pub schedules: u64,
    /// The first one that failed, and what was said.
    pub failure: Option<(Schedule, String)>,
}

/// Runs `test` under every schedule with up to `preemptions` switches of a thread that could have
/// gone on, while caches behave as `caches` says. Where threads wait, they take turns. Ends early
/// if `goes_on`, asked before each run, says so.
pub fn enumerate(
    trial: &Trial,
    preemptions: usize,
    caches: Caches,
    test: impl Fn(&Trial),
    goes_on: impl Fn() -> bool,
) -> Exhausted {
    let mut search = Enumeration { trial, caches, test, goes_on, found: Exhausted::default() };
    search.extend(&mut Schedule::default(), preemptions);
    search.found
}

struct Enumeration<'a, T, G> {
    trial: &'a Trial,
    caches: Caches,
    test: T,
    goes_on: G,
    found: Exhausted,
}

impl<T: Fn(&Trial), G: Fn() -> bool> Enumeration<'_, T, G> {
    /// Runs `schedule` and every schedule that it begins.
    fn extend(&mut self, schedule: &mut Schedule, preemptions: usize) {
        if self.found.failure.is_some() || !(self.goes_on)() {
            return;
        }
        self.found.schedules += 1;
        let adversary = Adversary::Script(schedule.clone(), Some(self.caches));
        let trial = self.trial.with_adversary(adversary);
        if let Err(why) = catch(|| (self.test)(&trial)) {
            self.found.failure = Some((schedule.clone(), why));
            return;
        }
        if preemptions == 0 {
            return;
        }
        let openings = std::mem::take(&mut trial.observed().openings);
        for opening in openings {
            for thread in (0..64).filter(|thread| opening.others >> thread & 1 == 1) {
                schedule.actions.push((opening.turn, Action::Switch(thread)));
                self.extend(schedule, preemptions - 1);
                schedule.actions.pop();
            }
        }
    }
}

/// Leaves out of a schedule under which `test` fails what it fails without, by delta debugging
/// (Zeller and Hildebrandt, IEEE TSE 2002). At most `budget` runs.
pub fn minimise(
    trial: &Trial,
    schedule: &Schedule,
    caches: Option<Caches>,
    budget: usize,
    test: impl Fn(&Trial),
) -> Schedule {
    let runs = Cell::new(0);
    let fails = |actions: &[(Turn, Action)]| {
        runs.set(runs.get() + 1);
        let script = Schedule { actions: actions.to_vec() };
        let adversary = Adversary::Script(script, caches);
        let trial = trial.with_adversary(adversary);
        catch(|| test(&trial)).is_err()
    };
    let mut actions = schedule.actions.clone();
    let mut parts = 2;
    while actions.len() > 1 && runs.get() < budget {
        let size = actions.len().div_ceil(parts);
        let shorter = (0..parts).map(|part| without(&actions, part * size, size));
        let found = shorter.filter(|rest| rest.len() < actions.len()).find(|rest| fails(rest));
        match found {
            Some(rest) => {
                actions = rest;
                parts = 2.max(parts - 1);
            }
            None if size > 1 => parts = (2 * parts).min(actions.len()),
            None => break,
        }
    }
    Schedule { actions }
}

fn without(actions: &[(Turn, Action)], from: usize, count: usize) -> Vec<(Turn, Action)> {
    let end = (from + count).min(actions.len());
    let from = from.min(end);
    [&actions[..from], &actions[end..]].concat()
}

/// Keeps the process's panic hook for all but the panics that [`catch`] catches.
fn silence_expected_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                report(info);
            }
        }));
    });
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}
