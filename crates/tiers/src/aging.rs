//! Which pages are used: marks, lists, and the thread that demotes what is not.

use tombolo_timing::Ps;

use crate::lists::List;
use crate::memory::{Marks, PageId, Tier};
use crate::settings::{INTERRUPT, LOOK, MIGRATION, PAGE_BYTES, REMAP};
use crate::system::System;

/// Activations that are made at once, as in Linux.
const BATCH: usize = 15;
/// Pages that are looked at before others have their turn, as in Linux.
const CLUSTER: u32 = 32;
/// Shadows that are given up for each page that finds no frame, as in NOMAD.
const SHADOWS_PER_PAGE: u32 = 10;
/// The demoter sleeps for so long if it finds no room, as Linux waits for congestion.
const NO_ROOM_PS: f64 = 0.1e12;
/// Of the slow tier, so much is kept free of shadows: its low watermark.
const SLOW_LOW: f64 = 0.02;

impl System {
    /// A page was found used: it is referenced, and the next time active.
    pub(crate) fn mark_accessed(&mut self, page: PageId) {
        if !self.memory.has(page, Marks::REFERENCED) {
            self.memory.mark(page, Marks::REFERENCED);
        } else if !self.memory.has(page, Marks::ACTIVE) {
            self.activations.push(page);
            if self.activations.len() >= BATCH {
                let pages = std::mem::take(&mut self.activations);
                pages.into_iter().for_each(|page| self.activate(page));
            }
        }
    }

    fn activate(&mut self, page: PageId) {
        self.memory.clear(page, Marks::REFERENCED);
        self.memory.mark(page, Marks::ACTIVE);
        self.move_to_head(page);
    }

    /// Puts a page to the head of the list that it belongs to.
    pub(crate) fn move_to_head(&mut self, page: PageId) {
        let list = List::of(self.memory.tier(page), self.memory.has(page, Marks::ACTIVE));
        self.lists.move_to_head(page, list);
    }

    /// Whether less of the fast tier is free than is to be.
    pub(crate) fn is_fast_short(&self) -> bool {
        self.memory.free(Tier::Fast) < self.machine.kept_free
    }

    /// The demoter's step: looks at a cluster of pages; when it goes on, unless it sleeps.
    ///
    /// A pass demotes as many pages as the watermark has, whatever is free by then: Linux reclaims
    /// the high watermark's pages at a time.
    pub(crate) fn demote_some(&mut self, now: Ps) -> Option<Ps> {
        if self.pass_left == 0 {
            if !self.is_fast_short() {
                return None;
            }
            self.pass_left = self.machine.pass;
        }
        let mut at = now;
        if self.is_inactive_low() {
            at += self.deactivate_some();
        }
        let inactive = List::of(Tier::Fast, false);
        for _ in 0..CLUSTER {
            let Some(page) = self.lists.tail(inactive) else { break };
            at += LOOK;
            if self.memory.test_and_clear(page, Marks::YOUNG) {
                if self.memory.has(page, Marks::REFERENCED) {
                    self.activate(page);
                } else {
                    self.memory.mark(page, Marks::REFERENCED);
                    self.lists.move_to_head(page, inactive);
                }
                continue;
            }
            let Some(takes) = self.demote(page, at) else {
                self.lists.move_to_head(page, inactive);
                return Some(at + (NO_ROOM_PS * self.machine.scale) as Ps);
            };
            at += takes;
            self.pass_left = self.pass_left.saturating_sub(1);
        }
        self.counters.demoter_ps += at - now;
        Some(at)
    }

    /// Whether the fast tier has too few inactive pages for its size, as Linux balances its lists.
    fn is_inactive_low(&self) -> bool {
        let [inactive, active] =
            [false, true].map(|is_active| self.lists.length(List::of(Tier::Fast, is_active)));
        let bytes = f64::from(inactive + active) / self.machine.scale * PAGE_BYTES as f64;
        let gib = bytes / (1u64 << 30) as f64;
        let ratio = (10.0 * gib).sqrt().max(1.0) as u32;
        inactive.saturating_mul(ratio) < active
    }

    /// Moves a cluster of pages from the active list to the inactive one, used or not.
    fn deactivate_some(&mut self) -> Ps {
        let active = List::of(Tier::Fast, true);
        let mut takes = 0;
        for _ in 0..CLUSTER {
            let Some(page) = self.lists.tail(active) else { break };
            self.memory.clear(page, Marks::ACTIVE);
            self.memory.clear(page, Marks::YOUNG);
            self.move_to_head(page);
            self.note_kept(page);
            takes += LOOK;
        }
        takes
    }

    /// Demotes a page; what it takes, or None if there is no room.
    pub(crate) fn demote(&mut self, page: PageId, now: Ps) -> Option<Ps> {
        let takes = if self.memory.demote_to_shadow(page) {
            self.counters.demotions_by_remap += 1;
            REMAP
        } else {
            self.make_room();
            if !self.memory.migrate(page) {
                return None;
            }
            self.counters.demotions_by_copy += 1;
            MIGRATION + self.copy(Tier::Fast, now)
        };
        self.interrupts += INTERRUPT;
        self.memory.clear(page, Marks::ACTIVE);
        self.memory.clear(page, Marks::REFERENCED);
        if self.machine.policy.has_hints() {
            self.memory.mark(page, Marks::HINT);
        }
        self.move_to_head(page);
        self.note_demoted(page);
        Some(takes)
    }

    /// Gives shadows up while the slow tier is short of frames.
    fn make_room(&mut self) {
        let low = (SLOW_LOW * f64::from(self.machine.slow_pages)) as u32;
        let free = self.memory.free(Tier::Slow);
        if free == 0 || free < low {
            let given = self.memory.reclaim_shadows(SHADOWS_PER_PAGE);
            self.counters.shadows_reclaimed += u64::from(given);
        }
    }
}
