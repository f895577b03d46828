//! Memory errors: a line that cannot be read any more, where an object lies, or one is to come.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Memory};
use tombolo_objects::Objects;
use tombolo_sharing::{Error, HEADER_BYTES};
use tombolo_sharing::{RecordWidth, TornWrites};
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::Operation::{self, Create, Delete, Get, Put};

use crate::fenced::fencer;
use crate::operations::{perform, tag, value};
use crate::world::{Host, OnDrop, PARTITION, Setup, World, join, try_join};

// Values are as long as their tags say, modulo 7: these take a line, two lines, three, and eight.
const SHORT: u64 = 7;
const LONGER: u64 = 7 + 2;
const LONG: u64 = 7 + 3;
const LARGE: u64 = 7 + 5;

/// Ticks within which a host looks whether others have met errors.
const TICKS: usize = 8;
/// Ticks after which a host has given up the chunks it does not use.
const IDLE: usize = 256;

fn setup(trial: &Trial) -> Setup {
    let torn_writes = [TornWrites::Lost, TornWrites::Undo][trial.seed as usize % 2];
    let width = [RecordWidth::Bits32, RecordWidth::Bits8][trial.seed as usize / 2 % 2];
    let small = Setup::small(3);
    Setup {
        chunks: 10,
        records: 4,
        ticking: true,
        width: Some(width),
        torn_writes: Some(torn_writes),
        ..small
    }
}

/// Two objects lie side by side, the first with a record; all hosts have read both.
fn begin(trial: &Trial, setup: &Setup) -> World {
    begin_with(LONGER, trial, setup)
}

/// The same, of some size.
fn begin_with(size: u64, trial: &Trial, setup: &Setup) -> World {
    let mut world = World::new(trial, setup);
    let scribe = world.scribe();
    for (key, operation) in [("a", Create(size)), ("b", Create(size)), ("a", Put(size + 7))] {
        perform(&*world.hosts[0], &scribe, key, operation);
    }
    for host in &world.hosts {
        ["a", "b"].iter().for_each(|key| perform(&**host, &scribe, key, Get));
    }
    world
}

fn client(world: &mut World, host: usize, operations: &'static [(&'static str, Operation<u64>)]) {
    world.client(host, move |host, scribe| {
        operations.iter().for_each(|(key, operation)| {
            perform(host, scribe, key, operation.clone());
        });
    });
}

/// The line in which the object with `key` begins.
pub(crate) fn first_line(host: &Objects<SimMemory>, key: &[u8]) -> u64 {
    let geometry = host.area().geometry();
    let first = host.area().areas().chunks.line();
    let mut lines = first..first + geometry.chunks * geometry.chunk_bytes / LINE_BYTES;
    let begins = |line: &u64| {
        let mut bytes = [0; LINE_BYTES as usize];
        host.memory().read(LnrAddr::new(line * LINE_BYTES), &mut bytes);
        bytes[8..14] != [0; 6] && bytes[HEADER_BYTES..].starts_with(key)
    };
    lines.rfind(begins).expect("the object is in a slot")
}

/// Sometime one of the first `lines` lines of the object with `key` cannot be read any more.
fn poisoner(world: &mut World, key: &str, lines: u64) {
    let first = first_line(&world.hosts[0], key.as_bytes());
    let victim = world.hosts[0].memory().clone();
    world.thread(2, move |memory: SimMemory| {
        (0..memory.random() % 40).for_each(|_| memory.step());
        victim.poison(Lines::new(first + memory.random() % lines, 1));
    });
}

/// A lost object is lost for all hosts, and no object comes to a place where an error was met.
fn end(mut world: World) {
    world.finish();
    let hosts = world.living();
    check_rest(&hosts);
    let used = hosts[0].usage();
    hosts.iter().for_each(|host| host.leave().unwrap());
    let at_rest = tombolo_objects::check(hosts[0].area());
    assert!(at_rest.problems.is_empty(), "{:?}", at_rest.problems);
    let reopened = join(hosts[2].memory().clone());
    let found = reopened.usage();
    assert!(found.lnr_poisoned_bytes >= used.lnr_poisoned_bytes, "a chunk stays as it is marked");
    check_rest(&[reopened]);
}

