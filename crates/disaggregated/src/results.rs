//! Counters, and the values that follow from them.

use std::collections::BTreeMap;

use serde::Serialize;
use tombolo_coherence::{Ask, Channel, Counts, Protocol, State, Transaction};
use tombolo_regions::Mode;
use tombolo_timing::Ps;

use crate::areas::Areas;
use crate::config::{Config, LINE_BYTES};
use crate::pages::Pages;

/// The purpose of a transaction, as the paper tells them apart (its sections III-B and IV-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Primitive {
    FetchClean,
    FetchDirty,
    FetchExclusive,
    FetchShare,
    InvalidateBeforeModify,
    /// Of a system that caches no data.
    RemoteRead,
    RemoteWrite,
}

impl Primitive {
    pub(crate) fn of<const WORDS: usize>(
        protocol: &Protocol,
        ask: Ask,
        done: &Transaction<WORDS>,
    ) -> Self {
        match (protocol.shares(), ask) {
            (false, _) if done.wrote_back => Self::FetchDirty,
            (false, _) => Self::FetchClean,
            (true, Ask::Upgrade) => Self::InvalidateBeforeModify,
            (true, _) if done.granted == State::Shared => Self::FetchShare,
            (true, _) => Self::FetchExclusive,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::FetchClean => "fetch_clean",
            Self::FetchDirty => "fetch_dirty",
            Self::FetchExclusive => "fetch_exclusive",
            Self::FetchShare => "fetch_share",
            Self::InvalidateBeforeModify => "invalidate_before_modify",
            Self::RemoteRead => "remote_read",
            Self::RemoteWrite => "remote_write",
        }
    }
}

/// The events in a system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) messages: Counts,
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    /// From when accesses began to when they were over.
    pub(crate) waited: Ps,
    /// Requests that waited for the line or the memory node.
    pub(crate) queued: Ps,
    pub(crate) tlb_misses: u64,
    pub(crate) walks: u64,
    pub(crate) flags: u64,
    pub(crate) write_backs: u64,
    pub(crate) joined: u64,
    pub(crate) mispeculations: u64,
    pub(crate) isolated: u64,
    /// By level, accesses that it has served.
    served: Vec<u64>,
    /// Transactions, messages that were waited for in them, and all of their messages.
    primitives: BTreeMap<Primitive, (u64, u64, u64)>,
    network_ns: f64,
    latencies_ns: Vec<f64>,
    speculates: bool,
    asks_always: bool,
    threads: usize,
    clock: Ps,
    lines: (u64, u64),
    shared: (u64, u64),
    pages: u64,
}

