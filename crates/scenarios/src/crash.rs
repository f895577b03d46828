//! A host dies at any step, with whatever it had in its caches; it may come back as a new stay.
//!
//! The others go on without it: no operation of theirs fails. They never see a wrong byte; what a
//! client was told is done, stays done, or is reported as lost if the host had begun to change it,
//! and writes are not to be undone; and in the end nothing that it held is left.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tombolo_log::{LogError, Replica};
use tombolo_memory::Memory;
use tombolo_objects::{Error, Usage};
use tombolo_pod::{Pod, PodError};
use tombolo_sharing::RecordWidth;
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::Operation;

use crate::append::{Append, History};
use crate::log;
use crate::objects::add_mixed_clients;
use crate::operations::{Scribe, perform, read_together, some_operation, try_perform};
use crate::world::{Host, OnDrop, Setup, World, is_out, join, try_join};

const KEYS: [&str; 2] = ["a", "b"];

fn deadly(hosts: usize, victims: &[usize]) -> Setup {
    let kills = Some(Kills { hosts: victims.to_vec(), one_in: 1, deaths: Deaths::One });
    Setup { kills, ..Setup::roomy(hosts) }
}

/// One of three hosts dies while clients do anything, and comes back.
pub(crate) fn a_host_dies(trial: &Trial) {
    let mut world = World::new(trial, &deadly(3, &[0, 1, 2]));
    add_mixed_clients(&mut world, &KEYS, 4, 4);
    for host in 0..3 {
        let scribe = Rc::new(world.scribe());
        world.simulation.restarts(host, move |memory| return_and_work(memory, &scribe));
    }
    finish_and_read(&mut world, &KEYS);
}

pub(crate) fn return_and_work(memory: SimMemory, scribe: &Scribe) {
    memory.note("a host that died came back");
    // No two writes have one tag, not even those of hosts that died at once.
    let first_tag = 1_000_000 * u64::from(memory.deaths()) + 70_000 * memory.host() as u64;
    join_and_work(memory, scribe, (first_tag, 3), any_key, some_operation);
}

fn join_and_work(
    memory: SimMemory,
    scribe: &Scribe,
    (first_tag, operations): (u64, usize),
    key: fn(u64) -> &'static str,
    choose: impl Fn(u64, &Cell<u64>) -> Operation<u64>,
) {
    let host = match try_join(memory.clone()) {
        Ok(host) => host,
        Err(error) => return expect_no_help(&memory, &error),
    };
    let tags = Cell::new(first_tag);
    for _ in 0..operations {
        let dice = memory.random();
        let done = try_perform(&*host, scribe, key(dice), choose(dice >> 8, &tags));
        if !is_done(done) {
            break;
        }
    }
    is_done(host.leave());
}

/// Whether it is done, or not because the others are through, and neither apply the log any more
/// nor answer.
fn is_done(done: Result<(), Error>) -> bool {
    let Err(error) = done else { return true };
    // (Objects stay in use by who waits for them.)
    let alone =
        matches!(error, Error::Stalled { .. } | Error::Unanswered { .. } | Error::Busy { .. });
    assert!(alone, "{error}");
    false
}

/// Nobody hands a replica over if all who could have died or left, or left a pod half open.
pub(crate) fn expect_no_help(memory: &SimMemory, error: &Error) {
    let expected = matches!(
        error,
        Error::NobodyAnswers { .. }
            | Error::Pod(PodError::Busy { .. } | PodError::Expelled { .. } | PodError::Full { .. })
    );
    assert!(expected, "{error}");
    memory.note("a host could not join, and none was there to help it");
}

/// All hosts die at once; some of them come back.
pub(crate) fn all_hosts_die(trial: &Trial) {
    let hosts = 2 + trial.seed as usize / 3 % 2;
    let kills = Some(Kills { hosts: (0..hosts).collect(), one_in: 1, deaths: Deaths::Together });
    let mut world = World::new(trial, &Setup { kills, ..Setup::roomy(hosts) });
    add_mixed_clients(&mut world, &KEYS, 4, 4);
    for host in 0..trial.seed as usize % 3 {
        let scribe = Rc::new(world.scribe());
        world.simulation.restarts(host, move |memory| return_and_work(memory, &scribe));
    }
    finish_and_read(&mut world, &KEYS);
}

/// Ends a history in which hosts have died or were fenced: what all who are still there find
/// belongs to it, or who comes if nobody is, and when they have left, nothing is in use but what
/// objects take.
pub(crate) fn finish_and_read(world: &mut World, keys: &[&str]) {
    world.finish();
    read_and_leave(world, &living_or_joined(world), keys);
}

