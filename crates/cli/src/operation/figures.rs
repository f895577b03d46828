//! The figures by which a pod and a host are watched.

use std::sync::atomic::Ordering;

use tombolo::Store;
use tombolo_memory::Mapped;
use tombolo_mount::Mounted;
use tombolo_objects::Objects;

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

/// All figures of a host that serves, and of its pod.
pub(crate) fn figures(store: &Store, tally: &Tally) -> Vec<Figure> {
    let objects = store.objects();
    [of_pod(objects), of_host(objects), of_clients(store, tally), of_deaths(objects, tally)]
        .into_iter()
        .flatten()
        .collect()
}

/// All figures of a host that mounts a directory, and of its pod.
pub(super) fn figures_of_mount(mounted: &Mounted, tally: &Tally) -> Vec<Figure> {
    let objects = mounted.objects();
    [of_pod(objects), of_host(objects), of_pages(mounted), of_deaths(objects, tally)]
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

fn of_pod(objects: &Objects<Mapped>) -> Vec<Figure> {
    let usage = objects.usage();
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

fn of_host(objects: &Objects<Mapped>) -> Vec<Figure> {
    let (usage, stats) = (objects.usage(), objects.stats());
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
        ("given_back", "Chunks whose memory was given back to the system.", stats.given_back),
        ("cleaned_lines", "Cache lines written back.", stats.cleaned_lines),
        ("invalidated_lines", "Cache lines dropped.", stats.invalidated_lines),
    ];
    let gauges = gauges.into_iter().map(gauge(Scope::Host));
    gauges.chain(counters.into_iter().map(counter)).collect()
}

fn of_clients(store: &Store, tally: &Tally) -> Vec<Figure> {
    let counters = [
        ("expired", "Values that this host removed because their time was over.", store.expired()),
        ("evicted", "Values that this host evicted to make room.", store.evicted_values()),
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

fn of_pages(mounted: &Mounted) -> Vec<Figure> {
    let (load, counts) = (mounted.load(), mounted.counts());
    let of_pod = [
        ("dirty_pages", "Pages of files that are not in their files yet.", load.dirty_pages),
        (
            "dirty_age_ms",
            "How long a page has waited to be written to its file, at most, in milliseconds.",
            load.dirty_for.as_millis() as u64,
        ),
    ];
    let open = ("open_files", "Files that programs have open on this host.", load.open_files);
    let counters = [
        ("page_hits", "Pages that were in the pod when they were asked for.", counts.hits()),
        ("page_misses", "Pages that were not in the pod when they were asked for.", counts.missed),
        ("pages_read", "Pages read from files.", counts.admitted),
        ("pages_written_back", "Pages written to files.", counts.written_back),
        ("pages_evicted", "Pages that left the pod for others.", counts.evicted),
        ("files_refused", "Times that a file took no page in the background.", counts.refused),
        ("pages_salvaged", "Pages brought to files for hosts that had all died.", counts.salvaged),
        ("pages_lost", "Pages that those were changing, and that are lost.", counts.lost),
    ];
    let of_pod = of_pod.into_iter().map(gauge(Scope::Pod));
    let of_host = std::iter::once(gauge(Scope::Host)(open));
    of_pod.chain(of_host).chain(counters.into_iter().map(counter)).collect()
}

fn of_deaths(objects: &Objects<Mapped>, tally: &Tally) -> Vec<Figure> {
    let stats = objects.stats();
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
