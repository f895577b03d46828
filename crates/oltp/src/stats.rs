//! A worker's counters.

use hdrhistogram::Histogram;
use tombolo_database::{Conflict, TxError};

/// Aborts that were not asked for, by their reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aborts {
    /// Another transaction held a lock on a row.
    pub lock: u64,
    /// Another transaction held a lock on a gap.
    pub gap: u64,
    /// A row that was read had changed.
    pub validation: u64,
    /// A row was being moved.
    pub moved: u64,
    /// Any other conflict.
    pub other: u64,
}

impl Aborts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.lock + self.gap + self.validation + self.moved + self.other
    }

    fn count(&mut self, conflict: Conflict) {
        *match conflict {
            Conflict::Lock => &mut self.lock,
            Conflict::Gap => &mut self.gap,
            Conflict::Validation => &mut self.validation,
            Conflict::Moved => &mut self.moved,
            _ => &mut self.other,
        } += 1;
    }

    fn add(&mut self, more: &Self) {
        self.lock += more.lock;
        self.gap += more.gap;
        self.validation += more.validation;
        self.moved += more.moved;
        self.other += more.other;
    }
}

/// The outcomes of the transactions of one kind. Times are in the clock's nanoseconds.
#[derive(Clone, Debug)]
pub struct KindStats {
    /// The kind.
    pub name: &'static str,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that were rolled back, as the workload's rules ask for.
    pub rollbacks: u64,
    /// Attempts that met a conflict.
    pub aborts: Aborts,
    /// Attempts after the first one.
    pub retries: u64,
    /// Transactions that were given up after the last attempt that is allowed.
    pub given_up: u64,
    /// Committed transactions that are known to be durable.
    pub durable: u64,
    /// From the first attempt until commit.
    pub latency: Histogram<u64>,
    /// From the first attempt until the worker has seen that the transaction is durable, which it
    /// does up to 0.1 ms late.
    pub durable_latency: Histogram<u64>,
}

impl KindStats {
    fn new(name: &'static str) -> Self {
        let histogram =
            || Histogram::new(3).expect("three digits are within what a histogram can do");
        Self {
            name,
            commits: 0,
            rollbacks: 0,
            aborts: Aborts::default(),
            retries: 0,
            given_up: 0,
            durable: 0,
            latency: histogram(),
            durable_latency: histogram(),
        }
    }

    pub(crate) fn count_conflict(&mut self, error: &TxError) {
        if let TxError::Conflict(conflict) = error {
            self.aborts.count(*conflict);
        }
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, more: &Self) {
        self.commits += more.commits;
        self.rollbacks += more.rollbacks;
        self.aborts.add(&more.aborts);
        self.retries += more.retries;
        self.given_up += more.given_up;
        self.durable += more.durable;
        self.latency += &more.latency;
        self.durable_latency += &more.durable_latency;
    }
}

/// Counts a time.
pub(crate) fn record(histogram: &mut Histogram<u64>, time_ns: u64) {
    histogram.record(time_ns).expect("a histogram grows to any value");
}

/// The outcomes of the transactions of a worker, or of several.
#[derive(Clone, Debug)]
pub struct Stats {
    /// By kind, in the workload's order.
    pub kinds: Vec<KindStats>,
    /// The sum of the effects of committed transactions.
    pub effect: i64,
}

impl Stats {
    pub(crate) fn new(kinds: &[&'static str]) -> Self {
        Self { kinds: kinds.iter().map(|name| KindStats::new(name)).collect(), effect: 0 }
    }

    /// All kinds as one, with the name `all`.
    pub fn total(&self) -> KindStats {
        let mut total = KindStats::new("all");
        self.kinds.iter().for_each(|kind| total.add(kind));
        total
    }

    /// Adds the counts of another worker of the same workload.
    pub fn add(&mut self, more: &Self) {
        for (kind, more) in self.kinds.iter_mut().zip(&more.kinds) {
            kind.add(more);
        }
        self.effect += more.effect;
    }
}
