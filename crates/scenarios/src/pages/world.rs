//! Hosts that share files, whatever the way, and what their clients see.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo_baselines::{HcMeta, HcMetaOptions};
use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_objects::{Locks, Objects};
use tombolo_pagecache::{
    Backing, ByRecord, Error, FileId, InHeader, KEY_BYTES, Options, OptionsOf, PageCache, Pages,
};
use tombolo_pod::Pod;
use tombolo_sharing::Scheme;
use tombolo_simulator::{SimMemory, Simulation, Trial};
use tombolo_verify::history::{Client, Recorder};

use super::units::{Answer, Operation, Units, tags, units};
use crate::disk::{Desk, Disk, PAGE, UNIT};
use crate::linearizable::linearizable;
use crate::world::{Busy, Setup, options};

pub(super) type Cache<P> = PageCache<P, Desk>;
type PageLog = Recorder<FileId, Operation, Answer>;
pub(super) type PageScribe = Client<FileId, Operation, Answer>;

/// A way to share pages in the simulator.
pub(super) trait Way: Pages<Scheme: Scheme<Memory = SimMemory>> {
    /// A pod with room for few pages.
    fn setup(hosts: usize, chunks: u64) -> Setup {
        Setup { records: 4, chunks, latches: 2, ..Setup::roomy(hosts).plain() }
    }

    /// How each of so many hosts takes part.
    fn options(trial: &Trial, hosts: usize) -> OptionsOf<Self>;
}

pub(super) type Megalon = ByRecord<SimMemory>;

impl Way for Megalon {
    fn options(_: &Trial, _: usize) -> OptionsOf<Self> {
        tombolo_objects::Options { small_lines: 64, ..options() }
    }
}

impl Way for InHeader<Objects<SimMemory>> {
    fn options(trial: &Trial, hosts: usize) -> OptionsOf<Self> {
        tombolo_objects::Options { locks: Locks::Log, ..Megalon::options(trial, hosts) }
    }
}

/// With entries for three objects of each host, in one set.
impl Way for InHeader<HcMeta<SimMemory>> {
    fn setup(hosts: usize, chunks: u64) -> Setup {
        let lines = 3 + 2 * hosts as u64;
        Setup { records: lines * LINE_BYTES / 4, ..Megalon::setup(hosts, chunks) }
    }

    /// Every fourth seed keeps objects without an entry in their owner's memory.
    fn options(trial: &Trial, hosts: usize) -> OptionsOf<Self> {
        HcMetaOptions {
            local: trial.seed % 4 == 3,
            hosts: hosts as u8,
            key_bytes: KEY_BYTES as u64,
            shards: 2,
            idle_looks: 0,
            ..HcMetaOptions::default()
        }
    }
}

pub(super) struct PageWorld<P: Way> {
    pub(super) simulation: Simulation,
    pub(super) caches: Vec<Rc<Cache<P>>>,
    pub(super) disk: Arc<Disk>,
    log: PageLog,
    busy: Rc<Cell<usize>>,
    /// Threads of each host that are to come to an end before it leaves.
    at_work: Vec<Rc<Cell<usize>>>,
    /// The host that was fenced alive.
    pub(super) fenced: Cell<Option<usize>>,
    clients: u32,
    trial: Trial,
    pub(super) tidying: bool,
}

pub(super) fn file(number: u64) -> FileId {
    FileId { inode: 1 + number, born: 7 }
}

impl<P: Way> PageWorld<P> {
    pub(super) fn new(trial: &Trial, hosts: usize, chunks: u64) -> Self {
        Self::in_pod(trial, &P::setup(hosts, chunks))
    }

    pub(super) fn in_pod(trial: &Trial, setup: &Setup) -> Self {
        let mut world = Self::unopened(trial, setup);
        world.join(setup.hosts);
        world
    }

    /// Nobody is in the pod yet.
    pub(super) fn unopened(trial: &Trial, setup: &Setup) -> Self {
        Self {
            simulation: setup.simulation(trial),
            caches: Vec::new(),
            disk: Arc::default(),
            log: PageLog::default(),
            busy: Rc::default(),
            at_work: (0..setup.hosts).map(|_| Rc::default()).collect(),
            fenced: Cell::new(None),
            clients: 0,
            trial: trial.clone(),
            tidying: true,
        }
    }

