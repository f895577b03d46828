//! The state of a simulated pod and the adversary that disturbs it.
//!
//! At each step one random number decides whether a line is evicted, a line is prefetched, and
//! whether the thread is switched. Victims of prefetch are chosen among lines touched recently by
//! anyone: a line nobody uses cannot be stale for anybody.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tombolo_memory::{LINE_BYTES, Site};

use crate::cache::{Cache, LineBytes};
use crate::sites;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of hosts.
    pub hosts: usize,
    /// Size of SCR in bytes.
    pub scr_bytes: u64,
    /// Size of LNR in bytes, a multiple of the line.
    pub lnr_bytes: u64,
    /// Steps after which a run counts as stuck.
    pub max_steps: u64,
    /// One step in so many switches threads.
    pub switch_one_in: u32,
    /// One step in so many evicts a line, and one in so many prefetches one.
    pub disturb_one_in: u32,
    /// How far apart the hosts' wall clocks may be, in milliseconds.
    pub clock_skew_ms: u64,
    /// Sites taken out.
    pub removed: Vec<Site>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hosts: 2,
            scr_bytes: 64 << 10,
            lnr_bytes: 256 << 10,
            max_steps: 2_000_000,
            switch_one_in: 4,
            disturb_one_in: 8,
            clock_skew_ms: 50,
            removed: Vec::new(),
        }
    }
}

impl Config {
    /// The same world with `site` taken out.
    #[must_use]
    pub fn without(mut self, site: Site) -> Self {
        self.removed.push(site);
        self
    }
}

const RECENT_LINES: usize = 32;

pub(crate) struct World {
    pub(crate) config: Config,
    rng: RefCell<ChaCha8Rng>,
    pub(crate) scr: RefCell<Vec<u8>>,
    lnr: RefCell<Lnr>,
    /// Cleans and invalidates that no fence has completed: host, line, and which of the two.
    issued: RefCell<Vec<(usize, u64, Maintenance)>>,
    removed: HashSet<Site>,
    steps: Cell<u64>,
    clock_ns: Cell<u64>,
    skews_ms: Vec<u64>,
}

struct Lnr {
    memory: Vec<LineBytes>,
    caches: Vec<Cache>,
    recent: [u64; RECENT_LINES],
    touches: usize,
}

/// What is done to a cached line.
#[derive(Clone, Copy)]
pub(crate) enum Maintenance {
    Clean,
    Invalidate,
}

/// What a step asks of the scheduler.
#[derive(PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Switch,
}

impl World {
    pub(crate) fn new(config: Config, seed: u64) -> Self {
        assert!(config.lnr_bytes.is_multiple_of(LINE_BYTES), "LNR is not a whole number of lines");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let skew = config.clock_skew_ms + 1;
        Self {
            skews_ms: (0..config.hosts).map(|_| rng.next_u64() % skew).collect(),
            rng: RefCell::new(rng),
            scr: RefCell::new(vec![0; config.scr_bytes as usize]),
            lnr: RefCell::new(Lnr {
                memory: vec![[0; LINE_BYTES as usize]; (config.lnr_bytes / LINE_BYTES) as usize],
                caches: (0..config.hosts).map(|_| Cache::default()).collect(),
                recent: [0; RECENT_LINES],
                touches: 0,
            }),
            issued: RefCell::default(),
            removed: config.removed.iter().copied().collect(),
            steps: Cell::new(0),
            clock_ns: Cell::new(0),
            config,
        }
    }

