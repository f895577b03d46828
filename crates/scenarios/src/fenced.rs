//! Hosts that are fenced, or die, at the worst moments: short histories for what the others do
//! then.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_sharing::{Error, Scheme};
use tombolo_sharing::{RecordWidth, TornWrites};
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::Operation::{self, Create, Get, Put};
use tombolo_verify::models::Result as Answer;

use crate::crash::{finish_and_read, return_and_work};
use crate::operations::{Scribe, perform, tag, value};
use crate::world::{PARTITION, Setup, World, is_out, try_join};

// Values are as long as their tags say, modulo 7: these take a line, two lines, and three.
const SHORT: u64 = 7;
pub(crate) const LONGER: u64 = 7 + 2;
pub(crate) const LONG: u64 = 7 + 3;

/// Little goes on, and what becomes of a write that is cut off the seed decides.
pub(crate) fn setup(trial: &Trial, kills: &[usize]) -> Setup {
    let torn_writes = [TornWrites::Lost, TornWrites::Undo][trial.seed as usize % 2];
    let width = [RecordWidth::Bits32, RecordWidth::Bits8][trial.seed as usize / 2 % 2];
    let kills = (!kills.is_empty()).then(|| Kills {
        hosts: kills.to_vec(),
        one_in: 1,
        deaths: Deaths::One,
    });
    let small = Setup::small(3);
    Setup { chunks: 6, width: Some(width), torn_writes: Some(torn_writes), kills, ..small }
}

/// There is an object with a record, which all hosts have read.
pub(crate) fn begin(trial: &Trial, setup: &Setup) -> World {
    let mut world = World::new(trial, setup);
    let scribe = world.scribe();
    for operation in [Create(LONGER), Put(LONGER + 7)] {
        perform(&*world.hosts[0], &scribe, "a", operation);
    }
    world.hosts.iter().for_each(|host| perform(&**host, &scribe, "a", Get));
    world
}

pub(crate) fn client(
    world: &mut World,
    host: usize,
    operations: &'static [(&'static str, Operation<u64>)],
) {
    world.client(host, move |host, scribe| {
        operations.iter().for_each(|(key, operation)| {
            perform(host, scribe, key, operation.clone());
        });
    });
}

/// Host 1 fences host 0 at some time, and then does `operations`.
pub(crate) fn fencer(world: &mut World, operations: &'static [(&'static str, Operation<u64>)]) {
    let (fenced, scribe) = (Rc::clone(&world.fenced), world.scribe());
    let host = Rc::clone(&world.hosts[1]);
    world.thread(1, move |memory: SimMemory| {
        (0..memory.random() % 60).for_each(|_| memory.step());
        fenced.borrow_mut().push(0);
        let _ = is_out(host.fence(0).map(|_| ()));
        for (key, operation) in operations {
            perform(&*host, &scribe, key, operation.clone());
        }
    });
}

/// Host 0 finds out that it was fenced, unless it is dead, and says that it is at nothing any more.
pub(crate) fn end(mut world: World) {
    let victim = Rc::clone(&world.hosts[0]);
    world.run();
    if world.simulation.deaths(0) > 0 {
        // It finds out nothing.
    } else if victim.seat().holds(victim.memory()) {
        // The host that was to fence it died before.
        world.fenced.borrow_mut().clear();
    } else {
        assert!(is_out(victim.leave()), "a host that was fenced knows it");
    }
    finish_and_read(&mut world, &["a", "b", "c"]);
}

/// A host is fenced while it writes, and writes on; the others write what it has locked, and use
/// what room there is.
pub(crate) fn a_writer_is_fenced(trial: &Trial) {
    let mut world = begin(trial, &setup(trial, &[]));
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("a", Put(LONGER + 21))]);
    fencer(&mut world, &[("a", Put(LONGER + 28)), ("b", Create(LONGER)), ("c", Create(LONG))]);
    client(&mut world, 2, &[("a", Get), ("a", Put(LONGER + 35)), ("a", Get)]);
    end(world);
}

/// A host is fenced that has locked an object and not yet begun to change it, and does so while
/// another one reads what it is to go on with.
pub(crate) fn a_late_writer_is_fenced(trial: &Trial) {
    let mut world = begin(trial, &Setup { hosts: 2, joined: 2, ..setup(trial, &[]) });
    fenced_while_it_writes(&mut world, "a", LONGER + 14, LONG + 21);
    end(world);
}

/// Host 0 takes hold of an object, and changes it as [`write_once`] does when it has been fenced,
/// while host 1 reads it and then changes it to `later`.
pub(crate) fn fenced_while_it_writes(world: &mut World, key: &'static str, tag: u64, later: u64) {
    let is_fenced = Rc::new(Cell::new(false));
    write_once(world, key, tag, Rc::clone(&is_fenced));
    let (fenced, scribe) = (Rc::clone(&world.fenced), world.scribe());
    let host = Rc::clone(&world.hosts[1]);
    world.thread(1, move |_| {
        fenced.borrow_mut().push(0);
        let _ = is_out(host.fence(0).map(|_| ()));
        is_fenced.set(true);
        perform(&*host, &scribe, key, Get);
        perform(&*host, &scribe, key, Put(later));
    });
}

