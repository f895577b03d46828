//! Operations of hosts on each other's objects.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;

use tombolo_memory::Memory;
use tombolo_objects::{Error, Objects};
use tombolo_pod::Pod;
use tombolo_sharing::{KeyHasher, Scheme};
use tombolo_simulator::{SimMemory, Trial};
use tombolo_verify::models::Operation;

use crate::operations::{perform, some_operation, tag, value};
use crate::world::{Setup, World, join};

/// Clients on all hosts in turn that do `operations` random operations each to some keys.
pub(crate) fn add_mixed_clients<S: Scheme<Memory = SimMemory> + 'static>(
    world: &mut World<S>,
    keys: &[&str],
    clients: usize,
    operations: usize,
) {
    let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
    let tags = Rc::new(Cell::new(0));
    for client in 0..clients {
        let (keys, tags) = (keys.clone(), Rc::clone(&tags));
        world.client(client % world.hosts.len(), move |host, scribe| {
            for _ in 0..operations {
                let dice = host.memory().random();
                let key = &keys[dice as usize % keys.len()];
                perform(host, scribe, key, some_operation(dice >> 8, &tags));
            }
        });
    }
}

/// Five clients on three hosts do anything to two objects, for which there are two records.
pub(crate) fn anything_goes(trial: &Trial) {
    let mut world = World::new(trial, &Setup::roomy(trial.hosts_or(3)));
    add_mixed_clients(&mut world, &["a", "b"], 5, 8);
    world.finish();
}

/// Seven chunks for objects of seven sizes: chunks change hands and classes all the time, and now
/// and then there is no room, which changes nothing.
pub(crate) fn scarce_space(trial: &Trial) {
    let mut world = World::new(trial, &Setup { chunks: 7, ..Setup::roomy(trial.hosts_or(3)) });
    add_mixed_clients(&mut world, &["a", "b", "c", "d", "e"], 6, 10);
    world.finish();
}

/// Two keys with the same hash are two objects.
pub(crate) fn equal_hashes(trial: &Trial) {
    let mut world = World::new(trial, &Setup::roomy(trial.hosts_or(2)));
    let (one, other) = colliding_keys(&world.hosts[0]);
    add_mixed_clients(&mut world, &[&one, &other], 4, 8);
    world.finish();
}

/// Two keys with the same hash in a pod of these scenarios: all have the same secret.
pub(crate) fn colliding_keys(host: &Objects<SimMemory>) -> (String, String) {
    static FOUND: OnceLock<Collision> = OnceLock::new();
    let find =
        |secret| find_colliding_keys(secret, |number| format!("k{number}"), |hash| hash as u32);
    recall(&FOUND, host.pod().identity().hash_key, find)
}

/// A secret, and keys that collide under it.
pub(crate) type Collision = ((u64, u64), (String, String));

/// The value that was found once for all runs.
pub(crate) fn recall(
    known: &OnceLock<Collision>,
    secret: (u64, u64),
    find: impl FnOnce((u64, u64)) -> (String, String),
) -> (String, String) {
    let (of, keys) = known.get_or_init(|| (secret, find(secret)));
    assert_eq!(*of, secret, "the set-up of scenarios does not depend on the seed");
    keys.clone()
}

/// Two of the keys that `name` makes, of whose hashes `part` is the same.
pub(crate) fn find_colliding_keys<P: std::hash::Hash + Eq>(
    secret: (u64, u64),
    name: impl Fn(u64) -> String,
    part: impl Fn(u64) -> P,
) -> (String, String) {
    let mut known = HashMap::new();
    for number in 0u64.. {
        let key = name(number);
        if let Some(other) = known.insert(part(key_hash(secret, &key)), key.clone()) {
            return (other, key);
        }
    }
    unreachable!("there are only so many hashes")
}

/// The hash of a key, of whose low 32 bits objects know it.
pub(crate) fn key_hash(secret: (u64, u64), key: &str) -> u64 {
    KeyHasher::new(secret)
        .hash(key.as_bytes())
        .expect("keys of scenarios are neither empty nor long")
}

const WORDS: usize = 70;

/// Writers add one to every word of an object through a guard, in several partial writes; readers,
/// of the whole or of a part, see all words equal and never smaller than before.
pub(crate) fn guards(trial: &Trial) {
    let mut world = World::new(trial, &Setup::roomy(trial.hosts_or(3)));
    world.hosts[0].create(b"words", &[0; 8 * WORDS]).unwrap();
    for number in 0..3 {
        let number = number % world.hosts.len();
        world.client(number, |host, _| (0..4).for_each(|_| add_one(host)));
        world.client(number, |host, _| {
            (0..10).fold(0, |before, _| {
                let now = read_some_words(host);
                assert!(now >= before, "went back from {before} to {now}");
                now
            });
        });
    }
    let last = Rc::clone(world.hosts.last().unwrap());
    world.finish();
    assert_eq!(read_words(&last, 0, WORDS), 12, "an update was lost");
}

