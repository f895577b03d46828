//! The thread that moves pages: jobs of the program first, then what the policy wants.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use tombolo_memory::paging::Refusal;
use tombolo_placement::{Place, Turn};

use crate::area::{Area, Desk, Kernel, OnePage};
use crate::finder::Finder;
use crate::moves;
use crate::options::Policy;
use crate::page::{Flags, Phase};
use crate::report::Report;
use crate::shared::Shared;
use crate::stats::Count;
use crate::transaction::Outcome;

/// Passes over a batch of pages, as in NOMAD.
const PASSES: usize = 10;
/// Shadows that are given up for each page that is needed, as in NOMAD.
const RECLAIM_FACTOR: usize = 10;
/// How often the policy is asked.
const TICK: Duration = Duration::from_millis(10);
/// How often written shadows are looked for, and memory is looked at, in ticks.
const SWEEP_TICKS: u64 = 10;
/// Of near memory, one part in so many is kept free.
const FREE_PART: u64 = 10;
/// Pages that are parked in one call.
const PARKED_AT_ONCE: usize = 64;
/// Pages that are tried in a tick for each that is to be parked.
const TRIED_FOR_EACH: usize = 4;
/// Pages that a search looks at in one tick.
const LOOKED_AT: usize = 16_384;

/// The program's requests to the worker.
#[derive(Debug)]
pub(crate) enum Job {
    /// Moves pages of an area, and says what became of them.
    Relocate { area: usize, pages: Range<usize>, place: Place, reply: Option<SyncSender<Report>> },
    /// Gives shadows up, and says how many.
    Reclaim { pages: usize, reply: SyncSender<usize> },
    /// Parks pages of an area.
    Park { area: usize, pages: Range<usize>, reply: SyncSender<usize> },
    /// Looks whether shadows are written.
    Sweep { reply: SyncSender<()> },
    /// Looks whether a thread forks.
    Look,
}

pub(crate) struct Worker<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) kernel: &'a Kernel,
    pub(crate) desk: &'a Desk,
    /// Looks for areas of a program that was not written for tiers.
    pub(crate) finder: Option<Finder>,
    ticks: u64,
    /// Where searches for pages to park, to demote and to reclaim go on.
    park_hand: Hand,
    demote_hand: Hand,
    reclaim_hand: Hand,
}

/// A place in all pages of all areas.
#[derive(Clone, Copy, Debug, Default)]
struct Hand {
    area: usize,
    page: usize,
}

impl Hand {
    /// The next page, and round again.
    fn next(&mut self, areas: &[(usize, Arc<Area>)]) -> Option<(usize, usize)> {
        if self.area >= areas.len() {
            *self = Self::default();
        }
        let (number, area) = areas.get(self.area)?;
        let at = (*number, self.page);
        self.page += 1;
        if self.page >= area.pages() {
            *self = Self { area: self.area + 1, page: 0 };
        }
        // An area that is gone may have left its place to a smaller one.
        (at.1 < area.pages()).then_some(at)
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared, kernel: &'a Kernel, desk: &'a Desk) -> Self {
        let hand = Hand::default();
        Self {
            shared,
            kernel,
            desk,
            finder: None,
            ticks: 0,
            park_hand: hand,
            demote_hand: hand,
            reclaim_hand: hand,
        }
    }

