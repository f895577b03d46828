//! The result of a benchmark.

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;
use tombolo::format_size;
use tombolo_experiments::{Hosts, PhaseResult};
use tombolo_timing::Counts;

use super::comparison::Compared;
use crate::cli::Scheme;
use crate::output::pairs;

#[derive(Clone, Serialize)]
pub(crate) struct Latency {
    mean: f64,
    p50: u64,
    p99: u64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
        }
    }

    /// Mean, median and the slowest of a hundred, for people.
    pub(crate) fn cells(&self) -> [String; 3] {
        [us(self.mean), us(self.p50 as f64), us(self.p99 as f64)]
    }
}

/// The setting of the measurement.
pub(crate) struct Setting {
    pub(crate) scheme: Scheme,
    pub(crate) workload: String,
    pub(crate) world: &'static str,
    pub(crate) hosts: u8,
    pub(crate) threads_per_host: u32,
    pub(crate) records: u64,
    /// SCR that is in use whatever is in the pod.
    pub(crate) scr_fixed_bytes: u64,
    /// The greatest rate of the workload on this machine, if that was measured.
    pub(crate) limit_ops_per_s: Option<f64>,
}

/// The part that only a simulated pod tells.
#[derive(Clone, Serialize)]
pub(crate) struct Simulated {
    /// The profile.
    pub(crate) profile: String,
    /// The time it took to simulate, all in all: for people, since it is another each time.
    #[serde(skip)]
    pub(crate) wall_s: f64,
    /// The events while it was measured.
    pub(crate) counts: Counts,
}

/// The result of a run phase, over all hosts.
#[derive(Clone, Serialize)]
pub(crate) struct Report {
    scheme: &'static str,
    workload: String,
    world: &'static str,
    hosts: u8,
    threads_per_host: u32,
    records: u64,
    operations: u64,
    ops_per_s: f64,
    latency_ns: Latency,
    churn_per_op: f64,
    /// Of an operation that churned, what that took; nothing, if none did.
    churn_us: Option<f64>,
    retries_per_op: f64,
    copy_reads_per_op: f64,
    partition_reads_per_op: f64,
    moved_in_per_op: f64,
    cleaned_lines_per_op: f64,
    invalidated_lines_per_op: f64,
    records_used: u64,
    records_wide: u64,
    scr_bytes_used: u64,
    local_bytes_per_object: f64,
    /// The most that this machine does of the workload. None in virtual time, or if it was not
    /// measured.
    limit_ops_per_s: Option<f64>,
    /// How much of that it is.
    of_limit: Option<f64>,
    /// Nothing where loading takes no time.
    load_ops_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<Simulated>,
}

impl Report {
    pub(crate) fn new(
        setting: Setting,
        loaded: Option<&[PhaseResult]>,
        ran: &[PhaseResult],
        simulated: Option<Simulated>,
    ) -> Result<Self> {
        let ran = Hosts(ran);
        Ok(Self {
            scheme: setting.scheme.name(),
            workload: setting.workload,
            world: setting.world,
            hosts: setting.hosts,
            threads_per_host: setting.threads_per_host,
            records: setting.records,
            operations: ran.operations(),
            ops_per_s: ran.per_second(),
            latency_ns: Latency::of(&ran.latencies()?),
            churn_per_op: ran.per_op(|stats| stats.churn),
            churn_us: ran.churn_us(),
            retries_per_op: ran.per_op(|stats| stats.retries),
            copy_reads_per_op: ran.per_op(|stats| stats.copy_reads),
            partition_reads_per_op: ran.per_op(|stats| stats.partition_reads),
            moved_in_per_op: ran.per_op(|stats| stats.moved_in),
            cleaned_lines_per_op: ran.per_op(|stats| stats.cleaned_lines),
            invalidated_lines_per_op: ran.per_op(|stats| stats.invalidated_lines),
            records_used: ran.most(|usage| usage.records_used),
            records_wide: ran.most(|usage| usage.records_wide),
            scr_bytes_used: setting.scr_fixed_bytes + ran.most(|usage| usage.scr_used_bytes),
            local_bytes_per_object: ran.most(|usage| usage.local_bytes) as f64
                / ran.most(|usage| usage.objects).max(1) as f64,
            limit_ops_per_s: setting.limit_ops_per_s,
            of_limit: setting.limit_ops_per_s.map(|limit| ran.per_second() / limit),
            load_ops_per_s: loaded.map(|loaded| Hosts(loaded).per_second()),
            simulated,
        })
    }