fn add_one(host: &Objects<SimMemory>) {
    let mut guard = host.write_start(b"words").unwrap();
    let mut bytes = vec![0; 8 * WORDS];
    guard.read(0, &mut bytes).unwrap();
    let next = the_one_word(&bytes) + 1;
    let split = 1 + host.memory().random() as usize % (WORDS - 1);
    guard.write(8 * split as u64, &next.to_le_bytes().repeat(WORDS - split)).unwrap();
    guard.write(0, &next.to_le_bytes().repeat(split)).unwrap();
    guard.write_end().unwrap();
}

fn read_some_words(host: &Objects<SimMemory>) -> u64 {
    let first = host.memory().random() as usize % WORDS;
    let count = 1 + host.memory().random() as usize % (WORDS - first);
    read_words(host, first, count)
}

fn read_words(host: &Objects<SimMemory>, first: usize, count: usize) -> u64 {
    let mut bytes = vec![0; 8 * count];
    if host.memory().random().is_multiple_of(2) {
        host.read_range(b"words", 8 * first as u64, &mut bytes).unwrap();
        return the_one_word(&bytes);
    }
    loop {
        let guard = host.read_start(b"words").unwrap();
        guard.read(8 * first as u64, &mut bytes).unwrap();
        match guard.read_end() {
            Ok(()) => return the_one_word(&bytes),
            Err(Error::Torn) => host.memory().pause(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn the_one_word(bytes: &[u8]) -> u64 {
    let words: Vec<u64> =
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert!(words.iter().all(|word| *word == words[0]), "torn: {words:?}");
    words[0]
}

/// A host joins while others work, and sees what they did before.
pub(crate) fn late_joiner(trial: &Trial) {
    let mut world = World::new(trial, &Setup { hosts: 3, ..Setup::roomy(2) });
    add_mixed_clients(&mut world, &["a", "b", "c"], 4, 6);
    let latest = Rc::new(Cell::new(0));
    let noted = Rc::clone(&latest);
    world.client(0, move |host, _| {
        for tag in 1..8 {
            host.put(b"news", &value(tag)).unwrap();
            host.memory().answered();
            noted.set(tag);
        }
    });
    world.thread(2, move |memory| {
        let before = latest.get();
        let host = join(memory);
        let mut bytes = Vec::new();
        let found = host.read(b"news", &mut bytes).unwrap();
        let read = found.map_or(0, |_| tag(&bytes));
        assert!(read >= before, "joined after {before}, read {read}");
        host.put(b"from the joiner", &value(99)).unwrap();
        host.leave().unwrap();
    });
    let first = Rc::clone(&world.hosts[0]);
    world.finish();
    let mut bytes = Vec::new();
    first.read(b"from the joiner", &mut bytes).unwrap().expect("what the joiner left is there");
    assert_eq!(tag(&bytes), 99);
}

/// A host joins while others fill the log: what the joiner got its replica for, it need not apply,
/// and nobody waits for it to do so.
pub(crate) fn join_under_load(trial: &Trial) {
    let mut world = World::new(trial, &Setup { hosts: 2, ..Setup::roomy(1) });
    for key in [b"a", b"b", b"c", b"d"] {
        world.client(0, move |host, _| {
            for _ in 0..12 {
                host.create(key, &value(1)).unwrap();
                assert!(host.delete(key).unwrap());
            }
        });
    }
    world.thread(1, |memory| {
        let host = join(memory);
        host.put(b"from the joiner", &value(1)).unwrap();
        host.leave().unwrap();
    });
    world.finish();
}

/// A host joins while the only one that could help it waits for room in the log, with all its
/// threads: clients and background work alike take records from objects and give them to others.
pub(crate) fn join_under_churn(trial: &Trial) {
    let mut world = World::new(trial, &Setup { hosts: 2, ..Setup::roomy(1).plain() });
    for key in ["a", "b", "c", "d"] {
        world.client(0, move |host, scribe| {
            for tag in 1..8 {
                perform(host, scribe, key, Operation::Put(7 * tag));
            }
        });
    }
    world.thread(1, |memory| {
        for _ in 0..2 {
            let host = join(memory.clone());
            host.put(b"from the joiner", &value(1)).unwrap();
            host.leave().unwrap();
        }
    });
    world.finish();
}

/// Two hosts join a third at once, work, and leave; the seats, and the numbers of their stays, are
/// theirs alone.
pub(crate) fn join_at_once(trial: &Trial) {
    let mut world = World::new(trial, &Setup { hosts: 3, ..Setup::roomy(1) });
    let inside = Rc::new(RefCell::new(Vec::new()));
    for number in 1..3 {
        let (scribe, inside) = (world.scribe(), Rc::clone(&inside));
        world.thread(number, move |memory| {
            let host = join(memory);
            let (seat, stay) = (host.seat().host(), host.seat().incarnation());
            let others: Vec<(u8, u32)> = inside.borrow().clone();
            assert!(others.iter().all(|&(other, _)| other != seat), "one seat for two hosts");
            assert!(others.iter().all(|&(_, other)| other != stay), "one number for two stays");
            inside.borrow_mut().push((seat, stay));
            perform(&*host, &scribe, "a", Operation::Update(number as u64));
            perform(&*host, &scribe, "b", Operation::Create(number as u64));
            inside.borrow_mut().retain(|&(other, _)| other != seat);
            host.leave().unwrap();
        });
    }
    world.finish();
    assert_eq!(world.hosts[0].area().membership().count(), 1, "all who left are gone");
}

/// A host joins, leaves, and joins again with what is in its caches, while others change
/// everything.
pub(crate) fn join_twice(trial: &Trial) {
    let mut world = World::new(trial, &Setup { hosts: 2, ..Setup::roomy(1) });
    let tags = Rc::new(Cell::new(0));
    let changing = Rc::clone(&tags);
    world.client(0, move |host, _| {
        for tag in 1..=6 {
            host.put(if tag % 2 == 0 { b"a" } else { b"b" }, &value(tag)).unwrap();
            host.memory().answered();
            changing.set(tag);
        }
    });
    world.thread(1, move |memory| {
        for _ in 0..3 {
            let before = tags.get();
            let host = join(memory.clone());
            let newest = contents(&host, &["a", "b"]).into_iter().flatten().max();
            assert!(newest.unwrap_or(0) >= before, "joined after {before}, read {newest:?}");
            host.leave().unwrap();
        }
    });
    world.finish();
}

/// Hosts work, leave one after the other, and return in another order: everything is as it was.
pub(crate) fn leave_and_return(trial: &Trial) {
    let mut world = World::new(trial, &Setup::roomy(trial.hosts_or(3)));
    let keys = ["a", "b", "c", "d"];
    add_mixed_clients(&mut world, &keys, 5, 8);
    let hosts = world.hosts.clone();
    world.finish();
    let before = contents(&hosts[0], &keys);
    for host in &hosts {
        host.leave().unwrap();
    }
    let host = join(hosts[trial.seed as usize % hosts.len()].memory().clone());
    assert_eq!(contents(&host, &keys), before, "objects survive that everybody leaves");
    assert_eq!(host.object_count().unwrap(), before.iter().flatten().count() as u64);
    host.put(b"a", &value(1_000)).unwrap();
    assert_eq!(contents(&host, &["a"]), [Some(1_000)]);
}

/// Objects that fill half a chunk each, created and deleted by three clients on each of two hosts:
/// chunks are exhausted while some of their slots are promised, and others want them.
pub(crate) fn crowded_chunks(trial: &Trial) {
    let mut world = World::new(trial, &Setup { chunks: 7, ..Setup::roomy(2) });
    for client in 0..6 {
        world.client(client % 2, move |host, scribe| {
            let key = format!("key {client}");
            for n in 0..5 {
                // This tag's values take half a chunk.
                let tag = 7 * (client as u64 * 100 + n) + 5;
                perform(host, scribe, &key, Operation::Create(tag));
                perform(host, scribe, &key, Operation::Get);
                perform(host, scribe, &key, Operation::Delete);
            }
        });
    }
    world.finish();
}

/// One host formats a pod, another opens it at once.
pub(crate) fn format_and_open(trial: &Trial) {
    let setup = Setup::small(2);
    let mut simulation = setup.simulation(trial);
    let formatted = Rc::new(Cell::new(false));
    let done = Rc::clone(&formatted);
    simulation.spawn(0, move |memory| {
        setup.format(memory.clone());
        memory.answered();
        done.set(true);
    });
    simulation.spawn(1, move |memory| {
        while !formatted.get() {
            memory.pause();
        }
        Pod::open(memory).unwrap();
    });
    simulation.run().unwrap();
}

pub(crate) fn contents(host: &Objects<SimMemory>, keys: &[&str]) -> Vec<Option<u64>> {
    let read = |key: &&str| {
        let mut bytes = Vec::new();
        host.read(key.as_bytes(), &mut bytes).unwrap().map(|_| tag(&bytes))
    };
    keys.iter().map(read).collect()
}
