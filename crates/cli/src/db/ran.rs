//! The results of transactions on one host, as it reports them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tombolo_database::hosts::EngineMetrics;
use tombolo_database::log::LogMetrics;
use tombolo_oltp::{Aborts, KindStats, Stats};

/// Aborts by reason.
pub(crate) type AbortCounts = BTreeMap<String, u64>;

/// The results of one kind of transactions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KindRan {
    pub(crate) name: String,
    pub(crate) commits: u64,
    pub(crate) rollbacks: u64,
    pub(crate) aborts: AbortCounts,
    pub(crate) retries: u64,
    pub(crate) given_up: u64,
    pub(crate) durable: u64,
    /// Values and how often they occur, in nanoseconds.
    pub(crate) latency: Vec<(u64, u64)>,
    pub(crate) durable_latency: Vec<(u64, u64)>,
}

/// The counters of a host's engine and of its log so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) engine: EngineMetrics,
    pub(crate) log: LogMetrics,
}

/// The results of a run on one host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) kinds: Vec<KindRan>,
    pub(crate) elapsed_ns: u64,
    /// Until all was durable.
    pub(crate) durable_elapsed_ns: u64,
    pub(crate) requests: u64,
    pub(crate) replies: u64,
    pub(crate) moved_in: u64,
    pub(crate) moved_out: u64,
    pub(crate) invalidated_lines: u64,
    pub(crate) cleaned_lines: u64,
    pub(crate) scr_record_bytes: u64,
    pub(crate) scr_index_bytes: u64,
    pub(crate) scr_by_table: Vec<u64>,
    /// Checkpoints that were written meanwhile.
    pub(crate) checkpoints: u64,
    pub(crate) log_bytes: u64,
    pub(crate) log_syncs: u64,
    pub(crate) log_sync_p99_ns: u64,
}

impl Ran {
    /// Adds workers up, each with the times at which its run began, ended, and was durable.
    pub(crate) fn new(workers: &[(Stats, [u64; 3])], before: Used, after: Used) -> Self {
        let (first, rest) = workers.split_first().expect("a host has a worker");
        let mut stats = first.0.clone();
        rest.iter().for_each(|(more, _)| stats.add(more));
        let time = |until: usize| workers.iter().map(|(_, times)| times[until] - times[0]).max();
        let grown = |count: fn(&Used) -> u64| count(&after) - count(&before);
        Self {
            kinds: stats.kinds.iter().map(KindRan::of).collect(),
            elapsed_ns: time(1).unwrap_or_default(),
            durable_elapsed_ns: time(2).unwrap_or_default(),
            requests: grown(|used| used.engine.requests),
            replies: grown(|used| used.engine.replies),
            moved_in: grown(|used| used.engine.moved_in),
            moved_out: grown(|used| used.engine.moved_out),
            invalidated_lines: grown(|used| used.engine.invalidated_lines),
            cleaned_lines: grown(|used| used.engine.cleaned_lines),
            scr_record_bytes: after.engine.scr_record_bytes,
            scr_index_bytes: after.engine.scr_index_bytes,
            scr_by_table: Vec::new(),
            checkpoints: 0,
            log_bytes: grown(|used| used.log.bytes),
            log_syncs: grown(|used| used.log.syncs),
            log_sync_p99_ns: after.log.sync_p99.as_nanos() as u64,
        }
    }
}

impl KindRan {
    fn of(stats: &KindStats) -> Self {
        let Aborts { lock, gap, validation, moved, other } = stats.aborts;
        let aborts = [
            ("lock", lock),
            ("gap", gap),
            ("validation", validation),
            ("moved", moved),
            ("other", other),
        ];
        Self {
            name: stats.name.to_owned(),
            commits: stats.commits,
            rollbacks: stats.rollbacks,
            aborts: aborts.map(|(name, count)| (name.to_owned(), count)).into(),
            retries: stats.retries,
            given_up: stats.given_up,
            durable: stats.durable,
            latency: values(&stats.latency),
            durable_latency: values(&stats.durable_latency),
        }
    }

    /// Adds another host's, or another kind's.
    pub(crate) fn add(&mut self, more: &Self) {
        self.commits += more.commits;
        self.rollbacks += more.rollbacks;
        self.retries += more.retries;
        self.given_up += more.given_up;
        self.durable += more.durable;
        for (reason, count) in &more.aborts {
            *self.aborts.entry(reason.clone()).or_default() += count;
        }
        self.latency.extend(&more.latency);
        self.durable_latency.extend(&more.durable_latency);
    }
}

fn values(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
}

/// A histogram with these values.
pub(crate) fn histogram(values: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("three digits are within what a histogram can do");
    for &(value, count) in values {
        histogram.record_n(value, count).expect("a histogram grows to any value");
    }
    histogram
}