pub(crate) fn living_or_joined(world: &World) -> Vec<Host> {
    let living = world.living();
    if living.is_empty() { vec![join(world.simulation.memory(0))] } else { living }
}

pub(crate) fn read_and_leave(world: &mut World, living: &[Host], keys: &[&str]) {
    let scribe = world.scribe();
    for host in living {
        keys.iter().for_each(|key| perform(&**host, &scribe, key, Operation::Get));
        host.move_out_all().unwrap();
    }
    world.check_history();
    let Some(last) = living.last() else { return };
    last.object_count().unwrap();
    assert_eq!(last.unowned_records(), 0, "all records in use are objects'");
    let used = last.usage();
    living.iter().for_each(|host| host.leave().unwrap());
    let at_rest = tombolo_objects::check(last.area());
    assert!(at_rest.problems.is_empty(), "{:?}", at_rest.problems);
    let reopened = try_join(last.memory().clone()).unwrap().usage();
    let in_use = |usage: Usage| (usage.objects, usage.lnr_used_bytes);
    assert_eq!(in_use(used), in_use(reopened), "nothing is in use but what objects take");
}

/// One of three hosts is fenced while clients do anything, and goes on for as long as it does not
/// find out.
pub(crate) fn a_host_is_fenced(trial: &Trial) {
    let mut world = World::new(trial, &one_is_fenced(trial));
    add_mixed_clients(&mut world, &KEYS, 4, 4);
    fence_and_finish(&mut world, &KEYS);
}

/// Three hosts, of which one is to be fenced.
pub(crate) fn one_is_fenced(trial: &Trial) -> Setup {
    Setup { width: width_for_fences(trial), ..Setup::roomy(3) }
}

/// A width of records whose locks are taken over from hosts that are fenced, not only from such as
/// are gone.
pub(crate) fn width_for_fences(trial: &Trial) -> Option<RecordWidth> {
    let widths = RecordWidth::ALL.into_iter().filter(|width| *width != RecordWidth::Bits24);
    widths.cycle().nth(trial.seed as usize % 4)
}

/// Runs everything, while a host fences the first one.
pub(crate) fn fence_and_finish(world: &mut World, keys: &[&str]) {
    let (host, fenced) = (Rc::clone(&world.hosts[1]), Rc::clone(&world.fenced));
    world.thread(1, move |memory| {
        (0..memory.random() % 300).for_each(|_| memory.step());
        fenced.borrow_mut().push(0);
        host.fence(0).unwrap();
        memory.note("a host was fenced");
    });
    let victim = Rc::clone(&world.hosts[0]);
    world.run();
    // It finds out, and says that it is at nothing any more.
    assert!(is_out(victim.leave()), "a host that was fenced knows it");
    finish_and_read(world, keys);
}

/// A host joins while one of those who could help it dies.
pub(crate) fn a_helper_dies(trial: &Trial) {
    let setup = Setup { hosts: 3, ..deadly(2, &[0, 1]) };
    let mut world = World::new(trial, &Setup { joined: 2, ..setup });
    add_mixed_clients(&mut world, &KEYS, 2, 3);
    let scribe = Rc::new(world.scribe());
    world.thread(2, move |memory| return_and_work(memory, &scribe));
    world.finish();
}

/// Two hosts join one that dies, and perhaps one of them, too: a host that is left finds a pod in
/// order, with one that has opened it anew, or has a replica of the dead one.
pub(crate) fn the_only_helper_dies(trial: &Trial) {
    let victims = [vec![0], vec![0, 1], vec![1, 0], vec![0]][trial.seed as usize / 4 % 4].clone();
    let kills = Some(Kills { hosts: victims, one_in: 1, deaths: Deaths::InTurn });
    let setup = Setup { kills, joined: 1, ..Setup::roomy(3) };
    let mut world = World::new(trial, &setup);
    add_mixed_clients(&mut world, &KEYS, 2, 6);
    for host in 1..3 {
        let scribe = Rc::new(world.scribe());
        world.thread(host, move |memory| {
            join_and_work(memory, &scribe, (1_000_000 * host as u64, 4), any_key, some_operation);
        });
    }
    finish_and_read(&mut world, &KEYS);
}

