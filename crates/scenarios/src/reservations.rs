//! Room that is given out before there is an object: filled, and published or given back, while
//! others write, delete and create objects with the same keys.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::{Lines, Memory, Site};
use tombolo_objects::{Error, Objects, Reservation};
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::Operation::{self, Create, Delete, Get, Put};
use tombolo_verify::models::Result as Answer;

use crate::crash::{fence_and_finish, finish_and_read, one_is_fenced};
use crate::objects::add_mixed_clients;
use crate::operations::{Scribe, conclude, flag, perform, value};
use crate::world::{Setup, World};

const KEYS: [&str; 2] = ["a", "b"];

/// Tags of values that fill half a chunk.
const HALF: u64 = 5;

/// Room for the value with `tag`; `None` if there is none now.
fn reserve<'a>(
    host: &'a Objects<SimMemory>,
    key: &str,
    tag: u64,
) -> Result<Option<Reservation<'a, SimMemory>>, Error> {
    match host.reserve_room(key.as_bytes(), value(tag).len() as u64) {
        Err(Error::LnrFull { .. } | Error::TooLarge { .. } | Error::TooManyReservations { .. }) => {
            Ok(None)
        }
        Err(Error::Fenced { .. }) => Ok(None),
        room => room.map(Some),
    }
}

/// Publishes room, recorded as a put, or, of the other keys, as a create.
fn publish(
    host: &Objects<SimMemory>,
    scribe: &Scribe,
    room: Reservation<'_, SimMemory>,
    operation: Operation<u64>,
) -> Result<(), Error> {
    let key = String::from_utf8(room.key().to_vec()).expect("a key of a scenario");
    let began = scribe.invoke(key.clone(), operation.clone());
    let answer = match operation {
        Put(_) => room.publish().map(|_| Answer::Done),
        _ => flag(room.publish_new().map(drop)),
    };
    host.memory().answered();
    conclude(host, scribe, &key, began, answer)
}

/// Reserves, fills in parts, and publishes, or gives back now and then.
fn fill(
    host: &Objects<SimMemory>,
    scribe: &Scribe,
    key: &str,
    operation: Operation<u64>,
) -> Result<(), Error> {
    let (Put(tag) | Create(tag)) = operation else { return Ok(()) };
    let Some(mut room) = reserve(host, key, tag)? else { return Ok(()) };
    let mut offset = 0;
    for part in value(tag).chunks(100) {
        room.write(offset, part)?;
        offset += part.len() as u64;
    }
    if host.memory().random().is_multiple_of(4) {
        host.memory().note("room was given back");
        return Ok(());
    }
    publish(host, scribe, room, operation)
}

/// A value is published in the place of one that another host has read, and reads.
pub(crate) fn publish_and_read(trial: &Trial) {
    let mut world = World::new(trial, &Setup::small(2));
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(HALF));
    world.hosts.iter().for_each(|host| perform(&**host, &scribe, "a", Get));
    world.client(0, |host, scribe| {
        fill(host, scribe, "a", Put(7 + HALF)).unwrap();
        fill(host, scribe, "b", Create(7)).unwrap();
    });
    world.client(1, |host, scribe| {
        for key in ["a", "b", "a", "b"] {
            perform(host, scribe, key, Get);
        }
    });
    world.finish();
}

/// Two hosts publish a value for the same key, of which one may be there already.
pub(crate) fn publish_twice(trial: &Trial) {
    let mut world = World::new(trial, &Setup::small(2));
    for host in 0..2 {
        world.client(host, move |hosts, scribe| {
            let n = 1 + host as u64;
            fill(hosts, scribe, "a", Create(7 * n + HALF)).unwrap();
            fill(hosts, scribe, "a", Put(70 * n)).unwrap();
            perform(hosts, scribe, "a", Get);
        });
    }
    world.finish();
}

/// A step of the agent, which is no host's.
pub(crate) const AGENT: Site = Site::new("scenario.agent");

/// An agent that has no seat fills the room past the caches of the host, which publishes it.
pub(crate) fn filled_by_an_agent(trial: &Trial) {
    fill_by_an_agent(trial, None).finish();
}

/// The same, and that host dies.
pub(crate) fn a_host_with_an_agent_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    finish_and_read(&mut fill_by_an_agent(trial, kills), &["a"]);
}

fn fill_by_an_agent(trial: &Trial, kills: Option<Kills>) -> World {
    let mut world = World::new(trial, &Setup { joined: 2, kills, ..Setup::small(3) });
    let agent = world.simulation.memory(2);
    world.client(0, move |host, scribe| {
        for tag in [HALF, 7 + HALF] {
            let Some(mut room) = reserve(host, "a", tag).unwrap() else { return };
            let (bytes, mut from) = (value(tag), 0);
            let pieces: Vec<_> = room.pieces().collect();
            for (at, count) in pieces {
                let lines = Lines::covering(at, count);
                host.memory().gives(lines, 0);
                agent.takes(lines);
                // Stale lines in the agent's own caches are the agent's affair.
                agent.invalidate(AGENT, lines);
                agent.write(at, &bytes[from..][..count as usize]);
                agent.clean(AGENT, lines);
                agent.gives(lines, lines.bytes());
                host.memory().takes(lines);
                from += count as usize;
            }
            publish(host, scribe, room, Put(tag)).unwrap();
        }
        perform(host, scribe, "a", Get);
    });
    world.client(1, |host, scribe| (0..3).for_each(|_| perform(host, scribe, "a", Get)));
    world
}

/// Clients of all hosts reserve, fill and publish, while others do anything.
fn mixed(world: &mut World) {
    let tags = Rc::new(Cell::new(500_000));
    for host in 0..world.hosts.len() {
        let tags = Rc::clone(&tags);
        world.client(host, move |host, scribe| {
            for _ in 0..4 {
                let (dice, tag) = (host.memory().random(), tags.replace(tags.get() + 1));
                let operation = if dice & 2 == 0 { Put(tag) } else { Create(tag) };
                fill(host, scribe, KEYS[dice as usize % 2], operation).unwrap();
                if dice & 12 == 0 {
                    perform(host, scribe, KEYS[dice as usize % 2], Delete);
                }
            }
        });
    }
}

/// The same, in a pod with little room.
pub(crate) fn anything_goes(trial: &Trial) {
    let mut world = World::new(trial, &Setup { chunks: 8, ..Setup::roomy(trial.hosts_or(3)) });
    add_mixed_clients(&mut world, &KEYS, 3, 5);
    mixed(&mut world);
    finish_and_read(&mut world, &KEYS);
}

/// One of the hosts dies at that.
pub(crate) fn a_holder_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::One });
    let mut world = World::new(trial, &Setup { kills, ..Setup::roomy(3) });
    add_mixed_clients(&mut world, &KEYS, 2, 4);
    mixed(&mut world);
    finish_and_read(&mut world, &KEYS);
}

/// All of them die at that, and one comes that opens the pod anew.
pub(crate) fn all_holders_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::Together });
    let mut world = World::new(trial, &Setup { kills, ..Setup::roomy(2) });
    mixed(&mut world);
    finish_and_read(&mut world, &KEYS);
}

/// A host is fenced that holds room, and goes on for as long as it does not find out.
pub(crate) fn a_holder_is_fenced(trial: &Trial) {
    let mut world = World::new(trial, &one_is_fenced(trial));
    mixed(&mut world);
    fence_and_finish(&mut world, &KEYS);
}