/// Does something on a host while no other one runs. The log is short: if it has no room for all
/// events of that, the others follow, and the host tries again.
fn in_turn<T>(hosts: &[Host], mut operation: impl FnMut() -> Result<T, Error>) -> T {
    for _ in 0..TRIES {
        match operation() {
            Err(Error::Stalled { .. }) => hosts.iter().for_each(|host| _ = host.tick()),
            done => return done.unwrap(),
        }
    }
    operation().unwrap()
}

/// How often the others follow before a host that stalls is at fault.
const TRIES: usize = 8;

/// Objects that come to be now are there, as they were written.
fn check_rest(hosts: &[Host]) {
    let tick_all = || hosts.iter().for_each(|host| in_turn(hosts, || host.tick()));
    // Each host comes across what there is to come across.
    for host in hosts {
        for key in ["a", "b", "c"] {
            if host.read(key.as_bytes(), &mut Vec::new()).is_err_and(|error| error.is_loss()) {
                in_turn(hosts, || host.forget_lost(key.as_bytes()));
            }
            tick_all();
        }
    }
    (0..TICKS).for_each(|_| tick_all());
    let met: u64 = hosts.iter().map(|host| host.stats().poisoned).sum();
    for (host, number) in hosts.iter().zip(1..) {
        assert!(met == 0 || host.usage().lnr_poisoned_bytes > 0, "it is known where it was met");
        for size in [SHORT, LONGER, LONG] {
            in_turn(hosts, || host.put(&[number, size as u8], &value(size)));
            // Nobody does background work any more.
            tick_all();
        }
    }
    for (_, number) in hosts.iter().zip(1..) {
        for size in [SHORT, LONGER, LONG] {
            for host in hosts {
                let mut bytes = Vec::new();
                let found = host.read(&[number, size as u8], &mut bytes);
                match found {
                    Ok(found) => assert_eq!(found.map(|_| tag(&bytes)), Some(size)),
                    // Nobody had met it before.
                    Err(error) => assert!(met == 0 && error.is_loss(), "{error}"),
                }
            }
        }
    }
}

/// An object is read, written and deleted while its memory fails; another lies beside it.
pub(crate) fn an_object_is_poisoned(trial: &Trial) {
    let mut world = begin(trial, &setup(trial));
    poisoner(&mut world, "a", 2);
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("b", Get), ("a", Get), ("a", Delete)]);
    client(
        &mut world,
        1,
        &[("a", Get), ("a", Put(LONGER + 21)), ("a", Get), ("c", Create(LONGER))],
    );
    end(world);
}

/// The same, of an object without a record, which is replaced, too.
pub(crate) fn a_read_shared_object_is_poisoned(trial: &Trial) {
    let mut world = begin(trial, &setup(trial));
    poisoner(&mut world, "b", 2);
    client(&mut world, 0, &[("b", Get), ("b", Put(LONG + 14)), ("b", Get)]);
    client(&mut world, 1, &[("b", Get), ("b", Delete), ("c", Create(LONGER)), ("a", Get)]);
    end(world);
}

/// An object is changed bit by bit, by reading and writing, while its memory fails.
pub(crate) fn an_update_is_poisoned(trial: &Trial) {
    let mut world = begin(trial, &setup(trial));
    poisoner(&mut world, "a", 2);
    for host in [0, 1] {
        world.client(host, move |host, scribe| {
            let new = LONGER + 7 * (10 + host.memory().host() as u64);
            perform(host, scribe, "a", Operation::Update(new));
            perform(host, scribe, "a", Get);
            perform(host, scribe, "a", Operation::Replace(new + 70));
            perform(host, scribe, "a", Get);
        });
    }
    end(world);
}

/// Host 1 cannot read the end of an object, which is on another page than its beginning, and on the
/// one on which the next slot begins.
fn begin_with_poisoned_end(trial: &Trial) -> World {
    let world = begin_with(LONG, trial, &setup(trial));
    let first = first_line(&world.hosts[0], b"b");
    let memory = world.hosts[1].memory();
    memory.poison(Lines::new(first + 2, 1));
    memory.evict(Lines::new(first + 1, 2));
    world
}

