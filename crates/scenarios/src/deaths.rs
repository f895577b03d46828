//! More than one death: hosts die while others clear up after them, with locks in their hands, and
//! again as soon as they are back. One host is left each time, and finds everything in order.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_simulator::{Deaths, Kills, Trial};
use tombolo_verify::models::Operation::{Create, Delete, Get, Put};

use crate::aims::aimed_at;
use crate::crash::{finish_and_read, return_and_work};
use crate::fenced::{LONG, LONGER, begin, client, setup};
use crate::objects::add_mixed_clients;
use crate::operations::perform;
use crate::world::{OnDrop, Setup, World};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Half a chunk.
const HALF: u64 = 5;

/// More than a chunk.
const LARGE: u64 = 6;

fn in_turn(hosts: &[usize]) -> Option<Kills> {
    Some(Kills { hosts: hosts.to_vec(), one_in: 1, deaths: Deaths::InTurn })
}

/// Each host that dies comes back.
fn all_come_back(world: &mut World, hosts: usize) {
    for host in 0..hosts {
        let scribe = Rc::new(world.scribe());
        world.simulation.restarts(host, move |memory| return_and_work(memory, &scribe));
    }
}

/// Two of three or four hosts die, or three of four, one after the other or at once, while clients
/// do anything.
pub(crate) fn several_die(trial: &Trial) {
    let (dice, hosts) = (trial.seed as usize / 8, 3 + trial.seed as usize / 4 % 2);
    let victims: Vec<usize> =
        (0..hosts - 1).map(|n| (dice + n) % hosts).take(2 + dice % 2).collect();
    let deaths = [Deaths::InTurn, Deaths::Together][trial.seed as usize / 3 % 2];
    let kills = Some(Kills { hosts: victims, one_in: 1, deaths });
    let mut world = World::new(trial, &Setup { kills, ..Setup::roomy(hosts) });
    add_mixed_clients(&mut world, &KEYS, hosts + 1, 4);
    all_come_back(&mut world, hosts);
    finish_and_read(&mut world, &KEYS);
}

/// A host dies, and again when it is back, and once more; another one may do so in between.
pub(crate) fn a_host_dies_again(trial: &Trial) {
    let order = [[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]][trial.seed as usize / 4 % 4];
    let kills = in_turn(&order);
    let mut world = World::new(trial, &Setup { kills, ..Setup::roomy(3) });
    add_mixed_clients(&mut world, &KEYS, 4, 4);
    all_come_back(&mut world, 2);
    finish_and_read(&mut world, &KEYS);
}

/// Two hosts die while both write the same two objects, and the third wants them.
pub(crate) fn two_writers_die(trial: &Trial) {
    let deaths = [Deaths::InTurn, Deaths::Together][trial.seed as usize / 4 % 2];
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths });
    let mut world = begin(trial, &Setup { kills, ticking: true, ..setup(trial, &[]) });
    client(&mut world, 0, &[("a", Put(LONGER + 14)), ("b", Put(LONG + 7)), ("b", Put(LONG + 14))]);
    client(
        &mut world,
        1,
        &[("b", Put(LONGER + 21)), ("b", Put(LONG + 21)), ("a", Put(LONGER + 28))],
    );
    client(&mut world, 2, &[("a", Get), ("b", Get), ("b", Put(LONG + 28)), ("a", Put(LONG + 35))]);
    world.run();
    finish_and_read(&mut world, &KEYS);
}

/// A host dies in the middle of anything that leaves something to clear up, and another one dies
/// while it does that.
pub(crate) fn a_clearer_dies(trial: &Trial) {
    let kills = in_turn(&[0, 1]);
    let mut world = begin(trial, &Setup { kills, ticking: true, chunks: 8, ..setup(trial, &[]) });
    client(
        &mut world,
        0,
        &[
            ("b", Create(LARGE)),
            ("a", Put(LONGER + 14)),
            ("b", Put(LARGE + 7)),
            ("b", Delete),
            ("c", Create(LONG)),
            ("a", Put(LARGE + 14)),
        ],
    );
    client(
        &mut world,
        1,
        &[("a", Get), ("b", Put(LARGE + 21)), ("a", Put(LONGER + 28)), ("b", Delete)],
    );
    client(
        &mut world,
        2,
        &[("a", Get), ("a", Put(LONGER + 35)), ("b", Put(LARGE + 28)), ("c", Delete)],
    );
    world.run();
    finish_and_read(&mut world, &KEYS);
}

/// A host writes an object of another one anew, elsewhere, and dies before it can say that the old
/// slot is what is empty. The other one gives its chunk back, in which nothing is any more as the
/// log says, and leaves: the host that comes then finds the value of before or after.
pub(crate) fn a_mover_dies_last(trial: &Trial) {
    let trial = &aimed_at(trial, "objects.leave.noted", 1, 48);
    let kills = Some(Kills { hosts: vec![1], one_in: 1, deaths: Deaths::One });
    let mut world = World::new(trial, &Setup { kills, hosts: 2, joined: 2, ..setup(trial, &[]) });
    let gone = a_move(&mut world);
    let (host, left) = (Rc::clone(&world.hosts[0]), Rc::clone(&world.fenced));
    world.thread(0, move |memory| {
        wait_for(&memory, &gone);
        host.tick().unwrap();
        left.borrow_mut().push(0);
        host.leave().unwrap();
    });
    world.run();
    finish_and_read(&mut world, &["a"]);
}

