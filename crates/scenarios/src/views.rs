//! Values that are looked at where they lie, while others write them, delete them and want their
//! slots.
//!
//! A value stays as it was when a client began to look at it, and is in the history as a read of
//! that time.

use tombolo_memory::Memory;
use tombolo_objects::{Error, Objects};
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::Operation::{Create, Delete, Get, Put};
use tombolo_verify::models::{Operation, Result as Answer};

use crate::crash::finish_and_read;
use crate::objects::add_mixed_clients;
use crate::operations::{Scribe, perform, tag, try_perform, value};
use crate::world::{NO_LOCAL, ONLY_PARTITION, Setup, World};

// Values of these sizes are looked at where they lie: the first fills half a chunk, the second two
// chunks.
const HALF: u64 = 5;
const LARGE: u64 = 6;
/// Five of these fill a chunk, and are copied.
const SMALL: u64 = 3;

/// Looks at an object for a while.
fn look(host: &Objects<SimMemory>, scribe: &Scribe, key: &str) -> Result<(), Error> {
    let memory = host.memory();
    let began = scribe.invoke(key.to_owned(), Get);
    let view = host.view(key.as_bytes());
    memory.answered();
    let view = match view {
        Ok(view) => view,
        Err(error) => {
            scribe.failed(began);
            // A reader finds that, too, and knows what to do.
            return if error.is_loss() { try_perform(host, scribe, key, Get) } else { Err(error) };
        }
    };
    let first = view.as_ref().map(|view| tag(&view.bytes()));
    scribe.returned(began, Answer::Value(first));
    for _ in 0..4 {
        (0..memory.random() % 16).for_each(|_| memory.pause());
        let again = view.as_ref().map(|view| tag(&view.bytes()));
        assert_eq!(again, first, "what is looked at stays as it is");
    }
    view.map_or(Ok(()), |view| view.end())
}

/// Objects are there that every host has read; then the first hosts do what they are to do, and the
/// last one looks at them.
fn run(
    trial: &Trial,
    setup: &Setup,
    before: &[(&str, u64)],
    clients: &[&[(&str, Operation<u64>)]],
) {
    let mut world = World::new(trial, setup);
    let scribe = world.scribe();
    for &(key, tag) in before {
        perform(&*world.hosts[0], &scribe, key, Create(tag));
        world.hosts.iter().for_each(|host| perform(&**host, &scribe, key, Get));
    }
    for (host, operations) in clients.iter().enumerate() {
        let own =
            |(key, operation): &(&str, Operation<u64>)| ((*key).to_owned(), operation.clone());
        let operations: Vec<_> = operations.iter().map(own).collect();
        world.client(host, move |host, scribe| {
            for (key, operation) in operations {
                perform(host, scribe, &key, operation);
            }
        });
    }
    for &(key, _) in before {
        let key = key.to_owned();
        world.client(clients.len(), move |host, scribe| {
            look(host, scribe, &key).unwrap();
            look(host, scribe, &key).unwrap();
        });
    }
    world.finish();
}

/// An object is written, as a whole, while another host looks at it.
pub(crate) fn view_and_write(trial: &Trial) {
    let write = |n: u64| ("a", Put(7 * n + HALF));
    run(trial, &Setup::small(2), &[("a", HALF)], &[&[write(1), write(2), write(3)]]);
}

/// An object is deleted, and others want its slot, while another host looks at it.
pub(crate) fn view_and_reuse(trial: &Trial) {
    let create = |key, n: u64| (key, Create(7 * n + HALF));
    run(
        trial,
        &Setup { chunks: 1, ..Setup::small(2) },
        &[("a", HALF)],
        &[&[("a", Delete), create("b", 1), create("c", 2), ("b", Delete), create("a", 3)]],
    );
}