/// An object is read piece by piece of which the end cannot be read.
pub(crate) fn a_guarded_read_is_poisoned(trial: &Trial) {
    let mut world = begin_with_poisoned_end(trial);
    client(&mut world, 0, &[("b", Put(LONG + 7)), ("a", Get)]);
    world.client(1, |host, _| {
        let Ok(guard) = host.read_start(b"b") else { return };
        let mut bytes = vec![0; guard.len() as usize];
        guard.read(0, &mut bytes).unwrap();
        match guard.read_end() {
            Ok(()) => assert!([LONG, LONG + 7].contains(&tag(&bytes))),
            Err(Error::Torn) => {}
            Err(error) => assert!(error.is_loss(), "{error}"),
        }
    });
    end(world);
}

/// An object is looked at, and written by another host, when a line of it fails.
pub(crate) fn a_view_is_poisoned(trial: &Trial) {
    let mut world = begin_with(LARGE, trial, &Setup { chunks: 16, ..setup(trial) });
    let line = Lines::new(first_line(&world.hosts[0], b"b") + 4, 1);
    client(&mut world, 0, &[("b", Put(LARGE + 7)), ("a", Get), ("b", Get)]);
    world.client(1, move |host, _| {
        let Some(view) = host.view(b"b").unwrap() else { return };
        let first = tag(&view.bytes());
        host.memory().poison(line);
        host.memory().evict(line);
        let again = view.bytes().into_owned();
        match view.end() {
            Ok(()) => assert_eq!(tag(&again), first),
            Err(error) => assert!(matches!(error, Error::Poisoned), "{error}"),
        }
    });
    end(world);
}

/// A host writes an object while it meets an error beside it, and loses the page of both; the
/// others can read the object's memory.
pub(crate) fn a_neighbour_is_poisoned(trial: &Trial) {
    let mut world = begin(trial, &setup(trial));
    let beside = first_line(&world.hosts[0], b"b");
    let memory = world.hosts[0].memory();
    memory.poison(Lines::new(beside + trial.seed / 4 % 2, 1));
    memory.evict(Lines::new(beside, 2));
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("a", Put(LONGER + 21))]);
    client(&mut world, 0, &[("b", Get), ("b", Get)]);
    client(&mut world, 1, &[("a", Get), ("a", Get), ("a", Get)]);
    end(world);
}

/// A slot that nobody has yet fails, while two hosts put objects into slots.
pub(crate) fn a_free_slot_is_poisoned(trial: &Trial) {
    let mut world = begin(trial, &setup(trial));
    let free = first_line(&world.hosts[0], b"b") + 4;
    let memory = world.hosts[0].memory();
    memory.poison(Lines::new(free + trial.seed / 4 % 4, 1));
    memory.evict(Lines::new(free, 4));
    client(&mut world, 0, &[("c", Create(LONGER)), ("c", Get), ("b", Put(LONG)), ("a", Get)]);
    client(&mut world, 1, &[("c", Get), ("d", Create(LONGER)), ("d", Get), ("c", Get)]);
    client(&mut world, 2, &[("d", Get), ("c", Get), ("a", Put(LONG)), ("d", Get)]);
    end(world);
}

/// An object is in a host's own memory when its slot fails, to which it is to return.
pub(crate) fn a_partition_is_poisoned(trial: &Trial) {
    let setup = Setup { local: Some(PARTITION), backup: None, ..setup(trial) };
    let mut world = World::new(trial, &setup);
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(LONGER));
    let slot = first_line(&world.hosts[0], b"a");
    for n in 2..6 {
        perform(&*world.hosts[0], &scribe, "a", Put(LONGER + n * 7));
    }
    let hosts = world.hosts.clone();
    // Where it is in its slot, too, another may have met the error there first.
    let in_partition =
        hosts[0].usage().partition_bytes > 0 && !hosts[0].area().geometry().partition_backup;
    hosts[0].memory().poison(Lines::new(slot + trial.seed / 4 % 2, 1));
    hosts[0].memory().evict(Lines::new(slot, 2));
    client(&mut world, 0, &[("a", Get), ("a", Put(LONGER + 6 * 7)), ("a", Get)]);
    client(&mut world, 1, &[("a", Get), ("a", Put(LONGER + 8 * 7)), ("a", Get)]);
    end(world);
    let lost = hosts.iter().any(|host| host.stats().poisoned > 0);
    assert!(!(in_partition && lost), "what was elsewhere is there");
}

