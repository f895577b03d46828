//! Chunks with few objects are emptied, so that there is room for objects of other sizes; objects
//! larger than a chunk take chunks wherever they are.

use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::Operation::{CompareAndSwap, Delete, Get, Put};

use crate::crash::finish_and_read;
use crate::operations::{perform, value};
use crate::world::{Host, NO_LOCAL, Setup, World};

/// Objects of this size fill a chunk by fives; there is one class for them.
fn small(n: u64) -> u64 {
    7 * n + 3
}
const IN_A_CHUNK: usize = 5;

/// Two of these fill a chunk.
fn large(n: u64) -> u64 {
    7 * n + 5
}

/// A full pod, out of which all objects but those named are gone, one in a chunk or so.
///
/// Host 0 fills it first, and so has the lines of objects in its caches that were there before
/// those that stay, which are host 1's.
fn sparse(world: &World) -> Vec<String> {
    let (first, second) = (&world.hosts[0], &world.hosts[1]);
    let before = fill(first, second, "before");
    for key in &before {
        assert!(first.stat(key.as_bytes()).unwrap().is_some());
    }
    remove(second, first, &before);
    let all = fill(second, first, "k");
    // Of two shards one is full first, after how many objects the hashes of their keys say.
    let in_one_shard = first.area().geometry().log_shards == 1;
    assert!(all.len() >= before.len() || !in_one_shard, "freed slots are there again");
    let (stay, go): (Vec<_>, Vec<_>) =
        all.into_iter().enumerate().partition(|(number, _)| number % IN_A_CHUNK == 0);
    let keys = |numbered: Vec<(usize, String)>| -> Vec<String> {
        numbered.into_iter().map(|(_, key)| key).collect()
    };
    remove(second, first, &keys(go));
    keys(stay)
}

/// Creates objects while there is room; `other` follows.
fn fill(host: &Objects<SimMemory>, other: &Objects<SimMemory>, name: &str) -> Vec<String> {
    fill_with(&value(small(0)), host, other, name)
}

fn fill_with(
    value: &[u8],
    host: &Objects<SimMemory>,
    other: &Objects<SimMemory>,
    name: &str,
) -> Vec<String> {
    let create = |key: &String| {
        other.object_count().unwrap();
        host.create(key.as_bytes(), value)
    };
    let keys = (0..).map(|number: u32| format!("{name}{number}"));
    keys.take_while(|key| create(key).is_ok()).collect()
}

fn remove(host: &Objects<SimMemory>, other: &Objects<SimMemory>, keys: &[String]) {
    for key in keys {
        other.object_count().unwrap();
        assert!(host.delete(key.as_bytes()).unwrap());
    }
}

/// Ten chunks, or six for one shard: the objects that stay could do with two, or with three in two
/// shards. Each host may hold one chunk of their size and shard besides. So there are two left for
/// larger ones, or three: four objects fit, however they are divided among shards.
fn setup(trial: &Trial) -> Setup {
    let log_shards = 1 + trial.seed % 2;
    let chunks = 2 + 4 * log_shards;
    // Objects in a host's memory keep their slots.
    Setup { chunks, log_shards: Some(log_shards), local: Some(NO_LOCAL), ..Setup::roomy(2) }
}

/// A host that needs room for other sizes finds it, while objects that have to be moved are read
/// and written.
pub(crate) fn room_is_made(trial: &Trial) {
    let mut world = World::new(trial, &setup(trial));
    let stay = sparse(&world);
    work_on(&mut world, &stay);
    world.client(0, |host, _| {
        for number in 0..4 {
            let key = format!("large{number}");
            host.create(key.as_bytes(), &value(large(number))).unwrap();
        }
    });
    let hosts = world.hosts.clone();
    world.finish();
    let one_in_each_chunk = hosts[0].area().geometry().log_shards == 1;
    assert!(moves(&hosts) > 0 || !one_in_each_chunk, "nothing was moved");
}

/// A host makes room by moving objects in whose slots it has read others before.
pub(crate) fn unknown_objects(trial: &Trial) {
    let mut world = World::new(trial, &Setup { chunks: 2, ..Setup::small(2) });
    sparse(&world);
    world.client(0, |host, _| {
        host.create(b"large", &value(large(0))).unwrap();
    });
    world.finish();
}

