//! Puts in order the words that a dead host has left in an area.

use tombolo_coherence::Hosts;
use tombolo_memory::Memory;
use tombolo_pod::Stay;

use super::table::Table;
use crate::Progress;
use crate::sites;

/// Words that are looked at before others have their turn.
const MOST_WORDS: u64 = 4096;

/// Goes through all pages and blocks of an area after a stay that is gone.
///
/// Each step can be done twice: if this host dies at it, another one begins again.
pub(super) struct Sweep {
    stay: Stay,
    /// The next page; behind the last one, blocks.
    next: u64,
}

impl Sweep {
    pub(super) fn new(stay: Stay) -> Self {
        Self { stay, next: 0 }
    }

    pub(super) fn stay(&self) -> Stay {
        self.stay
    }

    /// Goes on, for some words or up to one that a living host has locked.
    pub(super) fn step<M: Memory>(&mut self, table: &Table<M>) -> Progress {
        let pages = table.places.pages;
        let end = pages + pages / table.places.shape.block_pages;
        for _ in 0..MOST_WORDS {
            if self.next == end {
                table.unlock_directory_of(self.stay);
                return Progress::Done;
            }
            let is_clear = match self.next.checked_sub(pages) {
                None => self.clear_page(table, self.next),
                Some(block) => self.clear_block(table, block),
            };
            if !is_clear {
                return Progress::Waits;
            }
            self.next += 1;
        }
        Progress::Goes
    }

    /// Whether nothing of the stay is left in a page's words.
    fn clear_page<M: Memory>(&self, table: &Table<M>, page: u64) -> bool {
        let own = Hosts::one(self.stay.host.into());
        let known = if table.take_page_over(page, self.stay) {
            table.known(page)
        } else if !table.concerns(page, self.stay) {
            return true;
        } else if let Some(known) = table.lock_page(page) {
            known
        } else {
            return !table.memory().keeps(sites::CLEAR_LOCK);
        };
        table.lose_if_written(page, self.stay);
        let holders = known.holders.without(own);
        table.unlock_page(page, tombolo_coherence::Known { holders, ..known });
        true
    }

    /// Whether nothing of the stay is left in a block's words. A change that it was at is undone:
    /// pages that were taken from hosts for it are asked for again.
    fn clear_block<M: Memory>(&self, table: &Table<M>, block: u64) -> bool {
        let own = Hosts::one(self.stay.host.into());
        let (mode, hosts) = if let Some(taken) = table.take_block_over(block, self.stay) {
            taken
        } else if !table.maps_directly(block, self.stay.host) {
            return true;
        } else if let Some(locked) = table.lock_block(block) {
            locked
        } else {
            return !table.memory().keeps(sites::CLEAR_LOCK);
        };
        table.unlock_block(block, mode, hosts.without(own));
        true
    }
}
