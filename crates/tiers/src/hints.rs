//! Hint faults: the scanner that causes them, and what each policy does in one.

use tombolo_placement::{BreakEven, Costs, Place, Placement, Profile, Turn};
use tombolo_timing::Ps;

use crate::memory::{Marks, PageId, Tier};
use crate::settings::{FAULT, MIGRATION, PROTECT, Policy, REMAP, pages_of};
use crate::system::{System, Worker};

/// The scanner's period, of the program's time, as in Linux.
const PERIOD_PS: f64 = 1e12;
/// Pages that it changes in a period, in GiB, as in Linux.
const CHANGED_GIB: f64 = 0.25;
/// Addresses that it looks at for each page that it may change, as in Linux.
const LOOKED: u32 = 8;
/// So much less is scanned while thrash control has stopped promotions.
const WHILE_STOPPED: u32 = 16;
/// How far back candidates are looked for, as in NOMAD.
const CANDIDATES: usize = 20;
/// Uses of a page that one hint fault stands for.
const USES_PER_FAULT: u32 = 16;
/// Faults that are counted of a page; no policy needs more.
const SEEN: u8 = 64;
/// Promotions in vain that are counted of a page.
const IN_VAIN: u8 = 6;

/// Where the scanner is.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    at: PageId,
}

impl System {
    /// Makes all slow pages inaccessible.
    pub(crate) fn protect_all(&mut self) {
        for page in 0..self.memory.pages() {
            if self.memory.tier(page) == Tier::Slow {
                self.protect(page);
            }
        }
    }

    /// Makes a page inaccessible. From then on, break-even looks whether it is written.
    fn protect(&mut self, page: PageId) {
        self.memory.mark(page, Marks::HINT);
        if self.machine.policy == Policy::BreakEven {
            self.memory.clear(page, Marks::DIRTY);
        }
    }

    /// The scanner's step: makes slow pages inaccessible; when it goes on.
    pub(crate) fn scan(&mut self, now: Ps) -> Option<Ps> {
        let less = if self.thrash.is_stopped() { WHILE_STOPPED } else { 1 };
        let mut left = pages_of(CHANGED_GIB * self.machine.scale).div_ceil(less);
        let looked = (left * LOOKED).min(self.memory.pages());
        let mut changed = 0;
        for _ in 0..looked {
            if left == 0 {
                break;
            }
            let page = self.scanner.at;
            self.scanner.at = (page + 1) % self.memory.pages();
            if self.memory.tier(page) == Tier::Slow && !self.memory.has(page, Marks::HINT) {
                self.protect(page);
                left -= 1;
                changed += 1;
            }
        }
        // The program's own thread scans.
        self.interrupts += changed * PROTECT;
        Some(now + (PERIOD_PS * self.machine.scale) as Ps)
    }

    /// A page that is inaccessible is used; when the program goes on.
    pub(crate) fn hint_fault(&mut self, page: PageId, is_write: bool, now: Ps) -> Ps {
        match self.machine.policy {
            Policy::Tpp => self.promote_at_once(page, now),
            _ => {
                self.counters.hint_faults += 1;
                self.counters.fault_ps += FAULT;
                self.memory.clear(page, Marks::HINT);
                if self.machine.policy == Policy::Nomad {
                    self.look_through_candidates(page, now + FAULT);
                } else {
                    self.judge(page, is_write, now + FAULT);
                }
                now + FAULT
            }
        }
    }

    /// TPP: the page faults until it is active, and is migrated while the program waits.
    fn promote_at_once(&mut self, page: PageId, now: Ps) -> Ps {
        let mut at = now + FAULT;
        self.counters.hint_faults += 1;
        while !self.memory.has(page, Marks::ACTIVE) {
            self.mark_accessed(page);
            self.counters.hint_faults += 1;
            at += FAULT;
        }
        self.counters.fault_ps += at - now;
        self.memory.clear(page, Marks::HINT);
        let takes = MIGRATION + self.copy(Tier::Slow, at);
        if self.memory.migrate(page) {
            self.counters.promotion_ps += takes;
            at += takes;
            self.note_promoted(page);
        } else {
            self.counters.promotions_without_frame += 1;
        }
        if self.is_fast_short() {
            self.wake(Worker::Demoter, at);
        }
        at
    }

    /// NOMAD: looks whether earlier candidates are active by now.
    fn look_through_candidates(&mut self, page: PageId, now: Ps) {
        let candidates = std::mem::take(&mut self.candidates);
        for candidate in candidates {
            let is_gone = self.memory.tier(candidate) == Tier::Fast || candidate == page;
            if is_gone || self.memory.has(candidate, Marks::HINT) {
                continue;
            }
            if self.memory.has(candidate, Marks::YOUNG) {
                if self.memory.has(candidate, Marks::ACTIVE) {
                    self.queue(candidate, now);
                    continue;
                }
                self.mark_accessed(candidate);
            }
            self.candidates.push_back(candidate);
        }
        self.candidates.push_front(page);
        self.candidates.truncate(CANDIDATES);
    }

    /// Break-even: the page is promoted once it would have paid, unless that is in vain.
    fn judge(&mut self, page: PageId, is_write: bool, now: Ps) {
        let number = page as usize;
        self.seen[number] = (self.seen[number] + 1).min(SEEN);
        let costs = &self.machine.costs;
        let is_written = is_write || self.memory.has(page, Marks::DIRTY);
        let use_of = |tier: Tier| costs.page[tier as usize][usize::from(is_written)];
        let (bring, give_back) = (costs.copy[Tier::Slow as usize], costs.copy[Tier::Fast as usize]);
        let costs = Costs {
            far: use_of(Tier::Slow),
            near: use_of(Tier::Fast),
            bring: MIGRATION + bring + FAULT,
            give_back: MIGRATION + give_back + REMAP,
        };
        let profile = Profile {
            reads: u32::from(self.seen[number]) * USES_PER_FAULT,
            writes: u32::from(self.memory.has(page, Marks::WRITTEN)),
            others: 0,
            in_vain: self.in_vain[number].into(),
        };
        if BreakEven.place(&profile, Place::Shared, &costs) == Place::Shared {
            return;
        }
        if self.thrash.ask() {
            self.memory.mark(page, Marks::ACTIVE);
            self.move_to_head(page);
            self.queue(page, now);
        }
        match self.thrash.turn() {
            Some(Turn::Stop) => self.counters.stops += 1,
            Some(Turn::Resume) => self.counters.resumes += 1,
            None => {}
        }
    }

    /// A page has come into the fast tier.
    pub(crate) fn note_promoted(&mut self, page: PageId) {
        self.counters.promotions += 1;
        self.thrash.promoted();
        self.seen[page as usize] = 0;
        self.memory.mark(page, Marks::PROMOTED);
        self.memory.clear(page, Marks::HINT);
        self.memory.clear(page, Marks::YOUNG);
        self.move_to_head(page);
    }

    /// A page has left the fast tier: its promotion, if there was one, was in vain.
    pub(crate) fn note_demoted(&mut self, page: PageId) {
        if !self.memory.test_and_clear(page, Marks::PROMOTED) {
            return;
        }
        self.thrash.demoted();
        let in_vain = &mut self.in_vain[page as usize];
        *in_vain = (*in_vain + 1).min(IN_VAIN);
        self.seen[page as usize] = 0;
    }

    /// A page of the fast tier has been active until now.
    pub(crate) fn note_kept(&mut self, page: PageId) {
        let in_vain = &mut self.in_vain[page as usize];
        *in_vain = in_vain.saturating_sub(1);
    }
}
