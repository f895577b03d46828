//! Files whose pages hosts share: in a pod with room for few pages, so that they come and go all the
//! time, and few records, so that dirty ones lose theirs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo_memory::Memory;
use tombolo_pagecache::{Backing, FileId, Options, PageCache};
use tombolo_pod::Pod;
use tombolo_simulator::{SimMemory, Simulation, Trial};
use tombolo_verify::history::{Client, Recorder};
use tombolo_verify::linearizability::{Model, Verdict, check};

use crate::disk::{Disk, PAGE, UNIT};
use crate::world::{Setup, options};

type Cache = PageCache<SimMemory, Disk>;

/// Units of a page.
const UNITS: u64 = PAGE / UNIT;

/// Steps that a checker may take before a history counts as undecided.
const CHECKER_BUDGET: u64 = 200_000;

/// A file as a sequence of units, each of which one write made.
#[derive(Clone, Debug, Default)]
struct Units;

/// What is done with a file. Positions and lengths are in units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Operation {
    /// Within one page.
    Read {
        at: u64,
        count: u64,
    },
    /// Within one page.
    Write {
        at: u64,
        count: u64,
        tag: u64,
    },
    Append {
        count: u64,
        tag: u64,
    },
    Truncate(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Units(Vec<u64>),
    At(u64),
    Done,
}

impl Model for Units {
    type State = Vec<u64>;
    type Operation = Operation;
    type Result = Answer;

    fn initial(&self) -> Vec<u64> {
        Vec::new()
    }

    fn step(
        &self,
        state: &Vec<u64>,
        operation: &Operation,
        result: Option<&Answer>,
    ) -> Option<Vec<u64>> {
        let mut after = state.clone();
        let length = state.len();
        let answer = match *operation {
            Operation::Read { at, count } => {
                let range = length.min(at as usize)..length.min((at + count) as usize);
                Answer::Units(state[range].to_vec())
            }
            Operation::Write { at, count, tag } => {
                after.resize(length.max((at + count) as usize), 0);
                after[at as usize..(at + count) as usize].fill(tag);
                Answer::Done
            }
            Operation::Append { count, tag } => {
                after.extend((0..count).map(|_| tag));
                Answer::At(length as u64)
            }
            Operation::Truncate(to) => {
                after.resize(to as usize, 0);
                Answer::Done
            }
        };
        result.is_none_or(|result| *result == answer).then_some(after)
    }

    fn reads_only(&self, operation: &Operation, _: &Answer) -> bool {
        matches!(operation, Operation::Read { .. })
    }
}

type Log = Recorder<FileId, Operation, Answer>;
type Scribe = Client<FileId, Operation, Answer>;

struct World {
    simulation: Simulation,
    caches: Vec<Rc<Cache>>,
    disk: Arc<Disk>,
    log: Log,
    busy: Rc<Cell<usize>>,
    clients: u32,
    trial: Trial,
    tidying: bool,
}

fn setup(hosts: usize, chunks: u64) -> Setup {
    // While files are prepared, no host but the first applies the log, which is short.
    Setup { records: 4, chunks, latches: 2, ..Setup::roomy(hosts).plain() }
}

fn cache_options() -> Options {
    let objects = tombolo_objects::Options { small_lines: 64, ..options() };
    Options {
        objects,
        page_bytes: PAGE,
        watermark_percent: 70,
        write_back_after: Duration::from_micros(20),
    }
}

fn join(memory: SimMemory, disk: &Arc<Disk>) -> Rc<Cache> {
    let pod = Pod::open(memory).unwrap();
    Rc::new(PageCache::join(pod, Arc::clone(disk), cache_options()).unwrap())
}

fn file(number: u64) -> FileId {
    FileId { inode: 1 + number, born: 7 }
}

impl World {
    fn new(trial: &Trial, hosts: usize, chunks: u64) -> Self {
        Self::in_pod(trial, &setup(hosts, chunks))
    }

