//! Hosts share the pages of a region: each reads what was written last, in each mode, while modes
//! change, and when hosts die or are fenced.
//!
//! A page has two lines, and an access reads or writes a word in each. An access is over before its
//! page is taken away, as an instruction is before a translation is. So hosts' accesses to a page
//! are in an order, and what a page holds is known at each.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use tombolo_host::Host;
use tombolo_memory::{LnrAddr, Memory};
use tombolo_pod::{AreaRequest, Layout, LogOptions, Pod, PodOptions};
use tombolo_regions::{
    BlockMode, KIND, Keeper, Mode, RegionEntry, RegionError, RegionHost, Shape, Touched, VERSION,
    View,
};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};

use crate::world::Busy;

const PAGE_BYTES: u64 = 128;
const LINE: u64 = 64;
const BLOCK_PAGES: u64 = 2;
const PAGES: usize = 4;
const NAME: &str = "pages";
/// Accesses and changes of a program, at most.
const ROUNDS: u64 = 10;

fn pod(trial: &Trial, hosts: usize, kills: Option<Kills>) -> Simulation {
    let config = Config {
        hosts,
        scr_bytes: 24 << 10,
        lnr_bytes: 32 << 10,
        max_steps: 1_500_000,
        kills,
        ..Config::default()
    };
    let shape = Shape { page_bytes: PAGE_BYTES, block_pages: BLOCK_PAGES, coherent: false };
    let request = AreaRequest {
        kind: KIND,
        version: VERSION,
        scr_bytes: None,
        lnr_bytes: Some(4 << 10),
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan: &|budget| shape.plan(budget),
        on_demand: None,
    };
    let options = PodOptions { hosts: Some(hosts as u8), mail_slots: Some(2) };
    let layout = Layout::plan(config.scr_bytes, config.lnr_bytes, options, &[request]).unwrap();
    let simulation = Simulation::new(config, trial);
    Pod::format(simulation.memory(0), &layout).unwrap();
    simulation
}

/// The state of a page on one host: how it is mapped, and its replica.
#[derive(Default)]
struct Page {
    mapped: Cell<Option<(Mode, bool)>>,
    is_lost: Cell<bool>,
    replica: RefCell<Vec<u8>>,
    /// Accesses under way.
    busy: Cell<u32>,
}

/// A host's mappings.
struct Mappings {
    memory: SimMemory,
    start: LnrAddr,
    pages: Vec<Page>,
    touches: RefCell<Vec<Touched>>,
}

impl Mappings {
    fn new(memory: SimMemory, start: LnrAddr) -> Rc<Self> {
        let page = || Page { replica: vec![0; PAGE_BYTES as usize].into(), ..Page::default() };
        let pages = (0..PAGES).map(|_| page()).collect();
        Rc::new(Self { memory, start, pages, touches: RefCell::default() })
    }

    /// Does something with a page when it may be accessed; nothing, if the page is lost.
    fn access<R>(&self, page: usize, writes: bool, run: impl FnOnce(Mode) -> R) -> Option<R> {
        let at = &self.pages[page];
        loop {
            if at.is_lost.get() {
                return None;
            }
            match at.mapped.get() {
                Some((mode, may_write)) if may_write || !writes => {
                    at.busy.set(at.busy.get() + 1);
                    let done = run(mode);
                    at.busy.set(at.busy.get() - 1);
                    return Some(done);
                }
                _ => self.touches.borrow_mut().push(Touched { page, writes }),
            }
            self.memory.pause();
        }
    }

    fn address(&self, page: usize, line: u64) -> LnrAddr {
        self.start.plus(page as u64 * PAGE_BYTES + line * LINE)
    }

    fn load(&self, page: usize, line: u64, mode: Mode) -> u64 {
        let mut bytes = [0; 8];
        if mode == Mode::Replicated {
            let at = (line * LINE) as usize;
            bytes.copy_from_slice(&self.pages[page].replica.borrow()[at..at + 8]);
            self.memory.step();
        } else {
            self.memory.read(self.address(page, line), &mut bytes);
        }
        u64::from_le_bytes(bytes)
    }

