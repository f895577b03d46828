//! Transactions: their operations and their outcomes.

mod recorder;

use std::ops::Bound;

pub use recorder::{Attempt, Recorder, Session};

/// One attempt of a transaction.
///
/// A transaction that is retried is a transaction for each attempt. Times are ticks of any clock
/// that all sessions share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction<K, V> {
    /// The session that did it. Sessions do one transaction after the other.
    pub session: u32,
    /// When it began: not after its first operation.
    pub begun_at: u64,
    /// Whether it took effect, as far as the session knows.
    pub outcome: Outcome,
    /// Its operations, in this order. An operation that ended with an error is left out.
    pub operations: Vec<Operation<K, V>>,
}

/// The outcome of a transaction. `at` is when the session knew: not before the transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All of it took effect.
    Committed {
        /// When the session knew.
        at: u64,
    },
    /// It surely had no effect, now or later.
    Aborted {
        /// When the session knew.
        at: u64,
    },
    /// It is open whether all of it took effect, or will, or nothing.
    Unknown {
        /// When the session knew.
        at: u64,
    },
    /// It never ended. All of it may have taken effect, or will, or nothing.
    Pending,
}

/// An operation of a transaction, and what it returned.
///
/// A key is either a list, which is empty at first, or a row, which is absent at first. An
/// operation that was refused is the read that its answer amounts to: an insert that found the row
/// is [`Operation::Read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<K, V> {
    /// Added a value to the end of a list.
    Append {
        /// The list.
        key: K,
        /// The value. No other append to this list has it.
        value: V,
    },
    /// Read a list, the transaction's own appends included.
    ReadList {
        /// The list.
        key: K,
        /// Its values, the oldest first.
        list: Vec<V>,
    },
    /// Read a row.
    Read {
        /// The row.
        key: K,
        /// Its value, or `None` if there was no row.
        value: Option<V>,
    },
    /// Stored a row, whatever was there.
    Write {
        /// The row.
        key: K,
        /// Its value. No other write to this row has it.
        value: V,
    },
    /// Stored a row that was absent.
    Insert {
        /// The row.
        key: K,
        /// Its value. No other write to this row has it.
        value: V,
    },
    /// Removed a row that was there.
    Delete {
        /// The row.
        key: K,
    },
    /// Met all rows between two bounds, and these were there.
    Scan {
        /// Where it began. A backward scan that ended at its limit began at the last row it met.
        from: Bound<K>,
        /// Where it ended. A scan that ended at its limit ended with the last row it met.
        to: Bound<K>,
        /// The rows, in any order.
        found: Vec<(K, V)>,
    },
}

impl<K, V> Transaction<K, V> {
    /// When the session knew the outcome, or `None` if it never did.
    pub fn ended_at(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Committed { at } | Outcome::Aborted { at } | Outcome::Unknown { at } => {
                Some(at)
            }
            Outcome::Pending => None,
        }
    }

    /// When it was known to have committed, or `None` if it is not.
    pub fn committed_at(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Committed { at } => Some(at),
            _ => None,
        }
    }

    /// Whether it may have taken effect, and no session was told so.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown { .. } | Outcome::Pending)
    }
}

/// The transactions of all sessions, ordered by their begin; each ends no earlier than it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History<K, V> {
    transactions: Vec<Transaction<K, V>>,
}

impl<K, V> History<K, V> {
    /// A history of `transactions`, in any order, with times of the caller's own clock.
    ///
    /// # Errors
    ///
    /// [`HistoryError::EndsBeforeItBegins`] for the first transaction, in order of begin, whose end
    /// is earlier.
    pub fn new(mut transactions: Vec<Transaction<K, V>>) -> Result<Self, HistoryError> {
        transactions.sort_by_key(|transaction| transaction.begun_at);
        for transaction in &transactions {
            if let Some(ended_at) = transaction.ended_at()
                && ended_at < transaction.begun_at
            {
                return Err(HistoryError::EndsBeforeItBegins {
                    session: transaction.session,
                    begun_at: transaction.begun_at,
                    ended_at,
                });
            }
        }
        Ok(Self { transactions })
    }

    /// The transactions, ordered by their begin.
    pub fn transactions(&self) -> &[Transaction<K, V>] {
        &self.transactions
    }

    /// The transactions, ordered by their begin.
    pub fn into_transactions(self) -> Vec<Transaction<K, V>> {
        self.transactions
    }
}

/// Why transactions are not a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// An end precedes its begin.
    #[error(
        "a transaction of session {session} began at {begun_at} but ended at {ended_at}; take both \
         times from one monotonic clock that all sessions share"
    )]
    EndsBeforeItBegins {
        /// Whose transaction it is.
        session: u32,
        /// When it began.
        begun_at: u64,
        /// When it ended.
        ended_at: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(begun_at: u64, outcome: Outcome) -> Transaction<(), ()> {
        Transaction { session: 3, begun_at, outcome, operations: Vec::new() }
    }

    #[test]
    fn is_ordered_by_begin() {
        let transactions =
            vec![transaction(5, Outcome::Pending), transaction(2, Outcome::Aborted { at: 2 })];
        let history = History::new(transactions).unwrap();
        let begins: Vec<_> = history.transactions().iter().map(|t| t.begun_at).collect();
        assert_eq!(begins, [2, 5]);
    }

    #[test]
    fn refuses_time_that_runs_backwards() {
        let error = HistoryError::EndsBeforeItBegins { session: 3, begun_at: 5, ended_at: 4 };
        assert_eq!(History::new(vec![transaction(5, Outcome::Unknown { at: 4 })]), Err(error));
    }
}
