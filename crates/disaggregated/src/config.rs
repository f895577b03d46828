//! The parts of a system of compute and memory nodes.

use crate::areas::AreasConfig;
use thiserror::Error;
use tombolo_coherence::{
    BACK_INVALIDATION, BACK_INVALIDATION_AS_PUBLISHED, Filter, INVALIDATING, Protocol as Tables,
    SHARING, SHARING_AS_PUBLISHED,
};
use tombolo_timing::Cache;

/// How lines are kept coherent, and whether who has a line waits for the permission to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// INV-CF: a line is with one host at a time.
    Inv,
    /// SHA-CF: hosts share lines that they read.
    Sha,
    /// The same, and access before permission: SDM in full.
    ShaSpec,
    /// CXL 3.0's back-invalidation.
    Bi,
    /// SHA-CF as the paper tells it: a line is fetched, and then invalidated elsewhere before it is
    /// modified.
    ShaLiteral,
    /// The same, and access before permission.
    ShaLiteralSpec,
    /// CXL 3.0 as the paper tells it: each request invalidates the line elsewhere.
    BiLiteral,
    /// No data are cached: each access goes to the memory node (the paper's figure 4a).
    Uncached,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Inv,
        Self::Sha,
        Self::ShaSpec,
        Self::Bi,
        Self::ShaLiteral,
        Self::ShaLiteralSpec,
        Self::BiLiteral,
        Self::Uncached,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inv => "inv",
            Self::Sha => "sha",
            Self::ShaSpec => "sha-spec",
            Self::Bi => "bi",
            Self::ShaLiteral => "sha-literal",
            Self::ShaLiteralSpec => "sha-literal-spec",
            Self::BiLiteral => "bi-literal",
            Self::Uncached => "uncached",
        }
    }

    /// The tables for lines in caches; there are none if no data are cached.
    pub(crate) fn tables(self) -> &'static Tables {
        match self {
            Self::Inv | Self::Uncached => &INVALIDATING,
            Self::Sha | Self::ShaSpec => &SHARING,
            Self::Bi => &BACK_INVALIDATION,
            Self::ShaLiteral | Self::ShaLiteralSpec => &SHARING_AS_PUBLISHED,
            Self::BiLiteral => &BACK_INVALIDATION_AS_PUBLISHED,
        }
    }

    pub(crate) fn speculates(self) -> bool {
        matches!(self, Self::ShaSpec | Self::ShaLiteralSpec)
    }
}

/// How much a core has under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Instructions from the first that is not through to the last that has begun. One: the core
    /// waits for each read.
    pub window: usize,
    /// Writes that are not through.
    pub stores: usize,
    /// Lines that its first cache waits for.
    pub misses: usize,
}

/// A system of compute and memory nodes. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Config {
    /// How lines are kept coherent.
    pub protocol: Protocol,
    /// The knowledge of memory nodes of the hosts that have a line.
    pub filter: Filter,
    /// Hosts, [`MOST_HOSTS`] at most.
    pub hosts: usize,
    /// Threads, each on a core of its own. As many as evenly possible are on a host, those in a row
    /// together.
    pub threads: usize,
    /// The accesses that a core has under way at once.
    pub buffers: Buffers,
    /// Memory nodes.
    pub nodes: usize,
    /// Bytes in a row that are in one memory node.
    pub interleave_bytes: u64,
    /// A host's caches from the core outwards; the last one is the system agent's.
    pub caches: Vec<Cache>,
    /// A line that another core of the host has changed.
    pub core_to_core_ns: f64,
    /// From a host to a memory node, or back; the backplane is half way.
    pub network_ns: f64,
    /// Reading or writing a memory node's memory.
    pub memory_ns: f64,
    /// Looking a line up in the coherence directory in a host's memory, when the host is asked
    /// about it. The paper leaves it out.
    pub directory_ns: f64,
    /// Moving a line from a host's caches to its home agent by DMA, when the line has to go back.
    /// The paper leaves it out.
    pub dma_ns: f64,
    /// The bandwidth of a memory node, each way, in 10^9 bytes a second.
    pub node_gb_per_s: f64,
    /// Pages that a core knows the places of.
    pub tlb_entries: usize,
    /// Finding out the place of another one, by the host's own tables.
    pub tlb_miss_ns: f64,
    /// Pages whose places in memory nodes a host remembers, in its own memory.
    pub translations: usize,
    /// Looking one up there.
    pub translation_ns: f64,
    /// Tables that a walk for a page's place in a memory node goes through.
    pub page_levels: u32,
    /// Each access waits for its permission, as in the paper's equation 1; else a processor's own
    /// caches serve what they have without asking.
    pub asks_always: bool,
    /// Accesses of a host that may wait for their permission at once.
    pub replay_entries: usize,
    /// The share of pages that a host may not read, and that it may not write.
    pub denied: (f64, f64),
    /// Decides which pages these are.
    pub seed: u64,
    /// Pages are kept coherent in one of several ways, each with its 64 neighbours, where
    /// permissions and translations play no part; else all of them by the protocol of lines.
    pub areas: Option<AreasConfig>,
}

/// Hosts of a system, at most.
pub const MOST_HOSTS: usize = 1024;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;
pub(crate) const LINE_BYTES: u64 = 64;

/// An entry of a [`Config`] that makes no sense.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{what} {value}: {bounds}")]
pub struct ConfigError {
    what: &'static str,
    value: String,
    bounds: &'static str,
}

