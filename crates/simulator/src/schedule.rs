//! The actions of an adversary, as a list that can be written down, shortened and done again.

use std::fmt;

/// One thing the adversary does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Lets another thread run.
    Switch(u16),
    /// Sends the thread that runs to sleep for so many steps, from the next switch on.
    Sleep(u32),
    /// Drops a line from a host's cache, writing it back if it is dirty.
    Evict(u8, u32),
    /// Brings a line into a host's cache.
    Prefetch(u8, u32),
    /// A store to SCR stays with its host for a while.
    Hold,
    /// A host's oldest store that stayed with it becomes visible.
    Deliver(u8),
    /// A clean or an invalidate is issued, and completes some time later.
    Defer,
    /// A line's issued clean or invalidate completes.
    Complete(u8, u32),
    /// A copy is interrupted after so many bytes of a line.
    Tear(u8),
    /// A host dies; the fate of its dirty lines and held stores is drawn from the number.
    Kill(u8, Outcome),
}

/// The fate of the lines that a dying host had in its caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// All of it is lost.
    Lost,
    /// All of it is written back.
    Written,
    /// Some of it is written back, as bits of a number say.
    Some(u64),
    /// Only this one of its dirty lines is.
    One(u32),
    /// All of them but this one are.
    AllButOne(u32),
}

/// A kind of [`Outcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    /// All is lost.
    Lost,
    /// All is written back.
    Written,
    /// One thing is written back.
    One,
    /// All but one thing is.
    AllButOne,
    /// Any subset is.
    Some,
}

impl Fate {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Lost, Self::Written, Self::One, Self::AllButOne, Self::Some];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Written => "written",
            Self::One => "one",
            Self::AllButOne => "all-but-one",
            Self::Some => "some",
        }
    }

    /// The outcome for `dirty` lines, as `dice` says where there is a choice.
    pub(crate) fn of(self, dirty: usize, dice: u64) -> Outcome {
        let one = (dice % dirty.max(1) as u64) as u32;
        match self {
            Self::Lost => Outcome::Lost,
            Self::Written => Outcome::Written,
            Self::One => Outcome::One(one),
            Self::AllButOne => Outcome::AllButOne(one),
            Self::Some => Outcome::Some(dice),
        }
    }
}

impl Outcome {
    /// Its kind.
    pub fn fate(self) -> Fate {
        match self {
            Self::Lost => Fate::Lost,
            Self::Written => Fate::Written,
            Self::Some(_) => Fate::Some,
            Self::One(_) => Fate::One,
            Self::AllButOne(_) => Fate::AllButOne,
        }
    }

    /// Whether the `index`-th thing is written back.
    pub(crate) fn writes(self, index: usize) -> bool {
        match self {
            Self::Lost => false,
            Self::Written => true,
            Self::Some(bits) => bits.rotate_right(index as u32) & 1 == 1,
            Self::One(one) => index == one as usize,
            Self::AllButOne(one) => index != one as usize,
        }
    }
}

/// A turn of a thread: its number, and how many decisions it has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Turn {
    /// The thread; 0 is who sets the simulation up.
    pub thread: u16,
    /// Which of its decisions.
    pub decision: u32,
}

/// Where an enumerating adversary may switch threads, and to whom: a bit per thread.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// When.
    pub turn: Turn,
    /// To whom.
    pub others: u64,
}

/// The actions of an adversary in a run. Where there is none, threads go on, and take turns where
/// they wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The actions, and when.
    pub actions: Vec<(Turn, Action)>,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Switch(thread) => write!(f, "thread {thread} runs"),
            Self::Sleep(steps) => write!(f, "the thread sleeps for {steps} steps"),
            Self::Evict(host, line) => write!(f, "host {host} evicts line {line}"),
            Self::Prefetch(host, line) => write!(f, "host {host} prefetches line {line}"),
            Self::Hold => f.write_str("the store is held back"),
            Self::Deliver(host) => write!(f, "a held store of host {host} becomes visible"),
            Self::Defer => f.write_str("only issued"),
            Self::Complete(host, line) => {
                write!(f, "what host {host} issued for line {line} completes")
            }
            Self::Tear(bytes) => write!(f, "the copy is torn after {bytes} bytes"),
            Self::Kill(host, outcome) => {
                write!(f, "host {host} dies, its dirty lines: {}", outcome.fate().name())
            }
        }
    }
}