/// Hosts move objects together in the background, both at once.
pub(crate) fn background(trial: &Trial) {
    let mut world = World::new(trial, &setup(trial));
    let stay = sparse(&world);
    work_on(&mut world, &stay);
    let hosts = world.hosts.clone();
    world.client(0, move |host, _| {
        while moves(&hosts) < 2 {
            host.memory().pause();
        }
    });
    world.finish();
}

/// A host dies that moves objects together, and reads and writes them, and so does the other.
pub(crate) fn a_mover_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut world = World::new(trial, &Setup { kills, ..setup(trial) });
    let stay = sparse(&world);
    work_on(&mut world, &stay);
    let keys: Vec<&str> = stay.iter().map(String::as_str).collect();
    finish_and_read(&mut world, &keys);
}

/// Two chunks hold one of these.
fn larger(n: u64) -> u64 {
    7 * n + 6
}

/// Objects larger than a chunk come and go, while no two chunks in a row are free.
pub(crate) fn scattered(trial: &Trial) {
    let setup = Setup { chunks: 26, local: Some(NO_LOCAL), ..Setup::roomy(2) };
    let mut world = World::new(trial, &Setup { log_shards: Some(1), ..setup });
    let (first, second) = (&world.hosts[0], &world.hosts[1]);
    let all = fill_with(&value(large(0)), first, second, "k");
    let every_other_chunk = all.chunks_exact(2).step_by(2).flatten().cloned();
    remove(second, first, &every_other_chunk.collect::<Vec<_>>());
    // Thirteen chunks are free: for one, for two that are there, and for four that are being
    // created.
    second.object_count().unwrap();
    second.create(b"stays", &value(larger(0))).unwrap();
    for client in 0..4u64 {
        world.client(client as usize % 2, move |host, scribe| {
            let key = ["a", "b"][client as usize / 2];
            for turn in 0..4 {
                let new = larger(100 * (client + 1) + turn);
                perform(host, scribe, key, Put(new));
                perform(host, scribe, key, CompareAndSwap { expected: new, new: new + 7 * 50 });
                perform(host, scribe, key, Get);
                if turn % 2 == client / 2 {
                    perform(host, scribe, key, Delete);
                }
            }
            // No two writes of a key write the same.
            perform(host, scribe, key, Put(larger(100 * client + 90)));
        });
    }
    let hosts = world.hosts.clone();
    world.finish();
    for key in ["a", "b"] {
        assert!(hosts[0].stat(key.as_bytes()).unwrap().is_some(), "there was no room");
    }
}

/// There is room for everything all the time, also while those who delete or move are at it: nobody
/// is told that the pod is full.
pub(crate) fn roomy_chunks(trial: &Trial) {
    let setup = Setup { chunks: 32, local: Some(NO_LOCAL), ..Setup::roomy(2) };
    let mut world = World::new(trial, &Setup { log_shards: Some(1), ..setup });
    for client in 0..4u64 {
        world.client(client as usize % 2, move |host, _| {
            let key = [b"a", b"b"][client as usize / 2];
            for turn in 0..4 {
                let new = 100 * (client + 1) + turn;
                host.put(key, &value(small(new))).unwrap();
                host.tick().unwrap();
                host.put(key, &value(larger(new))).unwrap();
                host.delete(key).unwrap();
            }
        });
    }
    world.finish();
}

fn moves(hosts: &[Host]) -> u64 {
    hosts.iter().map(|host| host.stats().moves).sum()
}

/// Two clients on each host read and write half of what is there; the first host knows nothing of
/// the rest.
fn work_on(world: &mut World, keys: &[String]) {
    let scribe = world.scribe();
    for (number, key) in (0..).zip(keys) {
        perform(&*world.hosts[1], &scribe, key, Put(small(number)));
        world.hosts[0].object_count().unwrap();
    }
    for client in 0..4u64 {
        let keys = keys.to_vec();
        world.client(client as usize % 2, move |host, scribe| {
            for turn in 0..4 {
                let key = (client + 2 * turn) as usize % (keys.len() / 2);
                let new = small(100 * (client + 1) + turn);
                perform(host, scribe, &keys[key], Put(new));
                let swap = CompareAndSwap { expected: new, new: new + 7 * 50 };
                perform(host, scribe, &keys[key], swap);
                perform(host, scribe, &keys[(key + 1) % keys.len()], Get);
            }
        });
    }
}
