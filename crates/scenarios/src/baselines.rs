//! Other ways of sharing. Under HCMeta, pods have entries for two objects of each host; under
//! AllLog, a log of eight entries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

use tombolo_baselines::{HcMeta, HcMetaOptions, Victims};
use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_objects::{Error, Locks, Options};
use tombolo_pod::Pod;
use tombolo_sharing::RecordWidth;
use tombolo_sharing::Scheme;
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::Operation::{self, Create, Delete, Get, Put, Replace};

use crate::crash::expect_no_help;
use crate::objects::{Collision, add_mixed_clients, find_colliding_keys, recall};
use crate::operations::{ScriptedClient, perform, tag};
use crate::world::{self, OnDrop, Setup, World, try_join};

type HcMetaHost = HcMeta<SimMemory>;

/// Keys that hosts own as their hashes say, some of them in both shards; the last two differ after
/// what entries, and requests, have room for.
const KEYS: [&str; 7] = [
    "a",
    "b",
    "i",
    "d",
    "g",
    "a key with more than forty bytes, the first one",
    "a key with more than forty bytes, the other one",
];

fn options(hosts: usize, local: bool) -> HcMetaOptions {
    HcMetaOptions {
        hosts: hosts as u8,
        // An entry takes half a line.
        key_bytes: 20,
        local,
        shards: 2,
        idle_looks: 0,
        ..HcMetaOptions::default()
    }
}

/// A line for each host's part of the index.
fn setup(hosts: usize) -> Setup {
    let lines = 3 + hosts as u64;
    let width = Some(RecordWidth::Bits32);
    Setup { records: lines * LINE_BYTES / 4, width, ..Setup::roomy(hosts) }
}

/// In some trials objects that are read give their entries up all the same.
fn few_entries(trial: &Trial, hosts: usize, local: bool) -> World<HcMetaHost> {
    let victims = [Victims::NotUsed, Victims::LeastWritten][usize::from(trial.seed % 8 == 5)];
    World::under(trial, &setup(hosts), HcMetaOptions { victims, ..options(hosts, local) })
}

fn anything_goes(trial: &Trial, local: bool) {
    let mut world = few_entries(trial, trial.hosts_or(3), local);
    add_mixed_clients(&mut world, &KEYS, 5, 8);
    world.run();
}

/// Five clients on three hosts do anything to more objects than there are entries.
pub(crate) fn hcmeta(trial: &Trial) {
    anything_goes(trial, false);
}

/// The same, with objects that move between LNR and their owners' own memory.
pub(crate) fn hcmeta_local(trial: &Trial) {
    anything_goes(trial, true);
}

/// Four chunks, which all hosts want at once.
pub(crate) fn scarce_space(trial: &Trial) {
    let hosts = trial.hosts_or(3);
    let setup = Setup { chunks: 4, ..setup(hosts) };
    let mut world: World<HcMetaHost> = World::under(trial, &setup, options(hosts, false));
    add_mixed_clients(&mut world, &KEYS, 5, 5);
    world.run();
}

/// Two keys that entries cannot tell apart are two objects.
pub(crate) fn equal_fingerprints(trial: &Trial) {
    static FOUND: OnceLock<Collision> = OnceLock::new();
    let mut world = few_entries(trial, 2, false);
    let find = |secret| {
        let long = |number| format!("a key whose begin is not its own: {number}");
        find_colliding_keys(secret, long, |hash| ((hash >> 16) as u32, (hash >> 48) % 2))
    };
    let (one, other) = recall(&FOUND, world.hosts[0].pod().identity().hash_key, find);
    add_mixed_clients(&mut world, &[&one, &other], 4, 6);
    world.run();
}

