//! Running a test under many seeds.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether panics on this OS thread are expected, and not to be reported on the way.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test` under every seed.
///
/// # Panics
/// If one fails, with the seed and what it said.
pub fn explore(seeds: Range<u64>, test: impl Fn(u64)) {
    if let Some((seed, why)) = find_failure(seeds, test) {
        panic!("seed {seed}: {why}");
    }
}

/// The first seed under which `test` panics, and what it said.
pub fn find_failure(seeds: Range<u64>, test: impl Fn(u64)) -> Option<(u64, String)> {
    silence_expected_panics();
    seeds.into_iter().find_map(|seed| {
        QUIET.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| test(seed)));
        QUIET.set(false);
        outcome.err().map(|panic| (seed, message(&*panic)))
    })
}

/// Keeps the process's panic hook for all but the panics that [`find_failure`] catches.
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