    fn in_pod(trial: &Trial, setup: &Setup) -> Self {
        let hosts = setup.hosts;
        let mut simulation = setup.simulation(trial);
        let disk: Arc<Disk> = Arc::default();
        let caches: Rc<RefCell<Vec<Rc<Cache>>>> = Rc::default();
        for host in 0..hosts {
            let (caches, disk) = (Rc::clone(&caches), Arc::clone(&disk));
            simulation.spawn(host, move |memory| {
                while caches.borrow().len() < host {
                    memory.pause();
                }
                let cache = join(memory.clone(), &disk);
                caches.borrow_mut().push(Rc::clone(&cache));
                while caches.borrow().len() < hosts {
                    cache.tick().unwrap();
                    memory.pause();
                }
            });
        }
        simulation.run_calmly().unwrap();
        let caches = caches.borrow().clone();
        Self {
            simulation,
            caches,
            disk,
            log: Log::default(),
            busy: Rc::default(),
            clients: 0,
            trial: trial.clone(),
            tidying: true,
        }
    }

    fn client(&mut self, host: usize, body: impl FnOnce(&Cache, &Scribe) + 'static) {
        self.clients += 1;
        let scribe = self.log.client(self.clients);
        let (cache, busy) = (Rc::clone(&self.caches[host]), Rc::clone(&self.busy));
        busy.set(busy.get() + 1);
        self.simulation.spawn(host, move |_| {
            body(&cache, &scribe);
            busy.set(busy.get() - 1);
        });
    }

    fn finish(&mut self, files: u64) {
        for (host, cache) in self.caches.iter().enumerate() {
            let (cache, busy) = (Rc::clone(cache), Rc::clone(&self.busy));
            let (other, still) = (Rc::clone(&cache), Rc::clone(&busy));
            self.simulation.spawn(host, move |memory| {
                while busy.get() > 0 {
                    cache.tick().unwrap();
                    (0..memory.random() % 32).for_each(|_| memory.pause());
                }
                cache.tick().unwrap();
            });
            if self.tidying {
                self.simulation.spawn(host, move |memory| {
                    while still.get() > 0 {
                        other.tidy().unwrap();
                        (0..memory.random() % 32).for_each(|_| memory.pause());
                    }
                });
            }
        }
        self.simulation.run().unwrap();
        self.check_history();
        self.check_files(files);
    }

    fn check_history(&self) {
        let verdict = check(&Units, &self.log.history(), CHECKER_BUDGET);
        let mut observed = self.trial.observed();
        observed.histories.0 += 1;
        match verdict {
            Verdict::Linearizable { .. } => {}
            Verdict::Undecided { .. } => observed.histories.1 += 1,
            violation => {
                drop(observed);
                panic!("{violation}");
            }
        }
    }

    /// Once all is written back, files are what all hosts say they are.
    fn check_files(&self, files: u64) {
        let seen = |cache: &Rc<Cache>| -> Vec<Vec<u8>> {
            (0..files).map(|number| read_whole(cache, file(number))).collect()
        };
        let first = seen(&self.caches[0]);
        for cache in &self.caches[1..] {
            assert_eq!(seen(cache), first, "hosts agree on the files");
        }
        self.caches[0].write_back_all(&mut |_| ()).unwrap();
        for number in 0..files {
            let below = self.disk.contents(file(number));
            assert_eq!(below, first[number as usize], "what was written is in the file");
        }
    }
}

