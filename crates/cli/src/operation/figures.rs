//! The figures by which a pod and a host are watched.

use std::sync::atomic::Ordering;

use tombolo::Store;

use crate::served::Tally;

/// The subject of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The pod: all hosts tell the same, but for what they have not applied yet.
    Pod,
    /// The host that tells it.
    Host,
}

/// A number by which a pod or a host is watched.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) scope: Scope,
    /// It only grows.
    pub(crate) is_counter: bool,
    pub(crate) value: u64,
}

/// All figures of a host, and of its pod.
pub(crate) fn figures(store: &Store, tally: &Tally) -> Vec<Figure> {
    [of_pod(store), of_host(store), of_clients(store, tally), of_deaths(store, tally)]
        .into_iter()
        .flatten()
        .collect()
}

type Made = (&'static str, &'static str, u64);

fn gauge(scope: Scope) -> impl Fn(Made) -> Figure {
    move |(name, help, value)| Figure { name, help, scope, is_counter: false, value }
}

fn counter((name, help, value): Made) -> Figure {
    Figure { name, help, scope: Scope::Host, is_counter: true, value }
}

fn of_pod(store: &Store) -> Vec<Figure> {
    let usage = store.objects().usage();
    let figures = [
        ("objects", "Objects in the pod.", usage.objects),
        ("lnr_used_bytes", "Bytes of LNR in use for objects.", usage.lnr_used_bytes),
        ("lnr_bytes", "Bytes of LNR for objects.", usage.lnr_bytes),
        (
            "lnr_fragmented_bytes",
            "Bytes of LNR in slots without an object, of chunks with some.",
            usage.lnr_fragmented_bytes,
        ),
        (
            "lnr_poisoned_bytes",
            "Bytes of LNR that get no new objects because of memory errors.",
            usage.lnr_poisoned_bytes,
        ),
        ("records_used", "Coherence records in use.", usage.records_used),
        ("records", "Coherence records.", usage.records),
    ];
    figures.into_iter().map(gauge(Scope::Pod)).collect()
}

fn of_host(store: &Store) -> Vec<Figure> {
    let (usage, stats) = (store.objects().usage(), store.objects().stats());
    let gauges = [
        ("local_bytes", "Bytes of this host's memory for its replica.", usage.local_bytes),
        ("copies_bytes", "Bytes of this host's memory for copies.", usage.copies_bytes),
        (
            "partition_bytes",
            "Bytes of this host's memory for its partition.",
            usage.partition_bytes,
        ),
        ("log_lag", "Log entries this host has not applied.", usage.log_lag),
    ];
    let counters = [
        ("reads", "Objects read.", stats.reads),
        ("writes", "Writes to existing objects.", stats.writes),
        ("creates", "Objects created.", stats.creates),
        ("deletes", "Objects deleted.", stats.deletes),
        ("moves", "Objects moved to another slot.", stats.moves),
        ("copy_reads", "Reads from copies in this host's memory.", stats.copy_reads),
        ("partition_reads", "Reads from this host's partition.", stats.partition_reads),
        ("retries", "Reads begun again because of a change.", stats.retries),
        ("churn", "Coherence records allocated.", stats.churn),
        ("reclaims", "Coherence records taken back.", stats.reclaims),
        ("cleaned_lines", "Cache lines written back.", stats.cleaned_lines),
        ("invalidated_lines", "Cache lines dropped.", stats.invalidated_lines),
    ];
    let gauges = gauges.into_iter().map(gauge(Scope::Host));
    gauges.chain(counters.into_iter().map(counter)).collect()
}

fn of_clients(store: &Store, tally: &Tally) -> Vec<Figure> {
    let counters = [
        ("expired", "Values that this host removed because their time was over.", store.expired()),
        (
            "full_errors",
            "Writes refused because the pod or the index was full.",
            Tally::get(&tally.full),
        ),
        (
            "unavailable_errors",
            "Operations that failed because of another host, or of a fence.",
            Tally::get(&tally.unavailable),
        ),
    ];
    counters.into_iter().map(counter).collect()
}

fn of_deaths(store: &Store, tally: &Tally) -> Vec<Figure> {
    let stats = store.objects().stats();
    let counters = [
        (
            "clocks_differed",
            "Hosts whose clock was found to be more than a second away.",
            Tally::get(&tally.clocks_differed),
        ),
        ("fences", "Hosts that this host has seen fenced.", Tally::get(&tally.fences)),
        ("cleanups", "Hosts that this host has cleaned up after.", stats.recoveries),
        (
            "rescued",
            "Objects that a host had locked when it died or was fenced, and that are whole.",
            stats.rescues,
        ),
        ("lost", "Objects whose values were lost with a host.", stats.lost),
        ("poisoned", "Objects lost to memory errors that this host met.", stats.poisoned),
    ];
    let difference = (
        "clock_difference_ms",
        "How far the clock of another host is from this host's, at most, in milliseconds.",
        tally.clock_difference_ms.load(Ordering::Relaxed),
    );
    let difference = std::iter::once(gauge(Scope::Host)(difference));
    difference.chain(counters.into_iter().map(counter)).collect()
}
