//! The parts of a pod, and their times and sizes.

use std::path::Path;

use serde::Deserialize;
use thiserror::Error;
use tombolo_coherence::{BACK_INVALIDATION, Filter, INVALIDATING, Protocol, SHARING};

use crate::Tiers;

/// A pod to be simulated, as read from TOML. Times are in nanoseconds, bandwidths in GB/s (10^9).
///
/// `docs/simulation.md` explains every entry; `profiles/` has one file per machine, which says of
/// every number where it comes from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The profile's name.
    pub name: String,
    /// The machine that it stands for, in a sentence.
    pub about: String,
    /// How many hosts and cores.
    pub pod: Hosts,
    /// The core's own times.
    pub core: Core,
    /// Where a core remembers where pages are.
    pub tlb: Tlb,
    /// Caches from the core outwards; the last one is shared by a host's cores, and includes the
    /// others.
    pub cache: Vec<Cache>,
    /// A host's own memory.
    pub local: Memory,
    /// The way from a host to the device, and back.
    pub link: Bandwidth,
    /// The memory that hosts share; its latency is that of the way there and back, too.
    pub device: Memory,
    /// How the small region is kept coherent, and whether it is the only one.
    pub coherence: Coherence,
    /// Instructions that make the caches of a host forget or write back.
    pub flush: Flush,
    /// The times of the code's own steps, with everything in the nearest cache.
    pub steps: Steps,
    /// Times to give pages other mappings; a profile may be without.
    #[serde(default)]
    pub paging: Option<Paging>,
    /// Kinds of far memory, from near to far, where a figure compares them.
    #[serde(default)]
    pub tier: Vec<Tier>,
    /// Two tiers between which pages move, if the machine has them.
    #[serde(default)]
    pub tiers: Option<Tiers>,
    /// The times of a database's steps, likewise, if databases run on it.
    pub database: Option<Database>,
    /// The storage of each host's log, if databases run on it.
    pub storage: Option<Storage>,
    /// The text that it was read from, which says where its numbers come from.
    #[serde(skip)]
    pub text: String,
}

/// How many hosts and cores.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// Hosts, 64 at most.
    pub hosts: u32,
    /// Cores of each, 64 at most.
    pub cores: u32,
}

/// The core's own times.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// A compare-and-swap of a line that this core has alone.
    pub atomic_ns: f64,
    /// A round of a loop that waits.
    pub pause_ns: f64,
    /// Copying a line from or to the nearest cache.
    pub copy_ns: f64,
    /// Misses that are under way at once.
    pub misses_at_once: u32,
    /// From the beginning of a miss to that of the next one, at least; nothing, unless given.
    #[serde(default)]
    pub miss_gap_ns: f64,
    /// Lines that may be written before the first of them is there.
    pub stores_at_once: u32,
    /// A line that another core of the same host has changed.
    pub core_to_core_ns: f64,
}

/// Where a core remembers where pages are.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Size of a page: a power of two.
    pub page_kib: f64,
    /// Pages it remembers.
    pub pages: u32,
    /// Finding out where another page is.
    pub miss_ns: f64,
    /// The time that is added when a host touches a page of the device for the first time; nothing,
    /// unless given: pages may be mapped in advance.
    #[serde(default)]
    pub first_ns: f64,
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// How much it holds.
    pub kib: f64,
    /// In how many places a line may be.
    pub ways: u32,
    /// From load to use.
    pub latency_ns: f64,
}

/// How much goes through, and how much longer it takes while much does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// The bandwidth.
    pub gb_per_s: f64,
    /// Shares of that in use, rising, and nanoseconds that each line takes longer then.
    #[serde(default)]
    pub curve: Vec<[f64; 2]>,
}

/// Memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// From load to use, when nobody else is there.
    pub latency_ns: f64,
    /// The bandwidth, both ways together.
    pub gb_per_s: f64,
    /// Shares of that in use, rising, and nanoseconds that each line takes longer then.
    #[serde(default)]
    pub curve: Vec<[f64; 2]>,
}

impl Memory {
    /// Its bandwidth alone.
    pub fn bandwidth(&self) -> Bandwidth {
        Bandwidth { gb_per_s: self.gb_per_s, curve: self.curve.clone() }
    }
}

