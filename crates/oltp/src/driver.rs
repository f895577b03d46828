//! Runs a workload's transactions, an attempt a call.

use std::collections::VecDeque;

use tombolo_database::{Commit, Engine, Transaction, TxError};

use crate::stats::record;
use crate::{Outcome, Random, Seat, Stats, Workload};

/// Committed transactions of a worker that may wait to be durable. A worker with more runs no
/// others.
const MOST_WAITING: usize = 1 << 16;
/// How long a worker waits then before it looks again, in nanoseconds.
const DURABLE_WAIT_NS: u64 = 1_000_000;
/// A worker that runs transactions looks no more often than this what is durable, in nanoseconds:
/// to look takes memory that all hosts share.
const DURABLE_LOOK_NS: u64 = 100_000;

/// When a worker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After as many transactions, those that were rolled back or given up included.
    Transactions(u64),
    /// At a time of the clock, in nanoseconds.
    Time(u64),
}

/// How long a transaction waits before its next attempt: at random up to a limit, which doubles
/// with each attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// The limit after the first attempt, in nanoseconds.
    pub first_ns: u64,
    /// The greatest limit, in nanoseconds.
    pub most_ns: u64,
}

impl BackOff {
    /// 0 to 100 us after each attempt, as published with Tigon.
    pub const AS_PUBLISHED: Self = Self { first_ns: 100_000, most_ns: 100_000 };

    fn limit(&self, attempts: u32) -> u64 {
        let doubled = self.first_ns.saturating_mul(1 << (attempts - 1).min(32));
        doubled.min(self.most_ns)
    }
}

impl Default for BackOff {
    fn default() -> Self {
        Self { first_ns: 5_000, most_ns: 1_000_000 }
    }
}

/// How a driver runs transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverOptions {
    /// When workers end.
    pub until: Until,
    /// Attempts after which a transaction is given up, at least 1.
    pub most_attempts: u32,
    /// Waits between attempts.
    pub back_off: BackOff,
    /// Whether a worker ends only when all its transactions are durable, and measures when they
    /// are.
    pub durable: bool,
    /// Decides on the waits.
    pub seed: u64,
}

impl DriverOptions {
    /// At most 10,000 attempts, the default waits, and the time until transactions are durable.
    pub fn new(until: Until) -> Self {
        let back_off = BackOff::default();
        Self { until, most_attempts: 10_000, back_off, durable: true, seed: 1 }
    }
}

/// The outcome of a call of [`Driver::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A transaction has committed.
    Committed(Commit),
    /// A transaction was rolled back, as the workload's rules ask for.
    RolledBack,
    /// An attempt met a conflict. The worker should be called again after the wait.
    Conflict {
        /// The wait, in nanoseconds.
        wait_ns: u64,
    },
    /// A transaction was given up after as many attempts as are allowed.
    GivenUp,
    /// Nothing: committed transactions are not durable yet. The worker should be called again after
    /// the wait.
    Waiting {
        /// The wait, in nanoseconds.
        wait_ns: u64,
    },
    /// Nothing: the worker has ended.
    Ended,
}

/// Runs a workload on an engine. It has no threads: its caller gives each worker a thread, or a
/// coroutine, and calls [`step`](Self::step) until it ends.
#[derive(Debug)]
pub struct Driver<'a, W, E, C> {
    workload: &'a W,
    engine: &'a E,
    clock: C,
    options: DriverOptions,
}

/// One worker of a [`Driver`].
#[derive(Debug)]
pub struct Worker<W: Workload> {
    number: usize,
    state: W::Worker,
    random: Random,
    current: Option<Current<W::Input>>,
    begun: u64,
    waiting: VecDeque<Waiting>,
    /// When it looks again what is durable.
    next_look_ns: u64,
    stats: Stats,
}

#[derive(Debug)]
struct Current<I> {
    input: I,
    kind: usize,
    attempts: u32,
    began_ns: u64,
}

/// A committed transaction that is not known to be durable.
#[derive(Debug)]
struct Waiting {
    epoch: u64,
    kind: usize,
    began_ns: u64,
}

impl<W: Workload> Worker<W> {
    /// The worker's counters so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Forgets what was counted so far, for instance after a warm-up. A transaction that is being
    /// tried counts as begun now, in `now_ns`; those that are not durable yet are not counted.
    pub fn reset_stats(&mut self, now_ns: u64) {
        let kinds: Vec<&'static str> = self.stats.kinds.iter().map(|kind| kind.name).collect();
        self.stats = Stats::new(&kinds);
        self.waiting.clear();
        if let Some(current) = &mut self.current {
            current.began_ns = now_ns;
        }
    }

    fn note_durable(&mut self, durable_epoch: u64, now_ns: u64) {
        while let Some(waiting) = self.waiting.pop_front_if(|front| front.epoch <= durable_epoch) {
            let kind = &mut self.stats.kinds[waiting.kind];
            kind.durable += 1;
            record(&mut kind.durable_latency, now_ns.saturating_sub(waiting.began_ns));
        }
    }
}

