//! Memtis: samples of uses, a histogram of pages, and the thread that moves what is hot.

use tombolo_timing::Ps;

use crate::lists::List;
use crate::memory::{Marks, PageId, Tier};
use crate::settings::{Events, INTERRUPT, MIGRATION, Machine, Policy, SAMPLE};
use crate::system::{Access, System};

/// Misses from one sample to the next, by Memtis' defaults.
const MISSES: u32 = 199;
/// Stores from one sample to the next, likewise.
const STORES: u32 = 100_007;
/// Stores to a line that is written whole.
const STORES_PER_LINE: u32 = 8;
/// Samples after which the threshold is chosen anew, likewise.
const ADAPTATION: f64 = 100_000.0;
/// The migrating thread's period, likewise.
const PERIOD_PS: f64 = 0.5e12;
/// Entries of a second-level TLB.
const TLB: usize = 2048;
/// Bins of the histogram: powers of two of samples.
const BINS: usize = 16;
/// Of the slow tier, so much has to be free for a demotion. It is the one number of the model that
/// is calibrated: in table 2, Memtis moves nothing while a quarter or less is free.
const SLOW_FREE: f64 = 0.25;

/// Samples of pages.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Samples between two halvings; none, if nothing is sampled.
    cooling: Option<u64>,
    adaptation: u64,
    /// By page: samples, and how often all had been halved then.
    counts: Vec<(u16, u32)>,
    halvings: u32,
    bins: [u32; BINS],
    /// The least bin of hot pages.
    threshold: usize,
    to_cooling: u64,
    to_adaptation: u64,
    misses: u32,
    stores: u32,
    tlb: Vec<PageId>,
    hot: Vec<PageId>,
}

impl Sampler {
    pub(crate) fn new(machine: &Machine, pages: usize) -> Self {
        let smaller = |samples: f64| ((samples * machine.scale) as u64).max(1);
        let cooling = match machine.policy {
            Policy::Memtis { cooling } => Some(smaller(f64::from(cooling) * 1000.0)),
            _ => None,
        };
        let counts = if cooling.is_some() { vec![(0, 0); pages] } else { Vec::new() };
        Self {
            cooling,
            adaptation: smaller(ADAPTATION),
            counts,
            halvings: 0,
            bins: [0; BINS],
            threshold: 0,
            to_cooling: 0,
            to_adaptation: 0,
            misses: 0,
            stores: 0,
            tlb: vec![PageId::MAX; TLB],
            hot: Vec::new(),
        }
    }

    /// Samples that are due by an access.
    fn due(&mut self, access: &Access, events: Events) -> u32 {
        let slot = &mut self.tlb[access.page as usize % TLB];
        let is_known = std::mem::replace(slot, access.page) == access.page;
        let (mut misses, mut stores) = (0, 0);
        match (access.is_write, events) {
            (true, _) => stores = access.lines * STORES_PER_LINE,
            (false, Events::TlbMisses) => misses = u32::from(!is_known),
            (false, Events::CacheMisses) => misses = access.lines,
        }
        self.misses += misses;
        self.stores += stores;
        let due = self.misses / MISSES + self.stores / STORES;
        self.misses %= MISSES;
        self.stores %= STORES;
        due
    }

    fn bin(&self, page: PageId) -> Option<usize> {
        let (count, halvings) = self.counts[page as usize];
        let count = u32::from(count).checked_shr(self.halvings - halvings).unwrap_or(0);
        Some((count.checked_ilog2()? as usize).min(BINS - 1))
    }

    /// Counts a sample; whether the page is hot.
    fn count(&mut self, page: PageId, fast_pages: u32) -> bool {
        if let Some(bin) = self.bin(page) {
            self.bins[bin] -= 1;
        }
        let (count, halvings) = self.counts[page as usize];
        let count = count.checked_shr(self.halvings - halvings).unwrap_or(0).saturating_add(1);
        self.counts[page as usize] = (count, self.halvings);
        let bin = self.bin(page).unwrap_or(0);
        self.bins[bin] += 1;
        self.to_adaptation += 1;
        if self.to_adaptation >= self.adaptation {
            self.adapt(fast_pages);
        }
        self.to_cooling += 1;
        if self.cooling.is_some_and(|cooling| self.to_cooling >= cooling) {
            self.cool();
            self.adapt(fast_pages);
        }
        bin >= self.threshold
    }

    /// Halves all counts.
    fn cool(&mut self) {
        self.to_cooling = 0;
        self.halvings += 1;
        self.bins.rotate_left(1);
        // Pages that were in the lowest bin have no samples left.
        self.bins[BINS - 1] = 0;
    }

    /// Chooses the threshold so that what is hot fits into the fast tier.
    fn adapt(&mut self, fast_pages: u32) {
        self.to_adaptation = 0;
        let mut hot = 0;
        self.threshold = BINS;
        while self.threshold > 0 && hot + self.bins[self.threshold - 1] <= fast_pages {
            hot += self.bins[self.threshold - 1];
            self.threshold -= 1;
        }
    }
}

impl System {
    /// A use may be sampled; what that costs the thread.
    pub(crate) fn sample(&mut self, access: &Access) -> Ps {
        if self.sampler.cooling.is_none() {
            return 0;
        }
        let due = self.sampler.due(access, self.machine.events);
        for _ in 0..due {
            self.counters.samples += 1;
            let is_hot = self.sampler.count(access.page, self.machine.fast_pages);
            let is_slow = self.memory.tier(access.page) == Tier::Slow;
            if is_hot && is_slow && !self.memory.has(access.page, Marks::QUEUED) {
                self.memory.mark(access.page, Marks::QUEUED);
                self.sampler.hot.push(access.page);
            }
        }
        let takes = u64::from(due) * SAMPLE;
        self.counters.fault_ps += takes;
        takes
    }

    /// The migrating thread's step: makes room for what is hot, and promotes it.
    pub(crate) fn move_sampled(&mut self, now: Ps) -> Option<Ps> {
        let mut at = now;
        for page in std::mem::take(&mut self.sampler.hot) {
            self.memory.clear(page, Marks::QUEUED);
            if self.memory.free(Tier::Fast) == 0 {
                at += self.demote_cold(at);
            }
            if !self.memory.migrate(page) {
                self.counters.promotions_without_frame += 1;
                continue;
            }
            at += MIGRATION + self.copy(Tier::Slow, at);
            self.interrupts += INTERRUPT;
            self.memory.mark(page, Marks::ACTIVE);
            self.note_promoted(page);
        }
        self.counters.promoter_ps += at - now;
        Some(at.max(now + (PERIOD_PS * self.machine.scale) as Ps))
    }

    /// Demotes a page that is not hot, if the slow tier has room.
    fn demote_cold(&mut self, now: Ps) -> Ps {
        let least = SLOW_FREE * f64::from(self.machine.slow_pages);
        if f64::from(self.memory.free(Tier::Slow)) < least {
            return 0;
        }
        let inactive = List::of(Tier::Fast, false);
        let looked = self.lists.length(inactive).min(64);
        for _ in 0..looked {
            let Some(page) = self.lists.tail(inactive) else { break };
            let is_hot = self.sampler.bin(page).is_some_and(|bin| bin >= self.sampler.threshold);
            if !is_hot {
                return self.demote(page, now).unwrap_or(0);
            }
            self.lists.move_to_head(page, inactive);
        }
        0
    }
}
