//! Least-recently-used lists: an inactive and an active one for each tier.

use crate::memory::{PageId, Tier};

const NONE: PageId = PageId::MAX;

/// One of the four lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List(usize);

impl List {
    pub(crate) fn of(tier: Tier, is_active: bool) -> Self {
        Self(2 * tier as usize + usize::from(is_active))
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: PageId,
    after: PageId,
    list: u8,
}

/// The lists. Each page is on one of them.
#[derive(Debug)]
pub(crate) struct Lists {
    links: Vec<Link>,
    heads: [PageId; 4],
    tails: [PageId; 4],
    lengths: [u32; 4],
}

impl Lists {
    /// Lists of these pages: later ones are nearer to the heads.
    pub(crate) fn new(lists: impl IntoIterator<Item = List>) -> Self {
        let links = Vec::new();
        let mut all = Self { links, heads: [NONE; 4], tails: [NONE; 4], lengths: [0; 4] };
        for (page, list) in lists.into_iter().enumerate() {
            all.links.push(Link { before: NONE, after: NONE, list: 0 });
            all.put(page as PageId, list);
        }
        all
    }

    pub(crate) fn length(&self, list: List) -> u32 {
        self.lengths[list.0]
    }

    /// The page that is at the end of a list.
    pub(crate) fn tail(&self, list: List) -> Option<PageId> {
        Some(self.tails[list.0]).filter(|&page| page != NONE)
    }

    /// Moves a page to the head of a list.
    pub(crate) fn move_to_head(&mut self, page: PageId, list: List) {
        self.take(page);
        self.put(page, list);
    }

    fn take(&mut self, page: PageId) {
        let Link { before, after, list } = self.links[page as usize];
        let list = list as usize;
        match before {
            NONE => self.heads[list] = after,
            _ => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.tails[list] = before,
            _ => self.links[after as usize].before = before,
        }
        self.lengths[list] -= 1;
    }

    fn put(&mut self, page: PageId, list: List) {
        let after = std::mem::replace(&mut self.heads[list.0], page);
        match after {
            NONE => self.tails[list.0] = page,
            _ => self.links[after as usize].before = page,
        }
        self.links[page as usize] = Link { before: NONE, after, list: list.0 as u8 };
        self.lengths[list.0] += 1;
    }
}