    fn store(&self, page: usize, line: u64, mode: Mode, value: u64) {
        if mode == Mode::Replicated {
            let at = (line * LINE) as usize;
            self.memory.step();
            self.pages[page].replica.borrow_mut()[at..at + 8].copy_from_slice(&value.to_le_bytes());
        } else {
            self.memory.write(self.address(page, line), &value.to_le_bytes());
        }
    }

    /// Accesses to a page that are under way come to their end.
    fn settle(&self, page: usize) {
        while self.pages[page].busy.get() > 0 && !self.memory.is_gone() {
            self.memory.pause();
        }
    }
}

struct SimView(Rc<Mappings>);

impl View for SimView {
    fn map(&mut self, pages: Range<usize>, mode: Mode, writes: bool) {
        for page in pages {
            let at = &self.0.pages[page];
            let may_write = writes || at.mapped.get().is_some_and(|(_, before)| before);
            at.mapped.set(Some((mode, may_write)));
        }
    }

    fn protect(&mut self, page: usize) {
        let at = &self.0.pages[page];
        at.mapped.set(at.mapped.get().map(|(mode, _)| (mode, false)));
        self.0.settle(page);
    }

    fn unmap(&mut self, pages: Range<usize>, mode: Mode) {
        for page in pages {
            let at = &self.0.pages[page];
            if at.mapped.get().is_some_and(|(mapped, _)| mapped == mode) {
                at.mapped.set(None);
                self.0.settle(page);
            }
        }
    }

    fn lose(&mut self, page: usize) {
        self.0.pages[page].is_lost.set(true);
    }

    fn read_replica(&mut self, page: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.pages[page].replica.borrow());
    }

    fn write_replica(&mut self, page: usize, bytes: &[u8]) {
        self.0.pages[page].replica.borrow_mut().copy_from_slice(bytes);
    }

    fn touched(&mut self, touches: &mut Vec<Touched>) {
        touches.append(&mut self.0.touches.borrow_mut());
    }
}

/// How hosts use a region.
#[derive(Clone, Copy)]
struct How {
    mode: Mode,
    /// Of eight things that a program does, so many are changes of mode, four at most.
    changes: u64,
    /// So many pages are used.
    pages: usize,
    first_is_slow: bool,
}

const QUIET: How = How { mode: Mode::Owned, changes: 0, pages: PAGES, first_is_slow: false };
const CHANGING: How = How { changes: 1, ..QUIET };

/// The record of a run, for all hosts.
#[derive(Default)]
struct Book {
    /// The value that was written last to each page.
    last: [Cell<u64>; PAGES],
    next: Cell<u64>,
    busy: Rc<Cell<usize>>,
    /// A host was fenced that may still be alive.
    fenced: Cell<bool>,
}

impl Book {
    fn write(&self, at: &Mappings, page: usize) {
        let value = self.next.get() + 1;
        self.next.set(value);
        let done = at.access(page, true, |mode| {
            self.last[page].set(value);
            (0..2).for_each(|line| at.store(page, line, mode, value));
        });
        self.may_be_lost(at, done.is_none());
    }

    fn read(&self, at: &Mappings, page: usize) {
        let found = at.access(page, false, |mode| {
            let found = [at.load(page, 0, mode), at.load(page, 1, mode)];
            (found, self.last[page].get())
        });
        if let Some((found, last)) = found {
            assert_eq!(found, [last; 2], "page {page} is not what was written last");
        }
        self.may_be_lost(at, found.is_none());
    }

    fn may_be_lost(&self, at: &Mappings, lost: bool) {
        if lost {
            assert!(
                at.memory.deaths() > 0 || self.fenced.get(),
                "a page is lost, and no host died"
            );
            at.memory.note("a page was lost");
        }
    }
}

/// The state that a host's threads share.
#[derive(Default)]
struct Shared {
    mappings: OnceCell<Rc<Mappings>>,
    changes: RefCell<Vec<(usize, BlockMode)>>,
}

