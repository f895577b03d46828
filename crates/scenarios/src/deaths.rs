//! More than one death: hosts die while others clear up after them, with locks in their hands, and again as soon
//! as they are back. One host is left each time, and finds everything in order.

use std::rc::Rc;

use tombolo_simulator::{Deaths, Kills, Trial};
use tombolo_verify::models::Operation::{Create, Delete, Get, Put};

use crate::crash::{finish_and_read, return_and_work};
use crate::fenced::{LONG, LONGER, begin, client, setup};
use crate::objects::add_mixed_clients;
use crate::world::{Setup, World};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// More than a chunk.
const LARGE: u64 = 6;

fn in_turn(hosts: &[usize]) -> Option<Kills> {
    Some(Kills { hosts: hosts.to_vec(), one_in: 1, deaths: Deaths::InTurn })
}

/// Whoever dies comes back.
fn all_come_back(world: &mut World, hosts: usize) {
    for host in 0..hosts {
        let scribe = Rc::new(world.scribe());
        world.simulation.restarts(host, move |memory| return_and_work(memory, &scribe));
    }
}

/// Two of three or four hosts die, or three of four, one after the other or at once, while clients do anything.
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

/// A host dies in the middle of anything that leaves something to clear up, and another one dies while it does
/// that.
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