    /// All hosts join, undisturbed.
    fn join(&mut self, hosts: usize) {
        let joined: Rc<RefCell<BTreeMap<usize, Rc<Cache<P>>>>> = Rc::default();
        for host in 0..hosts {
            let (joined, join) = (Rc::clone(&joined), self.joiner(hosts));
            self.simulation.spawn(host, move |memory| {
                let cache = Rc::new(join(memory.clone()).unwrap());
                joined.borrow_mut().insert(host, Rc::clone(&cache));
                while joined.borrow().len() < hosts {
                    cache.tick().unwrap();
                    memory.pause();
                }
            });
        }
        self.simulation.run_calmly().unwrap();
        self.caches = joined.borrow().values().cloned().collect();
    }

    /// How one of so many hosts joins.
    pub(super) fn joiner(
        &self,
        hosts: usize,
    ) -> impl FnOnce(SimMemory) -> Result<Cache<P>, Error> + use<P> {
        self.joiner_with(hosts, Desk::new(&self.disk))
    }

    /// The same, with these files.
    pub(super) fn joiner_with(
        &self,
        hosts: usize,
        desk: Desk,
    ) -> impl FnOnce(SimMemory) -> Result<Cache<P>, Error> + use<P> {
        let options = Options {
            page_bytes: PAGE,
            watermark_percent: 70,
            // Pages are to be dirty in every number.
            dirty_percent: 1_000_000,
            write_back_after: Duration::from_micros(20),
            ..Options::with(P::options(&self.trial, hosts))
        };
        move |memory| Cache::join(Pod::open(memory).unwrap(), Arc::new(desk), options)
    }

    /// All hosts leave, and then join again.
    pub(super) fn leave_and_return(&mut self, meanwhile: impl FnOnce(&Arc<Disk>)) {
        let hosts = self.caches.len();
        for (host, cache) in self.caches.drain(..).enumerate() {
            self.simulation.spawn(host, move |_| cache.leave().unwrap());
        }
        self.simulation.run_calmly().unwrap();
        meanwhile(&self.disk);
        self.join(hosts);
    }

    /// Has each host do something, undisturbed, while the others answer it; what came of it.
    pub(super) fn calmly<T: 'static>(
        &mut self,
        body: impl Fn(usize, &Cache<P>, &PageScribe) -> T + Clone + 'static,
    ) -> Vec<T> {
        let living = self.living();
        let hosts = living.len();
        let done: Rc<RefCell<BTreeMap<usize, T>>> = Rc::default();
        for host in living {
            let scribe = self.scribe();
            let (cache, done, body) =
                (Rc::clone(&self.caches[host]), Rc::clone(&done), body.clone());
            self.simulation.spawn(host, move |memory| {
                let outcome = body(host, &cache, &scribe);
                done.borrow_mut().insert(host, outcome);
                while done.borrow().len() < hosts {
                    cache.tick().unwrap();
                    memory.pause();
                }
            });
        }
        self.simulation.run_calmly().unwrap();
        done.take().into_values().collect()
    }

    /// Has the first host do something to begin with.
    pub(super) fn prepare(&mut self, body: impl Fn(&Cache<P>, &PageScribe) + Clone + 'static) {
        self.calmly(move |host, cache, scribe| {
            if host == 0 {
                body(cache, scribe);
            }
        });
    }

    pub(super) fn scribe(&mut self) -> PageScribe {
        self.clients += 1;
        self.log.client(self.clients)
    }

    pub(super) fn client(
        &mut self,
        host: usize,
        body: impl FnOnce(&Cache<P>, &PageScribe) + 'static,
    ) {
        let scribe = self.scribe();
        let cache = Rc::clone(&self.caches[host]);
        let busy = [Busy::new(&self.busy), Busy::new(&self.at_work[host])];
        self.simulation.spawn(host, move |_| {
            let _busy = busy;
            body(&cache, &scribe);
        });
    }

    /// Runs everything to its end, and checks what clients saw and what files are then.
    pub(super) fn finish(&mut self, files: u64) {
        self.run();
        self.check_history();
        self.check_files(files);
    }

    /// Runs everything to its end.
    pub(super) fn run(&mut self) {
        // A thread that tidies up may need the others' answers to the end.
        let tidying = Rc::new(Cell::new(0));
        for (host, cache) in self.caches.iter().enumerate() {
            let out = Rc::new(Cell::new(false));
            if self.tidying {
                let (cache, out) = (Rc::clone(cache), Rc::clone(&out));
                let tidying = [Busy::new(&tidying), Busy::new(&self.at_work[host])];
                let busy = Rc::clone(&self.busy);
                self.simulation.spawn(host, move |memory| {
                    let _tidying = tidying;
                    while busy.get() > 0 && !out.get() && !is_out(cache.tidy()) {
                        (0..memory.random() % 32).for_each(|_| memory.pause());
                    }
                });
            }
            let (cache, tidying) = (Rc::clone(cache), Rc::clone(&tidying));
            let (busy, mine) = (Rc::clone(&self.busy), Rc::clone(&self.at_work[host]));
            self.simulation.spawn(host, move |memory| {
                let others = || busy.get() + tidying.get() > 0;
                while others() && !is_out(cache.tick()) {
                    (0..memory.random() % 32).for_each(|_| memory.pause());
                }
                if is_out(cache.tick()) {
                    out.set(true);
                    // Its locks stay until it says that it is at nothing any more.
                    while mine.get() > 0 {
                        memory.pause();
                    }
                    assert!(is_out(cache.leave()), "a host that was fenced knows it");
                }
            });
        }
        self.simulation.run().unwrap();
    }

    /// The hosts that were there all the time.
    pub(super) fn living(&self) -> Vec<usize> {
        let lives =
            |host: &usize| self.simulation.deaths(*host) == 0 && self.fenced.get() != Some(*host);
        (0..self.caches.len()).filter(lives).collect()
    }

    pub(super) fn check_history(&self) {
        linearizable(&self.trial, &Units, &self.log.history());
    }

    /// Once all is written back, files are what all hosts say they are.
    pub(super) fn check_files(&mut self, files: u64) {
        let seen = self.calmly(move |_, cache, _| -> Vec<Vec<u8>> {
            (0..files).map(|number| read_whole(cache, file(number))).collect()
        });
        assert!(seen.iter().all(|files| *files == seen[0]), "hosts agree on the files: {seen:?}");
        self.calmly(|_, cache, _| cache.write_back_all(&mut |_| ()).unwrap());
        for (number, seen) in (0..).zip(&seen[0]) {
            let below = self.disk.contents(file(number));
            assert_eq!(below, *seen, "what was written is in the file");
        }
    }
}