/// The same, but for another one that clears up after it, and dies at that.
pub(crate) fn a_clearer_of_a_move_dies(trial: &Trial) {
    let trial = &aimed_at(trial, "objects.leave.noted", 1, 48);
    let kills = Some(Kills { hosts: vec![1, 2], one_in: 1, deaths: Deaths::InTurn });
    let mut world = World::new(trial, &Setup { kills, ticking: false, ..setup(trial, &[]) });
    let gone = a_move(&mut world);
    world.hosts[0].leave().unwrap();
    world.fenced.borrow_mut().push(0);
    let host = Rc::clone(&world.hosts[2]);
    world.thread(2, move |memory| {
        wait_for(&memory, &gone);
        if memory.deaths() > 0 {
            host.fence(1).unwrap();
        }
    });
    world.run();
    finish_and_read(&mut world, &["a"]);
}

/// A host deletes an object, and dies half way through taking the header out of its slot. The other
/// one finds the object gone, and leaves: so does who comes then. (It took what was left of the
/// header, without its version, for that of another object, and kept it.)
pub(crate) fn a_deleter_dies_last(trial: &Trial) {
    let trial = &aimed_at(trial, "objects.slot.scrub-mark", 1, 6);
    let kills = Some(Kills { hosts: vec![1], one_in: 1, deaths: Deaths::One });
    let mut world = World::new(trial, &Setup { kills, hosts: 2, joined: 2, ..setup(trial, &[]) });
    let scribe = world.scribe();
    // The second one's version has two bytes that are not zero, so half of it is a version, too.
    for key in ["b", "a"] {
        perform(&*world.hosts[0], &scribe, key, Create(LONG));
    }
    let gone = Rc::new(Cell::new(false));
    let (host, scribe, through) = (Rc::clone(&world.hosts[1]), world.scribe(), Rc::clone(&gone));
    world.thread(1, move |_| {
        let _through = OnDrop::new(&through);
        perform(&*host, &scribe, "a", Delete);
    });
    let (host, scribe, left) =
        (Rc::clone(&world.hosts[0]), world.scribe(), Rc::clone(&world.fenced));
    world.thread(0, move |memory| {
        wait_for(&memory, &gone);
        perform(&*host, &scribe, "a", Get);
        left.borrow_mut().push(0);
        host.leave().unwrap();
    });
    world.run();
    finish_and_read(&mut world, &["a", "b"]);
}

/// Host 1 writes an object anew in a slot of its own, and is gone then, or dead.
fn a_move(world: &mut World) -> Rc<Cell<bool>> {
    let scribe = world.scribe();
    for operation in [Create(LONG), Put(LONG + 7)] {
        perform(&*world.hosts[0], &scribe, "a", operation);
    }
    let gone = Rc::new(Cell::new(false));
    let (host, through) = (Rc::clone(&world.hosts[1]), Rc::clone(&gone));
    world.thread(1, move |_| {
        let _through = OnDrop::new(&through);
        perform(&*host, &scribe, "a", Put(HALF + 14));
    });
    gone
}

/// A host creates a large object and dies before it can say that it is through with that. One of
/// the others clears up after it while the last one deletes the object, and has something else in
/// its chunks.
pub(crate) fn a_clearer_is_late(trial: &Trial) {
    let trial = &aimed_at(trial, "objects.leave.noted", 1, 48);
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut world = begin(trial, &Setup { kills, chunks: 3, ..setup(trial, &[]) });
    let gone = Rc::new(Cell::new(false));
    let (host, scribe, through) = (Rc::clone(&world.hosts[0]), world.scribe(), Rc::clone(&gone));
    world.thread(0, move |_| {
        let _through = OnDrop::new(&through);
        perform(&*host, &scribe, "b", Create(LARGE));
    });
    let (host, died) = (Rc::clone(&world.hosts[1]), Rc::clone(&gone));
    world.thread(1, move |memory| {
        wait_for(&memory, &died);
        if memory.deaths() > 0 {
            host.fence(0).unwrap();
        }
    });
    let (host, scribe) = (Rc::clone(&world.hosts[2]), world.scribe());
    world.thread(2, move |memory| {
        wait_for(&memory, &gone);
        perform(&*host, &scribe, "b", Delete);
        perform(&*host, &scribe, "c", Create(HALF));
        perform(&*host, &scribe, "c", Get);
    });
    world.run();
    finish_and_read(&mut world, &KEYS);
}

fn wait_for(memory: &impl Memory, flag: &Cell<bool>) {
    while !flag.get() {
        memory.pause();
    }
}
