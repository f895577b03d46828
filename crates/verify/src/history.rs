//! Histories: the operations of clients, and their results.

mod recorder;

pub use recorder::{Client, Invocation, Recorder};

/// One operation of one client on one key.
///
/// Times are ticks of any clock that all clients share. The operation took effect, if it did, at
/// one moment between `invoked_at` and the response, both included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<K, O, R> {
    /// The client that did it. A client may have several operations in progress.
    pub client: u32,
    /// The key that the operation is on.
    pub key: K,
    /// The client's request.
    pub operation: O,
    /// When it was asked for: not after the operation began.
    pub invoked_at: u64,
    /// The end of the operation.
    pub outcome: Outcome<R>,
}

/// The end of an operation. `at` is when the client knew: not before the operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<R> {
    /// It took effect, with this result. A refusal that says something about the state ("exists
    /// already") is such a result.
    Returned {
        /// When it came back.
        at: u64,
        /// The client's result.
        result: R,
    },
    /// It surely had no effect, now or later, and says nothing about the state.
    Failed {
        /// When it came back.
        at: u64,
    },
    /// It came back with an error that leaves open whether it took effect or still will.
    Unknown {
        /// When it came back.
        at: u64,
    },
    /// It never came back. It may have taken effect at any time, or not at all.
    Pending,
}

impl<K, O, R> Record<K, O, R> {
    /// When the client learnt the outcome, or `None` if it never did.
    pub fn responded_at(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Returned { at, .. } | Outcome::Failed { at } | Outcome::Unknown { at } => {
                Some(at)
            }
            Outcome::Pending => None,
        }
    }

    /// The result, if the operation returned one.
    pub fn result(&self) -> Option<&R> {
        match &self.outcome {
            Outcome::Returned { result, .. } => Some(result),
            _ => None,
        }
    }
}

/// The operations of all clients, ordered by invocation; each ends no earlier than it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History<K, O, R> {
    records: Vec<Record<K, O, R>>,
}

impl<K, O, R> History<K, O, R> {
    /// A history of `records`, in any order, with times of the caller's own clock.
    ///
    /// # Errors
    ///
    /// [`HistoryError::EndsBeforeItBegins`] for the first record, in order of invocation, whose
    /// response is earlier than its invocation.
    pub fn new(mut records: Vec<Record<K, O, R>>) -> Result<Self, HistoryError> {
        records.sort_by_key(|record| record.invoked_at);
        for record in &records {
            if let Some(responded_at) = record.responded_at()
                && responded_at < record.invoked_at
            {
                return Err(HistoryError::EndsBeforeItBegins {
                    client: record.client,
                    invoked_at: record.invoked_at,
                    responded_at,
                });
            }
        }
        Ok(Self { records })
    }

    /// The operations, ordered by invocation.
    pub fn records(&self) -> &[Record<K, O, R>] {
        &self.records
    }

    /// The operations, ordered by invocation.
    pub fn into_records(self) -> Vec<Record<K, O, R>> {
        self.records
    }
}

/// Why records are not a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A response precedes its invocation.
    #[error(
        "an operation of client {client} was invoked at {invoked_at} but responded at \
         {responded_at}; take both times from one monotonic clock that all clients share"
    )]
    EndsBeforeItBegins {
        /// Whose operation it is.
        client: u32,
        /// When it was invoked.
        invoked_at: u64,
        /// When it responded.
        responded_at: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(invoked_at: u64, outcome: Outcome<()>) -> Record<(), (), ()> {
        Record { client: 3, key: (), operation: (), invoked_at, outcome }
    }

    #[test]
    fn is_ordered_by_invocation() {
        let records = vec![record(5, Outcome::Pending), record(2, Outcome::Failed { at: 2 })];
        let history = History::new(records).unwrap();
        let invocations: Vec<_> = history.records().iter().map(|r| r.invoked_at).collect();
        assert_eq!(invocations, [2, 5]);
    }

    #[test]
    fn refuses_time_that_runs_backwards() {
        let records = vec![record(5, Outcome::Unknown { at: 4 })];
        let error = HistoryError::EndsBeforeItBegins { client: 3, invoked_at: 5, responded_at: 4 };
        assert_eq!(History::new(records), Err(error));
    }
}