/// A host dies while it joins, or at work.
pub(crate) fn a_joiner_dies(trial: &Trial) {
    let setup = Setup { hosts: 3, ticking: false, ..deadly(2, &[2]) };
    let mut world = World::new(trial, &Setup { joined: 2, ..setup });
    let (tags, working) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(2)));
    for host in 0..2 {
        let (tags, at_work) = (Rc::clone(&tags), Rc::clone(&working));
        world.client(host, move |host, scribe| {
            for _ in 0..4 {
                let dice = host.memory().random();
                let (key, operation) = (KEYS[dice as usize % 2], some_operation(dice >> 8, &tags));
                perform(host, scribe, key, operation);
            }
            at_work.set(at_work.get() - 1);
        });
        let ticker = Rc::clone(&world.hosts[host]);
        let working = Rc::clone(&working);
        world.thread(host, move |memory| {
            while working.get() > 0 {
                let ticked = ticker.tick();
                // The others may be through, and apply the log no more.
                let alone = working.get() == 0
                    && matches!(ticked, Err(Error::Stalled { .. } | Error::Fenced { .. }));
                if alone {
                    break;
                }
                ticked.unwrap();
                memory.pause();
            }
        });
    }
    let scribe = world.scribe();
    world.thread(2, move |memory| {
        join_and_work(memory, &scribe, (1_000_000, 3), any_key, some_operation)
    });
    finish_and_read(&mut world, &KEYS);
}

/// The only host of a pod opens it, works, and closes it, and dies at some step of that; another
/// one comes after it. It finds a pod in order, with what was done, or is told that it cannot open
/// it.
pub(crate) fn the_only_host_dies(trial: &Trial) {
    let mut world = World::new(trial, &Setup { joined: 0, ..deadly(2, &[0]) });
    let (first, second) = (world.scribe(), Rc::new(world.scribe()));
    let gone = Rc::new(Cell::new(false));
    let through = Rc::clone(&gone);
    world.thread(0, move |memory| {
        let _through = OnDrop::new(&through);
        let host = try_join(memory).unwrap();
        for (number, key) in KEYS.iter().enumerate() {
            perform(&*host, &first, key, Operation::Put(7 * number as u64));
        }
        perform(&*host, &first, KEYS[0], Operation::Delete);
        host.leave().unwrap();
    });
    world.thread(1, move |memory| {
        while !gone.get() {
            memory.pause();
        }
        return_and_work(memory, &second);
    });
    world.finish();
}

fn any_key(dice: u64) -> &'static str {
    KEYS[dice as usize % 2]
}

fn some_write(tags: &Cell<u64>) -> Operation<u64> {
    tags.set(tags.get() + 1);
    Operation::Put(tags.get())
}

/// Hosts open a pod one after the other, each when the last is dead or through, work, and die: at
/// that, or while they put in order what the last has left. The host that comes in the end finds
/// everything in order, or is told that it cannot open the pod.
pub(crate) fn openers_die(trial: &Trial) {
    open_and_die(trial, 6, any_key, some_write);
}

/// The same, where the first one does little but write one object, and so leaves it torn more
/// often.
pub(crate) fn openers_of_torn_objects_die(trial: &Trial) {
    // Of the longest values there are.
    let write = |tags: &Cell<u64>| {
        tags.set(tags.get() + 7);
        Operation::Put(tags.get() / 7 * 7 + 6)
    };
    open_and_die(trial, 60, |_| KEYS[0], write);
}

fn open_and_die(
    trial: &Trial,
    writes: usize,
    choose: fn(u64) -> &'static str,
    write: fn(&Cell<u64>) -> Operation<u64>,
) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::InTurn });
    let mut world = World::new(trial, &Setup { joined: 0, kills, ..Setup::roomy(4) });
    let through: Rc<[Rc<Cell<bool>>]> = (0..4).map(|_| Rc::default()).collect();
    for number in 0..4 {
        let (scribe, through) = (world.scribe(), Rc::clone(&through));
        world.thread(number, move |memory| {
            let _through = OnDrop::new(&through[number]);
            while number > 0 && !through[number - 1].get() {
                memory.pause();
            }
            // Most who die first do so while they write.
            let first_tag = 1_000_000 * number as u64;
            if number == 0 {
                join_and_work(memory, &scribe, (first_tag, writes), choose, |_, tags| write(tags));
            } else {
                join_and_work(memory, &scribe, (first_tag, 6), any_key, some_operation);
            }
        });
    }
    world.finish();
    match try_join(world.simulation.memory(3)) {
        Ok(host) => read_and_leave(&mut world, &[host], &KEYS),
        Err(error) => expect_no_help(&world.simulation.memory(3), &error),
    }
}

