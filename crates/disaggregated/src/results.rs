//! What is counted, and what follows from that.

use std::collections::BTreeMap;

use serde::Serialize;
use tombolo_coherence::{Ask, Counts, Protocol, State, Transaction};
use tombolo_regions::Mode;
use tombolo_timing::Ps;

use crate::areas::Areas;
use crate::config::Config;
use crate::pages::Pages;

/// What a transaction was for, as the paper tells them apart (its sections III-B and IV-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Primitive {
    FetchClean,
    FetchDirty,
    FetchExclusive,
    FetchShare,
    InvalidateBeforeModify,
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
        }
    }
}

/// What has happened in a system.
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

    /// The mean access time as the paper computes it from what was counted (its equations 1 and 2):
    /// each of so many messages takes the network's latency, and nothing else does. Permission is
    /// for what leaves the processor's caches, and the system agent's cache is a fourth level.
    fn amat_by_equations(&self, messages: impl Fn(&(u64, u64, u64)) -> u64) -> f64 {
        let hops: u64 = self.primitives.values().map(messages).sum();
        let per_access = |count: u64| count as f64 / self.accesses.max(1) as f64;
        let mut reached = self.accesses;
        let mut mean = 0.0;
        for (served, latency) in self.served.iter().zip(&self.latencies_ns) {
            mean += per_access(reached) * latency;
            reached -= (*served).min(reached);
        }
        let agents = self.served.last().copied().unwrap_or(0);
        let permit = if self.speculates { 0.0 } else { self.network_ns };
        mean + per_access(hops) * self.network_ns + per_access(agents) * permit
    }

    pub(crate) fn summary(&self) -> Summary {
        let ns = |time: Ps| time as f64 / 1000.0;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let seconds = self.clock as f64 / 1e12;
        Summary {
            ipc: self.instructions as f64 / ns(self.clock).max(1.0),
            amat_ns: ns(self.waited) / self.accesses.max(1) as f64,
            amat_equations_ns: self.amat_by_equations(|(_, waited, _)| *waited),
            amat_all_messages_ns: self.amat_by_equations(|(.., sent)| *sent),
            seconds,
            instructions: self.instructions,
            accesses: self.accesses,
            served: self.served.clone(),
            remote_reads: self.remote(),
            write_backs: self.write_backs,
            messages: self.messages.iter().map(|(message, n)| (message.name(), n)).collect(),
            primitives: self.primitives.iter().map(|(p, (count, ..))| (p.name(), *count)).collect(),
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

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Instructions of all threads per cycle of a nanosecond.
    pub ipc: f64,
    /// Mean time from when an access begins to when it is over. A read that is served by what its
    /// core has asked for already counts as a hit in the first cache: the time is that of who
    /// asked.
    pub amat_ns: f64,
    /// The same by the paper's equations, from what was counted: of each transaction's messages,
    /// those that are waited for, as snoops are under way at the same time.
    pub amat_equations_ns: f64,
    /// The same, with all messages of a transaction, as if they came one after the other.
    pub amat_all_messages_ns: f64,
    /// Virtual time.
    pub seconds: f64,
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