impl Results {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            served: vec![0; config.caches.len()],
            network_ns: config.network_ns,
            latencies_ns: config.caches.iter().map(|cache| cache.latency_ns).collect(),
            speculates: config.protocol.speculates(),
            asks_always: config.asks_always,
            threads: config.threads,
            ..Self::default()
        }
    }

    /// A cache has served an access; one that another core's cache has is the last one's.
    #[inline]
    pub(crate) fn served(&mut self, latencies: &[Ps], takes: Ps) {
        let level = latencies.iter().position(|&latency| takes <= latency);
        self.served[level.unwrap_or(latencies.len() - 1)] += 1;
    }

    pub(crate) fn primitive(&mut self, primitive: Primitive, hops: u64, sent: u64) {
        let (count, waited, messages) = self.primitives.entry(primitive).or_default();
        *count += 1;
        *waited += hops;
        *messages += sent;
    }

    pub(crate) fn finished<const WORDS: usize>(mut self, clock: Ps, pages: &Pages<WORDS>) -> Self {
        self.clock = clock;
        self.pages = pages.count();
        for line in pages.lines() {
            self.lines.0 += 1;
            self.lines.1 += line.accesses();
            if line.touched.count() > 1 {
                self.shared.0 += 1;
                self.shared.1 += line.accesses();
            }
        }
        self
    }

    fn remote(&self) -> u64 {
        self.primitives.values().map(|(count, ..)| count).sum()
    }

    /// The paper's equations 1 and 2, with so many messages for a transaction: `messages` takes
    /// them from transactions, messages that were waited for, and all messages.
    fn equations(&self, messages: impl Fn(&(u64, u64, u64)) -> u64) -> Equations {
        let per_access = |count: u64| count as f64 / self.accesses.max(1) as f64;
        let (mut reached, mut caches_ns) = (self.accesses, 0.0);
        for (served, latency) in self.served.iter().zip(&self.latencies_ns) {
            caches_ns += per_access(reached) * latency;
            reached -= (*served).min(reached);
        }
        let sent: u64 = self.primitives.values().map(messages).sum();
        let remote_ns = per_access(sent) * self.network_ns;
        let agents = self.served.last().copied().unwrap_or(0);
        let asking = if self.asks_always { 1.0 } else { per_access(agents) };
        let remote = per_access(self.remote()).min(asking);
        // With speculation, an access that a cache serves is through at once, and over when its
        // permission is there. One that leaves the host is checked on its way.
        let (permit_ns, stalls_ns) = match (self.speculates, self.asks_always) {
            (true, true) => ((1.0 - remote) * self.network_ns, remote * self.network_ns),
            (true, false) => (0.0, 0.0),
            (false, _) => (asking * self.network_ns, asking * self.network_ns),
        };
        let others = self.instructions.saturating_sub(self.accesses) as f64;
        let cycles = others + self.accesses as f64 * (caches_ns + remote_ns + stalls_ns);
        Equations {
            stalls_ns,
            permit_ns,
            caches_ns,
            remote_ns,
            amat_ns: permit_ns + caches_ns + remote_ns,
            ipc: self.threads as f64 * self.instructions as f64 / cycles.max(1.0),
        }
    }

    /// The messages and their bytes by channel.
    fn traffic(&self) -> BTreeMap<&'static str, Traffic> {
        let mut traffic: BTreeMap<_, Traffic> = BTreeMap::new();
        for (message, count) in self.messages.iter() {
            let channel = match message.channel() {
                Channel::Mem => "mem",
                Channel::Cache => "cache",
                Channel::Io => "io",
            };
            let data = if message.carries_data() { LINE_BYTES } else { 0 };
            let entry = traffic.entry(channel).or_default();
            entry.messages += count;
            entry.bytes += count * (HEADER_BYTES + data);
        }
        traffic
    }

    pub(crate) fn summary(&self) -> Summary {
        let ns = |time: Ps| time as f64 / 1000.0;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let seconds = self.clock as f64 / 1e12;
        Summary {
            ipc: self.instructions as f64 / ns(self.clock).max(1.0),
            amat_ns: ns(self.waited) / self.accesses.max(1) as f64,
            equations: self.equations(|(_, waited, _)| *waited),
            equations_all_messages: self.equations(|(.., sent)| *sent),
            seconds,
            threads: self.threads,
            instructions: self.instructions,
            accesses: self.accesses,
            served: self.served.clone(),
            remote_reads: self.remote(),
            write_backs: self.write_backs,
            messages: self.messages.iter().map(|(message, n)| (message.name(), n)).collect(),
            primitives: self.primitives.iter().map(|(p, (count, ..))| (p.name(), *count)).collect(),
            traffic: self.traffic(),
            shared_line_ratio: share(self.shared.0, self.lines.0),
            shared_access_ratio: share(self.shared.1, self.lines.1),
            lines: self.lines.0,
            pages: self.pages,
            tlb_misses: self.tlb_misses,
            walks: self.walks,
            permission_fetches: self.flags,
            queueing_ns: ns(self.queued),
            joined_reads: self.joined,
            mispeculations: self.mispeculations,
            isolated_threads: self.isolated,
            areas: None,
        }
    }
}

/// The times of the paper's equations 1 and 2 (its section V), per access. They part from the
/// measured time in this: each message takes the network's latency, and no memory, queue, page walk
/// or barrier takes any.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equations {
    /// The permission (`t_permit`), as far as it makes the access longer.
    pub permit_ns: f64,
    /// The permission, as far as a core waits for it.
    pub stalls_ns: f64,
    /// The caches, from the nearest on to where the line is.
    pub caches_ns: f64,
    /// Messages to and from the memory node (`t_RM` times its miss rate).
    pub remote_ns: f64,
    /// All of them: the mean access time.
    pub amat_ns: f64,
    /// Instructions of all threads per cycle of a nanosecond, if each thread does one after the
    /// other.
    pub ipc: f64,
}

impl Summary {
    /// The instructions per cycle by the paper's equations, if cores waited so long for permission,
    /// per access.
    pub fn ipc_with_stalls(&self, stalls_ns: f64) -> f64 {
        let Equations { ipc, stalls_ns: stalled_ns, .. } = self.equations;
        let cycles = 1.0 / ipc;
        let accesses = self.accesses as f64 / self.instructions.max(1) as f64;
        1.0 / (cycles + accesses * (stalls_ns - stalled_ns) / self.threads as f64)
    }
}

/// Messages of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// How many.
    pub messages: u64,
    /// Their bytes: 16 each, and 64 more if a message brings a line.
    pub bytes: u64,
}

