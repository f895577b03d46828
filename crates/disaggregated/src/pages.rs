//! Pages of the memory nodes, and their lines: which hosts may use them, have them, and have used
//! them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tombolo_coherence::{Hosts, Known};
use tombolo_memory::prefetch;
use tombolo_timing::Ps;

use crate::config::{Config, LINE_BYTES, PAGE_BYTES};

/// A line of a memory node. With up to 64 hosts, none is in two lines of this machine.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(crate) struct LineEntry<const WORDS: usize> {
    /// Hosts that may have it.
    pub(crate) holders: Hosts<WORDS>,
    /// Hosts that have accessed it.
    pub(crate) touched: Hosts<WORDS>,
    /// Twice how often it was accessed, and one if it was granted to one host alone.
    accesses_and_alone: u64,
    /// Until when a transaction is at it.
    pub(crate) busy: Ps,
}

impl<const WORDS: usize> LineEntry<WORDS> {
    /// A host accesses it.
    #[inline]
    pub(crate) fn touch(&mut self, host: usize) {
        self.accesses_and_alone += 2;
        self.touched.insert(host);
    }

    /// How often it was accessed.
    pub(crate) fn accesses(&self) -> u64 {
        self.accesses_and_alone / 2
    }

    /// The node's knowledge of the hosts that may have it.
    #[inline]
    pub(crate) fn known(&self) -> Known<WORDS> {
        Known { holders: self.holders, alone: self.accesses_and_alone % 2 == 1 }
    }

    /// From now on it knows this.
    #[inline]
    pub(crate) fn set_known(&mut self, known: Known<WORDS>) {
        self.holders = known.holders;
        self.accesses_and_alone = self.accesses_and_alone & !1 | u64::from(known.alone);
    }
}

const LINES: usize = (PAGE_BYTES / LINE_BYTES) as usize;

/// A page that was allocated.
pub(crate) struct Page<const WORDS: usize> {
    lines: [LineEntry<WORDS>; LINES],
    /// Whose permission the backplane knows.
    pub(crate) flagged: Hosts<WORDS>,
    /// Hosts that may read it.
    pub(crate) readable: Hosts<WORDS>,
    /// Hosts that may write it.
    pub(crate) writable: Hosts<WORDS>,
}

impl<const WORDS: usize> Page<WORDS> {
    pub(crate) fn permits(&self, host: usize, write: bool) -> bool {
        self.readable.has(host) && (!write || self.writable.has(host))
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

pub(crate) struct Pages<const WORDS: usize> {
    numbers: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    pages: Vec<Page<WORDS>>,
    hosts: usize,
    denied: (f64, f64),
    seed: u64,
}

impl<const WORDS: usize> Pages<WORDS> {
    pub(crate) fn new(config: &Config) -> Self {
        let Config { denied, seed, hosts, .. } = *config;
        Self { numbers: HashMap::default(), pages: Vec::new(), hosts, denied, seed }
    }

    /// The place of a page; and whether it had to be allocated.
    pub(crate) fn place(&mut self, page: u64) -> (usize, bool) {
        if let Some(place) = self.find(page) {
            return (place, false);
        }
        let place = self.pages.len();
        self.numbers.insert(page, place as u32);
        let (unreadable, unwritable) = self.denied;
        self.pages.push(Page {
            lines: [LineEntry::default(); LINES],
            flagged: Hosts::default(),
            readable: self.permitted(page, 1, unreadable),
            writable: self.permitted(page, 2, unwritable),
        });
        (place, true)
    }

    /// The place of a page that was allocated.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> Option<usize> {
        self.numbers.get(&page).map(|&place| place as usize)
    }

    /// Has this machine fetch a line's entry.
    #[inline]
    pub(crate) fn foresee(&self, place: usize, line: u64) {
        prefetch(&self.pages[place].lines[line as usize % LINES]);
    }

    /// Hosts that may have a line.
    #[inline]
    pub(crate) fn holders(&self, place: usize, line: u64) -> Hosts<WORDS> {
        self.pages[place].lines[line as usize % LINES].holders
    }

    /// The hosts for which a die does not come up that does with this share.
    fn permitted(&self, page: u64, what: u64, share: f64) -> Hosts<WORDS> {
        if share == 0.0 {
            return Hosts::first(self.hosts);
        }
        let die = |host: u64| mix(mix(mix(self.seed ^ what << 56) ^ page) ^ host);
        let comes_up = |host: &u64| (die(*host) >> 11) as f64 / ((1u64 << 53) as f64) < share;
        let hosts = (0..self.hosts as u64).filter(|host| !comes_up(host));
        hosts.map(|host| host as usize).collect()
    }

    #[inline]
    pub(crate) fn page(&mut self, place: usize) -> &mut Page<WORDS> {
        &mut self.pages[place]
    }

    /// A line, by its number among all.
    #[inline]
    pub(crate) fn line(&mut self, place: usize, line: u64) -> &mut LineEntry<WORDS> {
        &mut self.pages[place].lines[line as usize % LINES]
    }

    pub(crate) fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// All lines that were accessed.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &LineEntry<WORDS>> {
        self.pages.iter().flat_map(|page| &page.lines).filter(|line| line.accesses() > 0)
    }
}

/// SplitMix64's finisher.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