    fn of_limit_cell(&self) -> String {
        match (self.of_limit, self.limit_ops_per_s) {
            (Some(share), Some(limit)) => format!("{share:.2} of {limit:.0} ops/s"),
            _ => "-".to_owned(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let load = self
            .load_ops_per_s
            .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0} objects/s"));
        let [mean, p50, p99] = self.latency_ns.cells();
        let mut rows = vec![
            ("scheme", self.scheme.to_owned()),
            ("world", self.world.to_owned()),
            ("workload", self.workload.clone()),
            ("hosts", format!("{} with {} threads each", self.hosts, self.threads_per_host)),
            ("records", self.records.to_string()),
            ("operations", self.operations.to_string()),
            ("load", load),
            ("throughput", format!("{:.0} ops/s", self.ops_per_s)),
            ("of limit", self.of_limit_cell()),
            ("latency, mean", mean),
            ("latency, p50", p50),
            ("latency, p99", p99),
            ("churn", format!("{:.4} per operation", self.churn_per_op)),
            ("churn, mean cost", churn_cost(self.churn_us)),
            ("retries", format!("{:.4} per operation", self.retries_per_op)),
            ("reads of copies", format!("{:.4} per operation", self.copy_reads_per_op)),
            (
                "reads from the partition",
                format!("{:.4} per operation", self.partition_reads_per_op),
            ),
            ("moves into the partition", format!("{:.6} per operation", self.moved_in_per_op)),
            ("lines cleaned", format!("{:.2} per operation", self.cleaned_lines_per_op)),
            ("lines invalidated", format!("{:.2} per operation", self.invalidated_lines_per_op)),
            ("SCR used", format_size(self.scr_bytes_used)),
            ("local memory", format!("{:.1} bytes per object", self.local_bytes_per_object)),
        ];
        if let Some(simulated) = &self.simulated {
            rows.extend(simulated.rows(self.operations));
        }
        pairs(&rows)
    }
}

impl Simulated {
    fn rows(&self, operations: u64) -> Vec<(&'static str, String)> {
        let per_op =
            |count: u64| format!("{:.3} per operation", count as f64 / operations.max(1) as f64);
        let Counts { scr_misses, back_invalidations, lnr_misses, local_misses, link_bytes, .. } =
            self.counts;
        let busiest = self.counts.link_bytes_by_host.iter().copied().max().unwrap_or_default();
        vec![
            ("profile", self.profile.clone()),
            ("SCR misses", per_op(scr_misses)),
            ("back-invalidations", per_op(back_invalidations)),
            ("LNR misses", per_op(lnr_misses)),
            ("misses in local memory", per_op(local_misses)),
            ("bytes over links", per_op(link_bytes)),
            ("bytes over the busiest link", per_op(busiest)),
            ("waiting for bandwidth", format!("{} ns", per_op(self.counts.queueing_ns))),
            ("simulated in", format!("{:.1} s", self.wall_s)),
        ]
    }
}

impl Compared for Report {
    const COLUMNS: &[&str] = &["churn/op", "churn costs", "SCR used", "mean", "p50", "p99"];

    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn ops_per_s(&self) -> f64 {
        self.ops_per_s
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            format!("{:.4}", self.churn_per_op),
            churn_cost(self.churn_us),
            format_size(self.scr_bytes_used),
        ];
        cells.extend(self.latency_ns.cells());
        cells
    }
}

/// The cost of an operation that churns, for people.
pub(crate) fn churn_cost(churn_us: Option<f64>) -> String {
    churn_us.map_or_else(|| "-".to_owned(), |cost| us(1000.0 * cost))
}

/// A time, for people.
pub(crate) fn us(ns: f64) -> String {
    format!("{:.2} µs", ns / 1000.0)
}
