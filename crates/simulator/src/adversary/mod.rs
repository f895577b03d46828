//! The decider of what happens when.
//!
//! At each operation of a thread, and whenever one waits or ends, a player may switch threads,
//! evict and prefetch lines, hold stores back, let what was issued complete, tear copies, send a
//! thread to sleep, and kill a host.

mod aimed;
mod dice;
mod priority;
mod script;
mod walk;

use std::fmt;

use crate::aim::Death;
use crate::config::Config;
use crate::schedule::{Action, Opening, Schedule, Turn};
use crate::state::State;
use crate::trial::Trial;

use aimed::Aimed;
use dice::Dice;
use priority::Priority;
use script::Script;
use walk::Walk;

/// The decider of what happens when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adversary {
    /// One of the three that follow, as the seed says.
    Mixed,
    /// At random: each seed has its own rates of switches, evictions, prefetches and delays.
    Walk,
    /// Probabilistic concurrency testing: threads have random priorities that change at a few
    /// random points, which finds bugs of small depth with known probability (Burckhardt et al.,
    /// ASPLOS 2010). Caches are disturbed as in a walk.
    Priority,
    /// Disturbs and switches where a host touches what another one has touched just before.
    Aimed,
    /// Follows a script: one that was recorded, or, with caches that do something by themselves,
    /// one that is being enumerated.
    Script(Schedule, Option<Caches>),
}

/// The own actions of caches while a script is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Every host fetches a line as soon as anybody touches it, and never drops it; else a line is
    /// fetched when it is needed, written back after each store, and dropped after each read.
    pub sticky: bool,
    /// Stores, cleans and invalidates are held back as long as can be.
    pub late: bool,
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sticky = if self.sticky { "sticky" } else { "eager to write back and to drop" };
        write!(f, "{sticky}{}", if self.late { ", and late" } else { "" })
    }
}

/// Where a thread stands when a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before it reads or changes the SCR word at a byte.
    Scr(u64),
    /// Before it stores to the SCR word at a byte.
    Store(u64),
    /// Before it copies bytes of a line.
    Line(u32),
    /// Before it issues a clean or an invalidate of a line.
    Issue(u32),
    /// Before what it has issued must be complete.
    Fence,
    /// Before it touches what the threads of its host share.
    Local,
    /// It waits for others.
    Wait,
    /// It has ended.
    End,
}

/// A strategy at work.
pub(crate) enum Player {
    Walk(Walk),
    Priority(Priority),
    Aimed(Box<Aimed>),
    Script(Script),
}

impl Player {
    pub(crate) fn new(trial: &Trial, config: &Config) -> Self {
        let dice = || Dice::new(trial.seed, config, trial.death != Death::AtRandom);
        let by_seed = match trial.seed % 4 {
            0 | 1 => &Adversary::Walk,
            2 => &Adversary::Aimed,
            _ => &Adversary::Priority,
        };
        let mixed = trial.adversary == Adversary::Mixed;
        match if mixed { by_seed } else { &trial.adversary } {
            Adversary::Mixed | Adversary::Walk => Self::Walk(Walk::new(dice())),
            Adversary::Priority => Self::Priority(Priority::new(dice())),
            Adversary::Aimed => Self::Aimed(Box::new(Aimed::new(dice(), config))),
            Adversary::Script(schedule, caches) => Self::Script(Script::new(schedule, *caches)),
        }
    }

    /// Whether the next death is aimed, and `host` may be who dies. In a script, deaths are written
    /// down.
    pub(crate) fn aims_at(&self, host: u8) -> bool {
        match self {
            Self::Walk(Walk { dice, .. }) | Self::Priority(Priority { dice, .. }) => {
                dice.aims_at(host)
            }
            Self::Aimed(aimed) => aimed.dice.aims_at(host),
            Self::Script(_) => false,
        }
    }

    /// The aimed death comes to `host`; returns the hosts that die with it.
    pub(crate) fn strike(&mut self, host: u8) -> Vec<u8> {
        match self {
            Self::Walk(Walk { dice, .. }) | Self::Priority(Priority { dice, .. }) => {
                dice.strike(host)
            }
            Self::Aimed(aimed) => aimed.dice.strike(host),
            Self::Script(_) => Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn decide(
        &mut self,
        state: &mut State,
        turn: Turn,
        point: Point,
        actions: &mut Vec<Action>,
    ) {
        match self {
            Self::Walk(walk) => walk.decide(state, point, actions),
            Self::Priority(priority) => priority.decide(state, point, actions),
            Self::Aimed(aimed) => aimed.decide(state, point, actions),
            Self::Script(script) => script.decide(state, turn, point, actions),
        }
    }

    pub(crate) fn openings(&self) -> &[Opening] {
        if let Self::Script(script) = self { script.openings() } else { &[] }
    }
}
