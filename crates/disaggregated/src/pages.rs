//! Pages of the memory nodes, and their lines: who may use them, who has them, who has used them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tombolo_coherence::Known;
use tombolo_timing::Ps;

use crate::config::{Config, LINE_BYTES, PAGE_BYTES};

/// A line of a memory node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineEntry {
    /// Who may have it.
    pub(crate) known: Known,
    /// A bit per host that has accessed it.
    pub(crate) touched: u64,
    /// How often it was accessed.
    pub(crate) accesses: u64,
    /// Until when a transaction is at it.
    pub(crate) busy: Ps,
}

const LINES: usize = (PAGE_BYTES / LINE_BYTES) as usize;

/// A page that was allocated.
pub(crate) struct Page {
    lines: [LineEntry; LINES],
    /// A bit per host that knows where it is.
    pub(crate) translated: u64,
    /// A bit per host whose permission the backplane knows.
    pub(crate) flagged: u64,
    /// A bit per host that may read it.
    pub(crate) readable: u64,
    /// A bit per host that may write it.
    pub(crate) writable: u64,
}

impl Page {
    pub(crate) fn permits(&self, host: usize, write: bool) -> bool {
        let hosts = if write { self.writable & self.readable } else { self.readable };
        hosts & 1 << host != 0
    }
}

/// Page numbers are as good as random.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("pages have numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) struct Pages {
    numbers: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    pages: Vec<Page>,
    denied: (f64, f64),
    seed: u64,
}

impl Pages {
    pub(crate) fn new(config: &Config) -> Self {
        let (denied, seed) = (config.denied, config.seed);
        Self { numbers: HashMap::default(), pages: Vec::new(), denied, seed }
    }

    /// The place of a page; and whether it had to be allocated.
    pub(crate) fn place(&mut self, page: u64) -> (usize, bool) {
        if let Some(&place) = self.numbers.get(&page) {
            return (place as usize, false);
        }
        let place = self.pages.len();
        self.numbers.insert(page, place as u32);
        let (unreadable, unwritable) = self.denied;
        self.pages.push(Page {
            lines: [LineEntry::default(); LINES],
            translated: 0,
            flagged: 0,
            readable: !self.drawn(page, 1, unreadable),
            writable: !self.drawn(page, 2, unwritable),
        });
        (place, true)
    }

    /// A bit per host for which a die with this share of ones comes up.
    fn drawn(&self, page: u64, what: u64, share: f64) -> u64 {
        if share == 0.0 {
            return 0;
        }
        let die = |host: u64| mix(mix(mix(self.seed ^ what << 56) ^ page) ^ host);
        let comes_up = |host: &u64| (die(*host) >> 11) as f64 / ((1u64 << 53) as f64) < share;
        (0..64).filter(comes_up).fold(0, |bits, host| bits | 1 << host)
    }

    #[inline]
    pub(crate) fn page(&mut self, place: usize) -> &mut Page {
        &mut self.pages[place]
    }

    /// A line, by its number among all.
    #[inline]
    pub(crate) fn line(&mut self, place: usize, line: u64) -> &mut LineEntry {
        &mut self.pages[place].lines[line as usize % LINES]
    }

    pub(crate) fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// All lines that were accessed.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &LineEntry> {
        self.pages.iter().flat_map(|page| &page.lines).filter(|line| line.accesses > 0)
    }
}

/// SplitMix64's finisher.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