/// How the small region is kept coherent: the device has other hosts drop a line, or hand it back.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coherence {
    /// From load to use of a line that no other host has changed.
    pub latency_ns: f64,
    /// How much longer, if other hosts have to drop it or hand it back first.
    pub snoop_ns: f64,
    /// The messages between the device and hosts.
    #[serde(default)]
    pub protocol: CoherenceProtocol,
    /// Whom the device asks.
    #[serde(default)]
    pub filter: CoherenceFilter,
    /// Whether LNR is kept coherent, too, as where hosts are processes of one machine; it is not,
    /// unless given.
    #[serde(default)]
    pub lnr: bool,
}

/// The protocol by which the device and hosts keep a line coherent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoherenceProtocol {
    /// CXL 3.0's back-invalidation.
    #[default]
    Bi,
    /// INV-CF: a line is with one host at a time.
    Inv,
    /// SHA-CF.
    Sha,
}

impl CoherenceProtocol {
    pub(crate) fn tables(self) -> &'static Protocol {
        match self {
            Self::Bi => &BACK_INVALIDATION,
            Self::Inv => &INVALIDATING,
            Self::Sha => &SHARING,
        }
    }
}

/// Whom the device asks about a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoherenceFilter {
    /// Those who may have it.
    #[default]
    Directory,
    /// All others.
    Broadcast,
}

impl From<CoherenceFilter> for Filter {
    fn from(filter: CoherenceFilter) -> Self {
        match filter {
            CoherenceFilter::Directory => Self::Directory,
            CoherenceFilter::Broadcast => Self::Broadcast,
        }
    }
}

/// Instructions that make the caches of a host forget or write back.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    /// Cleaning one dirty line, with its fence.
    pub clean_ns: f64,
    /// Each further one.
    pub clean_more_ns: f64,
    /// Dropping one line, with its fence.
    pub invalidate_ns: f64,
    /// Each further one.
    pub invalidate_more_ns: f64,
}

/// The times of the code's own steps, with everything in the nearest cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// An operation on an object, but for what its accesses and copies take.
    pub operation_ns: f64,
    /// Taking and releasing an object's lock.
    pub lock_ns: f64,
    /// Putting an event into the log.
    pub append_ns: f64,
    /// Applying an event to a replica.
    pub apply_ns: f64,
    /// Answering another host's message.
    pub message_ns: f64,
}

/// Times to give pages other mappings.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paging {
    /// From an access to a page that is not mapped until it is.
    pub fault_ns: f64,
    /// From a write to a page that may be read until it may be written.
    pub upgrade_ns: f64,
    /// Taking away the right to write a page.
    pub protect_ns: f64,
    /// Taking a page's mapping away.
    pub invalidate_ns: f64,
    /// Taking away those of further pages in a row.
    pub invalidate_more_ns: f64,
    /// Mapping each page of a range of the pod's memory, its first touch included.
    pub map_ns: f64,
}

/// A kind of far memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// The name of the kind of memory, for reports and errors.
    pub name: String,
    /// An access to one line.
    pub line_ns: f64,
    /// Accesses to all 64 lines of a page.
    pub page_ns: f64,
    /// Copying a page from there into local memory.
    pub copy_ns: f64,
    /// The same by the operating system's migration, its work on mappings included.
    pub migrate_ns: f64,
}

/// The times of a database's steps, with everything in the nearest cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Beginning and ending a transaction.
    pub transaction_ns: f64,
    /// Searching a node of an index.
    pub node_ns: f64,
    /// Finding, locking, noting and releasing a row, but for what its accesses and copies take.
    pub row_ns: f64,
    /// Changing a row: its part of the log record and of the commit, likewise.
    pub change_ns: f64,
}

/// The storage of each host's log. Every host has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// How fast it takes bytes, in MB/s (10^6).
    pub mb_per_s: f64,
    /// How long it takes to make them durable, once it has them, in microseconds.
    pub sync_us: f64,
}

/// Faults of a profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the profile {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is no TOML, lacks an entry, or has one that nobody knows.
    #[error("the profile {path} is not understood: {error}")]
    Syntax {
        /// The file.
        path: String,
        /// Where, and what is expected there.
        error: Box<toml::de::Error>,
    },
    /// An entry makes no sense.
    #[error("the profile {path} makes no sense: {what}")]
    Nonsense {
        /// The file.
        path: String,
        /// The entry, what it is, and what it may be.
        what: String,
    },
}

