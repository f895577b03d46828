//! One run, and what is observed of it.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use tombolo_memory::Site;

use crate::adversary::Adversary;
use crate::aim::{Crossings, Death};
use crate::coverage::Coverage;
use crate::schedule::{Opening, Schedule};
use crate::timeline::Timeline;

/// A step of the protocol that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// The step itself.
    Step(Site),
    /// Only the fence of a clean or an invalidate: it is issued, and completes some time later.
    Fence(Site),
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(site) => f.write_str(site.name()),
            Self::Fence(site) => write!(f, "{}:fence", site.name()),
        }
    }
}

/// One run: the seed that decides everything, who disturbs it, and what is observed of it.
#[derive(Clone)]
pub struct Trial {
    /// Decides everything that the adversary does not, and what a random adversary does.
    pub seed: u64,
    /// The decider of what happens when.
    pub adversary: Adversary,
    /// When hosts die that may.
    pub death: Death,
    /// The step that is left out.
    pub without: Option<Mutant>,
    /// Whether breaking the rules about lines is a failure by itself.
    pub sanitize: bool,
    /// Hosts, where a scenario leaves the number open.
    pub hosts: Option<usize>,
    /// Whether schedule and timeline are kept; costs time.
    pub record: bool,
    observed: Rc<RefCell<Observed>>,
}

/// The record of a run.
#[derive(Default)]
pub struct Observed {
    /// Memory operations made.
    pub steps: u64,
    /// The adversary's actions.
    pub schedule: Schedule,
    /// The hosts' actions.
    pub timeline: Timeline,
    /// Where an enumerating adversary could have switched threads, after its last switch.
    pub openings: Vec<Opening>,
    /// The coverage of all runs of this observer.
    pub coverage: Coverage,
    /// Aimed deaths, in all runs of this observer.
    pub hits: u64,
    /// In runs whose hosts are spared: the steps that those who may die have come to.
    pub crossings: BTreeMap<Site, Crossings>,
    /// Histories that were checked, and how many of them the budget did not suffice for.
    pub histories: (u64, u64),
}

impl Trial {
    /// A run under `seed` with a random adversary and the sanitizer.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            adversary: Adversary::Mixed,
            death: Death::AtRandom,
            without: None,
            sanitize: true,
            hosts: None,
            record: false,
            observed: Rc::default(),
        }
    }

    /// The same conditions for another seed; both observe into one place.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    /// The same conditions with another adversary.
    #[must_use]
    pub fn with_adversary(&self, adversary: Adversary) -> Self {
        Self { adversary, ..self.clone() }
    }

    /// The same conditions with other deaths.
    #[must_use]
    pub fn with_death(&self, death: Death) -> Self {
        Self { death, ..self.clone() }
    }

    /// The same conditions with a step left out.
    #[must_use]
    pub fn leaving_out(&self, mutant: Mutant) -> Self {
        Self { without: Some(mutant), ..self.clone() }
    }

    /// The same conditions, but breaking a rule about lines is no failure by itself.
    #[must_use]
    pub fn unsanitized(&self) -> Self {
        Self { sanitize: false, ..self.clone() }
    }

    /// The same conditions, keeping schedule and timeline.
    #[must_use]
    pub fn recorded(&self) -> Self {
        Self { record: true, observed: Rc::default(), ..self.clone() }
    }

    /// As many hosts as asked for, or `count`.
    pub fn hosts_or(&self, count: usize) -> usize {
        self.hosts.unwrap_or(count)
    }

    /// The record of the last run, and the coverage of all.
    pub fn observed(&self) -> RefMut<'_, Observed> {
        self.observed.borrow_mut()
    }

    /// Notes that something rare was met.
    pub fn note(&self, what: &'static str) {
        self.observed.borrow_mut().coverage.note(what);
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} under {:?}", self.seed, self.adversary)
    }
}
