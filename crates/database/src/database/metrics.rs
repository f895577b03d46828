//! Counters of a host's transactions.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Conflict, TxError};

/// Counters of a host's transactions since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseMetrics {
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that ended because of a lock on a row.
    pub lock_aborts: u64,
    /// Attempts that ended because of a lock on the gap between two rows.
    pub gap_aborts: u64,
    /// Attempts that ended because a row had changed since it was read.
    pub validation_aborts: u64,
    /// Attempts that ended because a row was being moved.
    pub moved_aborts: u64,
    /// Transactions that ended with an error: the closure's own, or the engine's.
    pub failures: u64,
    /// Attempts after the first ones.
    pub retries: u64,
    /// Transactions that were given up after as many conflicts as there may be.
    pub exhausted: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    conflicts: [AtomicU64; 4],
    failures: AtomicU64,
    retries: AtomicU64,
    exhausted: AtomicU64,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn committed(&self) {
        add(&self.commits);
    }

    pub(super) fn conflicted(&self, conflict: Conflict) {
        add(&self.conflicts[match conflict {
            Conflict::Lock => 0,
            Conflict::Gap => 1,
            Conflict::Validation => 2,
            Conflict::Moved => 3,
        }]);
    }

    pub(super) fn failed(&self) {
        add(&self.failures);
    }

    pub(super) fn retried(&self) {
        add(&self.retries);
    }

    pub(super) fn exhausted(&self) {
        add(&self.exhausted);
    }

    pub(super) fn read(&self) -> DatabaseMetrics {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [lock_aborts, gap_aborts, validation_aborts, moved_aborts] =
            [0, 1, 2, 3].map(|reason: usize| value(&self.conflicts[reason]));
        DatabaseMetrics {
            commits: value(&self.commits),
            lock_aborts,
            gap_aborts,
            validation_aborts,
            moved_aborts,
            failures: value(&self.failures),
            retries: value(&self.retries),
            exhausted: value(&self.exhausted),
        }
    }
}

/// The conflict that an error tells of.
pub(super) fn conflict_in(error: &TxError) -> Option<Conflict> {
    match error {
        TxError::Conflict(conflict) => Some(*conflict),
        _ => None,
    }
}
