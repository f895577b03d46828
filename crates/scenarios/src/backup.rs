//! Objects are in a host's own memory, and in their slots, too: the host dies, or is fenced, or all
//! die.
//!
//! Where writes are undone, no value is lost then; else none but such as are being written.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_sharing::TornWrites;
use tombolo_simulator::{Deaths, Kills, Trial};
use tombolo_verify::models::Operation::{Create, Delete, Get, Put};

use crate::aims::aimed_at;
use crate::crash::{finish_and_read, return_and_work};
use crate::fenced::{
    LONG, LONGER, client, end, fenced_while_it_writes, fencer, patient_put, setup,
};
use crate::operations::perform;
use crate::world::{Host, OnDrop, PARTITION, Setup, World, is_out};

/// More than a write notes, and than a slot of a long value has room for.
const LARGE: u64 = 5;

const KEYS: [&str; 3] = ["a", "b", "c"];

fn backed(setup: Setup) -> Setup {
    Setup { local: Some(PARTITION), backup: Some(true), ..setup }
}

fn dying(hosts: &[usize], deaths: Deaths) -> Option<Kills> {
    Some(Kills { hosts: hosts.to_vec(), one_in: 1, deaths })
}

/// Two objects are in the memory of host 0.
fn begin(trial: &Trial, setup: &Setup) -> World {
    let mut world = World::new(trial, setup);
    let scribe = world.scribe();
    let host = Rc::clone(&world.hosts[0]);
    for (key, tag) in [("a", LONGER), ("b", LONG)] {
        perform(&*host, &scribe, key, Create(tag));
        (1..4).for_each(|n| perform(&*host, &scribe, key, Put(tag + 7 * n)));
    }
    assert_eq!(host.stats().moved_in, 2, "both are in the partition");
    world
}

/// No host has lost a value, or finds that one is.
fn nothing_is_lost(hosts: &[Host]) {
    for host in hosts {
        assert_eq!(host.stats().lost, 0, "a value is lost that was there");
        for key in KEYS {
            match host.read(key.as_bytes(), &mut Vec::new()) {
                Err(error) => assert!(!error.is_loss(), "{key}: {error}"),
                Ok(_) => host.move_out_all().unwrap(),
            }
        }
    }
}

/// Ends a history in which nothing is lost, unless by writes that are not undone.
fn finish(world: &mut World, setup: &Setup) {
    if setup.torn_writes == Some(TornWrites::Undo) {
        world.finish();
        nothing_is_lost(&world.living());
    }
    finish_and_read(world, &KEYS);
}

/// A host dies that writes objects in its memory, of which some grow out of their slots, or are
/// deleted.
pub(crate) fn a_writer_dies(trial: &Trial) {
    let setup = backed(Setup { ticking: true, ..setup(trial, &[0]) });
    let mut world = begin(trial, &setup);
    client(
        &mut world,
        0,
        &[
            ("a", Put(LONGER + 70)),
            ("b", Get),
            ("b", Put(LONG + 70)),
            ("a", Put(LARGE + 70)),
            ("b", Delete),
        ],
    );
    client(&mut world, 1, &[("a", Get), ("b", Get), ("a", Put(LONGER + 77)), ("a", Get)]);
    world.run();
    finish(&mut world, &setup);
}

/// A host dies that reads objects in its memory. Nothing is lost.
pub(crate) fn a_reader_dies(trial: &Trial) {
    let setup = backed(Setup { ticking: true, ..setup(trial, &[0]) });
    let mut world = begin(trial, &setup);
    client(&mut world, 0, &[("a", Get), ("b", Get), ("a", Get), ("b", Get)]);
    client(&mut world, 1, &[("a", Get), ("a", Put(LONGER + 70)), ("b", Get)]);
    client(&mut world, 2, &[("b", Get), ("b", Get)]);
    world.finish();
    nothing_is_lost(&world.living());
    finish_and_read(&mut world, &KEYS);
}

