//! The definition of linearizability, tried out on every order: no memory, no cleverness.

use tombolo_verify::history::{Outcome, Record};

use crate::sequential::{Log, Op, Ret, Store};

/// Whether some order of the returned operations, and of any of those in doubt, is legal.
pub(crate) fn is_linearizable(log: &Log) -> bool {
    let total = log.iter().filter(|record| record.result().is_some()).count();
    longest(log) == total
}

/// How many of the returned operations fit into the longest legal order that is closed: whatever
/// responded before one of its operations was invoked is in it too.
pub(crate) fn longest(log: &Log) -> usize {
    let relevant: Vec<_> =
        log.iter().filter(|record| !matches!(record.outcome, Outcome::Failed { .. })).collect();
    extend(&relevant, &mut vec![false; relevant.len()], &Store::default(), 0)
}

fn extend(
    log: &[&Record<u32, Op, Ret>],
    placed: &mut [bool],
    store: &Store,
    returned: usize,
) -> usize {
    let mut best = returned;
    for next in 0..log.len() {
        let must_wait =
            (0..log.len()).any(|other| !placed[other] && precedes(log[other], log[next]));
        if placed[next] || must_wait {
            continue;
        }
        let mut store = store.clone();
        let result = store.apply(log[next].key, &log[next].operation);
        if log[next].result().is_some_and(|told| *told != result) {
            continue;
        }
        placed[next] = true;
        let returned = returned + usize::from(log[next].result().is_some());
        best = best.max(extend(log, placed, &store, returned));
        placed[next] = false;
    }
    best
}

pub(crate) fn precedes(a: &Record<u32, Op, Ret>, b: &Record<u32, Op, Ret>) -> bool {
    matches!(a.outcome, Outcome::Returned { at, .. } if at < b.invoked_at)
}
