//! More than one death: two hosts die with locks in their hands, or one while it clears up after the other. One host
//! is left each time, and finds everything in order.

use tombolo_simulator::{Deaths, Kills, Trial};
use tombolo_verify::models::Operation::{Create, Delete, Get, Put};

use crate::crash::finish_and_read;
use crate::fenced::{LONG, LONGER, begin, client, setup};
use crate::world::Setup;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// More than a chunk.
const LARGE: u64 = 6;

/// Two hosts die while both write the same two objects, and the third wants them.
pub(crate) fn two_writers_die(trial: &Trial) {
    let deaths = [Deaths::InTurn, Deaths::Together][trial.seed as usize / 4 % 2];
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths });
    let mut world = begin(trial, &Setup { kills, ..setup(trial, &[]) });
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
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::InTurn });
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