fn read_whole(cache: &Cache, file: FileId) -> Vec<u8> {
    let mut bytes = vec![0; 64 * PAGE as usize];
    let length = cache.read(file, 0, &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

/// The bytes of units that one write makes.
fn units(tag: u64, count: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat((count * UNIT / 8) as usize)
}

fn tags(bytes: &[u8]) -> Vec<u64> {
    assert!((bytes.len() as u64).is_multiple_of(UNIT), "a file of {} bytes", bytes.len());
    bytes
        .chunks(UNIT as usize)
        .map(|unit| {
            let tag = u64::from_le_bytes(*unit.first_chunk().unwrap());
            assert!(unit == units(tag, 1), "torn: {unit:?}");
            tag
        })
        .collect()
}

fn perform(cache: &Cache, scribe: &Scribe, file: FileId, operation: Operation) {
    let began = scribe.invoke(file, operation.clone());
    let answer = match operation {
        Operation::Read { at, count } => {
            let mut bytes = vec![0; (count * UNIT) as usize];
            let length = cache.read(file, at * UNIT, &mut bytes).unwrap();
            Answer::Units(tags(&bytes[..length]))
        }
        Operation::Write { at, count, tag } => {
            cache.write(file, at * UNIT, &units(tag, count)).unwrap();
            Answer::Done
        }
        Operation::Append { count, tag } => {
            Answer::At(cache.append(file, &units(tag, count)).unwrap() / UNIT)
        }
        Operation::Truncate(to) => {
            cache.truncate(file, to * UNIT).unwrap();
            Answer::Done
        }
    };
    cache.memory().answered();
    scribe.returned(began, answer);
}

/// A random operation on a file of a few pages.
fn some_operation(dice: u64, pages: u64, tag: u64) -> Operation {
    let (kind, page, within) = (dice % 16, (dice >> 8) % pages, (dice >> 16) % UNITS);
    let count = 1 + (dice >> 24) % (UNITS - within);
    let at = page * UNITS + within;
    match kind {
        0..6 => Operation::Read { at: page * UNITS, count: UNITS },
        6..12 => Operation::Write { at, count, tag },
        12 | 13 => Operation::Append { count: 1 + (dice >> 32) % UNITS, tag },
        _ => Operation::Truncate(at),
    }
}

fn add_mixed_clients(world: &mut World, files: u64, pages: u64, operations: u64) {
    for number in 0..world.caches.len() {
        world.client(number, move |cache, scribe| {
            for n in 0..operations {
                let dice = cache.memory().random();
                let tag = 1 + 1000 * number as u64 + n;
                let file = file((dice >> 48) % files);
                perform(cache, scribe, file, some_operation(dice, pages, tag));
                if (dice >> 56).is_multiple_of(8) {
                    cache.sync(file, true).unwrap();
                }
            }
        });
    }
}

/// Clients on three hosts read, write, append to, cut and synchronise two files.
pub(crate) fn anything_goes(trial: &Trial) {
    let mut world = World::new(trial, trial.hosts_or(3), 8);
    add_mixed_clients(&mut world, 2, 3, 8);
    world.finish(2);
}

/// The same with one file, and room for a handful of pages.
pub(crate) fn scarce(trial: &Trial) {
    let mut world = World::new(trial, trial.hosts_or(2), 3);
    add_mixed_clients(&mut world, 1, 3, 10);
    world.finish(1);
}

/// What short scenarios do with the file.
enum Step {
    Do(Operation),
    /// Everything that can be is evicted.
    Evict,
    /// One page or head is evicted, whichever comes first.
    EvictOne,
    Sync,
}

fn run(trial: &Trial, chunks: u64, before: &[Operation], clients: Vec<(usize, Vec<Step>)>) {
    let mut world = World::new(trial, 2, chunks);
    world.tidying = false;
    let scribe = world.log.client(0);
    for operation in before {
        perform(&world.caches[0], &scribe, file(0), operation.clone());
    }
    for (host, steps) in clients {
        world.client(host, move |cache, scribe| {
            for step in steps {
                take(cache, scribe, file(0), step);
            }
        });
    }
    world.finish(1);
}

fn take(cache: &Cache, scribe: &Scribe, file: FileId, step: Step) {
    match step {
        Step::Do(operation) => perform(cache, scribe, file, operation),
        Step::Evict => cache.forget(file).unwrap(),
        Step::EvictOne => _ = cache.shrink(1).unwrap(),
        Step::Sync => cache.sync(file, true).unwrap(),
    }
}

const fn read(page: u64) -> Step {
    Step::Do(Operation::Read { at: page * UNITS, count: UNITS })
}

const fn write(at: u64, count: u64, tag: u64) -> Operation {
    Operation::Write { at, count, tag }
}

/// A page is admitted by one host while another writes it and it is evicted.
pub(crate) fn admission(trial: &Trial) {
    run(
        trial,
        8,
        &[write(0, 2, 1)],
        vec![
            (0, vec![Step::Evict, Step::Do(write(0, 1, 2)), Step::Evict, read(0)]),
            (1, vec![read(0), read(0)]),
        ],
    );
}

/// A file is cut and grows again while another host reads and writes it.
pub(crate) fn cutting(trial: &Trial) {
    run(
        trial,
        8,
        &[write(0, UNITS, 1), write(UNITS, 2, 1)],
        vec![
            (0, vec![Step::Do(Operation::Truncate(1)), Step::Do(Operation::Truncate(2 * UNITS))]),
            (1, vec![read(1), Step::Do(write(UNITS + 1, 1, 3)), read(1)]),
        ],
    );
}

/// A page of which a part stays is written while the file is cut.
pub(crate) fn cutting_what_is_written(trial: &Trial) {
    run(
        trial,
        8,
        &[write(0, UNITS, 1)],
        vec![
            (0, vec![Step::Sync, Step::Do(Operation::Truncate(1)), read(0)]),
            (1, vec![Step::Do(write(0, 1, 3)), read(0)]),
        ],
    );
}

/// A page that is not in the cache is cut off while another host admits it, and the file grows again.
pub(crate) fn cutting_what_is_admitted(trial: &Trial) {
    run(
        trial,
        8,
        &[write(0, UNITS, 1)],
        vec![
            (
                0,
                vec![
                    Step::Evict,
                    Step::Do(Operation::Truncate(0)),
                    Step::Do(Operation::Truncate(UNITS)),
                    read(0),
                ],
            ),
            (1, vec![read(0), read(0)]),
        ],
    );
}

/// A dirty page is cut off, and its record goes to another page at once.
pub(crate) fn cutting_what_is_dirty(trial: &Trial) {
    let other = |cache: &Cache, scribe: &Scribe, tag| {
        perform(cache, scribe, file(1), write(0, UNITS, tag));
    };
    let setup = Setup { records: 3, ..setup(2, 8) };
    let mut world = World::in_pod(trial, &setup);
    world.tidying = false;
    let scribe = world.log.client(0);
    perform(&world.caches[0], &scribe, file(0), write(0, UNITS, 1));
    other(&world.caches[1], &scribe, 2);
    world.caches[1].sync(file(1), true).unwrap();
    world.client(0, |cache, scribe| perform(cache, scribe, file(0), Operation::Truncate(0)));
    world.client(1, move |cache, scribe| {
        other(cache, scribe, 3);
        other(cache, scribe, 4);
    });
    world.finish(2);
}

/// A page is evicted by one host while another writes it.
pub(crate) fn eviction(trial: &Trial) {
    run(
        trial,
        8,
        &[write(0, UNITS, 1)],
        vec![
            (0, vec![Step::Evict, read(0)]),
            (1, vec![Step::Do(write(0, 2, 2)), Step::Do(write(1, 2, 3)), read(0)]),
        ],
    );
}

/// Two threads on each of two hosts do what `choose` makes of a random number, with one-page files and
/// few records.
fn churn(trial: &Trial, files: u64, records: u64, operations: u64, choose: fn(u64, u64) -> Step) {
    let mut world = World::in_pod(trial, &Setup { records, ..setup(2, 8) });
    world.tidying = false;
    let scribe = world.log.client(0);
    for number in 0..files {
        perform(&world.caches[0], &scribe, file(number), write(0, UNITS, 1 + number));
        // Others apply the log by that, which is short.
        world.caches.iter().for_each(|cache| _ = read_whole(cache, file(number)));
        world.caches[0].forget(file(number)).unwrap();
        world.caches.iter().for_each(|cache| _ = cache.attributes(file(number)).unwrap());
    }
    for number in 0..4u64 {
        world.client(number as usize % 2, move |cache, scribe| {
            for n in 0..operations {
                let dice = cache.memory().random();
                take(cache, scribe, file((dice >> 16) % files), choose(dice % 16, 10 * n + number));
            }
        });
    }
    world.finish(files);
}

/// A page is admitted, written and evicted all the time.
pub(crate) fn comes_and_goes(trial: &Trial) {
    churn(trial, 1, 4, 5, |dice, tag| match dice {
        0..6 => read(0),
        6..11 => Step::Do(write(0, UNITS, 100 + tag)),
        _ => Step::Evict,
    });
}

/// Pages are cut off all the time, while others admit them.
pub(crate) fn cut_and_admitted(trial: &Trial) {
    churn(trial, 1, 4, 6, |dice, tag| match dice {
        0..5 => read(0),
        5..7 => Step::Do(write(0, UNITS, 100 + tag)),
        7..10 => Step::Do(Operation::Truncate(0)),
        10..12 => Step::Do(Operation::Truncate(UNITS)),
        _ => Step::Evict,
    });
}

/// Dirty pages are cut off all the time, and their records go to others.
pub(crate) fn cut_and_written(trial: &Trial) {
    churn(trial, 2, 2, 5, |dice, tag| match dice {
        0..2 => read(0),
        2..10 => Step::Do(write(0, UNITS, 100 + tag)),
        _ => Step::Do(Operation::Truncate(0)),
    });
}

/// Heads and dirty pages of a file that has grown are evicted one by one.
pub(crate) fn eviction_one_by_one(trial: &Trial) {
    run(
        trial,
        8,
        &[write(0, UNITS, 1)],
        vec![
            (
                0,
                vec![
                    Step::Do(write(UNITS, 2, 2)),
                    read(1),
                    Step::Do(write(2 * UNITS, 1, 3)),
                    read(2),
                ],
            ),
            (1, (0..5).flat_map(|n| [Step::EvictOne, read(n % 3)]).collect()),
        ],
    );
}

/// Two hosts append, and one reads what is there.
pub(crate) fn appending(trial: &Trial) {
    let append = |count, tag| Step::Do(Operation::Append { count, tag });
    run(
        trial,
        8,
        &[write(0, 3, 1)],
        vec![
            (0, vec![append(2, 2), append(3, 3)]),
            (1, vec![append(2, 4), read(0), read(1)]),
            (1, vec![read(0), Step::Do(write(1, 1, 5)), read(1)]),
        ],
    );
}

/// A file grows while another host reads its last page.
pub(crate) fn growing(trial: &Trial) {
    run(
        trial,
        8,
        &[write(0, 1, 1)],
        vec![
            (0, vec![Step::Do(write(1, 1, 2)), Step::Do(write(0, 1, 3)), Step::Evict]),
            (1, vec![read(0), read(0)]),
        ],
    );
}

/// Hosts dirty more pages than there are records.
pub(crate) fn few_records(trial: &Trial) {
    let writes = |from: u64| (from..from + 4).map(|n| Step::Do(write(n % 5 * UNITS, 2, 10 + n)));
    run(
        trial,
        8,
        &[],
        vec![
            (0, writes(0).chain([Step::Sync, read(0)]).collect()),
            (1, writes(2).chain([read(1), Step::Evict, read(2)]).collect()),
        ],
    );
}

/// Files change while nobody is in the pod.
pub(crate) fn changed_behind(trial: &Trial) {
    let mut world = World::new(trial, 2, 8);
    add_mixed_clients(&mut world, 1, 2, 3);
    world.finish(1);
    for cache in &world.caches {
        cache.leave().unwrap();
    }
    let bytes = units(99, UNITS + 1);
    world.disk.resize(file(0), 0).unwrap();
    world.disk.write(file(0), 0, &bytes[..PAGE as usize]).unwrap();
    world.disk.write(file(0), PAGE, &bytes[PAGE as usize..]).unwrap();
    let cache = join(world.caches[trial.seed as usize % 2].memory().clone(), &world.disk);
    assert_eq!(tags(&read_whole(&cache, file(0))), vec![99; UNITS as usize + 1]);
}

/// Hosts write whole pages and synchronise, while power may be cut at any moment: what may be on the disk
/// then is checked whenever it changes, and whenever somebody is told that it is durable.
pub(crate) fn power_cut(trial: &Trial) {
    let mut world = World::new(trial, trial.hosts_or(2), 3);
    add_writers(&mut world, 6);
    world.finish(1);
}

/// The same, short.
pub(crate) fn power_cut_at_once(trial: &Trial) {
    let mut world = World::new(trial, 2, 4);
    world.tidying = false;
    for number in 0..2u64 {
        let disk = Arc::clone(&world.disk);
        world.client(number as usize, move |cache, scribe| {
            write_page(cache, scribe, &disk, 0, 1 + number);
            synchronise(cache, &disk);
        });
    }
    world.finish(1);
}

fn add_writers(world: &mut World, operations: u64) {
    for number in 0..world.caches.len() {
        let disk = Arc::clone(&world.disk);
        world.client(number, move |cache, scribe| {
            for n in 0..operations {
                let dice = cache.memory().random();
                let page = (dice >> 8) % 3;
                match dice % 8 {
                    0 => perform(
                        cache,
                        scribe,
                        file(0),
                        Operation::Read { at: page * UNITS, count: UNITS },
                    ),
                    1..6 => write_page(cache, scribe, &disk, page, 1 + 1000 * number as u64 + n),
                    _ => synchronise(cache, &disk),
                }
            }
        });
    }
}

fn write_page(cache: &Cache, scribe: &Scribe, disk: &Disk, page: u64, tag: u64) {
    disk.expect(file(0), page, tag);
    perform(cache, scribe, file(0), write(page * UNITS, UNITS, tag));
    disk.expected(file(0), page, tag);
}

fn synchronise(cache: &Cache, disk: &Disk) {
    let since = disk.now();
    cache.sync(file(0), true).unwrap();
    cache.memory().answered();
    disk.promised(file(0), since);
}
