use tombolo_workloads::Zipfian;

use super::Dice;
use crate::{Access, Load, PageId, Use};

/// Lines that are read at each use of a page: a visit uses all lines of a block.
const LINES: u32 = 8;

/// The paper's pointer chase: one thread visits blocks, and waits for each line of a block.
///
/// Blocks of 1 GiB are chosen by a Zipf distribution. The original has all lines of a block in one
/// random order. Here pages are in a random order, and eight lines of a page follow each other.
#[derive(Debug)]
pub struct Chase {
    dice: Dice,
    zipfian: Zipfian,
    /// Block of each rank, beginning with the hottest.
    blocks: Vec<u32>,
    /// Order of the pages of each block.
    order: Vec<u32>,
    visits: u32,
    left: u32,
    block: PageId,
    /// Uses of this visit so far.
    used: u32,
}

impl Chase {
    /// Visits blocks of `pages` pages, from page 0 on, so many times in each round.
    ///
    /// # Panics
    /// If there are no blocks.
    pub fn new(blocks: u32, pages: u32, visits: u32, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let (ranked, order) = (dice.order(blocks), dice.order(pages));
        let zipfian = Zipfian::new(blocks.into(), 0.99);
        Self { dice, zipfian, blocks: ranked, order, visits, left: visits, block: 0, used: 0 }
    }
}

impl Load for Chase {
    fn next(&mut self, _: usize) -> Option<Access> {
        if self.used == 0 {
            if self.left == 0 {
                self.left = self.visits;
                return None;
            }
            self.left -= 1;
            self.block = self.blocks[self.zipfian.rank(self.dice.unit()) as usize];
        }
        let pages = self.order.len() as u32;
        let page = self.block * pages + self.order[(self.used % pages) as usize];
        self.used = (self.used + 1) % (pages * (64 / LINES));
        Some(Access { page, is_write: false, how: Use::Chase, lines: LINES, think: 0 })
    }
}