/// Host 0 takes hold of an object, and replaces its value by one of the same length some time after
/// it `goes_on`.
fn write_once(world: &mut World, key: &'static str, tag: u64, goes_on: Rc<Cell<bool>>) {
    world.client(0, move |host, scribe| {
        let began = scribe.invoke(key.to_owned(), Put(tag));
        let mut guard = match host.write_start(key.as_bytes()) {
            Ok(guard) => guard,
            Err(error) => return assert!(is_out(Err(error))),
        };
        while !goes_on.get() {
            host.memory().pause();
        }
        (0..host.memory().random() % 200).for_each(|_| host.memory().step());
        let written = guard.write(0, &value(tag)).and_then(|()| guard.write_end());
        if !is_out(written.map(drop)) {
            scribe.returned(began, Answer::Done);
        }
    });
}

/// The same, and the host that clears up dies, too.
pub(crate) fn a_rescuer_dies(trial: &Trial) {
    let mut world = begin(trial, &setup(trial, &[1]));
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("a", Put(LONGER + 21))]);
    fencer(&mut world, &[("a", Put(LONGER + 28)), ("a", Get)]);
    client(&mut world, 2, &[("a", Get), ("a", Put(LONGER + 35)), ("a", Get)]);
    end(world);
}

/// A host is fenced while it writes, creates and deletes, and dies before it has found out, or
/// while it says so.
pub(crate) fn a_fenced_host_dies(trial: &Trial) {
    let mut world = begin(trial, &setup(trial, &[0]));
    world.client(0, |host, scribe| {
        for (key, operation) in [
            ("b", Create(LONGER)),
            ("a", Put(LONGER + 14)),
            ("b", Operation::Delete),
            ("a", Put(LONG + 21)),
        ] {
            perform(host, scribe, key, operation);
        }
        while host.seat().holds(host.memory()) {
            host.memory().pause();
        }
        assert!(is_out(host.leave()), "a host that was fenced knows it");
    });
    fencer(&mut world, &[("a", Put(LONGER + 28)), ("c", Create(LONG))]);
    client(&mut world, 2, &[("a", Get), ("b", Get), ("a", Put(LONGER + 35)), ("b", Get)]);
    world.run();
    finish_and_read(&mut world, &["a", "b", "c"]);
}

/// A host dies while it writes.
pub(crate) fn a_writer_dies(trial: &Trial) {
    let mut world = begin(trial, &setup(trial, &[0]));
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("a", Put(LONGER + 21))]);
    client(&mut world, 1, &[("a", Get), ("a", Get)]);
    client(&mut world, 2, &[("a", Get), ("a", Put(LONGER + 35)), ("a", Get)]);
    world.run();
    finish_and_read(&mut world, &["a", "b", "c"]);
}

/// A host dies that writes an object which is too large to be undone, where writes are: its new
/// value goes elsewhere, and none is lost.
pub(crate) fn a_writer_of_much_dies(trial: &Trial) {
    // With it an object of `LONG` takes four lines, which is more than can be noted.
    const KEY: &str = "a key of some seventy bytes, behind which the value has to be looked for.";
    let undo = Some(TornWrites::Undo);
    let setup = Setup { torn_writes: undo, chunks: 10, ticking: true, ..setup(trial, &[0]) };
    let mut world = World::new(trial, &setup);
    let scribe = world.scribe();
    for operation in [Create(LONG), Put(LONG + 7), Put(LONG + 14)] {
        perform(&*world.hosts[0], &scribe, KEY, operation);
    }
    client(&mut world, 0, &[(KEY, Put(LONG + 21)), (KEY, Put(LONG + 28))]);
    client(&mut world, 1, &[(KEY, Get), (KEY, Get)]);
    world.run();
    for host in world.living() {
        assert_eq!(host.stats().lost, 0, "a value is lost that was there");
    }
    finish_and_read(&mut world, &[KEY]);
}

/// A host dies two of whose threads write one object, one after the other, and a third host between
/// them.
pub(crate) fn one_of_two_writers_dies(trial: &Trial) {
    let mut world = begin(trial, &setup(trial, &[0]));
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("a", Put(LONGER + 21))]);
    client(&mut world, 0, &[("a", Put(LONGER + 28)), ("a", Put(LONGER + 35))]);
    client(&mut world, 1, &[("a", Get), ("a", Get), ("a", Get)]);
    client(&mut world, 2, &[("a", Put(LONGER + 42)), ("a", Put(LONGER + 49)), ("a", Get)]);
    world.run();
    finish_and_read(&mut world, &["a", "b", "c"]);
}