/// A host dies while it changes an object in its memory in two steps, of which others see both or
/// none.
pub(crate) fn a_patient_writer_dies(trial: &Trial) {
    let setup = backed(Setup { ticking: true, ..setup(trial, &[0]) });
    let mut world = begin(trial, &setup);
    world.client(0, |host, scribe| {
        patient_put(host, scribe, "b", LONG + 70);
        patient_put(host, scribe, "b", LONG + 77);
    });
    client(&mut world, 1, &[("b", Get), ("b", Put(LONG + 84)), ("b", Get)]);
    world.run();
    finish(&mut world, &setup);
}

/// A host dies some time after it has written an object in its memory, and does nothing meanwhile.
pub(crate) fn an_idle_host_dies(trial: &Trial) {
    let setup = backed(setup(trial, &[0]));
    let mut world = begin(trial, &setup);
    world.client(0, |host, scribe| {
        for n in 10..13 {
            patient_put(host, scribe, "b", LONG + 7 * n);
            (0..40).for_each(|_| host.memory().step());
        }
    });
    world.run();
    finish(&mut world, &setup);
}

/// A host is fenced that has taken hold of an object in its memory, and changes it while another
/// one reads what it is to go on with.
pub(crate) fn a_late_writer_is_fenced(trial: &Trial) {
    let setup = backed(Setup { hosts: 2, joined: 2, ..setup(trial, &[]) });
    let mut world = begin(trial, &setup);
    fenced_while_it_writes(&mut world, "b", LONG + 70, LONG + 77);
    end(world);
}

/// A host is fenced that uses objects in its memory, and goes on with it; others use what they
/// find.
pub(crate) fn a_host_is_fenced(trial: &Trial) {
    let setup = backed(setup(trial, &[]));
    let mut world = begin(trial, &setup);
    let others: Vec<Host> = world.hosts[1..].to_vec();
    client(
        &mut world,
        0,
        &[("a", Put(LONGER + 70)), ("b", Put(LONG + 70)), ("a", Get), ("a", Put(LONGER + 77))],
    );
    client(&mut world, 0, &[("b", Get), ("a", Put(LONGER + 84)), ("b", Put(LARGE + 70))]);
    fencer(&mut world, &[("a", Put(LONGER + 91)), ("b", Get), ("c", Create(LONG))]);
    client(&mut world, 2, &[("a", Get), ("b", Get), ("b", Put(LONG + 91)), ("a", Get)]);
    end(world);
    if setup.torn_writes == Some(TornWrites::Undo) {
        assert!(others.iter().all(|host| host.stats().lost == 0), "a value is lost");
    }
}

/// The same, and the host that goes on with its objects dies, too.
pub(crate) fn a_rescuer_dies(trial: &Trial) {
    let setup = backed(Setup { ticking: true, ..setup(trial, &[1]) });
    let mut world = begin(trial, &setup);
    client(&mut world, 0, &[("a", Put(LONGER + 70)), ("b", Put(LONG + 70)), ("a", Get)]);
    fencer(&mut world, &[("a", Get), ("b", Put(LONG + 91)), ("a", Put(LONGER + 91))]);
    client(&mut world, 2, &[("b", Get), ("a", Get), ("b", Delete), ("a", Get)]);
    end(world);
}

/// A host dies that has objects in its memory, and another one that clears up after it.
pub(crate) fn a_clearer_dies(trial: &Trial) {
    let kills = dying(&[0, 1], Deaths::InTurn);
    let setup = backed(Setup { kills, ticking: true, ..setup(trial, &[]) });
    let mut world = begin(trial, &setup);
    client(&mut world, 0, &[("a", Put(LONGER + 70)), ("b", Put(LONG + 70)), ("b", Delete)]);
    client(&mut world, 1, &[("a", Get), ("b", Get), ("a", Put(LONGER + 77)), ("b", Get)]);
    client(&mut world, 2, &[("b", Get), ("a", Get), ("a", Put(LONGER + 84))]);
    let scribe = Rc::new(world.scribe());
    world.simulation.restarts(0, move |memory| return_and_work(memory, &scribe));
    world.run();
    finish(&mut world, &setup);
}