/// Bytes of a message without data. It is ours: CXL packs messages into flits of 68 bytes and more.
const HEADER_BYTES: u64 = 16;

/// Counts and times of pages that software keeps coherent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AreaSummary {
    /// Faults on pages that were not mapped.
    pub faults: u64,
    /// Faults of hosts that had a page to read, and write it.
    pub upgrades: u64,
    /// Faults for which other hosts had to give a page up, or to let it be read.
    pub hand_overs: u64,
    /// Pages that were copied, there or back.
    pub page_copies: u64,
    /// Questions to hosts.
    pub questions: u64,
    /// Blocks that came to another mode.
    pub changes: u64,
    /// Pages that were replicated as probes.
    pub probes: u64,
    /// The time that processors waited for faults, of all together.
    pub fault_ns: f64,
    /// The time that changes and probes took, beside the processors.
    pub change_ns: f64,
    /// Misses by mode of the page.
    pub misses: BTreeMap<&'static str, u64>,
    /// Blocks that were accessed, by their modes at the end.
    pub blocks: BTreeMap<&'static str, u64>,
    /// Blocks in a row of one mode, of those.
    pub areas: u64,
}

impl AreaSummary {
    pub(crate) fn of(areas: &Areas) -> Self {
        let counts = &areas.counts;
        let ns = |time: Ps| time as f64 / 1000.0;
        let misses = Mode::ALL.iter().map(|&mode| (mode.name(), counts.misses[mode as usize]));
        let mut blocks = BTreeMap::new();
        let mut runs = 0;
        let mut last = None;
        for mode in areas.used_blocks() {
            *blocks.entry(mode.name()).or_default() += 1;
            runs += u64::from(last.replace(mode) != Some(mode));
        }
        Self {
            faults: counts.faults,
            upgrades: counts.upgrades,
            hand_overs: counts.hand_overs,
            page_copies: counts.copies,
            questions: counts.questions,
            changes: counts.changes,
            probes: counts.probes,
            fault_ns: ns(counts.fault_time),
            change_ns: ns(counts.change_time),
            misses: misses.filter(|&(_, count)| count > 0).collect(),
            blocks,
            areas: runs,
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Instructions of all threads per cycle of a nanosecond.
    pub ipc: f64,
    /// Mean time from when an access begins to when it is over. A read that is served by what its
    /// core has asked for already counts as a hit in the first cache: the time is that of who
    /// asked.
    pub amat_ns: f64,
    /// The paper's equations on what was counted: of each transaction's messages, those that are
    /// waited for, as snoops are under way at the same time.
    pub equations: Equations,
    /// The same, with all messages of a transaction, as if they came one after the other.
    pub equations_all_messages: Equations,
    /// Virtual time.
    pub seconds: f64,
    /// Threads, each on a core of its own.
    #[serde(skip)]
    pub threads: usize,
    /// Instructions, accesses included.
    pub instructions: u64,
    /// Accesses to lines.
    pub accesses: u64,
    /// Accesses that each cache has served, from the core outwards.
    pub served: Vec<u64>,
    /// Transactions with the memory node.
    pub remote_reads: u64,
    /// Lines that had to leave a host and were written back.
    pub write_backs: u64,
    /// Messages by type.
    pub messages: BTreeMap<&'static str, u64>,
    /// Messages and bytes by channel of CXL: `mem`, `cache`, `io`.
    pub traffic: BTreeMap<&'static str, Traffic>,
    /// Transactions by what they were for.
    pub primitives: BTreeMap<&'static str, u64>,
    /// Of the lines that were accessed, those that several hosts accessed.
    pub shared_line_ratio: f64,
    /// Of the accesses, those to such lines.
    pub shared_access_ratio: f64,
    /// Lines that were accessed.
    pub lines: u64,
    /// Pages that were allocated.
    pub pages: u64,
    /// Pages whose places cores did not know.
    pub tlb_misses: u64,
    /// Walks for where a page is in the memory nodes.
    pub walks: u64,
    /// Permissions that the backplane fetched.
    pub permission_fetches: u64,
    /// Time that requests waited for their line or the memory node, of all together.
    pub queueing_ns: f64,
    /// Reads that were served by what another core of the host had asked for already.
    pub joined_reads: u64,
    /// Accesses that were made and turned out not to be permitted.
    pub mispeculations: u64,
    /// Threads that have tried what they may not do, and do nothing any more.
    pub isolated_threads: u64,
    /// Pages that software keeps coherent, if there may be any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub areas: Option<AreaSummary>,
}