/// A host is fenced that has an object locked, which the others go on using elsewhere, and may
/// delete; then all die, and what is left are two slots.
pub(crate) fn all_die_after_a_fence(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::Together });
    let mut world = begin(trial, &Setup { kills, ..setup(trial, &[]) });
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("a", Put(LONGER + 21))]);
    fencer(&mut world, &[("a", Put(LONGER + 28)), ("a", Operation::Delete), ("b", Create(LONGER))]);
    client(&mut world, 2, &[("a", Get), ("a", Put(LONGER + 35)), ("a", Get), ("a", Get)]);
    let victim = Rc::clone(&world.hosts[0]);
    world.run();
    if world.simulation.deaths(0) == 0 {
        assert!(is_out(victim.leave()), "a host that was fenced knows it");
    }
    finish_and_read(&mut world, &["a", "b", "c"]);
}

/// All hosts die while they write.
pub(crate) fn all_die_writing(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::Together });
    let mut world = begin(trial, &Setup { kills, ..setup(trial, &[]) });
    for (host, tag) in [(0, LONGER + 14), (1, LONGER + 21), (2, LONG + 28)] {
        world.client(host, move |host, scribe| {
            for round in 0..4 {
                perform(host, scribe, "a", Put(tag + 100 * 7 * round));
            }
        });
    }
    finish_and_read(&mut world, &["a"]);
}

/// All hosts die while two of them create an object, of which the third makes use, or goes on until
/// the log has forgotten it.
pub(crate) fn all_die_creating(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::Together });
    let setup = Setup { kills, ticking: true, ..setup(trial, &[]) };
    let mut world = World::new(trial, &setup);
    client(&mut world, 0, &[("a", Create(SHORT))]);
    client(&mut world, 1, &[("a", Create(LONGER + 7))]);
    let others = [("b", Create(SHORT + 14)), ("b", Operation::Delete)];
    world.client(2, move |host, scribe| {
        for round in 0..8 {
            perform(host, scribe, "a", Get);
            let (key, operation) = &others[round % 2];
            perform(host, scribe, key, operation.clone());
        }
    });
    finish_and_read(&mut world, &["a", "b"]);
}

/// Replaces a value by one of the same length, in two steps.
pub(crate) fn patient_put(host: &Objects<SimMemory>, scribe: &Scribe, key: &str, tag: u64) {
    let bytes = value(tag);
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let began = scribe.invoke(key.to_owned(), Put(tag));
    let mut guard = host.write_start(key.as_bytes()).unwrap();
    guard.write(0, front).unwrap();
    host.memory().pause();
    guard.write(front.len() as u64, back).unwrap();
    guard.write_end().unwrap();
    scribe.returned(began, Answer::Done);
}

/// A host dies while it changes an object in two steps, of which no other may see the first alone.
/// The bytes that it overwrites are too many to be noted.
pub(crate) fn a_patient_writer_dies(trial: &Trial) {
    const LARGE: u64 = 7 + 5;
    let mut world = World::new(trial, &setup(trial, &[0]));
    let scribe = world.scribe();
    for operation in [Create(LARGE), Put(LARGE + 7)] {
        perform(&*world.hosts[0], &scribe, "a", operation);
    }
    world.client(0, |host, scribe| patient_put(host, scribe, "a", LARGE + 14));
    client(&mut world, 1, &[("a", Get), ("a", Get)]);
    client(&mut world, 2, &[("a", Get), ("a", Put(LARGE + 21)), ("a", Get)]);
    world.run();
    finish_and_read(&mut world, &["a", "b", "c"]);
}

/// Somebody wants an object that a host keeps in use, which is alive: whose doing that is it is
/// told.
pub(crate) fn who_is_in_the_way_is_named(trial: &Trial) {
    let setup = Setup { ticking: true, ..setup(trial, &[]) };
    let mut world = begin(trial, &setup);
    let told = Rc::new(Cell::new(false));
    let waiting = Rc::clone(&told);
    world.client(0, move |host, _| {
        let held = host.write_start(b"a").unwrap();
        while !waiting.get() {
            host.memory().pause();
        }
        drop(held);
    });
    world.client(1, move |host, _| {
        // The other one may come later.
        while host.write_start(b"a").is_ok() {
            host.memory().pause();
        }
        let busy = host.write(b"a", &value(SHORT));
        assert!(matches!(busy, Err(Error::Busy { host: Some(0), .. })), "{busy:?}");
        told.set(true);
    });
    world.run();
    finish_and_read(&mut world, &["a"]);
}