impl Profile {
    /// Reads a profile from a file.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ProfileError::Unreadable { path: shown.clone(), error })?;
        Self::parse(&shown, &text)
    }

    /// Reads a profile from text; `path` is what it is called in errors.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn parse(path: &str, text: &str) -> Result<Self, ProfileError> {
        let mut profile: Self = toml::from_str(text)
            .map_err(|error| ProfileError::Syntax { path: path.to_owned(), error: error.into() })?;
        text.clone_into(&mut profile.text);
        profile.check().map_err(|what| ProfileError::Nonsense { path: path.to_owned(), what })?;
        Ok(profile)
    }

    /// The same machine with caches that hold `share` as much, for workloads that are as much
    /// smaller.
    #[must_use]
    pub fn with_caches_of(mut self, share: f64) -> Self {
        self.cache.iter_mut().for_each(|cache| cache.kib *= share);
        self
    }

    fn check(&self) -> Result<(), String> {
        within("pod.hosts", self.pod.hosts.into(), 1.0, 64.0)?;
        within("pod.cores", self.pod.cores.into(), 1.0, 64.0)?;
        within("core.misses_at_once", self.core.misses_at_once.into(), 1.0, 256.0)?;
        within("core.stores_at_once", self.core.stores_at_once.into(), 1.0, 256.0)?;
        within("tlb.page_kib", self.tlb.page_kib, 4.0, 1_048_576.0)?;
        if self.tlb.page_kib.log2().fract() != 0.0 {
            return Err(format!("tlb.page_kib is {}, not a power of two", self.tlb.page_kib));
        }
        within("tlb.pages", self.tlb.pages.into(), 16.0, 65_536.0)?;
        if !(2..=4).contains(&self.cache.len()) {
            return Err(format!(
                "there are {} [[cache]] entries; name 1 to 3 private ones and the shared one",
                self.cache.len()
            ));
        }
        for (number, cache) in self.cache.iter().enumerate() {
            within(&format!("kib of cache {number}"), cache.kib, 1.0, 1e9)?;
            within(&format!("ways of cache {number}"), cache.ways.into(), 1.0, 64.0)?;
        }
        let bandwidths = [
            ("local", self.local.bandwidth()),
            ("link", self.link.clone()),
            ("device", self.device.bandwidth()),
        ];
        for (name, Bandwidth { gb_per_s, curve }) in bandwidths {
            within(&format!("{name}.gb_per_s"), gb_per_s, 0.01, 1e5)?;
            if !curve.is_sorted_by(|a, b| a[0] < b[0] && a[1] <= b[1]) {
                return Err(format!("{name}.curve does not rise: {curve:?}"));
            }
        }
        for (name, value) in self.tiers.iter().flat_map(Tiers::entries) {
            within(name, value, 0.01, 1e5)?;
        }
        for tier in &self.tier {
            let Tier { name, line_ns, page_ns, copy_ns, migrate_ns } = tier;
            within(&format!("line_ns of tier {name}"), *line_ns, 0.0, 1e6)?;
            within(&format!("page_ns of tier {name}"), *page_ns, *line_ns, 1e6)?;
            within(&format!("copy_ns of tier {name}"), *copy_ns, 0.0, 1e6)?;
            within(&format!("migrate_ns of tier {name}"), *migrate_ns, 0.0, 1e6)?;
        }
        if let Some(paging) = &self.paging {
            let Paging { fault_ns, upgrade_ns, protect_ns, .. } = *paging;
            let Paging { invalidate_ns, invalidate_more_ns, map_ns, .. } = *paging;
            for (name, ns) in [
                ("paging.fault_ns", fault_ns),
                ("paging.upgrade_ns", upgrade_ns),
                ("paging.protect_ns", protect_ns),
                ("paging.invalidate_ns", invalidate_ns),
                ("paging.invalidate_more_ns", invalidate_more_ns),
                ("paging.map_ns", map_ns),
            ] {
                within(name, ns, 0.0, 1e6)?;
            }
        }
        if let Some(database) = &self.database {
            let Database { transaction_ns, node_ns, row_ns, change_ns } = *database;
            within("database.transaction_ns", transaction_ns, 0.0, 1e6)?;
            within("database.node_ns", node_ns, 0.0, 1e6)?;
            within("database.row_ns", row_ns, 0.0, 1e6)?;
            within("database.change_ns", change_ns, 0.0, 1e6)?;
        }
        if let Some(storage) = &self.storage {
            within("storage.mb_per_s", storage.mb_per_s, 0.1, 1e6)?;
            within("storage.sync_us", storage.sync_us, 0.0, 1e6)?;
        }
        self.times().into_iter().try_for_each(|(name, ns)| within(name, ns, 0.0, 1e6))
    }

    fn times(&self) -> [(&'static str, f64); 20] {
        let Self { core, tlb, local, device, coherence, flush, steps, .. } = self;
        [
            ("core.atomic_ns", core.atomic_ns),
            ("core.pause_ns", core.pause_ns),
            ("core.copy_ns", core.copy_ns),
            ("core.miss_gap_ns", core.miss_gap_ns),
            ("core.core_to_core_ns", core.core_to_core_ns),
            ("tlb.miss_ns", tlb.miss_ns),
            ("tlb.first_ns", tlb.first_ns),
            ("local.latency_ns", local.latency_ns),
            ("device.latency_ns", device.latency_ns),
            ("coherence.latency_ns", coherence.latency_ns),
            ("coherence.snoop_ns", coherence.snoop_ns),
            ("flush.clean_ns", flush.clean_ns),
            ("flush.clean_more_ns", flush.clean_more_ns),
            ("flush.invalidate_ns", flush.invalidate_ns),
            ("flush.invalidate_more_ns", flush.invalidate_more_ns),
            ("steps.operation_ns", steps.operation_ns),
            ("steps.lock_ns", steps.lock_ns),
            ("steps.append_ns", steps.append_ns),
            ("steps.apply_ns", steps.apply_ns),
            ("steps.message_ns", steps.message_ns),
        ]
    }
}

