//! What a benchmark came to.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::Serialize;
use tombolo::format_size;
use tombolo_timing::Counts;

use super::comparison::Compared;
use super::worker::PhaseResult;
use crate::cli::Scheme;
use crate::drive::histogram;
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

/// What was measured.
pub(crate) struct Setting {
    pub(crate) scheme: Scheme,
    pub(crate) workload: String,
    pub(crate) world: &'static str,
    pub(crate) hosts: u8,
    pub(crate) threads_per_host: u32,
    pub(crate) records: u64,
    /// SCR that is in use whatever is in the pod.
    pub(crate) scr_fixed_bytes: u64,
}

/// What only a simulated pod tells.
#[derive(Clone, Serialize)]
pub(crate) struct Simulated {
    /// The profile.
    pub(crate) profile: String,
    /// The time it took to simulate, all in all: for people, since it is another each time.
    #[serde(skip)]
    pub(crate) wall_s: f64,
    /// What happened while it was measured.
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
    home_reads_per_op: f64,
    moved_in_per_op: f64,
    cleaned_lines_per_op: f64,
    invalidated_lines_per_op: f64,
    records_used: u64,
    records_wide: u64,
    scr_bytes_used: u64,
    local_bytes_per_object: f64,
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
        let operations: u64 = ran.iter().map(|host| host.operations).sum();
        let per_op = |count: fn(&PhaseResult) -> u64| {
            ran.iter().map(count).sum::<u64>() as f64 / operations.max(1) as f64
        };
        let most = |value: fn(&PhaseResult) -> u64| ran.iter().map(value).max().unwrap_or(0);
        Ok(Self {
            scheme: setting.scheme.name(),
            workload: setting.workload,
            world: setting.world,
            hosts: setting.hosts,
            threads_per_host: setting.threads_per_host,
            records: setting.records,
            operations,
            ops_per_s: per_second(ran),
            latency_ns: Latency::of(&latencies(ran)?),
            churn_per_op: per_op(|host| host.churn),
            churn_us: churn_us(ran.iter().map(|host| (host.churn, host.churn_ns))),
            retries_per_op: per_op(|host| host.retries),
            copy_reads_per_op: per_op(|host| host.copy_reads),
            home_reads_per_op: per_op(|host| host.home_reads),
            moved_in_per_op: per_op(|host| host.moved_in),
            cleaned_lines_per_op: per_op(|host| host.cleaned_lines),
            invalidated_lines_per_op: per_op(|host| host.invalidated_lines),
            records_used: most(|host| host.records_used),
            records_wide: most(|host| host.records_wide),
            scr_bytes_used: setting.scr_fixed_bytes + most(|host| host.scr_used_bytes),
            local_bytes_per_object: most(|host| host.local_bytes) as f64
                / most(|host| host.objects).max(1) as f64,
            load_ops_per_s: loaded.map(per_second),
            simulated,
        })
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
            ("latency, mean", mean),
            ("latency, p50", p50),
            ("latency, p99", p99),
            ("churn", format!("{:.4} per operation", self.churn_per_op)),
            ("churn, mean cost", churn_cost(self.churn_us)),
            ("retries", format!("{:.4} per operation", self.retries_per_op)),
            ("reads of copies", format!("{:.4} per operation", self.copy_reads_per_op)),
            ("reads of what is at home", format!("{:.4} per operation", self.home_reads_per_op)),
            ("moves home", format!("{:.6} per operation", self.moved_in_per_op)),
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
        vec![
            ("profile", self.profile.clone()),
            ("SCR misses", per_op(scr_misses)),
            ("back-invalidations", per_op(back_invalidations)),
            ("LNR misses", per_op(lnr_misses)),
            ("misses in local memory", per_op(local_misses)),
            ("bytes over links", per_op(link_bytes)),
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

/// What an operation that churns costs, for people.
pub(crate) fn churn_cost(churn_us: Option<f64>) -> String {
    churn_us.map_or_else(|| "-".to_owned(), |cost| us(1000.0 * cost))
}

/// A time, for people.
pub(crate) fn us(ns: f64) -> String {
    format!("{:.2} µs", ns / 1000.0)
}

/// Microseconds that an operation that churns takes for it, of each host's number and time of them.
pub(crate) fn churn_us(hosts: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (churn, took) = hosts.fold((0, 0), |(n, ns), host| (n + host.0, ns + host.1));
    (churn > 0).then(|| took as f64 / churn as f64 / 1000.0)
}

/// Operations of all hosts in the time that the slowest took.
fn per_second(hosts: &[PhaseResult]) -> f64 {
    let operations: u64 = hosts.iter().map(|host| host.operations).sum();
    let elapsed_ns = hosts.iter().map(|host| host.elapsed_ns).max().unwrap_or(0);
    operations as f64 / (elapsed_ns.max(1) as f64 / 1e9)
}

fn latencies(hosts: &[PhaseResult]) -> Result<Histogram<u64>> {
    let mut all = histogram();
    for &(value, count) in hosts.iter().flat_map(|host| &host.latencies) {
        all.record_n(value, count).context("a latency is out of bounds")?;
    }
    Ok(all)
}
