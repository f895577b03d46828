//! The state that the threads of a heap share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_memory::paging::{Refusal, page_bytes};
use tombolo_placement::Thrash;

use crate::Options;
use crate::area::Area;
use crate::fork::ForkGate;
use crate::page::{Flags, Phase, State};
use crate::queues::Queues;
use crate::stats::{Count, Counters, Stats};
use crate::sync::{Mutex, RwLock};
use crate::transaction::Outcome;

/// State of a heap.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) areas: RwLock<Vec<Arc<Area>>>,
    /// Messages of the kernel are read, and pages are out of the mapping, under this lock alone. So
    /// no message is read while a page is out.
    pub(crate) gate: Mutex<()>,
    pub(crate) counters: Counters,
    pub(crate) queues: Mutex<Queues>,
    pub(crate) thrash: Mutex<Thrash>,
    pub(crate) fork: ForkGate,
    pub(crate) is_stopping: AtomicBool,
    /// The thread that serves faults has failed: no page may be parked.
    pub(crate) is_failed: AtomicBool,
    /// The thread that serves faults is to fail, for a test.
    pub(crate) fails: AtomicBool,
    process: u32,
    near_pages: AtomicU64,
    shadows: AtomicU64,
    parked: AtomicU64,
}

impl Shared {
    pub(crate) fn new(options: Options, area: Option<Area>) -> Self {
        Self {
            options,
            areas: RwLock::new(area.map(Arc::new).into_iter().collect()),
            gate: Mutex::default(),
            counters: Counters::default(),
            queues: Mutex::default(),
            thrash: Mutex::default(),
            fork: ForkGate::default(),
            is_stopping: AtomicBool::new(false),
            is_failed: AtomicBool::new(false),
            fails: AtomicBool::new(false),
            process: std::process::id(),
            near_pages: AtomicU64::new(0),
            shadows: AtomicU64::new(0),
            parked: AtomicU64::new(0),
        }
    }

    /// Whether this process is a child of the one that made the heap.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    pub(crate) fn area(&self, number: usize) -> Arc<Area> {
        self.areas.read()[number].clone()
    }

    /// The areas, with their numbers.
    pub(crate) fn all_areas(&self) -> Vec<(usize, Arc<Area>)> {
        self.areas.read().iter().cloned().enumerate().collect()
    }

    pub(crate) fn near_limit(&self) -> u64 {
        (self.options.near_bytes / page_bytes()) as u64
    }

    pub(crate) fn near_pages(&self) -> u64 {
        self.near_pages.load(Ordering::Relaxed)
    }

    pub(crate) fn shadows(&self) -> u64 {
        self.shadows.load(Ordering::Relaxed)
    }

    /// Counts how a transaction ended that did not move its page.
    pub(crate) fn count_abort(&self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Promoted | Outcome::DemotedByRemap | Outcome::DemotedByCopy => return,
            Outcome::Written => Count::AbortsWritten,
            Outcome::Busy => Count::AbortsBusy,
            Outcome::Refused(Refusal::Shared) => Count::AbortsShared,
            Outcome::Refused(Refusal::Unmovable) => Count::AbortsUnmovable,
            Outcome::Refused(Refusal::Absent) => Count::AbortsAbsent,
            Outcome::Refused(Refusal::NoMemory) => Count::AbortsNoRoom,
            Outcome::Refused(Refusal::Changing) => Count::AbortsChanging,
            Outcome::Refused(Refusal::Present | Refusal::Other(_)) => Count::AbortsOther,
        };
        self.counters.add(count, 1);
    }

    /// Serves one more area from here on, in the place of one that is gone if there is any.
    pub(crate) fn add_area(&self, area: Arc<Area>) {
        let mut areas = self.areas.write();
        match areas.iter_mut().find(|area| area.is_gone()) {
            Some(gone) => *gone = area,
            None => areas.push(area),
        }
    }

    /// A page is filled for the first time, or again.
    pub(crate) fn note_filled(&self, area: &Area, page: usize) {
        let before = area.word(page).mark(Flags::RESIDENT, Flags::NONE);
        area.word(page).change(Phase::Removed, Phase::Loose);
        if !before.has(Flags::RESIDENT) && before.has(Flags::NEAR) {
            self.near_pages.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The program has given a page up: nothing of it is held any more.
    pub(crate) fn note_given_up(&self, area: &Area, page: usize, phase: Phase) {
        let lost = Flags::RESIDENT.and(Flags::ACTIVE).and(Flags::WRITTEN).and(Flags::PROMOTED);
        let before = area.word(page).force(phase, Flags::NONE, lost);
        if before.has(Flags::RESIDENT.and(Flags::NEAR)) {
            self.near_pages.fetch_sub(1, Ordering::Relaxed);
        }
        self.note_left(before);
    }

    /// A page has left a phase in which the mirror has a frame of it.
    pub(crate) fn note_left(&self, before: State) {
        match before.phase() {
            Phase::Parked => self.parked.fetch_sub(1, Ordering::Relaxed),
            Phase::Shadowed => self.shadows.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// A page has come into such a phase.
    pub(crate) fn note_entered(&self, phase: Phase) {
        match phase {
            Phase::Parked => self.parked.fetch_add(1, Ordering::Relaxed),
            Phase::Shadowed => self.shadows.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// A page is in the near tier from here on, or not.
    pub(crate) fn note_tier(&self, area: &Area, page: usize, is_near: bool) {
        let (set, clear) =
            if is_near { (Flags::NEAR, Flags::NONE) } else { (Flags::NONE, Flags::NEAR) };
        let before = area.word(page).mark(set, clear);
        if before.has(Flags::RESIDENT) && before.has(Flags::NEAR) != is_near {
            if is_near {
                self.near_pages.fetch_add(1, Ordering::Relaxed);
            } else {
                self.near_pages.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            counts: self.counters.all(),
            near_pages: self.near_pages(),
            near_limit: self.near_limit(),
            served: self.all_areas().iter().map(|(_, area)| area.pages() as u64).sum(),
            shadows: self.shadows(),
            parked: self.parked.load(Ordering::Relaxed),
            is_thrashing: self.thrash.lock().is_stopped(),
            is_one_node: self.options.is_one_node(),
        }
    }
}