/// A host writes an object in its own memory, and its slot, too, while it meets an error beside
/// that, and loses the page of both; then it dies. The others can read the slot.
pub(crate) fn a_backup_is_poisoned(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let (local, backup) = (Some(PARTITION), Some(true));
    let mut world = World::new(trial, &Setup { kills, local, backup, ..setup(trial) });
    let scribe = world.scribe();
    for key in ["a", "b"] {
        perform(&*world.hosts[0], &scribe, key, Create(SHORT));
    }
    let beside = first_line(&world.hosts[0], b"b");
    (2..6).for_each(|n| perform(&*world.hosts[0], &scribe, "a", Put(n * 7)));
    let memory = world.hosts[0].memory();
    memory.poison(Lines::new(beside, 1));
    memory.evict(Lines::new(beside, 1));
    client(&mut world, 0, &[("b", Get), ("a", Put(6 * 7)), ("a", Get), ("a", Put(7 * 7))]);
    client(&mut world, 1, &[("a", Get), ("a", Get)]);
    world.finish();
    check_rest(&world.living());
}

/// Memory fails under a writer, which dies; others find the object whole, with its old value, or
/// lost.
pub(crate) fn a_poisoned_writer_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut world = begin(trial, &Setup { kills, ..setup(trial) });
    poisoner(&mut world, "a", 2);
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("a", Put(LONGER + 21)), ("a", Get)]);
    client(&mut world, 1, &[("a", Get), ("a", Get), ("a", Get)]);
    client(&mut world, 2, &[("a", Get), ("a", Put(LONGER + 28)), ("a", Get)]);
    world.finish();
    check_rest(&world.living());
}

/// An object that was deleted where memory failed does not come back when all hosts have left, and
/// one returns that can read there.
pub(crate) fn a_poisoned_pod_is_reopened(trial: &Trial) {
    let mut world = begin(trial, &setup(trial));
    // Its chunk stays in use.
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "d", Create(LONGER));
    let first = first_line(&world.hosts[0], b"a");
    let memory = world.hosts[0].memory();
    memory.poison(Lines::new(first + trial.seed / 4 % 2, 1));
    memory.evict(Lines::new(first, 2));
    client(&mut world, 0, &[("a", Get), ("b", Get), ("b", Delete), ("a", Put(LONGER + 14))]);
    client(&mut world, 1, &[("b", Put(LONGER + 21)), ("a", Get), ("b", Get)]);
    world.finish();
    let hosts = world.living();
    let here = |host: &Host, key: &str| match host.read(key.as_bytes(), &mut Vec::new()) {
        Ok(found) => found.is_some(),
        Err(error) => {
            assert!(error.is_loss(), "{error}");
            host.forget_lost(key.as_bytes()).unwrap();
            false
        }
    };
    let before = ["a", "b"].map(|key| hosts.iter().all(|host| here(host, key)));
    hosts.iter().for_each(|host| host.leave().unwrap());
    let reopened = try_join(hosts[2].memory().clone()).unwrap();
    for (key, was_here) in ["a", "b"].iter().zip(before) {
        assert!(was_here || !here(&reopened, key), "{key} comes back");
    }
    check_rest(&[reopened]);
}

/// Hosts join, objects are moved together, and large ones come and go, while memory fails where
/// there are objects.
pub(crate) fn anything_is_poisoned(trial: &Trial) {
    let setup = Setup { chunks: 14, ..setup(trial) };
    let mut world = begin(trial, &setup);
    poisoner(&mut world, "a", 8);
    poisoner(&mut world, "b", 8);
    let keys = ["a", "b", "c"];
    for host in [0, 1] {
        world.client(host, move |host, scribe| {
            for round in 0..6 {
                let key = keys[(host.memory().random() % 3) as usize];
                let size = [SHORT, LONGER, LONG, LARGE][(host.memory().random() % 4) as usize];
                let new = size + 7 * (10 * (round + 1) + host.memory().host() as u64);
                let operation = match host.memory().random() % 6 {
                    0 | 1 => Get,
                    2 => Put(new),
                    3 => Create(new),
                    4 => Delete,
                    _ => Operation::Update(new),
                };
                perform(host, scribe, key, operation);
            }
        });
    }
    world.client(2, move |host, scribe| {
        for key in keys {
            perform(host, scribe, key, Get);
            host.scan(0, |_| ()).unwrap();
        }
    });
    end(world);
}

