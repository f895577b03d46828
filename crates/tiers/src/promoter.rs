//! The thread that promotes pages by transactions, and the ring of pages that wait for it.

use std::collections::VecDeque;

use tombolo_timing::Ps;

use crate::memory::{Marks, PageId, Tier, Transaction};
use crate::settings::{INTERRUPT, MIGRATION, REMAP};
use crate::system::{System, Worker};

/// Pages that wait at most, as in NOMAD.
const RING: usize = 512;
/// Passes over a batch of pages, as in NOMAD.
const PASSES: u32 = 10;

/// Pages on their way up.
#[derive(Debug, Default)]
pub(crate) struct Promoter {
    ring: VecDeque<PageId>,
    /// The batch that was taken from the ring, and those of it that are tried again.
    batch: VecDeque<PageId>,
    again: VecDeque<PageId>,
    pass: u32,
    under_way: Option<Transaction>,
}

impl Promoter {
    /// Frames that transactions hold.
    pub(crate) fn frames(&self) -> usize {
        usize::from(self.under_way.is_some())
    }

    /// The next page to promote: of the batch, of its next pass, or of a new batch.
    fn next(&mut self) -> Option<(PageId, bool)> {
        if self.batch.is_empty() && !self.again.is_empty() {
            self.pass += 1;
            std::mem::swap(&mut self.batch, &mut self.again);
        }
        if self.batch.is_empty() {
            self.pass = 1;
            std::mem::swap(&mut self.batch, &mut self.ring);
        }
        Some((self.batch.pop_front()?, self.pass >= PASSES))
    }
}

impl System {
    /// A page is to be promoted, unless it waits already or the ring is full.
    pub(crate) fn queue(&mut self, page: PageId, now: Ps) {
        if self.memory.has(page, Marks::QUEUED) {
            return;
        }
        if self.promoter.ring.len() >= RING {
            self.counters.queue_full += 1;
            return;
        }
        self.memory.mark(page, Marks::QUEUED);
        self.promoter.ring.push_back(page);
        self.wake(Worker::Promoter, now);
    }

    /// The promoter's step: it begins a transaction, or ends one; when it goes on.
    pub(crate) fn promote_one(&mut self, now: Ps) -> Option<Ps> {
        match self.promoter.under_way.take() {
            Some(transaction) => Some(self.end(transaction, now)),
            None => self.begin(now),
        }
    }

    fn begin(&mut self, now: Ps) -> Option<Ps> {
        let page = loop {
            let (page, _) = self.promoter.next()?;
            if self.memory.tier(page) == Tier::Slow {
                break page;
            }
            self.memory.clear(page, Marks::QUEUED);
        };
        let Some(transaction) = self.memory.begin(page) else {
            self.memory.clear(page, Marks::QUEUED);
            self.counters.promotions_without_frame += 1;
            self.wake(Worker::Demoter, now);
            return Some(now + REMAP);
        };
        self.promoter.under_way = Some(transaction);
        // The dirty bit is cleared, and a shootdown makes processors set it anew.
        self.interrupts += INTERRUPT;
        if self.is_being_written(page, now + REMAP) {
            self.memory.mark(page, Marks::DIRTY);
        }
        let takes = REMAP + self.copy(Tier::Slow, now + REMAP);
        self.counters.promoter_ps += takes;
        Some(now + takes)
    }

    fn end(&mut self, transaction: Transaction, now: Ps) -> Ps {
        let page = transaction.page;
        self.interrupts += INTERRUPT;
        // A page that was written while it had a shadow gets none again, if writes count at all.
        let counts_writes = self.machine.policy != crate::Policy::Nomad;
        let keeps_shadow = !(counts_writes && self.memory.has(page, Marks::WRITTEN));
        if self.memory.end(transaction, keeps_shadow) {
            self.memory.clear(page, Marks::QUEUED);
            // It was marked, but does not come onto the active list: NOMAD goes past the lists.
            self.memory.clear(page, Marks::ACTIVE);
            self.note_promoted(page);
        } else {
            self.counters.aborts += 1;
            if self.promoter.pass < PASSES {
                self.promoter.again.push_back(page);
            } else {
                self.memory.clear(page, Marks::QUEUED);
            }
        }
        if self.is_fast_short() {
            self.wake(Worker::Demoter, now);
        }
        let takes = MIGRATION - REMAP;
        self.counters.promoter_ps += takes;
        now + takes
    }
}
