//! Hosts that share files die, or are fenced.
//!
//! The others go on. They never see a wrong byte; what a client was told is done stays so, unless
//! the host had begun to change the same page, and writes are not to be undone: then a client that
//! wants the page is told, until somebody synchronises the file and is told that it is lost. What
//! was synchronised is in the file, whichever host dies.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tombolo_memory::{Lines, Memory};
use tombolo_pagecache::{Error, FileId};
use tombolo_sharing::TornWrites;
use tombolo_simulator::{Deaths, Kills, Trial};

use super::units::{Operation, UNITS, tags};
use super::world::{
    Cache, Megalon, PageScribe, PageWorld, Way, file, is_out, read_whole, try_perform,
};
use super::{some_operation, write};
use crate::crash::expect_no_help;
use crate::disk::{Desk, Disk, PAGE};
use crate::poisoned::first_line;
use crate::world::{OnDrop, Setup};

/// Every other seed undoes writes that are cut off.
fn torn_writes(trial: &Trial) -> TornWrites {
    [TornWrites::Lost, TornWrites::Undo][trial.seed as usize % 2]
}

fn deadly(trial: &Trial, hosts: usize, victims: &[usize], deaths: Deaths) -> Setup {
    let kills = Some(Kills { hosts: victims.to_vec(), one_in: 1, deaths });
    Setup { kills, torn_writes: Some(torn_writes(trial)), ..Megalon::setup(hosts, 8) }
}

/// A client that goes on until its host is fenced, or a page is lost that it wants.
fn client(
    world: &mut PageWorld<Megalon>,
    host: usize,
    operations: impl FnOnce(&Cache<Megalon>) -> Vec<(u64, Operation)> + 'static,
) {
    world.client(host, move |cache, scribe| {
        for (number, operation) in operations(cache) {
            if !goes_on(try_perform(cache, scribe, file(number), operation)) {
                return;
            }
        }
    });
}

fn goes_on(outcome: Result<(), Error>) -> bool {
    match outcome {
        Err(Error::Objects(error)) if error.is_loss() => false,
        outcome => !is_out(outcome),
    }
}

/// One of three hosts dies while clients do anything to two files.
pub(crate) fn a_host_dies(trial: &Trial) {
    let mut world = PageWorld::in_pod(trial, &deadly(trial, 3, &[0, 1, 2], Deaths::One));
    add_deadly_clients(&mut world, 2, 3, 6);
    finish(world, 2);
}

/// One of two hosts dies while clients do anything to one file, of which there is room for a
/// handful of pages.
pub(crate) fn one_of_two_dies(trial: &Trial) {
    let setup = Setup { chunks: 3, ..deadly(trial, 2, &[0, 1], Deaths::One) };
    let mut world = PageWorld::in_pod(trial, &setup);
    add_deadly_clients(&mut world, 1, 3, 8);
    finish(world, 1);
}

fn add_deadly_clients(world: &mut PageWorld<Megalon>, files: u64, pages: u64, count: u64) {
    for host in 0..world.caches.len() {
        client(world, host, move |cache| {
            let tags = 1 + 1000 * host as u64..;
            tags.take(count as usize)
                .map(|tag| {
                    let dice = cache.memory().random();
                    ((dice >> 48) % files, some_operation(dice, pages, tag))
                })
                .collect()
        });
    }
}

/// A host dies while clients do anything to one file, and another one while it clears up, or
/// anywhere else.
pub(crate) fn two_die(trial: &Trial) {
    let mut world = PageWorld::in_pod(trial, &deadly(trial, 3, &[0, 1], Deaths::InTurn));
    add_deadly_clients(&mut world, 1, 3, 6);
    finish(world, 1);
}

/// A host dies while it appends to a file, cuts it, and makes it longer, and others read it.
pub(crate) fn who_changes_the_size_dies(trial: &Trial) {
    change_the_size(trial, &deadly(trial, 3, &[0], Deaths::One));
}

/// The same, and one of the others dies when it comes across that.
pub(crate) fn who_mends_the_size_dies(trial: &Trial) {
    change_the_size(trial, &deadly(trial, 3, &[0, 1], Deaths::InTurn));
}

