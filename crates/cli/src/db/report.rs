//! The results of a benchmark of transactions.

use std::collections::BTreeMap;

use serde::Serialize;
use tombolo::format_size;

use super::ran::{AbortCounts, KindRan, Ran, histogram};
use crate::bench::comparison::Compared;
use crate::bench::us;
use crate::output::{pairs, table};

/// Percentiles in nanoseconds.
#[derive(Clone, Serialize)]
pub(crate) struct Percentiles {
    mean: f64,
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
}

impl Percentiles {
    fn of(values: &[(u64, u64)]) -> Option<Self> {
        let values = histogram(values);
        (!values.is_empty()).then(|| Self {
            mean: values.mean(),
            p50: values.value_at_quantile(0.5),
            p95: values.value_at_quantile(0.95),
            p99: values.value_at_quantile(0.99),
            max: values.max(),
        })
    }

    fn cells(of: Option<&Self>) -> [String; 3] {
        let cell = |value: fn(&Self) -> u64| {
            of.map_or_else(|| "-".to_owned(), |percentiles| us(value(percentiles) as f64))
        };
        [cell(|p| p.p50), cell(|p| p.p95), cell(|p| p.p99)]
    }
}

/// One kind of transactions, or all.
#[derive(Clone, Serialize)]
pub(crate) struct Kind {
    name: String,
    commits: u64,
    commits_per_s: f64,
    durable: u64,
    durable_per_s: f64,
    rollbacks: u64,
    aborts: AbortCounts,
    retries: u64,
    given_up: u64,
    latency_ns: Option<Percentiles>,
    durable_latency_ns: Option<Percentiles>,
}

impl Kind {
    fn new(ran: &KindRan, seconds: f64, durable_seconds: f64) -> Self {
        Self {
            name: ran.name.clone(),
            commits: ran.commits,
            commits_per_s: ran.commits as f64 / seconds,
            durable: ran.durable,
            durable_per_s: ran.durable as f64 / durable_seconds,
            rollbacks: ran.rollbacks,
            aborts: ran.aborts.clone(),
            retries: ran.retries,
            given_up: ran.given_up,
            latency_ns: Percentiles::of(&ran.latency),
            durable_latency_ns: Percentiles::of(&ran.durable_latency),
        }
    }

    fn aborted(&self) -> u64 {
        self.aborts.values().sum()
    }
}

/// The conditions that were checked after the run, and their violations.
#[derive(Clone, Serialize)]
pub(crate) struct Conditions {
    pub(crate) checked: &'static str,
    pub(crate) violations: Vec<String>,
}

/// The configuration of a run: its engine, its workload, its hosts and its memory.
#[derive(Clone, Serialize)]
pub(crate) struct Where {
    pub(crate) engine: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) setting: String,
    pub(crate) hosts: u8,
    pub(crate) workers: u16,
    pub(crate) durability: &'static str,
    pub(crate) log: Option<String>,
    pub(crate) scr_bytes: u64,
    /// Rows that were shared before the run.
    pub(crate) shared_before: Option<u64>,
    /// Names of the tables.
    #[serde(skip)]
    pub(crate) tables: Vec<String>,
}

/// A benchmark of transactions on one engine.
#[derive(Clone, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    of: Where,
    seconds: f64,
    #[serde(flatten)]
    total: Kind,
    requests_per_transaction: f64,
    /// Requests and replies.
    messages_per_transaction: f64,
    invalidated_lines_per_transaction: f64,
    cleaned_lines_per_transaction: f64,
    moved_in: u64,
    moved_out: u64,
    scr_bytes_used: u64,
    scr_bytes_by_use: BTreeMap<&'static str, u64>,
    scr_bytes_by_table: BTreeMap<String, u64>,
    checkpoints: u64,
    log_bytes: u64,
    log_syncs: u64,
    log_sync_p99_ns: u64,
    kinds: Vec<Kind>,
    conditions: Option<Conditions>,
}