impl Config {
    /// The system of SDM's paper (its table II), with `hosts` hosts and 32 threads.
    ///
    /// The table is that of a computing node, and the paper's equation 1 has three levels of caches
    /// before the memory node. So a host has one L3, and remote lines are in that, which is the
    /// system agent's cache: the paper gives no other one a size. Of cores it says nothing
    /// (accesses of threads on a real machine are counted): reorder and store buffers and line fill
    /// buffers are those of Broadwell, which its reference for the system agent is about. It says
    /// nothing of bandwidths, of TLBs and of the length of a page walk; these are ours. It has
    /// translations cached in the host's own memory, which takes 80 ns by its table; how many, it
    /// does not say: a megabyte, here, at 16 bytes each. A walk through the host's own tables takes
    /// one access to its memory: the upper tables are taken to be in caches.
    pub fn paper(protocol: Protocol, hosts: usize) -> Self {
        let cache = |kib, ways, latency_ns| Cache { kib, ways, latency_ns };
        Self {
            protocol,
            filter: Filter::Broadcast,
            hosts,
            threads: 32,
            buffers: Buffers { window: 192, stores: 42, misses: 10 },
            nodes: 1,
            interleave_bytes: PAGE_BYTES,
            caches: vec![cache(32.0, 8, 1.0), cache(256.0, 4, 4.0), cache(2048.0, 16, 40.0)],
            core_to_core_ns: 80.0,
            network_ns: 500.0,
            memory_ns: 80.0,
            directory_ns: 0.0,
            dma_ns: 0.0,
            node_gb_per_s: 64.0,
            tlb_entries: 1536,
            tlb_miss_ns: 80.0,
            translations: 65_536,
            translation_ns: 80.0,
            page_levels: 4,
            asks_always: false,
            replay_entries: 64,
            denied: (0.0, 0.0),
            seed: 0,
            areas: None,
        }
    }

    /// The same system by the paper's method (its section V): cores do one instruction after the
    /// other, and each access waits for its permission, also one that a cache serves.
    pub fn as_published(protocol: Protocol, hosts: usize) -> Self {
        Self {
            buffers: Buffers { window: 1, stores: 1, misses: 1 },
            asks_always: true,
            ..Self::paper(protocol, hosts)
        }
    }

    /// Whether it makes sense, for a system of `most` hosts at most.
    pub(crate) fn check(&self, most: usize) -> Result<(), ConfigError> {
        let within = |what, value: f64, (from, to): (f64, f64), bounds| {
            let good = (from..=to).contains(&value);
            let wrong = || ConfigError { what, value: value.to_string(), bounds };
            good.then_some(()).ok_or_else(wrong)
        };
        within("hosts", self.hosts as f64, (1.0, MOST_HOSTS as f64), "there may be 1 to 1024")?;
        let too_many = "this is a system of 64 hosts per word of its sets of hosts";
        within("hosts", self.hosts as f64, (1.0, most as f64), too_many)?;
        if self.areas.is_some() {
            within("hosts", self.hosts as f64, (1.0, 64.0), "there may be 1 to 64 over areas")?;
        }
        let most = 64.0 * self.hosts as f64;
        within("threads", self.threads as f64, (1.0, most), "a host may have 1 to 64")?;
        within("memory nodes", self.nodes as f64, (1.0, 1024.0), "there may be 1 to 1024")?;
        let Buffers { window, stores, misses } = self.buffers;
        let buffers = [("window", window), ("store buffer", stores), ("miss buffers", misses)];
        for (what, many) in buffers {
            within(what, many as f64, (1.0, 65_536.0), "there may be 1 to 65,536 entries")?;
        }
        let interleave = self.interleave_bytes as f64;
        within("interleaving", interleave, (64.0, 1e12), "it takes at least a line of 64 bytes")?;
        let ns = "nanoseconds, a second at most";
        within("network latency", self.network_ns, (0.0, 1e9), ns)?;
        within("memory latency", self.memory_ns, (0.0, 1e9), ns)?;
        within("directory latency", self.directory_ns, (0.0, 1e9), ns)?;
        within("DMA latency", self.dma_ns, (0.0, 1e9), ns)?;
        let bandwidth = self.node_gb_per_s;
        within("bandwidth", bandwidth, (1e-3, 1e6), "10^9 bytes a second, from 0.001")?;
        let entries = "there may be 1 to 2^30";
        for (what, many) in [("TLB entries", self.tlb_entries), ("translations", self.translations)]
        {
            within(what, many as f64, (1.0, (1 << 30) as f64), entries)?;
        }
        within("TLB miss", self.tlb_miss_ns, (0.0, 1e9), ns)?;
        within("translation latency", self.translation_ns, (0.0, 1e9), ns)?;
        within("levels of pages", self.page_levels.into(), (0.0, 16.0), "there may be 0 to 16")?;
        let entries = self.replay_entries as f64;
        within("replay entries", entries, (1.0, 1e6), "there may be 1 to 1,000,000")?;
        within("unreadable pages", self.denied.0, (0.0, 1.0), "a share, from 0 to 1")?;
        within("unwritable pages", self.denied.1, (0.0, 1.0), "a share, from 0 to 1")?;
        within("caches", self.caches.len() as f64, (2.0, 8.0), "there may be 2 to 8")
    }
}
