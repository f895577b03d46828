//! Deaths that are aimed: a host dies exactly when it has come to a step of a protocol that has a
//! name.
//!
//! A run in which who would die by aim is *spared* tells to which steps it can be aimed: up to its
//! death, an aimed run under the same seed is the same run.

use std::fmt;

use tombolo_memory::Site;

use crate::schedule::Fate;

/// When hosts that a run may kill die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Death {
    /// At random moments.
    #[default]
    AtRandom,
    /// At a step: all that are to die together, or one of them. If they die in turn, the seed says
    /// whose death is aimed; those before and after it are random.
    Aimed(Aim),
    /// A host that would die by aim does not, and the steps to which it comes are noted.
    Spared,
}

/// A death at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Aim {
    /// The step.
    pub site: Site,
    /// Which time that a host comes to it that may die then, counted from 1.
    pub crossing: u32,
    /// Operations on memory that its thread still makes, the step's own first.
    pub operations: u32,
    /// The fate of its dirty lines.
    pub fate: Fate,
    /// Which of them it is, if it is one: from 0 on, of those that are dirty then. The seed
    /// decides, unless it is given.
    pub line: Option<u32>,
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { site, crossing, operations, fate, line } = self;
        write!(f, "{}:{crossing}+{operations}:{}", site.name(), fate.name())?;
        line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// How often hosts that may die have come to a step in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Times.
    pub times: u32,
    /// The most lines that were dirty in the host's cache then.
    pub most_dirty: u32,
    /// When there were so many first.
    pub dirtiest: u32,
}

impl Crossings {
    pub(crate) fn add(&mut self, dirty: u32) {
        self.times += 1;
        if self.times == 1 || dirty > self.most_dirty {
            (self.most_dirty, self.dirtiest) = (dirty, self.times);
        }
    }
}

/// A death that is on its way.
#[derive(Clone, Copy)]
pub(crate) struct Doom {
    pub(crate) thread: usize,
    /// Operations that the thread still makes.
    pub(crate) operations: u32,
    pub(crate) fate: Fate,
    pub(crate) line: Option<u32>,
}
