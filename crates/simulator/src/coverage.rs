//! Coverage of runs: the steps of the protocol that they met, and the places where hosts died.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use tombolo_memory::Site;

use crate::schedule::Fate;

/// How often a step of the protocol was made, and made a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    /// Times it was made.
    pub times: u64,
    /// Times it mattered: a check failed, a compare-and-swap lost, a clean or an invalidate found a
    /// line to write back or a stale one to drop.
    pub mattered: u64,
    /// Whether it ends with a fence.
    pub fenced: bool,
}

/// The coverage of a set of runs.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    // By the address of the name: one site may have several, which are put together at the end.
    sites: HashMap<usize, (Site, Crossed), BuildHasherDefault<AddressHasher>>,
    crash_points: BTreeSet<CrashPoint>,
    deaths: BTreeSet<DeathAt>,
    notes: BTreeMap<&'static str, u64>,
}

/// Where a host died, and what became of its dirty lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrashPoint {
    /// Source file and line of the operation it did not come to.
    pub at: (&'static str, u32),
    /// The fate of its dirty lines.
    pub fate: Fate,
}

/// At which step of a protocol a host died, and what became of its dirty lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeathAt {
    /// One of its threads had come to this step, and not yet to the next one.
    pub site: Site,
    /// The fate of its dirty lines.
    pub fate: Fate,
    /// How many there were; 2 stands for more, too.
    pub dirty: u8,
}

impl Coverage {
    #[inline]
    pub(crate) fn cross(&mut self, site: Site, mattered: bool, fenced: bool) {
        let name = site.name().as_ptr() as usize;
        let (_, crossed) = self.sites.entry(name).or_insert((site, Crossed::default()));
        crossed.times += 1;
        crossed.mattered += u64::from(mattered);
        crossed.fenced |= fenced;
    }

    pub(crate) fn crash(&mut self, at: CrashPoint) {
        self.crash_points.insert(at);
    }

    pub(crate) fn died_at(&mut self, at: DeathAt) {
        self.deaths.insert(at);
    }

    /// Notes that something rare was met.
    pub fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    /// Adds what others have met.
    pub fn merge(&mut self, other: &Self) {
        for (&name, (site, crossed)) in &other.sites {
            let (_, sum) = self.sites.entry(name).or_insert((*site, Crossed::default()));
            sum.add(crossed);
        }
        self.crash_points.extend(other.crash_points.iter().cloned());
        self.deaths.extend(&other.deaths);
        for (note, times) in &other.notes {
            *self.notes.entry(note).or_default() += times;
        }
    }

    /// Each site that was crossed.
    pub fn sites(&self) -> BTreeMap<Site, Crossed> {
        let mut sites = BTreeMap::<Site, Crossed>::new();
        for (site, crossed) in self.sites.values() {
            sites.entry(*site).or_default().add(crossed);
        }
        sites
    }

    /// Where hosts died.
    pub fn crash_points(&self) -> &BTreeSet<CrashPoint> {
        &self.crash_points
    }

    /// At which steps hosts died, and how.
    pub fn deaths(&self) -> &BTreeSet<DeathAt> {
        &self.deaths
    }

    /// Steps at which a host died, however.
    pub fn deadly_sites(&self) -> BTreeSet<Site> {
        self.deaths.iter().map(|death| death.site).collect()
    }

    /// The rare events that were met, and how often.
    pub fn notes(&self) -> &BTreeMap<&'static str, u64> {
        &self.notes
    }
}

impl Crossed {
    fn add(&mut self, other: &Self) {
        self.times += other.times;
        self.mattered += other.mattered;
        self.fenced |= other.fenced;
    }
}

/// Addresses are spread well enough once their low bits are mixed in.
#[derive(Clone, Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only addresses are hashed");
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