fn change_the_size(trial: &Trial, setup: &Setup) {
    let mut world = PageWorld::in_pod(trial, setup);
    world.tidying = (trial.seed / 2).is_multiple_of(2);
    world.prepare(|cache, scribe| {
        try_perform(cache, scribe, file(0), write(0, UNITS, 1)).unwrap();
        try_perform(cache, scribe, file(0), write(UNITS, 2, 1)).unwrap();
    });
    let choice = trial.seed / 4 % 3;
    client(&mut world, 0, move |_| {
        let operations = match choice {
            0 => {
                vec![Operation::Append { count: 4, tag: 2 }, Operation::Append { count: 5, tag: 3 }]
            }
            1 => vec![Operation::Truncate(2), Operation::Truncate(9), Operation::Truncate(5)],
            _ => vec![write(UNITS + 1, 3, 2), write(2 * UNITS + 1, 2, 3), write(3 * UNITS, 4, 4)],
        };
        operations.into_iter().map(|operation| (0, operation)).collect()
    });
    client(&mut world, 1, |_| {
        let read = |page| (0, Operation::Read { at: page * UNITS, count: UNITS });
        vec![read(2), read(1), read(3), read(0), read(2)]
    });
    client(&mut world, 2, |_| {
        vec![(0, write(1, 1, 10)), (0, Operation::Append { count: 1, tag: 11 })]
    });
    finish(world, 1);
}

/// A host dies while it writes a page again and again; another one writes it back, and reads it.
pub(crate) fn who_writes_dies(trial: &Trial) {
    let mut world = PageWorld::in_pod(trial, &deadly(trial, 2, &[0], Deaths::One));
    world.tidying = (trial.seed / 2).is_multiple_of(2);
    world.prepare(|cache, scribe| {
        try_perform(cache, scribe, file(0), write(0, UNITS, 1)).unwrap();
    });
    client(&mut world, 0, |_| (2..6).map(|tag| (0, write(0, UNITS, tag))).collect());
    world.client(1, |cache, scribe| {
        let read = || Operation::Read { at: 0, count: UNITS };
        for _ in 0..3 {
            if !goes_on(try_perform(cache, scribe, file(0), read())) {
                return;
            }
            cache.write_back_all(&mut |_| ()).unwrap();
        }
    });
    finish(world, 1);
}

/// A host is fenced while clients do anything, and goes on for as long as it does not find out; in
/// half of the runs, who fenced it dies, too.
pub(crate) fn a_host_is_fenced(trial: &Trial) {
    let killed = [vec![], vec![1]][trial.seed as usize / 2 % 2].clone();
    let setup = deadly(trial, 3, &killed, Deaths::One);
    let setup = Setup { kills: setup.kills.filter(|kills| !kills.hosts.is_empty()), ..setup };
    let mut world = PageWorld::in_pod(trial, &setup);
    add_deadly_clients(&mut world, 1, 3, 6);
    world.client(1, |cache, _| {
        (0..cache.memory().random() % 300).for_each(|_| cache.memory().step());
        cache.objects().fence(0).unwrap();
        cache.memory().note("a host was fenced");
    });
    let victim = Rc::clone(&world.caches[0]);
    world.run();
    let is_fenced = !victim.objects().seat().holds(victim.memory());
    world.fenced.set(is_fenced.then_some(0));
    end(world, 1);
}

/// Clients write whole pages and synchronise, until one of them is told that something is lost.
fn add_deadly_writers(world: &mut PageWorld<Megalon>, operations: u64) {
    let caches = world.caches.clone();
    for number in 0..caches.len() {
        let (disk, caches) = (Arc::clone(&world.disk), caches.clone());
        world.client(number, move |cache, scribe| {
            for n in 0..operations {
                let dice = cache.memory().random();
                let (page, tag) = ((dice >> 8) % 3, 1 + 1000 * number as u64 + n);
                if dice.is_multiple_of(4) {
                    synchronise(cache, &caches, &disk);
                    continue;
                }
                disk.expect(file(0), page, tag);
                if !goes_on(try_perform(cache, scribe, file(0), write(page * UNITS, UNITS, tag))) {
                    return;
                }
                disk.expected(file(0), page, tag);
            }
        });
    }
}

fn synchronise(cache: &Cache<Megalon>, caches: &[Rc<Cache<Megalon>>], disk: &Disk) {
    let since = disk.now();
    match cache.sync(file(0), true) {
        Err(Error::Lost { .. }) => cache.memory().note("a page was lost with a host"),
        synchronised => {
            synchronised.unwrap();
            // Each loss is told once: perhaps to another host.
            if caches.iter().all(|cache| cache.objects().stats().lost == 0) {
                disk.promised(file(0), since);
            }
        }
    }
    cache.memory().answered();
}

/// Hosts write whole pages and synchronise, and one of them dies; and power may be cut at any
/// moment.
pub(crate) fn power_cut(trial: &Trial) {
    let setup = Setup { chunks: 3, ..deadly(trial, 2, &[0, 1], Deaths::One) };
    let mut world = PageWorld::in_pod(trial, &setup);
    add_deadly_writers(&mut world, 6);
    world.run();
    let (caches, disk) = (world.caches.clone(), Arc::clone(&world.disk));
    world.calmly(move |_, cache, _| synchronise(cache, &caches, &disk));
}

