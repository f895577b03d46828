//! Recording transactions as they happen. Times are ticks of one [`Clock`].

use std::sync::Arc;

use parking_lot::Mutex;

use super::{History, Operation, Outcome, Transaction};
use crate::clock::Clock;

/// Collects the transactions of many sessions, on any number of threads or coroutines.
///
/// Each session appends to a buffer of its own, which outlives the session: a session that is
/// dropped, leaked or killed in the middle of a transaction leaves it [`Outcome::Pending`].
#[derive(Debug)]
pub struct Recorder<K, V> {
    clock: Arc<Clock>,
    buffers: Mutex<Vec<Buffer<K, V>>>,
}

type Buffer<K, V> = Arc<Mutex<Vec<Transaction<K, V>>>>;

impl<K, V> Recorder<K, V> {
    /// A recorder that has seen nothing.
    pub fn new() -> Self {
        Self { clock: Arc::default(), buffers: Mutex::default() }
    }

    /// A handle that records under the name `id`. Handles that share a name are one session, and
    /// their transactions may not overlap.
    pub fn session(&self, id: u32) -> Session<K, V> {
        let transactions = Buffer::default();
        self.buffers.lock().push(Arc::clone(&transactions));
        Session { id, clock: Arc::clone(&self.clock), transactions }
    }
}

impl<K: Clone, V: Clone> Recorder<K, V> {
    /// The history so far. Sessions may go on meanwhile; their unfinished transactions are
    /// [`Outcome::Pending`].
    pub fn history(&self) -> History<K, V> {
        let buffers = self.buffers.lock();
        // All are held together: otherwise an effect could be included without its cause.
        let held: Vec<_> = buffers.iter().map(|buffer| buffer.lock()).collect();
        let transactions = held.iter().flat_map(|buffer| buffer.iter().cloned()).collect();
        History::new(transactions).expect("ticks only grow")
    }
}

impl<K, V> Default for Recorder<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// One session's handle on a [`Recorder`].
#[derive(Debug)]
pub struct Session<K, V> {
    id: u32,
    clock: Arc<Clock>,
    transactions: Buffer<K, V>,
}

/// A transaction in progress: a position in the buffer of the session that began it.
#[derive(Debug)]
#[must_use = "a transaction that is never ended is recorded as pending"]
pub struct Attempt(usize);

impl<K, V> Session<K, V> {
    /// Notes that a transaction is about to begin.
    pub fn begin(&self) -> Attempt {
        let mut transactions = self.transactions.lock();
        let index = transactions.len();
        transactions.push(Transaction {
            session: self.id,
            begun_at: self.clock.tick(),
            outcome: Outcome::Pending,
            operations: Vec::new(),
        });
        Attempt(index)
    }

    /// Notes an operation that returned, before the next one and before the commit is asked for.
    ///
    /// # Panics
    ///
    /// This and the three ends may panic, or note it for another transaction, if `attempt` is
    /// another session's.
    pub fn note(&self, attempt: &Attempt, operation: Operation<K, V>) {
        self.transactions.lock()[attempt.0].operations.push(operation);
    }

    /// Notes that it committed.
    pub fn committed(&self, attempt: Attempt) {
        self.end(attempt, |at| Outcome::Committed { at });
    }

    /// Notes that it ended and surely had and will have no effect.
    pub fn aborted(&self, attempt: Attempt) {
        self.end(attempt, |at| Outcome::Aborted { at });
    }

    /// Notes that it ended, and that it is open whether it took effect or still will.
    pub fn unknown(&self, attempt: Attempt) {
        self.end(attempt, |at| Outcome::Unknown { at });
    }

    fn end(&self, attempt: Attempt, outcome: impl FnOnce(u64) -> Outcome) {
        let at = self.clock.tick();
        self.transactions.lock()[attempt.0].outcome = outcome(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_operations_and_every_outcome() {
        let recorder = Recorder::new();
        let session = recorder.session(7);
        let [a, b, c, d] = [0_u8, 1, 2, 3].map(|_| session.begin());
        let operations = [
            Operation::Insert { key: 'x', value: 1 },
            Operation::Read { key: 'x', value: Some(1) },
        ];
        for operation in operations.clone() {
            session.note(&b, operation);
        }
        session.aborted(b);
        session.committed(a);
        session.unknown(c);
        std::mem::forget((session, d));

        let history = recorder.history();
        let outcomes: Vec<_> = history.transactions().iter().map(|t| t.outcome).collect();
        assert_eq!(
            outcomes,
            [
                Outcome::Committed { at: 5 },
                Outcome::Aborted { at: 4 },
                Outcome::Unknown { at: 6 },
                Outcome::Pending,
            ]
        );
        assert_eq!(history.transactions()[1].operations, operations);
        assert!(history.transactions().iter().all(|transaction| transaction.session == 7));
    }
}
