//! A log of two shards, between which nothing is ordered: chunks go from one to the other, and a
//! host that waits for something in one may be what others wait for in the other.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_simulator::{Deaths, Kills, Trial};
use tombolo_verify::models::Operation::{Create, Delete, Get, Put};

use crate::crash::finish_and_read;
use crate::objects::{add_mixed_clients, key_hash};
use crate::operations::perform;
use crate::world::{Setup, World};

/// Takes a line.
const SHORT: u64 = 7;
/// Takes three.
const LONG: u64 = 7 + 3;

fn two_shards(setup: Setup) -> Setup {
    Setup { log_shards: Some(2), ..setup }
}

/// Three keys in each shard, by shard.
fn keys(world: &World) -> [[String; 3]; 2] {
    let secret = world.hosts[0].pod().identity().hash_key;
    [0, 1].map(|shard| {
        let all = (0..).map(|number: u32| format!("k{number}"));
        let mut ours = all.filter(|key| key_hash(secret, key) as u32 >> 31 == shard);
        [(); 3].map(|()| ours.next().expect("keys do not run out"))
    })
}

/// Four chunks for objects of seven sizes in two shards: chunks go from shard to shard all the
/// time.
pub(crate) fn chunks_change_shards(trial: &Trial) {
    let setup = two_shards(Setup { chunks: 4, ..Setup::roomy(trial.hosts_or(3)) });
    let mut world = World::new(trial, &setup);
    let [[a, b, _], [c, d, _]] = keys(&world);
    add_mixed_clients(&mut world, &[&a, &b, &c, &d], 6, 10);
    world.finish();
}

/// The only chunk goes from one shard to the other and holds an object there. The first shard,
/// which knows it as empty and of the right size, must not take it back.
pub(crate) fn a_chunk_of_another_shard(trial: &Trial) {
    let mut world = World::new(trial, &two_shards(Setup { chunks: 1, ..Setup::small(2) }));
    let [[first, ..], [other, another, _]] = keys(&world);
    let key = first.clone();
    world.client(0, move |host, scribe| {
        perform(host, scribe, &other, Create(SHORT));
        perform(host, scribe, &other, Delete);
        perform(host, scribe, &first, Create(2 * SHORT));
        // There is no room for this, which makes the host hand its chunk on.
        perform(host, scribe, &another, Create(LONG));
        perform(host, scribe, &another, Create(3 * SHORT));
        perform(host, scribe, &first, Get);
    });
    world.client(1, move |host, scribe| {
        perform(host, scribe, &key, Get);
        perform(host, scribe, &key, Put(4 * SHORT));
    });
    world.finish();
}

/// A chunk that is empty is freed for the other shard, while a host of its own shard puts an object
/// there and hands the chunk on again.
pub(crate) fn a_chunk_that_fills_again(trial: &Trial) {
    fill_again(trial, None).finish();
}

/// The same, and one of them dies.
pub(crate) fn who_fills_a_chunk_again_dies(trial: &Trial) {
    let kills = Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::One };
    let mut world = fill_again(trial, Some(kills));
    world.run();
    let all = keys(&world);
    let keys: Vec<&str> = all.iter().flatten().map(String::as_str).collect();
    finish_and_read(&mut world, &keys);
}

fn fill_again(trial: &Trial, kills: Option<Kills>) -> World {
    let setup = Setup { chunks: 1, kills, ..Setup::small(2) };
    let mut world = World::new(trial, &two_shards(setup));
    let [[first, second, _], [other, another, _]] = keys(&world);
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, &first, Create(SHORT));
    perform(&*world.hosts[0], &scribe, &other, Create(LONG));
    perform(&*world.hosts[0], &scribe, &first, Delete);
    let key = second.clone();
    world.client(0, move |host, scribe| {
        perform(host, scribe, &other, Create(2 * SHORT));
        perform(host, scribe, &key, Get);
    });
    world.client(1, move |host, scribe| {
        perform(host, scribe, &second, Create(3 * SHORT));
        perform(host, scribe, &another, Create(LONG));
        perform(host, scribe, &second, Get);
    });
    world
}

/// Each of two hosts fills one shard with its only thread, and waits for the other to apply it.
pub(crate) fn full_shards(trial: &Trial) {
    let mut world = World::new(trial, &two_shards(Setup::small(2)));
    let keys = keys(&world);
    let working = Rc::new(Cell::new(keys.len()));
    for (number, [key, ..]) in keys.into_iter().enumerate() {
        let working = Rc::clone(&working);
        world.client(number, move |host, scribe| {
            for tag in 1..6 {
                perform(host, scribe, &key, Create(tag * SHORT));
                perform(host, scribe, &key, Delete);
            }
            working.set(working.get() - 1);
            while working.get() > 0 {
                host.object_count().unwrap();
                host.memory().pause();
            }
        });
    }
    world.finish();
}
