//! The result of a replay.

use std::collections::BTreeMap;

use serde::Serialize;
use tombolo::{Evicted, EvictionPolicy, format_size};
use tombolo_workloads::cache::{Rates, TraceFormat};

use super::replay::Replayed;
use crate::bench::report::Latency;
use crate::output::{pairs, table};

/// The trace that was replayed, and the pod.
pub(super) struct Setting {
    pub(super) trace: String,
    pub(super) format: TraceFormat,
    pub(super) hosts: u8,
    pub(super) policy: EvictionPolicy,
    pub(super) room_bytes: u64,
    /// Whether the room is a limit, and not all of the pod.
    pub(super) limited: bool,
}

/// Parts of accesses, from 0 to 1.
#[derive(Serialize)]
struct HitRate {
    by_requests: f64,
    by_bytes: f64,
}

impl HitRate {
    fn of(rates: Rates) -> Self {
        Self { by_requests: rates.by_requests(), by_bytes: rates.by_bytes() }
    }

    fn cells(&self) -> [String; 2] {
        [self.by_requests, self.by_bytes].map(|part| format!("{part:.4}"))
    }
}

/// Values that were evicted.
#[derive(Serialize)]
struct Count {
    policy: &'static str,
    reason: &'static str,
    values: u64,
}

#[derive(Serialize)]
pub(super) struct Report {
    trace: String,
    trace_format: &'static str,
    hosts: u8,
    policy: &'static str,
    room_bytes: u64,
    limited: bool,
    accesses: usize,
    gets: u64,
    hits: u64,
    hit_rate: HitRate,
    exact_lru: HitRate,
    /// Values that are in the pod at the end.
    values: u64,
    evicted: Vec<Count>,
    refused: u64,
    seconds: f64,
    ops_per_s: f64,
    get_ns: Latency,
    put_ns: Latency,
}

impl Report {
    pub(super) fn new(
        setting: Setting,
        replayed: &Replayed,
        exact: Rates,
        evicted: Vec<Evicted>,
        values: u64,
    ) -> Self {
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for Evicted { policy, reason, values } in evicted {
            *counts.entry((policy.name(), reason.name())).or_default() += values;
        }
        let counted = counts.into_iter().filter(|&(_, values)| values > 0);
        Self {
            trace: setting.trace,
            trace_format: setting.format.name(),
            hosts: setting.hosts,
            policy: setting.policy.name(),
            room_bytes: setting.room_bytes,
            limited: setting.limited,
            accesses: replayed.accesses,
            gets: replayed.rates.gets,
            hits: replayed.rates.hits,
            hit_rate: HitRate::of(replayed.rates),
            exact_lru: HitRate::of(exact),
            values,
            evicted: counted
                .map(|((policy, reason), values)| Count { policy, reason, values })
                .collect(),
            refused: replayed.refused,
            seconds: replayed.seconds,
            ops_per_s: replayed.accesses as f64 / replayed.seconds.max(1e-9),
            get_ns: Latency::of(&replayed.gets),
            put_ns: Latency::of(&replayed.puts),
        }
    }

    pub(super) fn text(&self) -> String {
        let room = if self.limited { "limit" } else { "pod" };
        let mut text = pairs(&[
            ("trace", format!("{} ({})", self.trace, self.trace_format)),
            ("hosts", self.hosts.to_string()),
            ("policy", self.policy.to_owned()),
            ("room", format!("{} ({room})", format_size(self.room_bytes))),
            ("accesses", self.accesses.to_string()),
            ("values at the end", self.values.to_string()),
            ("time", format!("{:.1} s, {:.0} accesses/s", self.seconds, self.ops_per_s)),
            ("writes without room", self.refused.to_string()),
        ]);
        let mut rates = table(&["hit rate", "of requests", "of bytes"]);
        for (name, rate) in [("pod", &self.hit_rate), ("exact LRU", &self.exact_lru)] {
            let [by_requests, by_bytes] = rate.cells();
            rates.add_row([name.to_owned(), by_requests, by_bytes]);
        }
        let mut latencies = table(&["latency", "mean", "median", "99 %"]);
        for (name, latency) in [("get", &self.get_ns), ("put", &self.put_ns)] {
            let [mean, p50, p99] = latency.cells();
            latencies.add_row([name.to_owned(), mean, p50, p99]);
        }
        let mut evicted = table(&["evicted by", "reason", "values"]);
        for Count { policy, reason, values } in &self.evicted {
            evicted.add_row([(*policy).to_owned(), (*reason).to_owned(), values.to_string()]);
        }
        text += &format!("\n{rates}\n\n{latencies}\n\n{evicted}\n");
        text
    }
}
