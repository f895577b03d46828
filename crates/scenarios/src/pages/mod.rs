//! Files whose pages hosts share: in a pod with room for few pages, so that they come and go all
//! the time, and few records, so that dirty ones lose theirs.

pub(crate) mod crash;
mod others;
mod units;
mod world;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tombolo_memory::Memory;
use tombolo_pagecache::{Backing, Error, FileId};
use tombolo_simulator::Trial;

use self::units::{Operation, UNITS, tags, units};
use self::world::{Cache, Megalon, PageScribe, PageWorld, Way, file, perform, read_whole};
use crate::disk::{Desk, Disk, PAGE};
use crate::world::Setup;

pub(crate) use self::others::*;

/// A random operation on a file of a few pages.
fn some_operation(dice: u64, pages: u64, tag: u64) -> Operation {
    let (kind, page, within) = (dice % 16, (dice >> 8) % pages, (dice >> 16) % UNITS);
    let count = 1 + (dice >> 24) % (UNITS - within);
    let at = page * UNITS + within;
    match kind {
        0..6 => Operation::Read { at: page * UNITS, count: UNITS },
        6..12 => Operation::Write { at, count, tag },
        12 | 13 => Operation::Append { count: 1 + (dice >> 32) % UNITS, tag },
        14 => Operation::Truncate(at),
        _ => Operation::Zero { at, count: 1 + (dice >> 32) % (2 * UNITS) },
    }
}

fn add_mixed_clients<P: Way>(world: &mut PageWorld<P>, files: u64, pages: u64, operations: u64) {
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
    anything_goes_under::<Megalon>(trial);
}

fn anything_goes_under<P: Way>(trial: &Trial) {
    let mut world = PageWorld::<P>::new(trial, trial.hosts_or(3), 8);
    add_mixed_clients(&mut world, 2, 3, 8);
    world.finish(2);
}

/// The same with one file, and room for a handful of pages.
pub(crate) fn scarce(trial: &Trial) {
    scarce_under::<Megalon>(trial, 3);
}

fn scarce_under<P: Way>(trial: &Trial, chunks: u64) {
    let mut world = PageWorld::<P>::new(trial, trial.hosts_or(2), chunks);
    add_mixed_clients(&mut world, 1, 3, 10);
    world.finish(1);
}

/// The operations of short scenarios on the file.
enum Step {
    Do(Operation),
    /// Everything that can be is evicted.
    Evict,
    /// One page or head is evicted, whichever comes first.
    EvictOne,
    Sync,
}

fn run(trial: &Trial, chunks: u64, before: &[Operation], clients: Vec<(usize, Vec<Step>)>) {
    run_under::<Megalon>(trial, chunks, before, clients);
}

fn run_under<P: Way>(
    trial: &Trial,
    chunks: u64,
    before: &[Operation],
    clients: Vec<(usize, Vec<Step>)>,
) {
    let mut world = PageWorld::<P>::new(trial, 2, chunks);
    world.tidying = false;
    let before = before.to_vec();
    world.prepare(move |cache, scribe| {
        for operation in &before {
            perform(cache, scribe, file(0), operation.clone());
        }
    });
    for (host, steps) in clients {
        world.client(host, move |cache, scribe| {
            for step in steps {
                take(cache, scribe, file(0), step);
            }
        });
    }
    world.finish(1);
}