/// All hosts die, of which one has objects in its partition; the host that opens the pod finds
/// them.
pub(crate) fn all_die(trial: &Trial) {
    let kills = dying(&[0, 1, 2], Deaths::Together);
    let setup = backed(Setup { kills, ticking: true, ..setup(trial, &[]) });
    let mut world = begin(trial, &setup);
    client(
        &mut world,
        0,
        &[
            ("a", Put(LONGER + 70)),
            ("b", Put(LONG + 70)),
            ("a", Put(LARGE + 70)),
            ("b", Put(LONG + 77)),
            ("b", Delete),
        ],
    );
    client(&mut world, 0, &[("b", Get), ("a", Put(LONGER + 77)), ("a", Get)]);
    client(&mut world, 1, &[("a", Get), ("a", Put(LONGER + 84)), ("b", Get)]);
    finish(&mut world, &setup);
}

/// One host dies that writes an object in its memory, others go on with that, and then all die.
pub(crate) fn all_die_later(trial: &Trial) {
    let kills = dying(&[0, 1, 2], Deaths::InTurn);
    let setup = backed(Setup { kills, ticking: true, ..setup(trial, &[]) });
    let mut world = begin(trial, &setup);
    client(&mut world, 0, &[("a", Put(LONGER + 70)), ("a", Put(LARGE + 70)), ("b", Delete)]);
    for host in [1, 2] {
        world.client(host, move |host, scribe| {
            for round in 0..4 {
                let tag = 7 * (20 + 2 * round + u64::from(host.seat().host()));
                perform(host, scribe, "a", Put(LONGER + tag));
                perform(host, scribe, "b", Put(LONG + tag));
            }
        });
    }
    world.run();
    finish(&mut world, &setup);
}

/// A host is fenced that has objects in its memory, others go on with them elsewhere, and delete
/// them; then all die.
pub(crate) fn all_die_fenced(trial: &Trial) {
    let kills = dying(&[0, 1, 2], Deaths::Together);
    let setup = backed(Setup { kills, ..setup(trial, &[]) });
    let mut world = begin(trial, &setup);
    client(&mut world, 0, &[("a", Put(LONGER + 70)), ("b", Put(LONG + 70)), ("a", Get)]);
    fencer(&mut world, &[("a", Put(LONGER + 91)), ("b", Delete), ("a", Get), ("b", Get)]);
    client(&mut world, 2, &[("a", Get), ("b", Get), ("a", Put(LONGER + 98)), ("b", Get)]);
    end(world);
}

/// A host is fenced that has objects in its memory, and another one dies as it goes on with them
/// elsewhere. The third one clears up after that, and leaves: nobody is left who knows what is
/// where.
pub(crate) fn all_die_as_they_go_on(trial: &Trial) {
    // Between the word that says that a slot is in quarantine and the event.
    let trial = &aimed_at(trial, "objects.quarantine.noted", 2, 16);
    let kills = dying(&[1], Deaths::One);
    let mut world = begin(trial, &backed(Setup { kills, ..setup(trial, &[]) }));
    // The log has room for what host 1 is going to do, while nobody else applies it.
    world.hosts[2].tick().unwrap();
    let gone = Rc::new(Cell::new(false));
    let (host, scribe) = (Rc::clone(&world.hosts[1]), world.scribe());
    let (fenced, through) = (Rc::clone(&world.fenced), Rc::clone(&gone));
    world.thread(1, move |_| {
        let _through = OnDrop::new(&through);
        fenced.borrow_mut().push(0);
        let _ = is_out(host.fence(0).map(|_| ()));
        ["a", "b"].iter().for_each(|key| perform(&*host, &scribe, key, Get));
    });
    let (host, left) = (Rc::clone(&world.hosts[2]), Rc::clone(&world.fenced));
    world.thread(2, move |memory| {
        while !gone.get() {
            memory.pause();
        }
        let pod = host.pod();
        if memory.deaths() > 0 && pod.is_fenced(pod.stay_of(0)) {
            host.fence(1).unwrap();
            left.borrow_mut().push(2);
            host.leave().unwrap();
        }
    });
    end(world);
}