fn within(name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    let sound = (least..=most).contains(&value);
    sound.then_some(()).ok_or_else(|| format!("{name} is {value}, but may be {least} to {most}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const TINY: &str = r#"
        name = "tiny"
        about = "two hosts with two cores, for tests"
        pod = { hosts = 2, cores = 2 }
        core = { atomic_ns = 5, pause_ns = 40, copy_ns = 2, misses_at_once = 4, stores_at_once = 4, core_to_core_ns = 50 }
        tlb = { page_kib = 4, pages = 16, miss_ns = 0 }
        cache = [{ kib = 16, ways = 4, latency_ns = 1 }, { kib = 256, ways = 8, latency_ns = 20 }]
        local = { latency_ns = 100, gb_per_s = 100 }
        link = { gb_per_s = 100 }
        device = { latency_ns = 300, gb_per_s = 100, curve = [[0.5, 0], [1, 100]] }
        coherence = { latency_ns = 200, snoop_ns = 150 }
        flush = { clean_ns = 100, clean_more_ns = 20, invalidate_ns = 40, invalidate_more_ns = 5 }
        steps = { operation_ns = 50, lock_ns = 10, append_ns = 40, apply_ns = 30, message_ns = 50 }
    "#;

    pub(crate) fn tiny() -> Profile {
        Profile::parse("tiny", TINY).unwrap()
    }

    /// The error about a profile in which one text was replaced by another.
    fn said(this: &str, that: &str) -> String {
        assert!(TINY.contains(this));
        Profile::parse("odd.toml", &TINY.replace(this, that)).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_with_a_profile_is_said() {
        let said_of_hosts = said("hosts = 2", "hosts = 65");
        assert_eq!(
            said_of_hosts,
            "the profile odd.toml makes no sense: pod.hosts is 65, but may be 1 to 64"
        );
        assert!(said("[[0.5, 0], [1, 100]]", "[[0.5, 0], [0.4, 9]]").contains("device.curve"));
        assert!(said("page_kib = 4", "page_kib = 6").contains("tlb.page_kib is 6, not a power"));
        assert!(said("apply_ns = 30", "apply_ns = -1").contains("steps.apply_ns is -1"));
        assert!(said("snoop_ns = 150", "snop_ns = 150").contains("snop_ns"));
        assert!(said("lock_ns = 10, ", "").contains("lock_ns"));
    }
}
