use std::ops::Range;

use super::Scrambled;
use crate::{Access, Load, PageId, Use};

/// Where the hottest pages of a working set lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hottest {
    /// At its beginning, which is in the fast tier as far as there is room: frequency-opt.
    First,
    /// Anywhere.
    Anywhere,
}

/// The paper's micro-benchmark: one thread copies whole pages, from memory or into it.
///
/// Pages are chosen by YCSB's scrambled Zipf distribution.
#[derive(Debug)]
pub struct Micro {
    pages: Scrambled,
    first: PageId,
    is_write: bool,
    count: u64,
    left: u64,
}

impl Micro {
    /// Copies `count` pages of `pages` in each round. The pages stand for `whole` ones.
    ///
    /// # Panics
    /// If there are no pages.
    pub fn new(
        pages: Range<PageId>,
        whole: u64,
        hottest: Hottest,
        is_write: bool,
        count: u64,
        seed: u64,
    ) -> Self {
        let number = pages.len() as u32;
        let scrambled = match hottest {
            Hottest::First => Scrambled::in_order(number, whole, seed),
            Hottest::Anywhere => Scrambled::new(number, whole, seed),
        };
        Self { pages: scrambled, first: pages.start, is_write, count, left: count }
    }
}

impl Load for Micro {
    fn next(&mut self, _: usize) -> Option<Access> {
        if self.left == 0 {
            self.left = self.count;
            return None;
        }
        self.left -= 1;
        let page = self.first + self.pages.next();
        Some(Access { page, is_write: self.is_write, how: Use::Stream, lines: 64, think: 0 })
    }
}
