//! Recording histories as they happen. Times are ticks of one [`Clock`].

use std::sync::Arc;

use parking_lot::Mutex;

use super::{History, Outcome, Record};
use crate::clock::Clock;

/// Collects the operations of many clients, on any number of threads or coroutines.
///
/// Each client appends to a buffer of its own, which outlives the client: a client that is dropped,
/// leaked or killed in the middle of an operation leaves that operation [`Outcome::Pending`].
#[derive(Debug)]
pub struct Recorder<K, O, R> {
    clock: Arc<Clock>,
    buffers: Mutex<Vec<Buffer<K, O, R>>>,
}

type Buffer<K, O, R> = Arc<Mutex<Vec<Record<K, O, R>>>>;

impl<K, O, R> Recorder<K, O, R> {
    /// A recorder that has seen nothing.
    pub fn new() -> Self {
        Self { clock: Arc::default(), buffers: Mutex::default() }
    }

    /// A handle that records under the name `id`. Several handles may share a name.
    pub fn client(&self, id: u32) -> Client<K, O, R> {
        let records = Buffer::default();
        self.buffers.lock().push(Arc::clone(&records));
        Client { id, clock: Arc::clone(&self.clock), records }
    }
}

impl<K: Clone, O: Clone, R: Clone> Recorder<K, O, R> {
    /// The history so far. Clients may go on meanwhile; their unfinished operations are
    /// [`Outcome::Pending`].
    pub fn history(&self) -> History<K, O, R> {
        let buffers = self.buffers.lock();
        // All are held together: otherwise an effect could be included without its cause.
        let held: Vec<_> = buffers.iter().map(|buffer| buffer.lock()).collect();
        let records = held.iter().flat_map(|records| records.iter().cloned()).collect();
        History::new(records).expect("ticks only grow")
    }
}

impl<K, O, R> Default for Recorder<K, O, R> {
    fn default() -> Self {
        Self::new()
    }
}

/// One client's handle on a [`Recorder`].
#[derive(Debug)]
pub struct Client<K, O, R> {
    id: u32,
    clock: Arc<Clock>,
    records: Buffer<K, O, R>,
}

/// An operation in progress: a position in the buffer of the client that invoked it.
#[derive(Debug)]
#[must_use = "an invocation that is never answered is recorded as pending"]
pub struct Invocation(usize);

impl<K, O, R> Client<K, O, R> {
    /// Notes that `operation` on `key` is about to begin.
    pub fn invoke(&self, key: K, operation: O) -> Invocation {
        let mut records = self.records.lock();
        let index = records.len();
        records.push(Record {
            client: self.id,
            key,
            operation,
            invoked_at: self.clock.tick(),
            outcome: Outcome::Pending,
        });
        Invocation(index)
    }

    /// Notes that it took effect and returned `result`.
    ///
    /// # Panics
    ///
    /// This and the other two answers may panic, or answer another operation, if `invocation` is
    /// another client's.
    pub fn returned(&self, invocation: Invocation, result: R) {
        self.answer(invocation, |at| Outcome::Returned { at, result });
    }

    /// Notes that it ended and surely had and will have no effect.
    pub fn failed(&self, invocation: Invocation) {
        self.answer(invocation, |at| Outcome::Failed { at });
    }

    /// Notes that it ended, and that it is open whether it took effect or still will.
    pub fn unknown(&self, invocation: Invocation) {
        self.answer(invocation, |at| Outcome::Unknown { at });
    }

    fn answer(&self, invocation: Invocation, outcome: impl FnOnce(u64) -> Outcome<R>) {
        let at = self.clock.tick();
        self.records.lock()[invocation.0].outcome = outcome(at);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn keeps_every_outcome() {
        let recorder = Recorder::new();
        let client = recorder.client(7);
        let [a, b, c] = ["a", "b", "c"].map(|operation| client.invoke(0, operation));
        let _pending = client.invoke(0, "d");
        client.failed(b);
        client.returned(a, 'x');
        client.unknown(c);
        std::mem::forget(client);

        let history = recorder.history();
        let outcomes: Vec<_> = history.records().iter().map(|r| r.outcome.clone()).collect();
        assert_eq!(
            outcomes,
            [
                Outcome::Returned { at: 5, result: 'x' },
                Outcome::Failed { at: 4 },
                Outcome::Unknown { at: 6 },
                Outcome::Pending,
            ]
        );
        assert!(history.records().iter().all(|record| record.client == 7));
    }

    #[test]
    fn orders_what_threads_do_one_after_the_other() {
        let recorder = Recorder::new();
        let turn = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for id in 0..4 {
                let (client, turn) = (recorder.client(id), &turn);
                scope.spawn(move || {
                    for round in 0..50 {
                        let mine = round * 4 + u64::from(id);
                        while turn.load(Ordering::Acquire) != mine {
                            std::thread::yield_now();
                        }
                        let invocation = client.invoke((), mine);
                        client.returned(invocation, ());
                        turn.store(mine + 1, Ordering::Release);
                    }
                });
            }
        });

        let history = recorder.history();
        let order: Vec<_> = history.records().iter().map(|record| record.operation).collect();
        assert_eq!(order, (0..200).collect::<Vec<_>>());
        let ends = history.records().iter().map(|record| record.responded_at().unwrap());
        let next_begins = history.records().iter().skip(1).map(|record| record.invoked_at);
        assert!(ends.zip(next_begins).all(|(end, begin)| end < begin));
    }
}