impl<'a, W: Workload, E: Engine, C: Fn() -> u64> Driver<'a, W, E, C> {
    /// A driver of the workers of one host. `clock` gives nanoseconds since any moment.
    pub fn new(workload: &'a W, engine: &'a E, clock: C, options: DriverOptions) -> Self {
        Self { workload, engine, clock, options }
    }

    /// A worker that has done nothing yet. Its number is that of [`Engine::begin`].
    pub fn worker(&self, seat: &Seat) -> Worker<W> {
        Worker {
            number: seat.worker as usize,
            state: self.workload.worker(seat),
            random: seat.random(self.options.seed ^ 0xbac0ff),
            current: None,
            begun: 0,
            waiting: VecDeque::new(),
            next_look_ns: 0,
            stats: Stats::new(self.workload.kinds()),
        }
    }

    /// Runs one attempt of the worker's current transaction, or of its next one.
    ///
    /// # Errors
    /// Errors that are neither conflicts nor asked for by the workload's rules. The transaction is
    /// not tried again.
    pub fn step(&self, worker: &mut Worker<W>) -> Result<Step, TxError> {
        let now_ns = (self.clock)();
        let ended = worker.current.is_none() && self.has_ended(worker, now_ns);
        let most = if ended { 0 } else { MOST_WAITING };
        let is_time = now_ns >= worker.next_look_ns && !worker.waiting.is_empty();
        if is_time || worker.waiting.len() > most {
            worker.note_durable(self.engine.durable_epoch(), now_ns);
            worker.next_look_ns = now_ns + DURABLE_LOOK_NS;
        }
        if worker.waiting.len() > most {
            return Ok(Step::Waiting { wait_ns: DURABLE_WAIT_NS });
        }
        if ended {
            return Ok(Step::Ended);
        }
        let mut current = worker.current.take().unwrap_or_else(|| {
            worker.begun += 1;
            let input = self.workload.next(&mut worker.state);
            let kind = self.workload.kind(&input);
            Current { input, kind, attempts: 0, began_ns: now_ns }
        });
        current.attempts += 1;
        worker.stats.kinds[current.kind].retries += u64::from(current.attempts > 1);
        match self.attempt(worker, &current) {
            Ok(step) => Ok(step),
            Err(error) if error.is_conflict() => Ok(self.after_conflict(worker, current, &error)),
            Err(error) => Err(error),
        }
    }

    fn has_ended(&self, worker: &Worker<W>, now_ns: u64) -> bool {
        match self.options.until {
            Until::Transactions(count) => worker.begun >= count,
            Until::Time(end_ns) => now_ns >= end_ns,
        }
    }

    fn attempt(
        &self,
        worker: &mut Worker<W>,
        current: &Current<W::Input>,
    ) -> Result<Step, TxError> {
        let mut transaction = self.engine.begin(worker.number);
        let outcome = self.workload.run(&mut worker.state, &current.input, &mut transaction)?;
        let Outcome::Commit { effect } = outcome else {
            transaction.validate()?;
            transaction.abort();
            worker.stats.kinds[current.kind].rollbacks += 1;
            return Ok(Step::RolledBack);
        };
        let commit = transaction.commit()?;
        let taken_ns = (self.clock)().saturating_sub(current.began_ns);
        let kind = &mut worker.stats.kinds[current.kind];
        kind.commits += 1;
        record(&mut kind.latency, taken_ns);
        worker.stats.effect += effect;
        if self.options.durable {
            let Current { kind, began_ns, .. } = *current;
            worker.waiting.push_back(Waiting { epoch: commit.epoch, kind, began_ns });
        }
        Ok(Step::Committed(commit))
    }

    fn after_conflict(
        &self,
        worker: &mut Worker<W>,
        current: Current<W::Input>,
        error: &TxError,
    ) -> Step {
        let stats = &mut worker.stats.kinds[current.kind];
        stats.count_conflict(error);
        if current.attempts >= self.options.most_attempts {
            stats.given_up += 1;
            return Step::GivenUp;
        }
        let limit = self.options.back_off.limit(current.attempts);
        worker.current = Some(current);
        Step::Conflict { wait_ns: worker.random.within(0, limit) }
    }

    /// Calls [`step`](Self::step) until the worker ends, and `wait` with each wait in nanoseconds.
    ///
    /// # Errors
    /// Those of `step`.
    pub fn run(&self, worker: &mut Worker<W>, mut wait: impl FnMut(u64)) -> Result<(), TxError> {
        loop {
            match self.step(worker)? {
                Step::Ended => return Ok(()),
                Step::Conflict { wait_ns } | Step::Waiting { wait_ns } => wait(wait_ns),
                Step::Committed(_) | Step::RolledBack | Step::GivenUp => {}
            }
        }
    }
}
