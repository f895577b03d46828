//! The thread that serves faults: it reads the kernel's messages, fills pages that are touched for
//! the first time, and brings parked ones back.
//!
//! Invariant: it touches no page of an area, and waits for no lock that a thread holds which does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tombolo_memory::paging::{Message, Refusal, page_bytes};

use crate::area::{Area, Desk, Kernel, OnePage};
use crate::moves;
use crate::page::{Flags, Phase};
use crate::policy;
use crate::shared::Shared;
use crate::stats::Count;
use crate::transaction::PageOps;

/// Pages that a first touch fills with zeros. They share one frame until they are written.
const FILLED_AT_ONCE: usize = 16;
/// How long the thread sleeps while there is nothing to do, in milliseconds.
const NAP: u32 = 1_000;
/// As above, while a fault could not be served because mappings were changing.
const SHORT_NAP: u32 = 1;

/// How often pages are tried that follow to a new address, and how long the thread sleeps between.
/// The kernel moves none until the thread that has remapped them runs again.
const REMAP_ATTEMPTS: u32 = 100_000;
const REMAP_NAP: Duration = Duration::from_micros(100);

pub(crate) struct Server<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) kernel: &'a Kernel,
    pub(crate) desk: &'a Desk,
}

impl Server<'_> {
    /// Serves faults until the heap ends.
    ///
    /// # Errors
    /// The system's error, if messages cannot be read any more.
    pub(crate) fn run(&self, bell: &impl std::os::fd::AsFd) -> std::io::Result<()> {
        let mut messages = Vec::new();
        let mut again = Vec::new();
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            let nap = if again.is_empty() { NAP } else { SHORT_NAP };
            self.kernel.areas.wait(bell, nap)?;
            assert!(!self.shared.fails.load(Ordering::Acquire), "a test makes this thread fail");
            let gate = self.shared.gate.lock();
            let mut attempts = 0;
            loop {
                messages.append(&mut again);
                self.kernel.areas.read(&mut messages)?;
                self.serve_all(&mut messages, &mut again);
                // The gate stays closed: a parked page that came back to its old address now would
                // be missing at the new one.
                if !again.iter().any(|message| matches!(message, Message::Remap(..))) {
                    break;
                }
                attempts += 1;
                if attempts == REMAP_ATTEMPTS {
                    return Err(std::io::Error::other("pages cannot follow to their new address"));
                }
                std::thread::sleep(REMAP_NAP);
            }
            drop(gate);
        }
        Ok(())
    }

    /// Serves messages; those that are not done are left over, in their order. Behind pages that
    /// have still to follow to another address, all are: the next message tells that their old
    /// address is unmapped, and would give them up.
    fn serve_all(&self, messages: &mut Vec<Message>, left: &mut Vec<Message>) {
        let mut is_following = false;
        left.extend(messages.drain(..).filter(|&message| {
            let is_left = is_following || !self.serve(message);
            is_following |= is_left && matches!(message, Message::Remap(..));
            is_left
        }));
    }

    /// Does what a message asks for; whether it is done.
    fn serve(&self, message: Message) -> bool {
        match message {
            Message::Fault(address) => self.fault(address),
            Message::Remove(start, end) => self.given_up(start, end, Phase::Removed),
            Message::Unmap(start, end) => self.given_up(start, end, Phase::Gone),
            Message::Remap(from, to, bytes) => self.moved_away(from, to, bytes),
        }
    }

    fn fault(&self, address: usize) -> bool {
        let found = self.shared.all_areas().into_iter().find_map(|(number, area)| {
            let page = area.space.page_of(address)?;
            // The program may have mapped others in the place of pages that are gone.
            let is_here = area.word(page).get().phase() != Phase::Gone;
            is_here.then_some((number, area, page))
        });
        let Some((number, area, page)) = found else { return self.fill_other(address) };
        match area.word(page).get().phase() {
            Phase::Parked => self.hint(number, &area, page),
            Phase::Gone => self.wake_at(address),
            Phase::Out => false,
            _ => self.fill(&area, page),
        }
    }

    /// A page that is registered and of no area: the program has made a mapping larger, and the
    /// kernel serves all of it alike.
    fn fill_other(&self, address: usize) -> bool {
        match self.kernel.areas.zero_at(address) {
            Ok(()) => true,
            Err(Refusal::Changing | Refusal::NoMemory) => false,
            // It is there meanwhile, or not registered any more.
            Err(_) => self.wake_at(address),
        }
    }

    fn wake_at(&self, address: usize) -> bool {
        // A page that is not registered any more has no thread that waits.
        self.kernel.areas.wake_at(address) != Err(Refusal::Changing)
    }

    /// A parked page was touched.
    fn hint(&self, number: usize, area: &Arc<Area>, page: usize) -> bool {
        let seen = area.word(page).see();
        if policy::promotes_at_once(&self.shared.options, seen) && self.bring_up(area, page) {
            self.shared.counters.add(Count::HintFaults, 1);
            return true;
        }
        match moves::bring_back(self.shared, self.kernel, area, page) {
            Ok(()) => {}
            Err(Refusal::Present) => {
                return self.wake_at(area.space.address().addr().get() + page * page_bytes());
            }
            Err(_) => return false,
        }
        self.shared.counters.add(Count::HintFaults, 1);
        policy::note_hint(self.shared, (number, page));
        true
    }

    /// Promotes a parked page while the program waits for it; whether that was possible.
    fn bring_up(&self, area: &Arc<Area>, number: usize) -> bool {
        if !moves::has_near_room(self.shared) {
            return false;
        }
        let Self { kernel, desk, .. } = *self;
        let page = OnePage { kernel, desk, area, number };
        if page.stage_from_mirror().is_err() || page.map_staged().is_err() {
            page.drop_staged();
            return false;
        }
        let before = area.word(number).get();
        page.drop_mirror();
        page.change(Phase::Parked, Phase::Loose);
        self.shared.note_left(before);
        moves::note_promoted(self.shared, area, number);
        true
    }

    /// Fills the page, and those behind it that were never touched.
    fn fill(&self, area: &Area, page: usize) -> bool {
        let is_free = |page: &usize| {
            let state = area.word(*page).get();
            let is_new = state.phase() == Phase::Loose && !state.has_any(Flags::RESIDENT);
            is_new || state.phase() == Phase::Removed
        };
        let limit = (page / FILLED_AT_ONCE + 1) * FILLED_AT_ONCE;
        let behind = (page + 1..limit.min(area.pages())).take_while(is_free).count();
        let mut filled = self.kernel.areas.zero(area.space.span(page..page + 1 + behind));
        if filled.pages == 0 && filled.refused == Some(Refusal::Present) {
            // It may have been protected just after the program had given it up, which leaves a
            // mark.
            let page = area.space.page(page);
            let unmarked = self.kernel.areas.unprotect(page);
            filled = unmarked.map_or(filled, |()| self.kernel.areas.zero(page));
        }
        (page..page + filled.pages).for_each(|page| self.shared.note_filled(area, page));
        if filled.pages > 0 {
            self.shared.counters.add(Count::FirstTouches, 1);
            return true;
        }
        match filled.refused {
            Some(Refusal::Changing | Refusal::NoMemory) => false,
            // The page is there meanwhile, or its mapping is not.
            _ => self.wake_at(area.space.address().addr().get() + page * page_bytes()),
        }
    }

    /// The program gives pages up, or has unmapped them: frames that are held of them go.
    fn given_up(&self, start: usize, end: usize, phase: Phase) -> bool {
        for (_, area) in self.shared.all_areas() {
            let pages = pages_within(&area, start, end);
            if pages.is_empty() {
                continue;
            }
            for page in pages.clone() {
                if area.word(page).get().phase() != Phase::Gone {
                    self.shared.note_given_up(&area, page, phase);
                }
            }
            // The mirror is this crate's, and mapped as long as the area is there.
            let _ = area.mirror.span(pages).discard();
        }
        true
    }

    /// The program has moved pages to another address: parked ones follow, and the rest of them is
    /// left to the program.
    fn moved_away(&self, from: usize, to: usize, bytes: usize) -> bool {
        for (_, area) in self.shared.all_areas() {
            let base = area.space.address().addr().get();
            for page in pages_within(&area, from, from + bytes) {
                let address = to + (base + page * page_bytes() - from);
                if area.word(page).get().phase() == Phase::Parked
                    && self.kernel.areas.move_to(address, area.mirror.page(page))
                        == Err(Refusal::Changing)
                {
                    return false;
                }
                let _ = area.mirror.page(page).discard();
                if area.word(page).get().phase() != Phase::Gone {
                    self.shared.note_given_up(&area, page, Phase::Gone);
                }
            }
        }
        // Threads that wait there go on. It fails only if the pages are unmapped meanwhile. The old
        // address may have a mapping, too (`MREMAP_DONTUNMAP`).
        let _ = self.kernel.areas.unregister_at(to, bytes);
        let _ = self.kernel.areas.unregister_at(from, bytes);
        true
    }
}

/// The pages of an area that lie between two addresses.
fn pages_within(area: &Area, start: usize, end: usize) -> std::ops::Range<usize> {
    let base = area.space.address().addr().get();
    let number = |address: usize| (address.saturating_sub(base) / page_bytes()).min(area.pages());
    number(start)..number(end)
}