/// The contents that all hosts agree upon when no host changes anything.
fn contents(world: &mut World<HcMetaHost>, hosts: &[Rc<HcMetaHost>]) -> Vec<Option<u64>> {
    let found: Rc<RefCell<Vec<_>>> = Rc::default();
    for host in hosts {
        let (host, found) = (Rc::clone(host), Rc::clone(&found));
        world.thread(host.memory().host(), move |_| {
            let read = |key: &&str| {
                let mut bytes = Vec::new();
                host.read(key.as_bytes(), &mut bytes).unwrap().map(|_| tag(&bytes))
            };
            let values: Vec<_> = KEYS.iter().map(read).collect();
            assert_eq!(host.object_count().unwrap(), values.iter().flatten().count() as u64);
            assert_eq!(scan(&host), present(&values), "a walk meets every object");
            found.borrow_mut().push(values);
        });
    }
    world.run();
    let found = found.borrow();
    assert!(found.iter().all(|values| *values == found[0]), "hosts agree: {found:?}");
    found[0].clone()
}

fn present(values: &[Option<u64>]) -> Vec<Vec<u8>> {
    let keys = KEYS.iter().zip(values).filter(|(_, value)| value.is_some());
    let mut keys: Vec<_> = keys.map(|(key, _)| key.as_bytes().to_vec()).collect();
    keys.sort();
    keys
}

fn scan(host: &HcMetaHost) -> Vec<Vec<u8>> {
    let (mut keys, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = host.scan(cursor, |key| keys.push(key.to_vec())).unwrap();
        if cursor == 0 {
            keys.sort();
            return keys;
        }
    }
}

/// Hosts work, leave together, and return: everything is as it was.
pub(crate) fn leave_and_return(trial: &Trial) {
    let (hosts, local) = (trial.hosts_or(3), trial.seed.is_multiple_of(2));
    let mut world = few_entries(trial, hosts, local);
    add_mixed_clients(&mut world, &KEYS, 4, 6);
    world.run();
    let before = world.hosts.clone();
    let values = contents(&mut world, &before);
    for host in before {
        world.thread(host.memory().host(), move |_| host.leave().unwrap());
    }
    world.hosts.clear();
    world.run();
    let returned: Rc<RefCell<Vec<_>>> = Rc::default();
    for number in 0..hosts {
        let returned = Rc::clone(&returned);
        world.thread(number, move |memory| {
            let host = HcMetaHost::join(Pod::open(memory).unwrap(), options(hosts, local)).unwrap();
            returned.borrow_mut().push(Rc::new(host));
        });
    }
    world.run();
    world.hosts = returned.take();
    let after = world.hosts.clone();
    assert_eq!(contents(&mut world, &after), values, "objects survive that everybody leaves");
}

/// All hosts die: nobody takes what they leave behind for objects.
pub(crate) fn all_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::Together });
    let mut world: World<HcMetaHost> =
        World::under(trial, &Setup { kills, ..setup(2) }, options(2, trial.seed % 2 == 1));
    add_mixed_clients(&mut world, &KEYS, 2, 6);
    world.run();
    if world.living().is_empty() {
        let refused = try_join(world.simulation.memory(0)).err().expect("it is not opened");
        assert!(refused.to_string().contains("HCMeta"), "{refused}");
    }
}

/// All hosts die while they leave, or come back: what they leave behind is refused, or everything
/// is there because all had left.
pub(crate) fn leavers_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::Together });
    // A host that looks at what is left does so by shards of the log.
    let setup = Setup { kills, ticking: false, log_shards: Some(1), ..setup(2) };
    let local = trial.seed % 2 == 1;
    let mut world: World<HcMetaHost> = World::under(trial, &setup, options(2, local));
    let (through, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for (number, own) in KEYS[..2].iter().enumerate() {
        let (through, left) = (Rc::clone(&through), Rc::clone(&left));
        world.client(number, move |host, scribe| {
            let memory = host.memory().clone();
            let wait = |host: &HcMetaHost, count: &Cell<usize>, all: usize| {
                count.set(count.get() + 1);
                while count.get() < all {
                    host.tick().unwrap();
                    memory.pause();
                }
            };
            for (key, tag) in KEYS.iter().zip(1..4) {
                perform(host, scribe, key, Put(7 * tag + 100 * number as u64));
            }
            wait(host, &through, 2);
            host.leave().unwrap();
            left.set(left.get() + 1);
            while left.get() < 2 {
                memory.pause();
            }
            let host =
                HcMetaHost::join(Pod::open(memory.clone()).unwrap(), options(2, local)).unwrap();
            wait(&host, &through, 4);
            perform(&host, scribe, own, Get);
            wait(&host, &through, 6);
        });
    }
    world.run();
    if world.living().is_empty() {
        match try_join(world.simulation.memory(0)) {
            Ok(host) => {
                let scribe = world.scribe();
                KEYS[..3].iter().for_each(|key| perform(&*host, &scribe, key, Get));
                world.check_history();
            }
            Err(refused) if refused.to_string().contains("HCMeta") => {}
            Err(error) => expect_no_help(&world.simulation.memory(0), &error),
        }
    }
}

