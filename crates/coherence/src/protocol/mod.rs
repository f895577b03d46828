//! The parts of protocols.

mod bi;
mod inv;
mod published;
mod sha;

pub use bi::BACK_INVALIDATION;
pub use inv::INVALIDATING;
pub use published::{BACK_INVALIDATION_AS_PUBLISHED, SHARING_AS_PUBLISHED};
pub use sha::SHARING;

use crate::{Hosts, Message};

/// All protocols.
pub const PROTOCOLS: [&Protocol; 5] = [
    &INVALIDATING,
    &SHARING,
    &BACK_INVALIDATION,
    &SHARING_AS_PUBLISHED,
    &BACK_INVALIDATION_AS_PUBLISHED,
];

/// A host's rights to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It does not have it.
    #[default]
    Invalid,
    /// Read it.
    Shared,
    /// Read it, and change it without asking.
    Exclusive,
    /// It has changed it.
    Modified,
}

impl State {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::Invalid, Self::Shared, Self::Exclusive, Self::Modified];
}

/// The access to a line that a host's processor wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// To read it.
    Read,
    /// To change it.
    Write,
}

impl Access {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Write];
}

/// A host's request to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ask {
    /// The line, to read it: `MemRd`.
    Read,
    /// The line, to change it: `MemRd` that says so.
    Own,
    /// That nobody else has the line, which it has: `MemInv`.
    Upgrade,
}

impl Ask {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Read, Self::Own, Self::Upgrade];

    /// The message.
    pub const fn message(self) -> Message {
        match self {
            Self::Read | Self::Own => Message::MemRd,
            Self::Upgrade => Message::MemInv,
        }
    }
}

/// The node's knowledge of the hosts that have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Nothing: it asks all other hosts.
    Broadcast,
    /// Hosts that may have it: it asks these, as far as they are concerned.
    Directory,
}

impl Filter {
    /// Which hosts the node asks for `ask` of `host`, one of `hosts`; and whether the host is
    /// granted the line as one of several in any case.
    ///
    /// A host that shares a line has not changed it, and needs not be asked for a read.
    #[inline]
    pub fn concerned<const WORDS: usize>(
        self,
        ask: Ask,
        (host, hosts): (usize, usize),
        known: Known<WORDS>,
    ) -> (Hosts<WORDS>, bool) {
        let mut others = match self {
            Self::Broadcast => Hosts::first(hosts),
            Self::Directory => known.holders,
        };
        others.remove(host);
        if self == Self::Directory && ask == Ask::Read && !known.alone {
            return (Hosts::default(), !others.is_empty());
        }
        (others, false)
    }
}

/// Hosts that may have a line, as far as a node has granted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known<const WORDS: usize = 1> {
    /// These.
    pub holders: Hosts<WORDS>,
    /// It was granted to one of them alone, who may have changed it.
    pub alone: bool,
}

/// A host's reaction when it is asked about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// It writes the line back first, and waits for that.
    pub writes_back: bool,
    /// The host's answer.
    pub message: Message,
    /// The host's rights to the line from then on.
    pub next: State,
}

/// How lines are kept coherent.
pub struct Protocol {
    /// Its name.
    pub name: &'static str,
    /// The first request of a host that wants to access a line it has in this state; nothing, if it
    /// may go ahead.
    pub ask: fn(State, Access) -> Option<Ask>,
    /// The question that other hosts are asked then.
    pub snoop: fn(Ask) -> Message,
    /// The answer of a host that has the line in this state.
    pub answer: fn(Message, State) -> Answer,
    /// The reply to the host that has asked, if others keep the line or do not.
    pub grant: fn(Ask, bool) -> (Message, State),
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Protocol {
    /// Whether hosts may have a line at the same time.
    pub fn shares(&self) -> bool {
        (self.ask)(State::Invalid, Access::Read) == Some(Ask::Read)
    }
}
