//! The results of a phase of an experiment.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tombolo_sharing::{Stats, Usage};

use crate::drive::{Phase, histogram};

/// The result of a phase on one host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Operations done.
    pub operations: u64,
    /// The time that took.
    pub elapsed_ns: u64,
    /// Latencies in nanoseconds, each with how often it occurred.
    pub latencies: Vec<(u64, u64)>,
    /// The host's counters over the phase.
    pub stats: Stats,
    /// How much is in use afterwards.
    pub usage: Usage,
}

impl PhaseResult {
    /// A phase in which a host has counted `stats`, and after which it has `usage`.
    pub fn new(phase: &Phase, stats: Stats, usage: Usage) -> Self {
        let recorded = phase.latency_ns.iter_recorded();
        Self {
            operations: phase.operations,
            elapsed_ns: phase.elapsed.as_nanos() as u64,
            latencies: recorded.map(|v| (v.value_iterated_to(), v.count_at_value())).collect(),
            stats,
            usage,
        }
    }
}

/// A phase of all hosts.
#[derive(Clone, Copy, Debug)]
pub struct Hosts<'a>(pub &'a [PhaseResult]);

impl Hosts<'_> {
    /// Operations of all hosts.
    pub fn operations(self) -> u64 {
        self.0.iter().map(|host| host.operations).sum()
    }

    /// Operations of all hosts in the time that the slowest took.
    pub fn per_second(self) -> f64 {
        let elapsed_ns = self.0.iter().map(|host| host.elapsed_ns).max().unwrap_or(0);
        self.operations() as f64 / (elapsed_ns.max(1) as f64 / 1e9)
    }

    /// A counter summed over all hosts, per operation.
    pub fn per_op(self, count: fn(&Stats) -> u64) -> f64 {
        let counted: u64 = self.0.iter().map(|host| count(&host.stats)).sum();
        counted as f64 / self.operations().max(1) as f64
    }

    /// The most of something that any host says is in use.
    pub fn most(self, value: fn(&Usage) -> u64) -> u64 {
        self.0.iter().map(|host| value(&host.usage)).max().unwrap_or(0)
    }

    /// Of an operation that churned, what that took; nothing, if none did.
    pub fn churn_us(self) -> Option<f64> {
        let sum = |count: fn(&Stats) -> u64| -> u64 {
            self.0.iter().map(|host| count(&host.stats)).sum()
        };
        let churn = sum(|stats| stats.churn);
        (churn > 0).then(|| sum(|stats| stats.churn_ns) as f64 / churn as f64 / 1000.0)
    }

    /// Latencies of all hosts.
    ///
    /// # Errors
    /// If one is longer than a minute.
    pub fn latencies(self) -> Result<Histogram<u64>> {
        let mut all = histogram();
        for &(value, count) in self.0.iter().flat_map(|host| &host.latencies) {
            all.record_n(value, count).context("a latency is out of bounds")?;
        }
        Ok(all)
    }
}
