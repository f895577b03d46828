//! Chunks whose memory is given back to the system, while others want them, and read what was
//! there.

use tombolo_memory::Memory;
use tombolo_simulator::{Deaths, Kills, Trial};
use tombolo_verify::models::Operation::{Delete, Get, Put};

use crate::crash::finish_and_read;
use crate::operations::{perform, value};
use crate::world::{Host, NO_LOCAL, Setup, World};

/// Five of these fill a chunk.
const SMALL: u64 = 3;
/// Two chunks hold one of these.
const LARGE: u64 = 6;

/// Both hosts look for free chunks all the time.
fn setup() -> Setup {
    Setup {
        chunks: 5,
        log_shards: Some(1),
        local: Some(NO_LOCAL),
        ticking: true,
        ..Setup::roomy(2)
    }
}

fn given_back(hosts: &[Host]) -> u64 {
    hosts.iter().map(|host| host.stats().given_back).sum()
}

/// Objects come and go, small ones and such as take whole chunks; in between their chunks are
/// free for long enough. Both hosts read them all the time.
fn come_and_go(world: &mut World) {
    for client in 0..2u64 {
        world.client(client as usize, move |host, scribe| {
            let key = ["a", "b"][client as usize];
            for turn in 0..3 {
                for size in [SMALL, LARGE] {
                    perform(
                        host,
                        scribe,
                        key,
                        Put(7 * (10 * client + 2 * turn + size / LARGE) + size),
                    );
                    perform(host, scribe, key, Delete);
                    (0..host.memory().random() % 40).for_each(|_| host.memory().pause());
                }
            }
            perform(host, scribe, key, Put(7 * (10 * client + 8) + SMALL));
        });
        world.client(1 - client as usize, move |host, scribe| {
            for turn in 0..8 {
                perform(host, scribe, ["a", "b"][(client as usize + turn) % 2], Get);
            }
        });
    }
}

/// Memory comes and goes with the objects, which stay what they are.
pub(crate) fn memory_comes_and_goes(trial: &Trial) {
    let mut world = World::new(trial, &setup());
    come_and_go(&mut world);
    world.finish();
}

/// The same until a chunk is given back: that happens.
pub(crate) fn free_chunks_go(trial: &Trial) {
    let mut world = World::new(trial, &setup());
    let first = &world.hosts[0];
    first.create(b"stays", &value(SMALL)).unwrap();
    first.create(b"goes", &value(LARGE)).unwrap();
    first.delete(b"goes").unwrap();
    let hosts = world.hosts.clone();
    world.client(0, move |host, _| {
        while given_back(&hosts) == 0 {
            host.memory().pause();
        }
        host.create(b"again", &value(7 + LARGE)).unwrap();
    });
    world.finish();
}

/// The same, and a host dies at any step of it.
pub(crate) fn a_giver_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut world = World::new(trial, &Setup { kills, ..setup() });
    come_and_go(&mut world);
    finish_and_read(&mut world, &["a", "b"]);
}

/// A host dies that gives back the only chunk; the other one clears up, and wants slots of the same
/// size there as soon as it can.
pub(crate) fn a_giver_of_the_last_chunk_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let setup = Setup { chunks: 1, ticking: false, kills, ..setup() };
    let mut world = World::new(trial, &setup);
    let (first, second) = (&world.hosts[0], &world.hosts[1]);
    first.create(b"before", &value(SMALL)).unwrap();
    assert!(second.stat(b"before").unwrap().is_some());
    first.delete(b"before").unwrap();
    second.object_count().unwrap();
    // Hosts hand on what they do not use every 128 ticks.
    while given_back(&world.hosts) == 0 && tombolo_objects::census(first.area()).free == 0 {
        first.tick().unwrap();
        second.object_count().unwrap();
    }
    let hosts = world.hosts.clone();
    world.client(0, move |host, _| {
        while given_back(&hosts) == 0 {
            host.tick().unwrap();
        }
    });
    world.client(1, |host, scribe| {
        for _ in 0..200 {
            host.tick().unwrap();
            if host.stats().recoveries > 0 {
                break;
            }
            host.memory().pause();
        }
        perform(host, scribe, "a", Put(SMALL));
    });
    finish_and_read(&mut world, &["a"]);
}
