//! Objects that are written together.

use tombolo_simulator::{Deaths, Kills, Trial};
use tombolo_verify::models::Operation::{Create, Get, Put};

use crate::crash::finish_and_read;
use crate::fenced::{self, LONG, LONGER, client, fencer};
use crate::operations::{perform, write_together};
use crate::world::{Setup, World};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Two objects have records and one has none; all hosts have read them.
fn begin(trial: &Trial, setup: &Setup) -> World {
    let mut world = World::new(trial, setup);
    let scribe = world.scribe();
    for (key, operation) in [
        ("a", Create(LONGER)),
        ("b", Create(LONG)),
        ("c", Create(LONGER)),
        ("a", Put(LONGER + 7)),
        ("b", Put(LONG + 7)),
    ] {
        perform(&*world.hosts[0], &scribe, key, operation);
    }
    for host in &world.hosts {
        KEYS.iter().for_each(|key| perform(&**host, &scribe, key, Get));
    }
    world
}

/// A host writes objects together, as often as there are batches.
fn writer(world: &mut World, host: usize, batches: &'static [&'static [(&'static str, u64)]]) {
    let most = batches.iter().map(|batch| batch.len()).max().unwrap_or(0);
    let scribes: Vec<_> = (0..most).map(|_| world.scribe()).collect();
    world.client(host, move |host, _| {
        batches.iter().for_each(|writes| write_together(host, &scribes, writes));
    });
}

/// In one batch each object is one that can be written at once; in the other one is new, one grows,
/// and one is there twice.
const BATCHES: &[&[(&str, u64)]] = &[
    &[("a", LONGER + 14), ("b", LONG + 14)],
    &[("b", LONG + 21), ("a", LONG + 21), ("c", LONGER + 21), ("b", LONG + 28)],
];

/// Objects are written together while another host reads them, and writes one.
pub(crate) fn write_and_read(trial: &Trial) {
    let mut world = begin(trial, &Setup { writes: 4, ..Setup::small(2) });
    writer(&mut world, 0, BATCHES);
    client(&mut world, 1, &[("b", Get), ("a", Get), ("b", Put(LONG + 70)), ("a", Get), ("b", Get)]);
    world.finish();
}

/// Two hosts write the same objects together, in different orders, and one of them by two threads:
/// nobody waits for the other for ever.
pub(crate) fn two_writers(trial: &Trial) {
    let mut world = begin(trial, &Setup { ticking: true, writes: 4, ..Setup::small(2) });
    writer(
        &mut world,
        0,
        &[&[("a", LONGER + 14), ("b", LONG + 14)], &[("a", LONGER + 21), ("b", LONG + 21)]],
    );
    writer(
        &mut world,
        1,
        &[&[("b", LONG + 28), ("a", LONGER + 28)], &[("b", LONG + 35), ("a", LONGER + 35)]],
    );
    writer(&mut world, 1, &[&[("a", LONGER + 42), ("b", LONG + 42)]]);
    world.finish();
}

/// A host dies that writes objects together: each is as it was, as it is to be, or lost.
pub(crate) fn a_writer_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let setup = Setup {
        kills,
        writes: [2, 4][trial.seed as usize / 4 % 2],
        ticking: true,
        ..fenced::setup(trial, &[])
    };
    let mut world = begin(trial, &setup);
    writer(&mut world, 0, BATCHES);
    client(&mut world, 1, &[("b", Get), ("a", Get), ("b", Get)]);
    client(&mut world, 2, &[("a", Get), ("b", Put(LONG + 70)), ("a", Get)]);
    world.run();
    finish_and_read(&mut world, &KEYS);
}

/// A host is fenced that writes objects together, and goes on for as long as it does not find out.
pub(crate) fn a_writer_is_fenced(trial: &Trial) {
    let mut world = begin(
        trial,
        &Setup {
            writes: [2, 4][trial.seed as usize / 4 % 2],
            ticking: true,
            ..fenced::setup(trial, &[])
        },
    );
    writer(&mut world, 0, BATCHES);
    fencer(&mut world, &[("b", Put(LONG + 77)), ("a", Get)]);
    client(&mut world, 2, &[("a", Get), ("a", Put(LONGER + 70)), ("b", Get)]);
    fenced::end(world);
}