impl Report {
    pub(crate) fn new(of: Where, hosts: &[Ran], conditions: Option<Conditions>) -> Self {
        let longest = |time: fn(&Ran) -> u64| {
            let longest = hosts.iter().map(time).max().unwrap_or_default();
            longest.max(1) as f64 / 1e9
        };
        let (seconds, durable_seconds) =
            (longest(|ran| ran.elapsed_ns), longest(|ran| ran.durable_elapsed_ns));
        let mut kinds: Vec<KindRan> =
            hosts.first().map(|ran| ran.kinds.clone()).unwrap_or_default();
        for ran in hosts.iter().skip(1) {
            kinds.iter_mut().zip(&ran.kinds).for_each(|(kind, more)| kind.add(more));
        }
        let mut total = KindRan { name: "all".to_owned(), ..KindRan::default() };
        kinds.iter().for_each(|kind| total.add(kind));
        let sum = |count: fn(&Ran) -> u64| hosts.iter().map(count).sum::<u64>();
        let commits = total.commits.max(1) as f64;
        let each = |count: fn(&Ran) -> u64| sum(count) as f64 / commits;
        let (records, index) = (sum(|ran| ran.scr_record_bytes), sum(|ran| ran.scr_index_bytes));
        let of_table = |(table, name): (usize, &String)| {
            let bytes = hosts.iter().filter_map(|ran| ran.scr_by_table.get(table)).sum();
            (name.clone(), bytes)
        };
        let by_table: BTreeMap<_, u64> = of.tables.iter().enumerate().map(of_table).collect();
        Self {
            seconds,
            requests_per_transaction: each(|ran| ran.requests),
            messages_per_transaction: each(|ran| ran.requests + ran.replies),
            invalidated_lines_per_transaction: each(|ran| ran.invalidated_lines),
            cleaned_lines_per_transaction: each(|ran| ran.cleaned_lines),
            total: Kind::new(&total, seconds, durable_seconds),
            moved_in: sum(|ran| ran.moved_in),
            moved_out: sum(|ran| ran.moved_out),
            scr_bytes_used: records + index,
            scr_bytes_by_use: [("records", records), ("index", index)].into(),
            scr_bytes_by_table: by_table.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
            checkpoints: sum(|ran| ran.checkpoints),
            log_bytes: sum(|ran| ran.log_bytes),
            log_syncs: sum(|ran| ran.log_syncs),
            log_sync_p99_ns: hosts.iter().map(|ran| ran.log_sync_p99_ns).max().unwrap_or_default(),
            kinds: kinds.iter().map(|kind| Kind::new(kind, seconds, durable_seconds)).collect(),
            conditions,
            of,
        }
    }

    /// Whether a condition is violated.
    pub(crate) fn is_violated(&self) -> bool {
        self.conditions.as_ref().is_some_and(|conditions| !conditions.violations.is_empty())
    }