/// A host reads several objects together, and dies, while another one writes them.
pub(crate) fn a_reader_dies(trial: &Trial) {
    let mut world = World::new(trial, &deadly(2, &[0]));
    let scribe = world.scribe();
    for (key, tag) in KEYS.iter().zip([7, 14]) {
        perform(&*world.hosts[1], &scribe, key, Operation::Create(tag));
    }
    let scribes = KEYS.map(|_| world.scribe());
    world.client(0, move |host, _| {
        (0..4).for_each(|_| read_together(host, &scribes, &KEYS));
    });
    world.client(1, |host, scribe| {
        for tag in 3..9 {
            perform(host, scribe, KEYS[tag % 2], Operation::Put(7 * tag as u64));
        }
    });
    finish_and_read(&mut world, &KEYS);
}

/// A host dies as it deletes an object, the next one as it clears up after it, and then the one
/// that has written the object since: what that was told is done, is there for who opens the pod.
pub(crate) fn a_deleter_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::InTurn });
    let mut world = World::new(trial, &Setup { kills, ..Setup::roomy(3) });
    let scribe = world.scribe();
    for (host, tag) in world.hosts.iter().zip([7, 14, 21]) {
        perform(&**host, &scribe, KEYS[0], Operation::Put(tag));
    }
    let (gone, written) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let through = Rc::clone(&gone);
    world.client(0, move |host, scribe| {
        let _through = OnDrop::new(&through);
        perform(host, scribe, KEYS[0], Operation::Delete);
        (0..40).for_each(|_| host.memory().step());
    });
    world.client(1, |host, scribe| {
        (0..6).for_each(|_| perform(host, scribe, KEYS[0], Operation::Get));
    });
    let is_written = Rc::clone(&written);
    world.client(2, move |host, scribe| {
        while !gone.get() {
            host.memory().pause();
        }
        perform(host, scribe, KEYS[0], Operation::Put(28));
        is_written.set(true);
        (0..100).for_each(|_| host.memory().step());
    });
    world.finish();
    let living = living_or_joined(&world);
    if written.get() && world.simulation.deaths(0) > 0 {
        let there = living[0].read(KEYS[0].as_bytes(), &mut Vec::new()).unwrap();
        assert!(there.is_some(), "what is written after a host has died is not deleted by that");
    }
    read_and_leave(&mut world, &living, &KEYS);
}

/// A host dies in the middle of a commit: what was said to be done is done, on all others alike.
pub(crate) fn a_committer_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut simulation = log::pod(trial, kills);
    let hosts: Vec<_> = (0..3).map(|host| log::join(simulation.memory(host))).collect();
    let done = Rc::new(RefCell::new(Vec::new()));
    for (number, host) in hosts.iter().enumerate() {
        let (host, done) = (Rc::clone(host), Rc::clone(&done));
        simulation.spawn(number, move |memory| commit_some(&host, number as u64, &memory, &done));
    }
    simulation.run().unwrap();
    let living = hosts[1..].iter();
    let replicas: Vec<_> = living
        .map(|host| {
            host.sync().unwrap();
            host.state().entries()
        })
        .collect();
    assert_eq!(replicas[0], replicas[1], "replicas agree");
    for tag in done.borrow().iter() {
        assert!(replicas[0].iter().any(|(_, known)| known == tag), "{tag} was acknowledged");
    }
}

fn commit_some(
    host: &Replica<SimMemory, History>,
    number: u64,
    memory: &SimMemory,
    done: &RefCell<Vec<u64>>,
) {
    for n in 0..4 {
        let tag = 100 * number + n;
        match host.commit(&Append { tag, expected: None }, &|| ()) {
            Ok(_) => {
                memory.answered();
                done.borrow_mut().push(tag);
            }
            Err(LogError::Stalled { .. }) if memory.deaths() > 0 => {
                memory.note("a log that a dead host keeps full");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A host dies while it formats a pod: what it leaves is no pod, or a whole one.
pub(crate) fn a_formatter_dies(trial: &Trial) {
    let setup = deadly(2, &[0]);
    let mut simulation = setup.simulation(trial);
    let again = setup.clone();
    simulation.spawn(0, move |memory| {
        again.format(memory.clone());
        memory.answered();
    });
    simulation.run().unwrap();
    match Pod::open(simulation.memory(1)) {
        Ok(_) => {}
        Err(error) => {
            assert!(simulation.deaths(0) > 0, "{error}");
            assert!(matches!(error, PodError::NotAPod), "{error}");
        }
    }
}
