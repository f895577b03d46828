use std::ops::Range;

use crate::{Access, Load, PageId, Use};

/// One thread reads pages from the first to the last: table 3's benchmark.
#[derive(Debug)]
pub struct Scan {
    pages: Range<PageId>,
    at: PageId,
}

impl Scan {
    /// Reads all of `pages` in each round.
    pub fn new(pages: Range<PageId>) -> Self {
        Self { at: pages.start, pages }
    }
}

impl Load for Scan {
    fn next(&mut self, _: usize) -> Option<Access> {
        if self.at == self.pages.end {
            self.at = self.pages.start;
            return None;
        }
        let page = self.at;
        self.at += 1;
        Some(Access { page, is_write: false, how: Use::Stream, lines: 64, think: 0 })
    }
}