    pub(crate) fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    pub(crate) fn keeps(&self, site: Site) -> bool {
        !self.removed.contains(&site)
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(crate) fn count_step(&self) {
        self.steps.set(self.steps.get() + 1);
    }

    pub(crate) fn uptime(&self) -> Duration {
        Duration::from_nanos(self.clock_ns.get())
    }

    pub(crate) fn wall_clock_ms(&self, host: usize) -> u64 {
        self.clock_ns.get() / 1_000_000 + self.skews_ms[host] + 1_000_000
    }

    pub(crate) fn advance_clock(&self, by: Duration) {
        self.clock_ns.set(self.clock_ns.get() + by.as_nanos() as u64);
    }

    /// One step of the adversary.
    pub(crate) fn step(&self) -> Next {
        self.count_step();
        self.advance_clock(Duration::from_nanos(50));
        let dice = self.random();
        let one_in = |bits: u64, n: u32| ((bits & 0xffff) as u32).is_multiple_of(n);
        if one_in(dice, self.config.disturb_one_in) {
            self.evict_some_line(dice >> 32);
        }
        if one_in(dice >> 16, self.config.disturb_one_in) {
            self.prefetch_some_line(dice >> 32);
        }
        if one_in(dice >> 8, self.config.disturb_one_in) {
            self.complete_something_issued(dice >> 32);
        }
        if one_in(dice >> 48, self.config.switch_one_in) { Next::Switch } else { Next::Continue }
    }

    fn evict_some_line(&self, dice: u64) {
        let lnr = &mut *self.lnr.borrow_mut();
        let host = dice as usize % lnr.caches.len();
        if let Some(line) = lnr.caches[host].nth(dice >> 8) {
            lnr.caches[host].evict(line, &mut lnr.memory);
        }
    }

    fn prefetch_some_line(&self, dice: u64) {
        let lnr = &mut *self.lnr.borrow_mut();
        let host = dice as usize % lnr.caches.len();
        let line = lnr.recent[(dice >> 8) as usize % RECENT_LINES] + (dice >> 16) % 2;
        if line < lnr.memory.len() as u64 {
            lnr.caches[host].fetch(line, &lnr.memory);
        }
    }

    /// Copies part of one line out of a host's cache.
    pub(crate) fn read_line(&self, host: usize, line: u64, from: usize, into: &mut [u8]) {
        let lnr = &mut *self.lnr.borrow_mut();
        lnr.touch(line);
        let cached = lnr.caches[host].fetch(line, &lnr.memory);
        into.copy_from_slice(&cached.bytes[from..from + into.len()]);
    }

    /// Stores into part of one line of a host's cache.
    pub(crate) fn write_line(&self, host: usize, line: u64, from: usize, bytes: &[u8]) {
        let lnr = &mut *self.lnr.borrow_mut();
        lnr.touch(line);
        for (other, cache) in lnr.caches.iter().enumerate() {
            assert!(
                other == host || !cache.is_dirty(line),
                "host {host} writes line {line}, which is still dirty in the cache of host {other}"
            );
        }
        let cached = lnr.caches[host].fetch(line, &lnr.memory);
        cached.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        cached.dirty = true;
    }

    /// Maintains a line at once, or, if its fence is taken out, at some later time.
    pub(crate) fn maintain(&self, host: usize, line: u64, what: Maintenance) {
        let fence = match what {
            Maintenance::Clean => sites::CLEAN_FENCE,
            Maintenance::Invalidate => sites::INVALIDATE_FENCE,
        };
        if self.keeps(fence) {
            self.lnr.borrow_mut().maintain(host, line, what);
        } else {
            self.issued.borrow_mut().push((host, line, what));
        }
    }

    fn complete_something_issued(&self, dice: u64) {
        let issued = &mut *self.issued.borrow_mut();
        if !issued.is_empty() {
            let (host, line, what) = issued.swap_remove(dice as usize % issued.len());
            self.lnr.borrow_mut().maintain(host, line, what);
        }
    }
}

impl Lnr {
    fn maintain(&mut self, host: usize, line: u64, what: Maintenance) {
        match what {
            Maintenance::Clean => self.caches[host].clean(line, &mut self.memory),
            Maintenance::Invalidate => self.caches[host].evict(line, &mut self.memory),
        }
    }

    fn touch(&mut self, line: u64) {
        assert!((line as usize) < self.memory.len(), "line {line} is outside LNR");
        self.recent[self.touches % RECENT_LINES] = line;
        self.touches += 1;
    }
}
