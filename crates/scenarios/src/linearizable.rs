//! Whether what clients were told can be explained at all.

use std::fmt::Debug;
use std::hash::Hash;

use tombolo_simulator::Trial;
use tombolo_verify::history::History;
use tombolo_verify::linearizability::{Model, Verdict, check};

/// Steps that a checker may take before a history counts as undecided.
const CHECKER_BUDGET: u64 = 200_000;

/// Fails the trial unless its history is linearizable, or too long to tell; which is counted.
pub(crate) fn linearizable<K, M>(
    trial: &Trial,
    model: &M,
    history: &History<K, M::Operation, M::Result>,
) where
    K: Clone + Debug + Eq + Hash,
    M: Model,
{
    let verdict = check(model, history, CHECKER_BUDGET);
    {
        let mut observed = trial.observed();
        observed.histories.0 += 1;
        observed.histories.1 += u64::from(matches!(verdict, Verdict::Undecided { .. }));
    }
    assert!(!matches!(verdict, Verdict::Violation(_)), "{verdict}");
}