/// Opens the region, which another host may be about to create.
fn begin_use(host: &RegionHost<SimMemory>) -> RegionEntry {
    loop {
        match host.begin_use(NAME) {
            Ok(entry) => return entry,
            Err(RegionError::Missing(_)) => host.memory().pause(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn join(memory: SimMemory) -> RegionHost<SimMemory> {
    let host = Host::join(Pod::open(memory).unwrap()).unwrap();
    let area = host.pod().areas().next().unwrap();
    RegionHost::join(&host, area).unwrap()
}

fn mappings(host: &RegionHost<SimMemory>, entry: &RegionEntry) -> Rc<Mappings> {
    Mappings::new(host.memory().clone(), LnrAddr::new(host.places().offset_of(entry)))
}

/// Serves a host's pages until all programs have ended, and leaves. A slow host takes its time
/// between two turns.
fn keep(memory: SimMemory, book: &Book, shared: &Shared, mode: Mode, is_slow: bool) {
    let host = join(memory);
    let created = host.create(NAME, PAGES as u64 * PAGE_BYTES, mode);
    assert!(matches!(created, Ok(()) | Err(RegionError::Exists(_))), "{created:?}");
    let entry = begin_use(&host);
    let region = entry.extent.region;
    let at = mappings(&host, &entry);
    let mut keeper: Keeper<'_, _, SimView> = host.keeper();
    keeper.open(entry.extent, SimView(Rc::clone(&at)));
    _ = shared.mappings.set(at);
    let mut was_fenced = false;
    while book.busy.get() > 0 || (!was_fenced && keeper.is_open(region)) {
        if was_fenced || keeper.is_fenced() {
            assert!(book.fenced.get() || host.memory().deaths() > 0, "a living host was fenced");
            keeper.give_up();
            host.note_gone();
            was_fenced = true;
        } else {
            for (block, to) in shared.changes.borrow_mut().drain(..) {
                keeper.change(region, block, to);
            }
            if book.busy.get() == 0 {
                keeper.close(region);
            }
            keeper.turn();
        }
        let pauses = if is_slow { 1 + host.memory().random() % 64 } else { 1 };
        (0..pauses).for_each(|_| host.memory().pause());
    }
    drop(keeper);
    if !was_fenced {
        host.end_use(region);
    }
    host.leave();
}

/// Reads and writes pages, and changes modes now and then.
fn use_pages(memory: &SimMemory, book: &Book, shared: &Shared, how: How) {
    let at = loop {
        match shared.mappings.get() {
            Some(at) => break Rc::clone(at),
            None => memory.pause(),
        }
    };
    for _ in 0..ROUNDS {
        let page = memory.random() as usize % how.pages;
        match memory.random() % 8 {
            n if n < how.changes => {
                let mode = [Mode::Owned, Mode::Replicated][memory.random() as usize % 2];
                let block = page / BLOCK_PAGES as usize;
                let is_probed = mode == Mode::Owned && memory.random().is_multiple_of(2);
                let probe = is_probed.then_some(page);
                shared.changes.borrow_mut().push((block, BlockMode { mode, probe }));
            }
            4..=5 => book.write(&at, page),
            _ => book.read(&at, page),
        }
        memory.pause();
    }
}

/// Hosts that use pages, with a thread that serves them and one that is the program.
fn start(simulation: &mut Simulation, book: &Rc<Book>, hosts: usize, how: How) {
    for number in 0..hosts {
        let shared = Rc::<Shared>::default();
        let (own, served) = (Rc::clone(book), Rc::clone(&shared));
        let is_slow = number == 0 && how.first_is_slow;
        simulation.spawn(number, move |memory| keep(memory, &own, &served, how.mode, is_slow));
        let (own, busy) = (Rc::clone(book), Busy::new(&book.busy));
        simulation.spawn(number, move |memory| {
            use_pages(&memory, &own, &shared, how);
            drop(busy);
        });
    }
}

/// A host that comes when all have left, or died, finds what was written last.
fn check_at_rest(simulation: &Simulation, book: &Book) {
    let host = join(simulation.memory(0));
    match host.begin_use(NAME) {
        Err(RegionError::Missing(_)) => assert!(host.memory().deaths() > 0),
        Err(error) => panic!("{error}"),
        Ok(entry) => {
            let at = mappings(&host, &entry);
            let mut keeper: Keeper<'_, _, SimView> = host.keeper();
            keeper.open(entry.extent, SimView(Rc::clone(&at)));
            for page in 0..PAGES {
                while at.pages[page].mapped.get().is_none() && !at.pages[page].is_lost.get() {
                    at.touches.borrow_mut().push(Touched { page, writes: false });
                    keeper.turn();
                }
                book.read(&at, page);
            }
            keeper.close(entry.extent.region);
            while keeper.is_open(entry.extent.region) {
                keeper.turn();
            }
            host.end_use(entry.extent.region);
        }
    }
    host.leave();
}

fn run(trial: &Trial, hosts: usize, kills: Option<Kills>, how: How) {
    let mut simulation = pod(trial, hosts, kills);
    let book = Rc::<Book>::default();
    start(&mut simulation, &book, hosts, how);
    simulation.run().unwrap();
    check_at_rest(&simulation, &book);
}

/// Two hosts use pages where they are.
pub(crate) fn owned(trial: &Trial) {
    run(trial, 2, None, QUIET);
}

/// Two hosts have replicas of pages.
pub(crate) fn replicated(trial: &Trial) {
    run(trial, 2, None, How { mode: Mode::Replicated, ..QUIET });
}

/// Three hosts use pages, and change their modes.
pub(crate) fn anything_goes(trial: &Trial) {
    run(trial, 3, None, CHANGING);
}

/// Two hosts change the mode of one block all the time.
pub(crate) fn changes(trial: &Trial) {
    run(trial, 2, None, How { changes: 4, pages: 1, ..QUIET });
}

/// A host dies at any step: others go on, and pages that it alone had written are lost.
pub(crate) fn a_host_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::One });
    run(trial, 3, kills, CHANGING);
}

/// A second host dies, perhaps while it clears up after the first.
pub(crate) fn two_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![1, 2], one_in: 1, deaths: Deaths::InTurn });
    run(trial, 3, kills, How { mode: Mode::Replicated, ..CHANGING });
}