/// A host meets an error in a chunk from which another one gives out slots, and learns of it.
pub(crate) fn a_chunk_is_poisoned_for_another(trial: &Trial) {
    let mut world = begin_with_poisoned_end(trial);
    client(&mut world, 1, &[("b", Get), ("b", Delete)]);
    world.run();
    (0..TICKS).for_each(|_| world.hosts.iter().for_each(|host| host.tick().unwrap()));
    client(&mut world, 0, &[("c", Create(LONG)), ("d", Create(LONG))]);
    world.run();
    for host in &world.hosts {
        ["c", "d"].iter().for_each(|key| {
            let found = host.read(key.as_bytes(), &mut Vec::new());
            assert!(found.is_ok(), "what came to be afterwards is not lost: {found:?}");
        });
    }
    end(world);
}

/// Hosts take the chunk and give it up again in which one of them meets an error.
pub(crate) fn a_claimed_chunk_is_poisoned(trial: &Trial) {
    let mut world = begin(trial, &Setup { ticking: false, ..setup(trial).plain() });
    // Nobody holds it any more.
    (0..IDLE).for_each(|_| world.hosts[0].tick().unwrap());
    let first = first_line(&world.hosts[0], b"b");
    let memory = world.hosts[0].memory();
    memory.poison(Lines::new(first, 1));
    memory.evict(Lines::new(first, 2));
    world.client(0, |host, _| {
        let found = host.read(b"b", &mut Vec::new());
        assert!(found.is_err_and(|error| error.is_loss()), "there is nobody else to change it");
    });
    client(&mut world, 1, &[("c", Create(LONGER))]);
    world.run();
    assert!(world.hosts[1].usage().lnr_poisoned_bytes > 0, "it is known where it was met");
}

/// A host that has lost a page puts back what a dead one has overwritten there, which others can
/// read; it may die at that.
pub(crate) fn a_rescuer_is_poisoned(trial: &Trial) {
    let (hosts, deaths) = match trial.seed / 8 % 2 {
        0 => (vec![0], Deaths::One),
        _ => (vec![0, 1], Deaths::InTurn),
    };
    let kills = Some(Kills { hosts, one_in: 1, deaths });
    let undo = Some(TornWrites::Undo);
    let setup = Setup { kills, torn_writes: undo, ticking: false, ..setup(trial) };
    let mut world = begin(trial, &setup);
    let beside = first_line(&world.hosts[0], b"b");
    let memory = world.hosts[1].memory();
    memory.poison(Lines::new(beside + 1, 1));
    memory.evict(Lines::new(beside, 2));
    let (written, through) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (writer, rescuer) = (OnDrop::new(&written), OnDrop::new(&through));
    world.client(0, move |host, scribe| {
        let _writer = writer;
        [14, 21].iter().for_each(|more| perform(host, scribe, "a", Put(LONGER + more)));
    });
    world.client(1, move |host, scribe| {
        let _rescuer = rescuer;
        ["b", "a", "a"].iter().for_each(|key| perform(host, scribe, key, Get));
    });
    world.client(2, move |host, scribe| {
        (0..4).for_each(|_| perform(host, scribe, "a", Get));
        // The log has no room for all objects that the other hosts move, put right and note as
        // lost.
        while !(written.get() && through.get()) {
            host.object_count().unwrap();
            host.memory().pause();
        }
    });
    world.run();
    check_rest(&world.living());
}

/// A host is fenced while it changes an object of which it, or who takes its lock over, cannot read
/// all.
pub(crate) fn a_poisoned_writer_is_fenced(trial: &Trial) {
    let setup = Setup { torn_writes: Some(TornWrites::Undo), ticking: false, ..setup(trial) };
    let mut world = begin_with(LONG, trial, &setup);
    // It begins on another page than it ends.
    let first = first_line(&world.hosts[0], b"b");
    let unlucky = (trial.seed / 4 % 2) as usize;
    world.hosts[unlucky].memory().poison(Lines::new(first + 2, 1));
    world.hosts[unlucky].memory().evict(Lines::new(first + 1, 2));
    client(&mut world, 0, &[("b", Put(LONG + 14)), ("b", Operation::Update(LONG + 21))]);
    fencer(&mut world, &[("b", Get), ("b", Get)]);
    client(&mut world, 2, &[("b", Get), ("b", Get)]);
    world.run();
    world.check_history();
}