/// Two hosts look at an object that a third one writes.
pub(crate) fn two_viewers(trial: &Trial) {
    let mut world = World::new(trial, &Setup::small(3));
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(HALF));
    world.hosts.iter().for_each(|host| perform(&**host, &scribe, "a", Get));
    world.client(0, |host, scribe| {
        perform(host, scribe, "a", Put(7 + HALF));
        perform(host, scribe, "a", Put(14 + HALF));
    });
    for host in 1..3 {
        world.client(host, |host, scribe| (0..2).for_each(|_| look(host, scribe, "a").unwrap()));
    }
    finish_and_read(&mut world, &["a"]);
}

/// An object that takes two chunks is deleted, and another host wants these, while a third one
/// looks at the object.
pub(crate) fn view_and_divide(trial: &Trial) {
    let create = |key, n: u64| (key, Create(7 * n + SMALL));
    run(
        trial,
        &Setup { chunks: 2, ..Setup::small(3) },
        &[("a", LARGE)],
        &[&[("a", Delete)], &[create("b", 1), create("c", 2), create("b", 3)]],
    );
}

/// The same, where the object comes back, and all sizes are wanted.
pub(crate) fn view_chain(trial: &Trial) {
    let create = |key, n: u64| (key, Create(7 * n + HALF));
    run(
        trial,
        &Setup { chunks: 3, ticking: true, ..Setup::small(3) },
        &[("a", LARGE)],
        &[
            &[("a", Put(7 + LARGE)), ("a", Delete), ("a", Create(14 + LARGE))],
            &[create("b", 3), create("c", 4), ("d", Create(7 + SMALL)), ("b", Delete)],
        ],
    );
}

/// An object is written in parts while another host looks at it.
pub(crate) fn view_and_write_parts(trial: &Trial) {
    let mut world = World::new(trial, &Setup::small(2));
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(HALF));
    perform(&*world.hosts[1], &scribe, "a", Get);
    let whole = value(HALF);
    world.client(0, move |host, _| {
        for byte in 1..4 {
            let mut guard = host.write_start(b"a").unwrap();
            guard.write(8, &[byte; 8]).unwrap();
            guard.write(400, &[byte; 8]).unwrap();
            guard.write_end().unwrap();
        }
    });
    world.client(1, move |host, _| {
        for _ in 0..2 {
            let view = host.view(b"a").unwrap().unwrap();
            let first = view.bytes().into_owned();
            assert!(first[8..16] == first[400..408] && first[16..400] == whole[16..400]);
            for _ in 0..4 {
                host.memory().pause();
                assert_eq!(*view.bytes(), first, "what is looked at stays as it is");
            }
        }
    });
    world.finish();
}

/// Clients do anything to objects of all sizes, for which there is little room, and look at them.
pub(crate) fn anything_goes(trial: &Trial) {
    const KEYS: [&str; 4] = ["a", "b", "c", "d"];
    let mut world = World::new(trial, &Setup { chunks: 10, ..Setup::roomy(trial.hosts_or(3)) });
    add_mixed_clients(&mut world, &KEYS, 4, 8);
    for host in 0..world.hosts.len() {
        world.client(host, move |host, scribe| {
            for _ in 0..4 {
                let key = KEYS[host.memory().random() as usize % KEYS.len()];
                look(host, scribe, key).unwrap();
            }
        });
    }
    finish_and_read(&mut world, &KEYS);
}

/// An object is looked at that moves into another host's memory, is written there, and returns.
pub(crate) fn view_and_move_in(trial: &Trial) {
    move_in(trial, trial.seed % 2 == 1, None).finish();
}

/// The same, where it is in its slot, too.
pub(crate) fn view_and_back_up(trial: &Trial) {
    move_in(trial, true, None).finish();
}

/// The same, where the host dies into whose memory the object moves.
pub(crate) fn a_host_dies_with_a_viewed_object(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut world = move_in(trial, trial.seed % 2 == 1, kills);
    finish_and_read(&mut world, &["a"]);
}