pub(super) fn read_whole<P: Way>(cache: &Cache<P>, file: FileId) -> Vec<u8> {
    let mut bytes = vec![0; 64 * PAGE as usize];
    let length = cache.read(file, 0, &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

pub(super) fn perform<P: Way>(
    cache: &Cache<P>,
    scribe: &PageScribe,
    file: FileId,
    operation: Operation,
) {
    try_perform(cache, scribe, file, operation).unwrap();
}

/// The same; of what comes to an error, it is not known whether it is done.
pub(super) fn try_perform<P: Way>(
    cache: &Cache<P>,
    scribe: &PageScribe,
    file: FileId,
    operation: Operation,
) -> Result<(), Error> {
    let began = scribe.invoke(file, operation.clone());
    let answer = match operation {
        Operation::Read { at, count } => {
            let mut bytes = vec![0; (count * UNIT) as usize];
            let length = cache.read(file, at * UNIT, &mut bytes)?;
            Answer::Units(tags(&bytes[..length]))
        }
        Operation::Write { at, count, tag } => {
            cache.write(file, at * UNIT, &units(tag, count))?;
            Answer::Done
        }
        Operation::Append { count, tag } => {
            Answer::At(cache.append(file, &units(tag, count))? / UNIT)
        }
        Operation::Truncate(to) => {
            cache.truncate(file, to * UNIT)?;
            Answer::Done
        }
        Operation::Zero { at, count } => {
            let (at, bytes) = (at * UNIT, count * UNIT);
            let below = cache.backing();
            let zero = || {
                let size = below.attributes(file)?.size;
                let zeros = vec![0; size.saturating_sub(at).min(bytes) as usize];
                if zeros.is_empty() { Ok(()) } else { below.write(file, at, &zeros) }
            };
            cache.zero(file, (at, bytes), true, zero)?;
            Answer::Done
        }
    };
    cache.memory().answered();
    scribe.returned(began, answer);
    Ok(())
}

/// Whether a host was fenced, as far as that was said; everything else is as it should be.
pub(super) fn is_out(outcome: Result<(), Error>) -> bool {
    match outcome {
        Err(Error::Objects(error)) if error.is_fenced() => true,
        outcome => {
            outcome.unwrap();
            false
        }
    }
}