    pub(crate) fn text(&self) -> String {
        let Where { engine, workload, setting, hosts, workers, durability, log, .. } = &self.of;
        let total = &self.total;
        let is_logged = *durability != "memory";
        let durable = match is_logged {
            true => format!("{:.0} durable transactions/s", total.durable_per_s),
            false => "none: nothing is logged".to_owned(),
        };
        let aborts = total.aborts.iter().filter(|(_, count)| **count > 0);
        let aborts: Vec<String> = aborts.map(|(why, count)| format!("{count} {why}")).collect();
        let aborts = if aborts.is_empty() { "none".to_owned() } else { aborts.join(", ") };
        let [p50, p95, p99] = Percentiles::cells(total.latency_ns.as_ref());
        let [d50, d95, d99] = Percentiles::cells(total.durable_latency_ns.as_ref());
        let mut rows = vec![
            ("engine", (*engine).to_owned()),
            ("workload", format!("{workload}: {setting}")),
            ("hosts", format!("{hosts} with {workers} workers each")),
            (
                "durability",
                match log {
                    Some(log) => format!("{durability}, log in {log}"),
                    None => (*durability).to_owned(),
                },
            ),
            (
                "rows shared before",
                self.of.shared_before.map_or("none".to_owned(), |n| n.to_string()),
            ),
            ("measured", format!("{:.2} s", self.seconds)),
            ("committed", format!("{:.0} transactions/s", total.commits_per_s)),
            ("durable", durable),
            ("latency", format!("p50 {p50}, p95 {p95}, p99 {p99}")),
        ];
        if is_logged {
            rows.push(("latency, durable", format!("p50 {d50}, p95 {d95}, p99 {d99}")));
        }
        rows.extend([
            ("rolled back", format!("{} as the workload asks for", total.rollbacks)),
            ("aborted", aborts),
            ("retries", format!("{}; {} given up", total.retries, total.given_up)),
            ("messages", format!("{:.4} per transaction", self.messages_per_transaction)),
            (
                "lines flushed",
                format!(
                    "{:.2} invalidated, {:.2} cleaned per transaction",
                    self.invalidated_lines_per_transaction, self.cleaned_lines_per_transaction
                ),
            ),
            ("rows moved", format!("{} in, {} out", self.moved_in, self.moved_out)),
            (
                "SCR of shared rows",
                format!(
                    "{} of {}: {}",
                    format_size(self.scr_bytes_used),
                    format_size(self.of.scr_bytes),
                    [sizes(&self.scr_bytes_by_use), sizes(&self.scr_bytes_by_table)].join("; ")
                ),
            ),
        ]);
        if is_logged {
            rows.push((
                "log",
                format!(
                    "{} in {} syncs, the slowest of 100 takes {}",
                    format_size(self.log_bytes),
                    self.log_syncs,
                    us(self.log_sync_p99_ns as f64)
                ),
            ));
        }
        if self.checkpoints > 0 {
            rows.push(("checkpoints", format!("{} while it ran", self.checkpoints)));
        }
        rows.push(("conditions", self.conditions_cell()));
        format!("{}\n{}\n{}", pairs(&rows), self.kinds_table(), self.violations_text())
    }

    fn conditions_cell(&self) -> String {
        match &self.conditions {
            None => "this workload has none".to_owned(),
            Some(Conditions { checked, violations }) if violations.is_empty() => {
                format!("hold: {checked}")
            }
            Some(Conditions { checked, violations }) => {
                format!("{} violations of {checked}", violations.len())
            }
        }
    }

    fn violations_text(&self) -> String {
        let violations = self.conditions.iter().flat_map(|conditions| &conditions.violations);
        violations.map(|violation| format!("violated: {violation}\n")).collect()
    }

    fn kinds_table(&self) -> String {
        let mut rows = table(&[
            "kind",
            "commits",
            "per s",
            "rolled back",
            "aborted",
            "retries",
            "p50",
            "p95",
            "p99",
        ]);
        for kind in &self.kinds {
            let mut cells = vec![
                kind.name.clone(),
                kind.commits.to_string(),
                format!("{:.0}", kind.commits_per_s),
                kind.rollbacks.to_string(),
                kind.aborted().to_string(),
                kind.retries.to_string(),
            ];
            cells.extend(Percentiles::cells(kind.latency_ns.as_ref()));
            rows.add_row(cells);
        }
        rows.to_string()
    }
}

/// Sizes by name, for people.
fn sizes<K: std::fmt::Display>(of: &BTreeMap<K, u64>) -> String {
    let each = of.iter().map(|(name, bytes)| format!("{name} {}", format_size(*bytes)));
    each.collect::<Vec<_>>().join(", ")
}

impl Compared for Report {
    const OF: &str = "engine";
    const SPEED: &str = "transactions/s";
    const COLUMNS: &[&str] =
        &["durable/s", "p50", "p99", "aborted", "messages/txn", "cleaned/txn", "SCR used"];

    fn scheme(&self) -> &'static str {
        self.of.engine
    }

    /// Of durable transactions, if they are logged.
    fn ops_per_s(&self) -> f64 {
        match self.of.durability {
            "memory" => self.total.commits_per_s,
            _ => self.total.durable_per_s,
        }
    }

    fn cells(&self) -> Vec<String> {
        let [p50, _, p99] = Percentiles::cells(self.total.latency_ns.as_ref());
        vec![
            format!("{:.0}", self.total.durable_per_s),
            p50,
            p99,
            self.total.aborted().to_string(),
            format!("{:.4}", self.messages_per_transaction),
            format!("{:.2}", self.cleaned_lines_per_transaction),
            format_size(self.scr_bytes_used),
        ]
    }
}