/// All hosts die. The host that opens the pod then brings what they did to its files, but for what
/// it says is lost.
pub(crate) fn all_die(trial: &Trial) {
    let mut world = PageWorld::in_pod(trial, &deadly(trial, 2, &[0, 1], Deaths::Together));
    if (trial.seed / 2).is_multiple_of(2) {
        add_deadly_writers(&mut world, 4);
    } else {
        add_deadly_clients(&mut world, 2, 3, 5);
    }
    world.run();
    if world.living().is_empty() {
        let cache = world.joiner(2)(world.simulation.memory(0)).unwrap();
        read_what_is_left(&mut world, &cache);
    }
}

/// A host dies while it works, and the next one while it opens the pod, or works, and so on.
pub(crate) fn openers_die(trial: &Trial) {
    let undone = Some(TornWrites::Undo);
    let setup = Setup { torn_writes: undone, ..deadly(trial, 3, &[0, 1], Deaths::InTurn) };
    let mut world = PageWorld::<Megalon>::unopened(trial, &setup);
    let through: Rc<[Rc<Cell<bool>>]> = (0..3).map(|_| Rc::default()).collect();
    for host in 0..2 {
        let (scribe, join, through) = (world.scribe(), world.joiner(2), Rc::clone(&through));
        world.simulation.spawn(host, move |memory| {
            let _through = OnDrop::new(&through[host]);
            while host > 0 && !through[host - 1].get() {
                memory.pause();
            }
            // The host that died may have left the pod half open.
            let Ok(cache) = join(memory.clone()) else { return };
            for tag in (1 + 1000 * host as u64..).take(6) {
                let operation = some_operation(memory.random(), 3, tag);
                if !goes_on(try_perform(&cache, &scribe, file(0), operation)) {
                    return;
                }
            }
            cache.leave().unwrap();
        });
    }
    world.simulation.run().unwrap();
    let memory = world.simulation.memory(2);
    match world.joiner(2)(memory.clone()) {
        Ok(cache) => read_what_is_left(&mut world, &cache),
        Err(Error::Objects(error)) => expect_no_help(&memory, &error),
        Err(error) => panic!("{error}"),
    }
}

/// Files hold what clients saw, unless pages are lost.
fn read_what_is_left(world: &mut PageWorld<Megalon>, cache: &Cache<Megalon>) {
    if cache.counts().lost > 0 {
        return cache.memory().note("a page was lost with all hosts");
    }
    let scribe = world.scribe();
    for number in 0..2 {
        let below = world.disk.contents(file(number));
        for page in 0..5 {
            let read = Operation::Read { at: page * UNITS, count: UNITS };
            try_perform(cache, &scribe, file(number), read).unwrap();
        }
        assert_eq!(read_whole(cache, file(number)), below, "nothing but the files is left");
    }
    world.check_history();
}

/// Three hosts, of which one has the first file at hand, changes it, and may die. The others change
/// the second file.
fn one_host_has_a_file(
    trial: &Trial,
    prepare: impl FnOnce(&mut PageWorld<Megalon>),
) -> PageWorld<Megalon> {
    let mut world = PageWorld::in_pod(trial, &deadly(trial, 3, &[0], Deaths::One));
    world.caches[1..].iter().for_each(|cache| cache.backing().put_away(file(0)));
    prepare(&mut world);
    client(&mut world, 0, |cache| {
        let operation = |tag| (0, some_operation(cache.memory().random(), 3, tag));
        (1..8).map(operation).collect()
    });
    for host in [1, 2] {
        client(&mut world, host, move |_| {
            (0..3).map(|n| (1, write(n, 1, 1000 * host as u64 + n))).collect()
        });
    }
    world.run();
    world
}

/// A host dies that alone has a file at hand. Another one writes its dirty pages back.
pub(crate) fn who_has_the_file_dies(trial: &Trial) {
    let mut world = one_host_has_a_file(trial, |_| ());
    let living: Vec<_> = world.living().into_iter().map(|n| Rc::clone(&world.caches[n])).collect();
    if living.len() == 3 {
        return;
    }
    world.calmly(|_, cache, _| {
        for _ in 0..100 {
            cache.tick().unwrap();
            cache.tidy().unwrap();
            cache.memory().pause();
        }
    });
    let below = world.disk.contents(file(0));
    living.iter().for_each(|cache| cache.backing().get(file(0)));
    if !living[0].objects().has_lost().unwrap() {
        let seen = world.calmly(|_, cache, _| read_whole(cache, file(0)));
        assert_eq!(seen[0], below, "what a dead host wrote is in its file");
    }
    end(world, 2);
}

