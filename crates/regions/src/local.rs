//! A host's knowledge of its own pages.

use std::ops::Range;

use tombolo_coherence::{Access, SHARING, State};

use crate::{Mode, Pages};

/// A host's part in a region: what it may do with pages that are not direct.
///
/// All machines of a host share one. A host with several threads guards it by a lock, which it
/// holds for a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    host: usize,
    block_pages: usize,
    pages: Vec<Held>,
}

/// The state in which a host has a page, and the page's mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) state: State,
    pub(crate) mode: Mode,
}

impl Local {
    /// A host that has none of the pages of a region, of which `block_pages` make a block.
    ///
    /// # Panics
    /// If there are no pages in a block.
    pub fn new(host: usize, pages: usize, block_pages: usize) -> Self {
        assert!(block_pages > 0, "a block has pages");
        Self { host, block_pages, pages: vec![Held::default(); pages] }
    }

    /// The number of the host.
    pub fn host(&self) -> usize {
        self.host
    }

    /// The block of a page.
    pub fn block_of(&self, page: usize) -> usize {
        page / self.block_pages
    }

    /// The pages of a block.
    pub fn pages_of(&self, block: usize) -> Range<usize> {
        let first = block * self.block_pages;
        first..(first + self.block_pages).min(self.pages.len())
    }

    /// The same host, which has no page any more.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.host, self.pages.len(), self.block_pages)
    }

    pub(crate) fn rename(&mut self, names: &[usize]) {
        self.host = names[self.host];
    }

    /// In which mode this host has a page that is not direct; nothing, if it has not.
    pub(crate) fn mode_of(&self, page: usize) -> Option<Mode> {
        let held = self.pages[page];
        (held.state != State::Invalid).then_some(held.mode)
    }

    #[inline]
    pub(crate) fn held(&self, page: usize) -> Held {
        self.pages[page]
    }

    pub(crate) fn set(&mut self, page: usize, held: Held) {
        self.pages[page] = held;
    }

    /// Maps a page if this host may access it without asking; whether it may.
    pub(crate) fn go_ahead<B: Pages>(&mut self, page: usize, access: Access, back: &mut B) -> bool {
        let held = &mut self.pages[page];
        let may = (SHARING.ask)(held.state, access).is_none();
        if may {
            if access == Access::Write {
                held.state = State::Modified;
            }
            let writes = held.state == State::Modified;
            let access = if writes { Access::Write } else { Access::Read };
            back.map(page..page + 1, held.mode, access);
        }
        may
    }
}
