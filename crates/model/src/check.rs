//! Running models, and models of code that lacks a step.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loom::model::Builder;
use tombolo_memory::Site;

use crate::steps::{self, Place, Step};
use crate::{mutex, switches};

/// A model: run once for every schedule of the threads it starts. A panic is a failure.
#[derive(Clone, Copy)]
pub struct Model {
    /// The model's name.
    pub name: &'static str,
    /// The model.
    pub run: fn(),
}

/// Lists a crate's models in `MODELS`, and makes a test of each.
#[macro_export]
macro_rules! models {
    ($($name:ident),* $(,)?) => {
        const MODELS: &[$crate::Model] =
            &[$($crate::Model { name: stringify!($name), run: $name }),*];

        mod holds {
            $(#[test] fn $name() { $crate::check(super::$name); })*
        }
    };
}

/// How often a thread is interrupted where it need not wait, unless `LOOM_MAX_PREEMPTIONS` says.
const PREEMPTIONS: usize = 2;

/// Steps, of all threads, after which a schedule counts as stuck.
const MAX_STEPS: usize = 10_000;

/// Runs a model through all its schedules.
///
/// # Panics
/// As the model does, in the first schedule in which it does.
pub fn check(run: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.max_branches = MAX_STEPS;
    builder.check(move || {
        switches::start();
        mutex::make_flags();
        run();
    });
}

/// Whether a model fails in some schedule.
pub fn fails(run: fn()) -> bool {
    catch_unwind(AssertUnwindSafe(|| check(run))).is_err()
}

/// Takes out each ordering that the models meet and each of `sites`, one after the other. Some
/// model has to fail each time, but for the orderings listed as `superfluous`, by `file: source
/// line`; and each model has to fail at some time.
///
/// # Panics
/// If that is not so, or a model fails with every step in place.
pub fn every_step_is_needed(models: &[Model], sites: &[Site], superfluous: &[&str]) {
    let mut known = in_parallel(models, |model| Known::of(model));
    // Short models come first.
    known.sort_by_key(|known| known.takes);
    let met: BTreeSet<Place> = known.iter().flat_map(|known| &known.meets).copied().collect();
    let orderings = met.into_iter().map(Step::Ordering);
    let steps: Vec<Step> = orderings.chain(sites.iter().copied().map(Step::Site)).collect();
    let noticed_by = in_parallel(&steps, |&step| known.iter().position(|it| it.misses(step)));
    let unnoticed = steps.iter().zip(&noticed_by).filter(|(_, by)| by.is_none());
    let unnoticed: Vec<String> = unnoticed.map(|(step, _)| step.name()).collect();
    assert_eq!(unnoticed, superfluous, "the steps that can be taken out unnoticed");
    let others = known.iter().enumerate().filter(|(n, _)| !noticed_by.contains(&Some(*n)));
    let others: Vec<&Known<'_>> = others.map(|(_, known)| known).collect();
    let sees = in_parallel(&others, |known| steps.iter().any(|&step| known.misses(step)));
    let blind = others.iter().zip(sees).filter(|(_, sees)| !sees);
    let blind: Vec<&str> = blind.map(|(known, _)| known.model.name).collect();
    assert!(blind.is_empty(), "models that notice nothing: {blind:?}");
}

/// A model that holds, how long that takes to see, and the orderings it meets.
struct Known<'a> {
    model: &'a Model,
    takes: Duration,
    meets: BTreeSet<Place>,
}

impl<'a> Known<'a> {
    fn of(model: &'a Model) -> Self {
        let started = Instant::now();
        steps::take_met();
        check(model.run);
        Self { model, takes: started.elapsed(), meets: steps::take_met() }
    }

    /// Whether it fails without this step.
    fn misses(&self, step: Step) -> bool {
        let meets = match step {
            Step::Ordering(place) => self.meets.contains(place),
            Step::Site(_) => true,
        };
        meets && steps::without(step, || fails(self.model.run))
    }
}

/// The results of `each` for these, in their order, on all processors.
fn in_parallel<'a, T: Sync, R: Send + Sync>(
    of: &'a [T],
    each: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<R>> = of.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = of.get(number) else { break };
            results[number].get_or_init(|| each(one));
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..processors).for_each(|_| _ = scope.spawn(&work)));
    results.into_iter().map(|result| result.into_inner().expect("all are done")).collect()
}