/// A host dies that alone has a file open that has no name. The others drop its pages: nobody can
/// write them any more.
pub(crate) fn who_has_an_unlinked_file_dies(trial: &Trial) {
    let mut world = one_host_has_a_file(trial, |world| world.disk.unlink(file(0), true));
    if world.living().len() == 3 {
        return;
    }
    world.disk.unlink(file(0), false);
    clear_up(&mut world);
    let left = world.calmly(|_, cache, _| {
        for _ in 0..100 {
            cache.tick().unwrap();
            cache.tidy().unwrap();
            cache.memory().pause();
        }
        has_dirty(cache, file(0))
    });
    assert!(left.iter().all(|&dirty| !dirty), "nothing of a file that is gone stays dirty");
    world.living().into_iter().for_each(|host| world.caches[host].leave().unwrap());
}

/// A file is gone, and dirty pages of it are left. A host dies while it drops them, or another one
/// does.
pub(crate) fn who_drops_a_file_dies(trial: &Trial) {
    let mut world = PageWorld::in_pod(trial, &deadly(trial, 3, &[1], Deaths::One));
    world.prepare(|cache, scribe| {
        (1..4).for_each(|tag| try_perform(cache, scribe, file(0), write(tag, 1, tag)).unwrap());
    });
    world.caches.iter().for_each(|cache| cache.backing().put_away(file(0)));
    world.disk.unlink(file(0), false);
    for host in [1, 2] {
        client(&mut world, host, move |_| {
            (0..3).map(|n| (1, write(n, 1, 1000 * host as u64 + n))).collect()
        });
        world.client(host, |cache, _| while !is_out(cache.tidy()) && has_dirty(cache, file(0)) {});
    }
    world.run();
    clear_up(&mut world);
    let left = world.calmly(|_, cache, _| has_dirty(cache, file(0)));
    assert!(left.iter().all(|&dirty| !dirty), "nothing of a file that is gone stays dirty");
    world.living().into_iter().for_each(|host| world.caches[host].leave().unwrap());
}

fn has_dirty(cache: &Cache<Megalon>, file: FileId) -> bool {
    let mut dirty = false;
    let of_file = |key: &[u8]| key.starts_with(&file.inode.to_le_bytes());
    cache.objects().visit_dirty(|key| dirty |= of_file(key)).unwrap();
    dirty
}

/// A host has a directory below the pod. Another one dies while it joins with the same one, or with
/// one that it is not let in with.
pub(crate) fn who_joins_dies(trial: &Trial) {
    let mut world = PageWorld::<Megalon>::unopened(trial, &deadly(trial, 2, &[1], Deaths::One));
    let (there, through) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let folder = 1 + trial.seed % 2;
    let join = |folder| world.joiner_with(2, Desk::in_folder(&world.disk, folder));
    let (first, second) = (join(1), join(folder));
    let (is_there, is_through) = (Rc::clone(&there), Rc::clone(&through));
    world.simulation.spawn(0, move |memory| {
        let cache = first(memory.clone()).unwrap();
        is_there.set(true);
        while !is_through.get() {
            cache.tick().unwrap();
            memory.pause();
        }
        cache.leave().unwrap();
    });
    world.simulation.spawn(1, move |memory| {
        let _through = OnDrop::new(&through);
        while !there.get() {
            memory.pause();
        }
        match second(memory) {
            Ok(cache) => {
                assert_eq!(folder, 1, "a host with other files below is let in");
                cache.leave().unwrap();
            }
            Err(Error::OtherFiles { .. }) => assert_eq!(folder, 2, "the same files are below"),
            Err(error) => panic!("{error}"),
        }
    });
    world.simulation.run().unwrap();
}

/// The line in which a page of the first file begins, or its head, whose number is the largest.
fn line_of(world: &PageWorld<Megalon>, block: u64) -> u64 {
    let key = [file(0).inode, file(0).born, block].map(u64::to_le_bytes).concat();
    first_line(world.caches[0].objects(), &key)
}