fn move_in(trial: &Trial, backup: bool, kills: Option<Kills>) -> World {
    let ticking = kills.is_some();
    let (backup, local) = (Some(backup), Some(ONLY_PARTITION));
    let mut world = World::new(trial, &Setup { backup, local, kills, ticking, ..Setup::small(2) });
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(HALF));
    perform(&*world.hosts[1], &scribe, "a", Get);
    // With the third access in a row it moves.
    (0..2).for_each(|_| perform(&*world.hosts[0], &scribe, "a", Get));
    world.client(1, |host, scribe| match look(host, scribe, "a") {
        // The host that has it is through, and answers no more.
        Err(Error::Unanswered { .. }) => {}
        looked => looked.unwrap(),
    });
    world.client(0, |host, scribe| {
        perform(host, scribe, "a", Get);
        (1..4).for_each(|n| perform(host, scribe, "a", Put(7 * n + HALF)));
        host.move_out_all().unwrap();
    });
    world
}

/// A host dies while it looks at an object that is in everybody's way: when it is cleared up after,
/// its pins are off.
pub(crate) fn a_viewer_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![1], one_in: 1, deaths: Deaths::One });
    let setup = Setup { kills, chunks: 6, local: Some(NO_LOCAL), ..Setup::roomy(2) };
    let mut world = World::new(trial, &setup);
    let scribe = world.scribe();
    for (key, tag) in [("a", HALF), ("b", LARGE)] {
        perform(&*world.hosts[0], &scribe, key, Create(tag));
    }
    for key in ["a", "b"] {
        world.client(1, move |host, scribe| (0..3).for_each(|_| look(host, scribe, key).unwrap()));
    }
    world.client(0, |host, scribe| {
        for (key, operation) in [
            ("a", Put(7 + HALF)),
            ("b", Delete),
            ("b", Create(14 + HALF)),
            ("a", Delete),
            ("a", Create(21 + LARGE)),
        ] {
            perform(host, scribe, key, operation);
        }
    });
    finish_and_read(&mut world, &["a", "b"]);
}

/// A host dies that views an object, and then one that clears up after it.
pub(crate) fn who_clears_up_after_a_viewer_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![1, 0], one_in: 1, deaths: Deaths::InTurn });
    let setup = Setup { kills, chunks: 8, local: Some(NO_LOCAL), ..Setup::roomy(3) };
    let mut world = World::new(trial, &setup);
    let scribe = world.scribe();
    perform(&*world.hosts[2], &scribe, "a", Create(HALF));
    world.client(1, |host, scribe| (0..6).for_each(|_| look(host, scribe, "a").unwrap()));
    for (host, tag) in [(0, 7), (2, 70)] {
        world.client(host, move |host, scribe| {
            for round in 0..3 {
                perform(host, scribe, "a", Put(tag * (1 + round) + HALF));
            }
        });
    }
    finish_and_read(&mut world, &["a"]);
}

/// A host dies while it writes an object elsewhere, or deletes it, because another one looks at it;
/// a third one, which has an older value in its caches, clears up.
pub(crate) fn a_deleter_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut world = World::new(trial, &Setup { kills, ticking: true, ..Setup::small(3) });
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(HALF));
    world.hosts.iter().for_each(|host| perform(&**host, &scribe, "a", Get));
    perform(&*world.hosts[0], &scribe, "a", Put(7 + HALF));
    world.client(0, |host, scribe| {
        perform(host, scribe, "a", Put(14 + HALF));
        perform(host, scribe, "a", Delete);
    });
    world.client(2, |host, scribe| (0..2).for_each(|_| look(host, scribe, "a").unwrap()));
    finish_and_read(&mut world, &["a"]);
}

/// Two of three hosts die, one after the other, while clients do anything to objects of all sizes,
/// for which there is little room, and look at them.
pub(crate) fn viewers_die(trial: &Trial) {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::InTurn });
    let mut world = World::new(trial, &Setup { kills, chunks: 8, ..Setup::roomy(3) });
    add_mixed_clients(&mut world, &KEYS, 4, 5);
    for host in 0..world.hosts.len() {
        world.client(host, move |host, scribe| {
            for _ in 0..3 {
                let key = KEYS[host.memory().random() as usize % KEYS.len()];
                look(host, scribe, key).unwrap();
            }
        });
    }
    finish_and_read(&mut world, &KEYS);
}
