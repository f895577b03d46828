//! Running models, and models of code that lacks a step.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::model::Builder;
use tombolo_memory::Site;

use crate::steps::{self, Step};
use crate::{mutex, switches};

/// A model: run once for every schedule of the threads it starts. A panic is a failure.
#[derive(Clone, Copy)]
pub struct Model {
    /// What it is called.
    pub name: &'static str,
    /// What it does.
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

/// Takes out each ordering that the models meet and each of `sites`, one after the other. Some model
/// has to fail each time, but for the orderings listed as `superfluous`, by `file: source line`; and
/// each model has to fail at some time.
///
/// # Panics
/// If that is not so, or a model fails with every step in place.
pub fn every_step_is_needed(models: &[Model], sites: &[Site], superfluous: &[&str]) {
    steps::take_met();
    models.iter().for_each(|model| check(model.run));
    let orderings = steps::take_met().into_iter().map(Step::Ordering);
    let steps = orderings.chain(sites.iter().copied().map(Step::Site));
    let mut blind = models.to_vec();
    let mut unnoticed = Vec::new();
    for step in steps {
        let misses = |model: &Model| steps::without(step, || fails(model.run));
        let before = blind.len();
        blind.retain(|model| !misses(model));
        let is_noticed = blind.len() < before || models.iter().any(misses);
        if !is_noticed {
            unnoticed.push(step.name());
        }
    }
    assert_eq!(unnoticed, superfluous, "the steps that can be taken out unnoticed");
    let blind: Vec<&str> = blind.iter().map(|model| model.name).collect();
    assert!(blind.is_empty(), "models that notice nothing: {blind:?}");
}