    /// Works until the heap ends.
    pub(crate) fn run(&mut self, jobs: &Receiver<Job>) {
        let mut next = Instant::now() + TICK;
        while !self.is_over() {
            self.give_way();
            match jobs.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(job) => self.work(job),
                Err(RecvTimeoutError::Timeout) => {
                    self.tick();
                    next = Instant::now() + TICK;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.shared.fork.end();
    }

    fn is_over(&self) -> bool {
        let shared = self.shared;
        shared.is_stopping.load(Ordering::Acquire) || shared.is_failed.load(Ordering::Acquire)
    }

    fn work(&mut self, job: Job) {
        // A caller that does not wait any more needs no answer.
        match job {
            Job::Relocate { area, pages, place, reply } => {
                let report = self.relocate(area, pages, place);
                reply.map(|reply| reply.send(report));
            }
            Job::Reclaim { pages, reply } => {
                let _ = reply.send(self.reclaim(pages));
            }
            Job::Park { area, pages, reply } => {
                let area = self.shared.area(area);
                let _ = reply.send(self.park(&area, pages));
            }
            Job::Sweep { reply } => {
                self.sweep();
                let _ = reply.send(());
            }
            Job::Look => {}
        }
    }

    /// Lets a thread fork that waits for it.
    fn give_way(&self) {
        let shared = self.shared;
        let nap = || std::thread::sleep(Duration::from_millis(1));
        shared.fork.give_way(|| bring_all_back(shared, self.kernel, nap));
    }

    fn page<'b>(&'b self, area: &'b Area, number: usize) -> OnePage<'b> {
        OnePage { kernel: self.kernel, desk: self.desk, area, number }
    }

    // Relocation.

    fn relocate(&mut self, number: usize, pages: Range<usize>, place: Place) -> Report {
        let area = self.shared.area(number);
        let mut report = Report::default();
        self.prefer_tier(&area, pages.clone(), place);
        let mut open = self.open_pages(&area, pages, place, &mut report);
        while !open.is_empty() && report.passes < PASSES && !self.is_over() {
            report.passes += 1;
            let is_last = report.passes == PASSES;
            let mut again = Vec::new();
            for page in open {
                self.give_way();
                let (outcome, gap) = self.move_one(&area, page, place);
                report.gap_nanoseconds += gap;
                if outcome == Outcome::Refused(Refusal::Shared) && report.passes == 1 {
                    // A copy of its own can move. One that is pinned stays as it is.
                    let _ = area.space.page(page).unshare();
                }
                if is_last || !is_passing(outcome) {
                    report.leave(outcome);
                } else {
                    again.push(page);
                }
            }
            open = again;
        }
        report
    }

    /// Pages that are filled from here on come from the tier.
    fn prefer_tier(&self, area: &Area, pages: Range<usize>, place: Place) {
        let options = &self.shared.options;
        if !options.is_one_node() {
            let is_far = place == Place::Shared;
            let node = if is_far { options.far_node } else { options.near_node };
            // Without it they come from any node.
            let _ = area.space.span(pages).prefer_node(node);
        }
    }

    /// The pages of a range that have to move; others are noted in the report.
    fn open_pages(
        &self,
        area: &Area,
        pages: Range<usize>,
        place: Place,
        report: &mut Report,
    ) -> Vec<usize> {
        let is_near = place != Place::Shared;
        let mut filled = vec![false; pages.len()];
        let span = area.space.span(pages.clone());
        let seen = self.kernel.areas.map().visit(span, |run, kind| {
            run.for_each(|page| filled[page - pages.start] = kind.has_bytes());
        });
        // Without that knowledge each page is tried.
        if seen.is_err() {
            filled.fill(true);
        }
        let mut open = Vec::new();
        for page in pages.clone() {
            let state = area.word(page).get();
            let is_parked = state.phase() == Phase::Parked;
            if is_parked && !is_near {
                // If it does not come back now, its next touch brings it.
                let _ = self.bring_back(area, page);
                report.already += 1;
            } else if !filled[page - pages.start] && !is_parked {
                self.shared.note_tier(area, page, is_near);
                report.untouched += 1;
            } else if state.has(Flags::NEAR) != is_near || is_parked {
                open.push(page);
            } else {
                if place == Place::Partition {
                    moves::drop_shadow(self.shared, &self.page(area, page), false);
                }
                report.already += 1;
            }
        }
        open
    }

    fn move_one(&mut self, area: &Area, page: usize, place: Place) -> moves::Ended {
        if area.word(page).get().phase() == Phase::Parked
            && let Err(refusal) = self.bring_back(area, page)
        {
            return (Outcome::Refused(refusal), 0);
        }
        if place == Place::Shared {
            let ended = moves::demote(self.shared, self.page(area, page));
            // If it does not come back now, its next touch brings it.
            let _ = self.bring_back(area, page);
            return ended;
        }
        self.promote(area, page, place == Place::Copied)
    }

    fn promote(&mut self, area: &Area, page: usize, keeps_shadow: bool) -> moves::Ended {
        if !moves::has_near_room(self.shared) {
            let outcome = Outcome::Refused(Refusal::NoMemory);
            self.shared.count_abort(outcome);
            return (outcome, 0);
        }
        let ended = moves::promote(self.shared, self.page(area, page), keeps_shadow);
        if ended.0 == Outcome::Refused(Refusal::NoMemory) {
            self.reclaim(RECLAIM_FACTOR);
        }
        if self.shared.shadows() > self.shadow_limit() {
            self.reclaim(RECLAIM_FACTOR);
        }
        ended
    }

    fn bring_back(&self, area: &Area, page: usize) -> Result<(), Refusal> {
        let _gate = self.shared.gate.lock();
        if area.word(page).get().phase() != Phase::Parked {
            return Ok(());
        }
        moves::bring_back(self.shared, self.kernel, area, page)
    }

    // Shadows.

    fn shadow_limit(&self) -> u64 {
        (self.shared.options.shadow_bytes / tombolo_memory::paging::page_bytes()) as u64
    }

    /// Gives up to so many shadows up; returns how many.
    fn reclaim(&mut self, pages: usize) -> usize {
        let areas = self.shared.all_areas();
        let mut done = 0;
        for _ in 0..all_pages(&areas) {
            if done >= pages || self.shared.shadows() == 0 {
                break;
            }
            let Some((number, page)) = self.reclaim_hand.next(&areas) else { break };
            let area = &areas[number].1;
            if area.word(page).get().phase() == Phase::Shadowed {
                let page = self.page(area, page);
                done += usize::from(moves::drop_shadow(self.shared, &page, false));
            }
        }
        done
    }

    /// Gives shadows up whose pages were written.
    fn sweep(&mut self) {
        if self.shared.shadows() == 0 {
            return;
        }
        for (_, area) in self.shared.all_areas() {
            let mut written = Vec::new();
            let is_shadowed = |page: &usize| area.word(*page).get().phase() == Phase::Shadowed;
            // The next sweep sees the pages that cannot be seen now.
            let _ = self.kernel.areas.map().visit(area.space.span(0..area.pages()), |run, kind| {
                if kind.is_written() {
                    written.extend(run.filter(is_shadowed));
                }
            });
            for page in written {
                moves::drop_shadow(self.shared, &self.page(&area, page), true);
            }
        }
    }

    fn look_at_memory(&mut self) {
        let low = self.shared.options.low_memory_bytes as u64;
        let Some(available) = crate::available::bytes() else { return };
        if available < low && self.shared.shadows() > 0 {
            let page = tombolo_memory::paging::page_bytes() as u64;
            let missing = (low - available).div_ceil(page);
            self.reclaim((missing as usize).saturating_mul(RECLAIM_FACTOR));
        }
    }

    // The policy.

    fn tick(&mut self) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(SWEEP_TICKS) {
            self.sweep();
            self.look_at_memory();
            if let Some(finder) = &mut self.finder {
                finder.find(self.shared, self.kernel);
            }
        }
        if self.shared.options.policy == Policy::None {
            return;
        }
        self.promote_pending();
        self.keep_near_free();
        self.park_some();
        self.turn();
    }

    fn turn(&self) {
        match self.shared.thrash.lock().turn() {
            Some(Turn::Stop) => self.shared.counters.add(Count::ThrashStops, 1),
            Some(Turn::Resume) => self.shared.counters.add(Count::ThrashResumes, 1),
            None => {}
        }
    }

    fn promote_pending(&mut self) {
        let mut open = self.shared.queues.lock().take_pending();
        open.retain(|_| self.may_promote());
        for _ in 0..PASSES {
            let mut again = Vec::new();
            for (number, page) in open {
                self.give_way();
                let area = self.shared.area(number);
                if page >= area.pages() {
                    continue;
                }
                let state = area.word(page).get();
                if state.has_any(Flags::NEAR.and(Flags::HOLD_FAR)) {
                    continue;
                }
                // A page that was written while it had a shadow gets none again.
                let is_written = state.has(Flags::WRITTEN);
                let place = if is_written { Place::Partition } else { Place::Copied };
                let (outcome, _) = self.move_one(&area, page, place);
                if is_passing(outcome) {
                    again.push((number, page));
                }
            }
            open = again;
        }
    }

    fn may_promote(&self) -> bool {
        let mut thrash = self.shared.thrash.lock();
        let may = thrash.ask();
        if may && thrash.is_stopped() {
            self.shared.counters.add(Count::ThrashProbes, 1);
        }
        may
    }

    /// Demotes until a part of near memory is free.
    fn keep_near_free(&mut self) {
        let limit = self.shared.near_limit();
        let kept = limit - limit / FREE_PART;
        let areas = self.shared.all_areas();
        for _ in 0..all_pages(&areas).min(LOOKED_AT) {
            if self.shared.near_pages() <= kept {
                break;
            }
            let Some((number, page)) = self.demote_hand.next(&areas) else { break };
            self.give_way();
            let area = &areas[number].1;
            let state = area.word(page).mark(Flags::NONE, Flags::ACTIVE);
            let is_used = state.has_any(Flags::ACTIVE.and(Flags::HOLD_NEAR));
            let is_movable = matches!(state.phase(), Phase::Loose | Phase::Shadowed);
            if !is_used && is_movable && state.has(Flags::NEAR.and(Flags::RESIDENT)) {
                self.demote(area, page);
            }
        }
    }

    fn demote(&mut self, area: &Area, page: usize) {
        if self.shared.options.policy == Policy::Tpp {
            // TPP knows no shadows, so there is nothing to remap.
            moves::drop_shadow(self.shared, &self.page(area, page), false);
        }
        let (outcome, _) = moves::demote(self.shared, self.page(area, page));
        if outcome == Outcome::Refused(Refusal::NoMemory) {
            self.reclaim(RECLAIM_FACTOR);
        }
    }

    /// Parks some far pages, so that their next touch is seen: candidates first.
    fn park_some(&mut self) {
        let per_tick = self.shared.options.parked_per_second as usize / 100;
        let mut left = per_tick.max(1);
        // The queues' lock may not be held while the gate is asked for.
        let candidates = self.shared.queues.lock().candidates();
        for (number, page) in candidates {
            let area = self.shared.area(number);
            if page < area.pages() {
                left -= self.park(&area, page..page + 1).min(left);
            }
        }
        let areas = self.shared.all_areas();
        // After a fork most pages are shared and do not move: the attempts are bounded, too.
        let mut attempts = TRIED_FOR_EACH * left;
        for _ in 0..all_pages(&areas).min(LOOKED_AT) {
            if left == 0 || attempts == 0 {
                break;
            }
            let Some((number, page)) = self.park_hand.next(&areas) else { break };
            let area = &areas[number].1;
            if can_park(area, page) {
                attempts -= 1;
                left -= self.park(area, page..page + 1).min(left);
            }
        }
    }

    /// Parks those pages that can be: far ones that the program has. Returns how many.
    fn park(&self, area: &Area, pages: Range<usize>) -> usize {
        let mut done = 0;
        let mut next = pages.start;
        while next < pages.end {
            let gate = self.shared.gate.lock();
            if self.shared.is_failed.load(Ordering::Acquire) {
                break;
            }
            let end = pages.end.min(next + PARKED_AT_ONCE);
            let run = (next..end).take_while(|&page| can_park(area, page)).count();
            if run > 0 {
                let moved = self.kernel.park(area, next..next + run).pages;
                for page in next..next + moved {
                    area.word(page).change(Phase::Loose, Phase::Parked);
                    self.shared.note_entered(Phase::Parked);
                }
                done += moved;
                next += moved;
            }
            // A page that does not move is left out.
            next += usize::from(run == 0 || next < end);
            drop(gate);
        }
        self.shared.counters.add(Count::Parked, done as u64);
        done
    }
}

/// Whether another pass may bring another outcome.
fn is_passing(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Written | Outcome::Refused(Refusal::Shared | Refusal::Changing))
}

fn can_park(area: &Area, page: usize) -> bool {
    let state = area.word(page).get();
    state.phase() == Phase::Loose && state.has(Flags::RESIDENT) && !state.has(Flags::NEAR)
}

fn all_pages(areas: &[(usize, Arc<Area>)]) -> usize {
    areas.iter().map(|(_, area)| area.pages()).sum()
}

/// Brings all parked pages back, before a fork or when the thread that serves faults has failed.
/// While mappings change the kernel moves none: `wait` is called then, up to some thousand times.
pub(crate) fn bring_all_back(shared: &Shared, kernel: &Kernel, mut wait: impl FnMut()) {
    for (_, area) in shared.all_areas() {
        for page in 0..area.pages() {
            for _ in 0..10_000 {
                let gate = shared.gate.lock();
                let is_parked = area.word(page).get().phase() == Phase::Parked;
                if !is_parked
                    || moves::bring_back(shared, kernel, &area, page) != Err(Refusal::Changing)
                {
                    break;
                }
                drop(gate);
                wait();
            }
        }
    }
}