fn take<P: Way>(cache: &Cache<P>, scribe: &PageScribe, file: FileId, step: Step) {
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

/// A page that the file has is written whole by one host, and in part and read by another, while it
/// comes and goes.
pub(crate) fn overwriting(trial: &Trial) {
    let whole = |tag| Step::Do(write(0, UNITS, tag));
    run(
        trial,
        8,
        &[write(0, UNITS, 1)],
        vec![
            (0, vec![Step::Evict, whole(2), Step::Evict, whole(3), Step::Evict, whole(4)]),
            (
                1,
                vec![read(0), Step::Do(write(1, 1, 5)), read(0), Step::Do(write(1, 1, 6)), read(0)],
            ),
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

/// A page that is not in the cache is cut off while another host admits it, and the file grows
/// again.
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
    let other = |cache: &Cache<Megalon>, scribe: &PageScribe, tag| {
        perform(cache, scribe, file(1), write(0, UNITS, tag));
    };
    let setup = Setup { records: 3, ..Megalon::setup(2, 8) };
    let mut world = PageWorld::<Megalon>::in_pod(trial, &setup);
    world.tidying = false;
    world.calmly(move |host, cache, scribe| {
        if host == 0 {
            perform(cache, scribe, file(0), write(0, UNITS, 1));
        } else {
            other(cache, scribe, 2);
            cache.sync(file(1), true).unwrap();
        }
    });
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

/// Two threads on each of two hosts do what `choose` makes of a random number, with one-page files
/// and few records.
fn churn(trial: &Trial, files: u64, records: u64, operations: u64, choose: fn(u64, u64) -> Step) {
    let setup = Setup { records, ..Megalon::setup(2, 8) };
    churn_in(PageWorld::<Megalon>::in_pod(trial, &setup), files, operations, choose);
}

fn churn_in<P: Way>(
    mut world: PageWorld<P>,
    files: u64,
    operations: u64,
    choose: fn(u64, u64) -> Step,
) {
    add_churn(&mut world, files, operations, choose);
    world.finish(files);
}

fn add_churn<P: Way>(
    world: &mut PageWorld<P>,
    files: u64,
    operations: u64,
    choose: fn(u64, u64) -> Step,
) {
    world.tidying = false;
    world.prepare(move |cache, scribe| {
        for number in 0..files {
            perform(cache, scribe, file(number), write(0, UNITS, 1 + number));
            cache.forget(file(number)).unwrap();
            cache.attributes(file(number)).unwrap();
        }
    });
    for number in 0..4u64 {
        world.client(number as usize % 2, move |cache, scribe| {
            for n in 0..operations {
                let dice = cache.memory().random();
                take(cache, scribe, file((dice >> 16) % files), choose(dice % 16, 10 * n + number));
            }
        });
    }
}

/// A page is admitted, written and evicted all the time.
pub(crate) fn comes_and_goes(trial: &Trial) {
    churn(trial, 1, 4, 5, come_and_go);
}

fn come_and_go(dice: u64, tag: u64) -> Step {
    match dice {
        0..6 => read(0),
        6..11 => Step::Do(write(0, UNITS, 100 + tag)),
        _ => Step::Evict,
    }
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

/// Three hosts join at once, one of them with another directory below. Those that are let in have
/// the same one.
pub(crate) fn other_files(trial: &Trial) {
    let mut world = PageWorld::<Megalon>::unopened(trial, &Megalon::setup(3, 8));
    let joined = Rc::new(RefCell::new(Vec::new()));
    let tried = Rc::new(Cell::new(0));
    for host in 0..3 {
        let folder = 1 + u64::from(host == trial.seed as usize % 3);
        let join = world.joiner_with(3, Desk::in_folder(&world.disk, folder));
        let (joined, tried) = (Rc::clone(&joined), Rc::clone(&tried));
        world.simulation.spawn(host, move |memory| {
            let cache = match join(memory.clone()) {
                Err(Error::OtherFiles { .. }) => None,
                cache => Some(cache.unwrap()),
            };
            joined.borrow_mut().extend(cache.as_ref().map(|_| folder));
            tried.set(tried.get() + 1);
            while tried.get() < 3 {
                if let Some(cache) = &cache {
                    cache.tick().unwrap();
                }
                memory.pause();
            }
        });
    }
    world.simulation.run().unwrap();
    let joined = joined.take();
    let same = joined.iter().all(|folder| *folder == joined[0]);
    assert!(same && !joined.is_empty(), "hosts of one pod have the same files below: {joined:?}");
}

/// Files change while nobody is in the pod.
pub(crate) fn changed_behind(trial: &Trial) {
    changed_behind_under::<Megalon>(trial);
}

fn changed_behind_under<P: Way>(trial: &Trial) {
    let mut world = PageWorld::<P>::new(trial, 2, 8);
    add_mixed_clients(&mut world, 1, 2, 3);
    world.finish(1);
    world.leave_and_return(|disk| {
        let (disk, bytes) = (Desk::new(disk), units(99, UNITS + 1));
        disk.resize(file(0), 0).unwrap();
        disk.write(file(0), 0, &bytes[..PAGE as usize]).unwrap();
        disk.write(file(0), PAGE, &bytes[PAGE as usize..]).unwrap();
    });
    for seen in world.calmly(|_, cache, _| read_whole(cache, file(0))) {
        assert_eq!(tags(&seen), vec![99; UNITS as usize + 1]);
    }
}

/// Hosts write whole pages and synchronise, while power may be cut at any moment: what may be on
/// the disk then is checked whenever it changes, and whenever somebody is told that it is durable.
pub(crate) fn power_cut(trial: &Trial) {
    power_cut_under::<Megalon>(trial, 3);
}

fn power_cut_under<P: Way>(trial: &Trial, chunks: u64) {
    let mut world = PageWorld::<P>::new(trial, trial.hosts_or(2), chunks);
    add_writers(&mut world, 6);
    world.finish(1);
}

/// The same, short.
pub(crate) fn power_cut_at_once(trial: &Trial) {
    let mut world = PageWorld::<Megalon>::new(trial, 2, 4);
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

fn add_writers<P: Way>(world: &mut PageWorld<P>, operations: u64) {
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

fn write_page<P: Way>(cache: &Cache<P>, scribe: &PageScribe, disk: &Disk, page: u64, tag: u64) {
    disk.expect(file(0), page, tag);
    perform(cache, scribe, file(0), write(page * UNITS, UNITS, tag));
    disk.expected(file(0), page, tag);
}

fn synchronise<P: Way>(cache: &Cache<P>, disk: &Disk) {
    let since = disk.now();
    cache.sync(file(0), true).unwrap();
    cache.memory().answered();
    disk.promised(file(0), since);
}