/// A host that does not use HCMeta comes to a pod whose hosts do. It is refused, and dies; they go
/// on.
pub(crate) fn who_is_refused_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![2], one_in: 1, deaths: Deaths::One });
    let setup = Setup { kills, hosts: 3, joined: 2, ..setup(2) };
    let mut world: World<HcMetaHost> = World::under(trial, &setup, options(2, trial.seed % 2 == 1));
    add_mixed_clients(&mut world, &KEYS, 2, 4);
    world.thread(2, |memory| {
        let refused = try_join(memory).err().expect("it cannot join");
        assert!(refused.to_string().contains("HCMeta"), "{refused}");
    });
    world.run();
}

/// The only host of a pod for a page cache opens it, works, and leaves, and dies at that. The next
/// one finds a pod without objects, or is told that a host has died in it.
pub(crate) fn the_only_host_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let setup = Setup { kills, hosts: 2, joined: 0, latches: 2, ..setup(1) };
    let mut world: World<HcMetaHost> = World::under(trial, &setup, options(1, false));
    let (first, second) = (world.scribe(), world.scribe());
    let gone = Rc::new(Cell::new(false));
    let through = Rc::clone(&gone);
    let come = |memory: &SimMemory| HcMetaHost::join(Pod::open(memory.clone())?, options(1, false));
    world.thread(0, move |memory| {
        let _through = OnDrop::new(&through);
        let host = come(&memory).unwrap();
        perform(&host, &first, "a", Put(7));
        perform(&host, &first, "a", Delete);
        host.leave().unwrap();
    });
    world.thread(1, move |memory| {
        while !gone.get() {
            memory.pause();
        }
        match come(&memory) {
            Ok(host) => {
                perform(&host, &second, "a", Get);
                perform(&host, &second, "a", Put(14));
                perform(&host, &second, "a", Get);
            }
            Err(Error::Setup(_)) if memory.deaths() > 0 => {}
            Err(error) => expect_no_help(&memory, &error),
        }
    });
    world.run();
}

/// Two hosts change halves of one object each, and read it.
pub(crate) fn halves(trial: &Trial) {
    const HALF: usize = 40;
    let mut world = few_entries(trial, 2, false);
    let done = Rc::new(Cell::new(0));
    for number in 0..2 {
        let done = Rc::clone(&done);
        world.client(number, move |host, _| {
            let begin = number * HALF;
            if number == 0 {
                host.create(b"halves", &[0; 2 * HALF]).unwrap();
            }
            for n in 1..5 {
                while host.stat(b"halves").unwrap().is_none() {
                    host.memory().pause();
                }
                host.write_range(b"halves", begin as u64, &[n; HALF]).unwrap();
                let mut bytes = Vec::new();
                host.read(b"halves", &mut bytes).unwrap();
                assert!(bytes[begin..begin + HALF] == [n; HALF], "an update was lost");
                let other = &bytes[HALF - begin..][..HALF];
                assert!(other.iter().all(|byte| *byte == other[0]), "torn");
                let mut part = [0; HALF / 2];
                host.read_range(b"halves", begin as u64, &mut part).unwrap();
                assert_eq!(part, [n; HALF / 2]);
            }
            done.set(done.get() + 1);
        });
    }
    world.run();
    assert_eq!(done.get(), 2);
}

