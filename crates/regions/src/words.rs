//! The words and messages that hosts agree on, and a host's calls to change its own mappings.

use std::ops::Range;

use tombolo_coherence::{Access, Hosts, Known, Message};

/// How pages are kept coherent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Pages are used where they are, and the hardware keeps their lines coherent.
    #[default]
    Direct,
    /// Pages are used where they are, by one writer or many readers.
    Owned,
    /// Each host has a replica in its own memory: one writer's, or many readers'.
    Replicated,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Owned, Self::Replicated];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Owned => "owned",
            Self::Replicated => "replicated",
        }
    }
}

/// How the pages of a block are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockMode {
    /// The mode of all pages but one.
    pub mode: Mode,
    /// A page that is replicated whatever the mode, to see what that costs.
    pub probe: Option<usize>,
}

impl BlockMode {
    /// All pages in one mode.
    pub const fn all(mode: Mode) -> Self {
        Self { mode, probe: None }
    }

    /// The mode of a page.
    #[inline]
    pub fn of(self, page: usize) -> Mode {
        if self.probe == Some(page) { Mode::Replicated } else { self.mode }
    }
}

/// The pages that a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A page that software keeps coherent.
    Page(usize),
    /// The direct mappings of these pages.
    Direct(Range<usize>),
}

/// A question to a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The host that asks, and that has the lock of the page or block.
    pub asker: usize,
    /// The pages that it is about.
    pub subject: Subject,
    /// The snoop to which the asked host responds: one of SHA-CF's.
    pub snoop: Message,
}

/// Hosts that have become the ones that `names` says.
pub(crate) fn renamed(hosts: Hosts, names: &[usize]) -> Hosts {
    hosts.iter().map(|host| names[host]).collect()
}

impl Question {
    pub(crate) fn rename(&mut self, names: &[usize]) {
        self.asker = names[self.asker];
    }
}

/// Words in coherent memory, and mail, as one host uses them. No call blocks.
pub trait Pod {
    /// The mode of a block; nothing, while a host has its lock.
    fn block(&mut self, block: usize) -> Option<BlockMode>;

    /// Takes the lock of a block: its mode, and the hosts that map it directly. Nothing, if another
    /// host has the lock.
    fn lock_block(&mut self, block: usize) -> Option<(BlockMode, Hosts)>;

    /// Releases the lock of a block, which has this mode and these hosts from now on.
    fn unlock_block(&mut self, block: usize, mode: BlockMode, hosts: Hosts);

    /// Whether no host has a page or its lock.
    fn is_idle(&mut self, page: usize) -> bool;

    /// Takes the lock of a page: which hosts have it. Nothing, if another host has the lock.
    fn lock_page(&mut self, page: usize) -> Option<Known>;

    /// Releases the lock of a page, which these hosts have from now on.
    fn unlock_page(&mut self, page: usize, known: Known);

    /// Sends a question to a host.
    fn ask(&mut self, host: usize, question: Question);

    /// Takes the answer of a host, if it is there.
    fn answered(&mut self, host: usize, question: &Question) -> Option<Message>;

    /// Sends the answer to a question that this host was asked.
    fn answer(&mut self, question: &Question, answer: Message);
}

/// A host's mappings of pages. Each call returns when it has had its effect on all processors of
/// the host.
pub trait Pages {
    /// Processors may access these pages, where their mode says.
    fn map(&mut self, pages: Range<usize>, mode: Mode, access: Access);

    /// Processors may only read a page that they might write.
    fn protect(&mut self, page: usize);

    /// Processors may not access these pages any more.
    fn invalidate(&mut self, pages: Range<usize>, mode: Mode);

    /// Brings what the pod's memory holds of a page to where the mode says. Whatever this host's
    /// caches held of it before is forgotten first.
    fn fetch(&mut self, page: usize, mode: Mode);

    /// Brings what this host has written to a page into the pod's memory, past all caches.
    fn write_back(&mut self, page: usize, mode: Mode);
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There are more steps.
    Goes,
    /// Nothing was done: it is another host's turn.
    Waits,
    /// That was the last step.
    Done,
}