/// A page is lost to a memory error. Hosts evict what they can, and one of them dies: a client that
/// synchronises the file is told all the same.
pub(crate) fn who_evicts_dies(trial: &Trial) {
    let mut world = PageWorld::<Megalon>::in_pod(trial, &deadly(trial, 3, &[1], Deaths::One));
    world.tidying = false;
    world.prepare(|cache, scribe| {
        try_perform(cache, scribe, file(0), write(0, UNITS, 1)).unwrap();
    });
    let lines = Lines::new(line_of(&world, 0) + 1, 1);
    world.caches[0].memory().evict(lines);
    world.caches[0].memory().poison(lines);
    world.calmly(|host, cache, _| {
        let lost = || cache.read(file(0), 0, &mut [0; PAGE as usize]).is_err();
        assert!(host > 0 || lost(), "the page cannot be read any more");
    });
    for host in [1, 2] {
        world.client(host, |cache, _| {
            for _ in 0..3 {
                cache.shrink(2).unwrap();
            }
        });
    }
    world.run();
    clear_up(&mut world);
    let told =
        world.calmly(|_, cache, _| cache.sync(file(0), true).err().map(|error| error.to_string()));
    let told: Vec<_> = told.into_iter().flatten().collect();
    assert!(
        told.len() == 1 && told[0].contains("1 pages"),
        "it is said once that a page is lost: {told:?}"
    );
    world.living().into_iter().for_each(|host| world.caches[host].leave().unwrap());
}

/// The head of a file, or a page that lies beside it, is lost to a memory error, and a host dies,
/// too: the file is as long as its pages say.
pub(crate) fn a_head_is_poisoned(trial: &Trial) {
    let mut world = PageWorld::<Megalon>::in_pod(trial, &deadly(trial, 3, &[1], Deaths::One));
    world.tidying = false;
    world.prepare(|cache, scribe| {
        for page in 0..2 {
            try_perform(cache, scribe, file(0), write(page * UNITS, UNITS, 1 + page)).unwrap();
        }
    });
    let first = line_of(&world, u64::MAX);
    let victim = world.caches[0].memory().clone();
    world.simulation.spawn(2, move |memory| {
        (0..memory.random() % 60).for_each(|_| memory.step());
        victim.poison(Lines::new(first + memory.random() % 2, 1));
    });
    for host in 0..3 {
        client(&mut world, host, move |cache| {
            let tags = 10 * (1 + host as u64)..;
            let operation = |tag| {
                let dice = cache.memory().random();
                let at = (dice >> 8) % 2 * UNITS;
                match dice % 3 {
                    0 => write(at, UNITS, tag),
                    _ => Operation::Read { at, count: UNITS },
                }
            };
            tags.take(4).map(|tag| (0, operation(tag))).collect()
        });
    }
    world.run();
    clear_up(&mut world);
    world.calmly(|_, cache, scribe| {
        (0..5).for_each(|page| {
            let read = Operation::Read { at: page * UNITS, count: UNITS };
            goes_on(try_perform(cache, scribe, file(0), read));
        });
    });
    world.check_history();
    world.living().into_iter().for_each(|host| world.caches[host].leave().unwrap());
}

fn finish(mut world: PageWorld<Megalon>, files: u64) {
    world.run();
    end(world, files);
}

/// The others clear up after who is dead.
fn clear_up(world: &mut PageWorld<Megalon>) {
    world.calmly(|_, cache, _| {
        (0..100).for_each(|_| cache.tick().unwrap());
    });
}

/// Nothing is left of a host that is dead, and files are what clients saw, but for what was lost.
fn end(mut world: PageWorld<Megalon>, files: u64) {
    clear_up(&mut world);
    let living: Vec<_> = world.living().into_iter().map(|n| Rc::clone(&world.caches[n])).collect();
    for cache in &living {
        let dead = cache.objects().area().membership().fenced().count();
        assert_eq!(dead, 0, "whoever is dead is cleared up after");
        assert_eq!(cache.objects().unowned_records(), 0, "all records in use are pages'");
    }
    let lost = living[0].objects().has_lost().unwrap();
    world.calmly(move |_, cache, scribe| read_all(cache, scribe, files, lost));
    world.check_history();
    if !lost {
        world.check_files(files);
    }
    let lost = living[0].objects().has_lost().unwrap();
    assert!(!lost, "who synchronises a file is told what of it is lost");
    living.iter().for_each(|cache| cache.leave().unwrap());
}

fn read_all(cache: &Cache<Megalon>, scribe: &PageScribe, files: u64, lost: bool) {
    for number in 0..files {
        if !lost {
            for page in 0..5 {
                let read = Operation::Read { at: page * UNITS, count: UNITS };
                try_perform(cache, scribe, file(number), read).unwrap();
            }
            continue;
        }
        match cache.sync(file(number), true) {
            Err(Error::Lost { .. }) => cache.memory().note("a page was lost with a host"),
            synchronised => synchronised.unwrap(),
        }
        cache.sync(file(number), true).unwrap();
        tags(&read_whole(cache, file(number)));
    }
}