/// Two hosts; objects are there that both have read; then clients do what they are to do.
fn short(trial: &Trial, local: bool, before: &[&str], clients: &[ScriptedClient<'_>]) {
    let mut world = few_entries(trial, 2, local);
    let ready = Rc::new(Cell::new(0));
    for number in 0..2 {
        let (ready, host) = (Rc::clone(&ready), Rc::clone(&world.hosts[number]));
        let (keys, scribe) = (strings(before), world.scribe());
        world.thread(number, move |memory| {
            let meet = |count: usize| {
                ready.set(ready.get() + 1);
                while ready.get() < count {
                    host.tick().unwrap();
                    memory.pause();
                }
            };
            for key in keys.iter().filter(|_| number == 0) {
                perform(&*host, &scribe, key, Create(7));
            }
            meet(2);
            keys.iter().for_each(|key| perform(&*host, &scribe, key, Get));
            meet(4);
        });
    }
    world.simulation.run_calmly().unwrap();
    for &(host, operations) in clients {
        let operations: Vec<(String, Operation<u64>)> =
            operations.iter().map(|(key, what)| ((*key).to_owned(), what.clone())).collect();
        world.client(host, move |host, scribe| {
            for (key, operation) in operations {
                perform(host, scribe, &key, operation);
            }
        });
    }
    world.run();
}

fn strings(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|&key| key.to_owned()).collect()
}

/// A shared object is written in place while another host reads it.
pub(crate) fn write_and_read(trial: &Trial) {
    short(
        trial,
        false,
        &["a"],
        &[(0, &[("a", Put(14)), ("a", Get)]), (1, &[("a", Get), ("a", Put(21)), ("a", Get)])],
    );
}

/// Three objects of each host take turns with two entries, while both read and write.
pub(crate) fn churn(trial: &Trial) {
    let some = [("a", Get), ("b", Put(14)), ("c", Get), ("d", Put(21))];
    let others = [("d", Get), ("e", Put(28)), ("a", Get), ("c", Put(35))];
    let local = trial.seed.is_multiple_of(2);
    short(trial, local, &["a", "b", "c", "d", "e"], &[(0, &some), (1, &others), (1, &some)]);
}

/// An object is deleted and created anew, larger, while another host reads it.
pub(crate) fn delete_and_create(trial: &Trial) {
    let local = trial.seed.is_multiple_of(2);
    short(
        trial,
        local,
        &["a", "b"],
        &[
            (0, &[("a", Delete), ("a", Create(14 + 3)), ("b", Replace(21))]),
            (1, &[("a", Get), ("a", Get), ("b", Delete), ("b", Create(28)), ("b", Get)]),
        ],
    );
}

/// Objects that are locked by the log, in a pod with few records for nobody to use.
fn all_log(trial: &Trial, setup: &Setup) -> World {
    let options = Options { locks: Locks::Log, ..world::options() };
    World::under(trial, setup, options)
}

/// Five clients on three hosts do anything to two objects.
pub(crate) fn all_log_anything_goes(trial: &Trial) {
    let mut world = all_log(trial, &Setup::roomy(trial.hosts_or(3)));
    add_mixed_clients(&mut world, &["a", "b"], 5, 8);
    world.finish();
    assert_eq!(world.hosts[0].usage().records_used, 0);
}

/// An object is written by two hosts, and read by both.
pub(crate) fn all_log_writes(trial: &Trial) {
    let mut world = all_log(trial, &Setup::small(2));
    let scribe = world.scribe();
    perform(&*world.hosts[0], &scribe, "a", Create(9));
    for (number, tags) in [[16, 17], [23, 24]].into_iter().enumerate() {
        world.client(number, move |host, scribe| {
            for tag in tags {
                perform(host, scribe, "a", Put(tag));
                perform(host, scribe, "a", Get);
            }
        });
    }
    world.finish();
}

#[cfg(test)]
mod tests {
    use tombolo_sharing::hash_key;

    use super::*;

    /// A thread that counts objects is in the way of another thread of the same host only then.
    #[test]
    fn a_host_owns_keys_of_both_shards() {
        let world = few_entries(&Trial::new(0), 3, false);
        let pod = world.hosts[0].pod();
        let place = |key: &str| {
            let hash = hash_key(pod, key.as_bytes()).unwrap();
            ((hash >> 48) % 3, (hash >> 40) % 2)
        };
        let places = KEYS.map(place);
        let both = |host| (0..2).all(|shard| places.contains(&(host, shard)));
        assert!((0..3).any(both), "{places:?}");
    }
}