/// A host dies while it writes in a pod in which small objects have their old value then, as heads
/// of files, and larger ones are lost: of one that was small before, nothing comes back that was
/// noted then.
pub(crate) fn who_writes_a_head_dies(trial: &Trial) {
    let lost = Setup { torn_writes: Some(TornWrites::Lost), latches: 2, ..setup(trial, &[0]) };
    let mut world = World::new(trial, &lost);
    let scribe = world.scribe();
    for operation in [Create(LONG), Put(LONG + 7)] {
        perform(&*world.hosts[0], &scribe, "a", operation);
    }
    for operation in [Create(SHORT), Put(SHORT + 7)] {
        perform(&*world.hosts[0], &scribe, "b", operation);
    }
    client(&mut world, 0, &[("a", Put(SHORT + 14)), ("a", Put(LONG + 14)), ("a", Put(LONG + 21))]);
    client(&mut world, 0, &[("b", Put(SHORT + 21)), ("b", Put(SHORT + 28))]);
    for host in [1, 2] {
        client(&mut world, host, &[("a", Get), ("a", Get)]);
        world.client(host, |host, scribe| {
            for _ in 0..2 {
                let lost = host.read(b"b", &mut Vec::new()).is_err_and(|error| error.is_loss());
                assert!(!lost, "a small object has its old value");
                perform(host, scribe, "b", Get);
            }
        });
    }
    world.finish();
    let (living, scribe) = (world.living(), world.scribe());
    for host in &living {
        ["a", "b"].iter().for_each(|key| perform(&**host, &scribe, key, Get));
        assert_eq!(host.unowned_records(), 0, "all records in use are objects'");
    }
    world.check_history();
    living.iter().for_each(|host| host.leave().unwrap());
}

/// A host dies while it writes, and the others find that the value is lost, and leave it at that:
/// it is lost when the pod is opened again.
pub(crate) fn a_loss_is_left_behind(trial: &Trial) {
    let setup = Setup { torn_writes: Some(TornWrites::Lost), ..setup(trial, &[0]) };
    let mut world = begin(trial, &setup);
    client(&mut world, 0, &[("a", Put(LONG + 14)), ("a", Put(LONGER + 21))]);
    world.client(1, |host, _| {
        for _ in 0..4 {
            read_whole_or_lost(host);
        }
    });
    world.finish();
    let living = world.living();
    let Some(last) = living.last() else { return };
    let whole = read_whole_or_lost(&**last);
    living.iter().for_each(|host| host.leave().unwrap());
    let at_rest = tombolo_objects::check(last.area());
    assert!(at_rest.problems.is_empty(), "{:?}", at_rest.problems);
    let reopened = try_join(last.memory().clone()).unwrap();
    assert_eq!(reopened.usage().objects, at_rest.objects);
    assert_eq!(read_whole_or_lost(&*reopened), whole, "what is lost stays so");
}

/// Whether it is whole, or there is none.
fn read_whole_or_lost<S: Scheme>(host: &S) -> bool {
    let mut bytes = Vec::new();
    match host.read(b"a", &mut bytes) {
        Ok(found) => {
            found.map(|_| tag(&bytes));
            true
        }
        Err(Error::Lost { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Two hosts clear up after a third, which comes back while they are at it.
pub(crate) fn two_clear_up(trial: &Trial) {
    let mut world = begin(trial, &Setup { ticking: true, ..setup(trial, &[0]) });
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("b", Create(LONGER)), ("c", Create(LONG))]);
    for host in [1, 2] {
        let (ticker, scribe) = (Rc::clone(&world.hosts[host]), world.scribe());
        world.thread(host, move |memory| {
            for round in 0..12 {
                ticker.tick().unwrap();
                memory.pause();
                if round % 4 == 3 {
                    let key = ["a", "b", "c"][round as usize / 4];
                    perform(
                        &*ticker,
                        &scribe,
                        key,
                        Put(LONGER + 7 * (40 + 10 * round + host as u64)),
                    );
                }
            }
        });
    }
    let scribe = Rc::new(world.scribe());
    world.simulation.restarts(0, move |memory| return_and_work(memory, &scribe));
    world.run();
    finish_and_read(&mut world, &["a", "b", "c"]);
}

/// A host is fenced that has an object in its own memory, and goes on using it.
pub(crate) fn fenced_with_partition(trial: &Trial) {
    let setup = Setup { local: Some(PARTITION), backup: None, ticking: true, ..setup(trial, &[]) };
    let mut world = World::new(trial, &setup);
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(SHORT));
    for n in 2..5 {
        perform(&*world.hosts[0], &scribe, "a", Put(n * 7));
    }
    client(&mut world, 0, &[("a", Get), ("a", Put(6 * 7)), ("a", Get), ("a", Put(7 * 7))]);
    fencer(&mut world, &[("a", Put(8 * 7)), ("a", Get)]);
    client(&mut world, 2, &[("a", Get), ("a", Get)]);
    end(world);
}