/// All hosts die: the next one finds what they had given back.
pub(crate) fn all_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::Together });
    run(trial, 2, kills, CHANGING);
}

/// A host is fenced that is alive: no other has its pages until it has given them up.
pub(crate) fn a_host_is_fenced(trial: &Trial) {
    let mut simulation = pod(trial, 3, None);
    let book = Rc::<Book>::default();
    start(&mut simulation, &book, 2, How { pages: 1, first_is_slow: true, ..QUIET });
    let (own, busy) = (Rc::clone(&book), Busy::new(&book.busy));
    simulation.spawn(2, move |memory| {
        let pod = Pod::open(memory.clone()).unwrap();
        let area = pod.areas().next().unwrap();
        let until = memory.random() % 200;
        (0..until).for_each(|_| memory.pause());
        let first = area.membership().hosts().next();
        if let Some(host) = first.filter(|&host| area.membership().is_ready(host)) {
            own.fenced.set(true);
            area.fence(area.stay_of(host));
        }
        drop(busy);
    });
    simulation.run().unwrap();
}

/// Two hosts create and remove regions: no two have one name, or one page.
pub(crate) fn names(trial: &Trial) {
    let mut simulation = pod(trial, 2, None);
    let made: Rc<RefCell<BTreeSet<&str>>> = Rc::default();
    for number in 0..2 {
        let made = Rc::clone(&made);
        simulation.spawn(number, move |memory| {
            let host = join(memory.clone());
            for name in ["a", "b"] {
                match host.create(name, 2 * PAGE_BYTES, Mode::Owned) {
                    Ok(()) => assert!(made.borrow_mut().insert(name), "two regions {name}"),
                    Err(error) => assert!(matches!(error, RegionError::Exists(_)), "{error}"),
                }
                memory.pause();
            }
            let own = ["c", "d"][number];
            host.create(own, PAGE_BYTES, Mode::Replicated).unwrap();
            let mut pages = BTreeSet::new();
            for entry in host.regions() {
                let extent = entry.extent;
                let apart =
                    (extent.first..extent.first + extent.pages).all(|page| pages.insert(page));
                assert!(apart, "regions share a page: {:?}", host.regions());
            }
            host.remove(own).unwrap();
            host.leave();
        });
    }
    simulation.run().unwrap();
}
