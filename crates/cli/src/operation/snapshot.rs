//! The content of the page, as JSON: the current state. Rates are for the page to compute.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tombolo::{Chunk, ChunkUse};
use tombolo_log::Ring;
use tombolo_memory::Mapped;
use tombolo_objects::Objects;
use tombolo_server::{CommandLatency, Server};

use super::hosts::Seen;
use super::journal::Event;
use super::subject::Subject;
use super::watch::Observed;

/// Squares of the map of memory, at most: of a larger pod, one stands for several chunks.
const SQUARES: usize = 1024;

/// The state of now, with the events that are new.
pub(super) fn snapshot(subject: &dyn Subject, observed: &Observed, events: &[Event]) -> Value {
    let objects = subject.objects();
    let lags = lags(objects);
    let host = |seen: &Seen| host(seen, observed, &lags);
    let numbers = subject.figures().into_iter().map(|f| (f.name.to_owned(), json!(f.value)));
    let mut state = json!({
        "pod": objects.pod().identity().uuid.to_string(),
        "host": objects.seat().host(),
        "version": env!("CARGO_PKG_VERSION"),
        "hosts": observed.hosts.all().iter().map(host).collect::<Vec<_>>(),
        "troubles": observed.troubles,
        "figures": Map::from_iter(numbers),
        "chunks": squares(&objects.chunks()),
        "chunk_bytes": objects.area().geometry().chunk_bytes,
        "events": events,
    });
    if let Some(state) = state.as_object_mut() {
        state.extend(subject.page());
    }
    state
}

/// The state of a server.
pub(super) fn of_server(server: &Server) -> Map<String, Value> {
    let stats = server.stats();
    Map::from_iter([
        ("clients".to_owned(), json!(stats.clients)),
        ("commands".to_owned(), json!(stats.commands)),
        ("errors".to_owned(), json!(stats.errors)),
        ("hits".to_owned(), json!(stats.hits)),
        ("misses".to_owned(), json!(stats.misses)),
        ("latencies".to_owned(), server.latencies().iter().map(latency).collect()),
    ])
}

fn host(seen: &Seen, observed: &Observed, lags: &BTreeMap<u8, u64>) -> Value {
    let host = seen.stay.host;
    let ahead_ms = observed.clocks.iter().find(|(of, _)| *of == host).map(|(_, ahead)| *ahead);
    let is_in_pod = seen.state.is_in_pod();
    json!({
        "host": host,
        "incarnation": seen.stay.number,
        "pid": seen.pid(),
        "state": seen.state,
        "seconds": seen.since.elapsed().as_secs(),
        "log_lag": lags.get(&host).filter(|_| is_in_pod),
        "clock_ahead_ms": ahead_ms.filter(|_| is_in_pod),
    })
}

/// How many entries each host has not applied, of all shards.
fn lags(objects: &Objects<Mapped>) -> BTreeMap<u8, u64> {
    let area = objects.area();
    let mut lags = BTreeMap::new();
    for shard in area.layout().shards() {
        let ring = Ring::new(area, shard);
        let tail = ring.tail();
        for (host, applied) in ring.progress() {
            *lags.entry(host).or_default() += tail.saturating_sub(applied);
        }
    }
    lags
}

/// How commands took: times that half, and 99 of 100, did not exceed.
fn latency(latency: &CommandLatency) -> Value {
    let quantile = |percent: u64| {
        let rank = (latency.count * percent).div_ceil(100);
        let found = latency.within.iter().find(|(_, count)| *count >= rank);
        found.map(|(time, _)| time.as_micros() as u64)
    };
    json!({
        "command": latency.command,
        "count": latency.count,
        "mean_us": latency.total.as_secs_f64() * 1e6 / latency.count.max(1) as f64,
        "p50_us": quantile(50),
        "p99_us": quantile(99),
        "within": latency.within.iter().map(|(_, count)| count).collect::<Vec<_>>(),
    })
}

/// The map of memory: what a square is used for, the host that has taken it, and how full it is.
fn squares(chunks: &[Option<Chunk>]) -> Value {
    let each = chunks.len().div_ceil(SQUARES).max(1);
    let squares = chunks.chunks(each).map(square).collect();
    json!({ "each": each, "count": chunks.len(), "squares": Value::Array(squares) })
}

fn square(chunks: &[Option<Chunk>]) -> Value {
    let known: Vec<&Chunk> = chunks.iter().flatten().collect();
    // The first that is used tells what it is used for.
    let Some(shown) = known.iter().find(|chunk| chunk.used_for != ChunkUse::Free) else {
        return json!(["free", null, 0]);
    };
    let word = match shown.used_for {
        _ if known.iter().any(|chunk| chunk.poisoned) => "poisoned",
        ChunkUse::Free => "free",
        ChunkUse::Held => "held",
        ChunkUse::Shared => "shared",
        ChunkUse::Large => "large",
        ChunkUse::Moving => "moving",
    };
    let used: u64 = known.iter().map(|chunk| u64::from(chunk.used_percent)).sum();
    json!([word, shown.host, used / chunks.len() as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_pod_has_a_map_of_bounded_size() {
        let free = Chunk { used_for: ChunkUse::Free, host: None, used_percent: 0, poisoned: false };
        let held = Chunk { used_for: ChunkUse::Held, host: Some(3), used_percent: 90, ..free };
        let chunks: Vec<_> = (0..5000).map(|n| Some(if n == 0 { held } else { free })).collect();
        let map = squares(&chunks);
        assert_eq!((&map["each"], &map["count"]), (&json!(5), &json!(5000)));
        assert_eq!(map["squares"].as_array().unwrap().len(), 1000);
        assert_eq!(
            (&map["squares"][0], &map["squares"][1]),
            (&json!(["held", 3, 18]), &json!(["free", null, 0]))
        );
    }
}
