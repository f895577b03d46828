//! Eviction: hosts remove values when there is no room, while others write, view and die.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_kv::{Entry, EvictionPolicy};
use tombolo_memory::Memory;
use tombolo_objects::{Eviction, Objects, Resident, Version};
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};

use crate::expiry::{SharedStore, StoreWorld};
use crate::world::{Setup, World};

const KEY: &[u8] = b"key";

/// The only object of a pod, as the index tells of it.
fn only_resident(host: &Objects<SimMemory>) -> Resident {
    let (mut found, mut cursor) = (None, 0);
    while found.is_none() {
        cursor = host.sample(cursor, |resident| found = Some(resident));
    }
    found.expect("there is one")
}

/// Evicts an object, by the usual steps; its version, and what came of it.
fn evict(host: &Objects<SimMemory>, resident: Resident) -> Option<(Version, Eviction)> {
    let (mut key, mut head) = (Vec::new(), [0; 8]);
    let version = host.inspect(resident, &mut key, &mut head).unwrap()?;
    (0..host.memory().random() % 8).for_each(|_| host.memory().pause());
    assert_eq!(key, KEY);
    Some((version, host.evict(resident, &key, version).unwrap()))
}

/// A pod with one object, which both hosts know. If `written`, it has a record.
fn one_object(trial: &Trial, bytes: usize, written: bool) -> World {
    one_object_in(trial, Setup::small(2), bytes, written)
}

fn one_object_in(trial: &Trial, setup: Setup, bytes: usize, written: bool) -> World {
    let world = World::new(trial, &Setup { chunks: 8, ..setup });
    let hosts = world.hosts.clone();
    hosts[0].create(KEY, &vec![1; bytes]).unwrap();
    if written {
        hosts[0].put(KEY, &vec![2; bytes]).unwrap();
    }
    for host in &hosts {
        assert!(host.stat(KEY).unwrap().is_some());
    }
    world
}

/// A host evicts an object while another one writes it: a write that was acknowledged is never
/// undone by a decision that was made before it.
pub(crate) fn evict_and_write(trial: &Trial) {
    let mut world = one_object(trial, 40, trial.seed % 2 == 1);
    let (evicted, written) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(None)));
    let (host, told) = (Rc::clone(&world.hosts[0]), Rc::clone(&evicted));
    let resident = only_resident(&host);
    world.thread(0, move |_| {
        if let Some((version, Eviction::Done)) = evict(&host, resident) {
            told.set(Some(version));
        }
    });
    let (host, told) = (Rc::clone(&world.hosts[1]), Rc::clone(&written));
    world.thread(1, move |_| told.set(Some(host.put(KEY, &[3; 40]).unwrap())));
    world.run();
    let expected = written.get().filter(|_| evicted.get() != written.get());
    let found = world.hosts[1].stat(KEY).unwrap().map(|(_, version)| version);
    assert_eq!(found, expected, "{:?} was evicted", evicted.get());
}

/// A host evicts what another one views: not as long as that looks.
pub(crate) fn evict_and_view(trial: &Trial) {
    let mut world = one_object(trial, 480, trial.seed % 2 == 1);
    let viewing = Rc::new(Cell::new(false));
    let (host, told) = (Rc::clone(&world.hosts[0]), Rc::clone(&viewing));
    let resident = only_resident(&host);
    world.thread(0, move |memory| {
        // The view begins before the eviction, or meanwhile, or after it.
        let mut patience = 4 * (memory.random() % 64);
        while patience > 0 && !told.get() {
            memory.pause();
            patience -= 1;
        }
        for _ in 0..4 {
            let before = told.get();
            let done = matches!(evict(&host, resident), Some((_, Eviction::Done)));
            assert!(!(done && before && told.get()), "it was evicted while it was viewed");
        }
    });
    let (host, told) = (Rc::clone(&world.hosts[1]), viewing);
    world.thread(1, move |memory| {
        let Some(view) = host.view(KEY).unwrap() else { return };
        memory.answered();
        told.set(true);
        for _ in 0..8 {
            let bytes = view.bytes().into_owned();
            assert!(bytes == [1; 480] || bytes == [2; 480], "a view changes");
            (0..memory.random() % 16).for_each(|_| memory.pause());
        }
        told.set(false);
        drop(view);
    });
    world.run();
}

/// Bytes in which a host tells what it has used: two lines, so that it writes over what others
/// read.
const RING_BYTES: u64 = 128;

fn setup(hosts: usize, policy: EvictionPolicy, kills: Option<Kills>) -> Setup {
    let setup = Setup { kills, chunks: 16, ..Setup::roomy(hosts).plain() };
    Setup { eviction: policy, use_ring_bytes: RING_BYTES, ..setup }
}

fn name(key: u64) -> String {
    format!("key {key}")
}

fn value(key: u64) -> Vec<u8> {
    key.to_le_bytes().repeat(25)
}

/// Puts values, more than there is room for, and reads others: each is whole, and no put fails.
fn work(store: &SharedStore, client: u64, puts: u64) {
    let random = |end: u64| store.objects().memory().random() % end;
    for number in 0..puts {
        let key = client * 100 + number;
        let deadline_ms = random(2).eq(&0).then(|| store.now_ms() + 3_600_000);
        let entry = Entry { value: value(key), deadline_ms };
        store.put(name(key).as_bytes(), &entry).unwrap();
        for _ in 0..2 {
            let key = random(4) * 100 + random(puts);
            if let Some(found) = store.get(name(key).as_bytes()).unwrap() {
                assert_eq!(found.value, value(key), "a value is another key's");
            }
        }
        store.objects().memory().answered();
    }
}

/// The policies that a seed chooses from: those that let any value go.
fn policy_of(trial: &Trial) -> EvictionPolicy {
    use EvictionPolicy::{AllKeysLfu, AllKeysLru, AllKeysRandom};
    [AllKeysLru, AllKeysLfu, AllKeysRandom][trial.seed as usize / 3 % 3]
}

/// Hosts fill a pod that is too small for all that they put, and tell each other what they use.
pub(crate) fn full(trial: &Trial) {
    let hosts = 2 + trial.seed as usize % 2;
    let mut world = StoreWorld::of(trial, &setup(hosts, policy_of(trial), None));
    for client in 0..4 {
        world.client(client % hosts, move |store| work(store, client as u64, 16));
    }
    let stores = world.stores();
    world.finish();
    let evicted: u64 = stores.iter().map(|store| store.evicted_values()).sum();
    let area = stores[0].objects().area();
    assert!(evicted > 0, "the pod is too large for this");
    assert_eq!(area.evicted().iter().sum::<u64>(), evicted, "hosts count together");
    assert_eq!(stores[0].key_count().unwrap() + evicted, 64, "each value is there, or evicted");
}

/// The same, while one of the hosts dies.
pub(crate) fn an_evicting_host_dies(trial: &Trial) {
    let hosts = 2 + trial.seed as usize % 2;
    let kills = Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One };
    let mut world = StoreWorld::of(trial, &setup(hosts, policy_of(trial), Some(kills)));
    for client in 0..4 {
        world.client(client % hosts, move |store| work(store, client as u64, 12));
    }
    let living = world.finish();
    for key in 0..20 {
        living[0].put(name(key).as_bytes(), &Entry::lasting(value(key))).unwrap();
        // The log is short: all hosts that live have to follow it.
        living[1..].iter().for_each(|store| store.tick().unwrap());
    }
}

/// A host dies while it evicts an object with a record, which another one writes.
pub(crate) fn an_evictor_of_a_written_object_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let mut world = one_object_in(trial, Setup { kills, ..Setup::small(2) }, 40, true);
    let host = Rc::clone(&world.hosts[0]);
    let resident = only_resident(&host);
    world.thread(0, move |_| _ = evict(&host, resident));
    let host = Rc::clone(&world.hosts[1]);
    world.thread(1, move |_| {
        for tag in 3..7 {
            host.put(KEY, &[tag; 40]).unwrap();
        }
    });
    world.finish();
    for host in world.living() {
        let mut value = Vec::new();
        let found = host.read(KEY, &mut value).unwrap();
        assert!(found.is_none() || value == [6; 40], "{value:?} was written before");
        host.leave().unwrap();
    }
}

/// The clock of uses does not lose what hosts have put.
pub(crate) fn clock(trial: &Trial) {
    let mut world = StoreWorld::of(trial, &setup(2, EvictionPolicy::AllKeysLru, None));
    let put = |store: &SharedStore, key: u64| {
        store.put(name(key).as_bytes(), &Entry::lasting(value(key))).unwrap();
    };
    for client in 0..2 {
        world.client(client, move |store| {
            (0..4).for_each(|number| put(store, client as u64 * 100 + number));
        });
    }
    let stores = world.stores();
    world.finish();
    let area = stores[0].objects().area();
    let tick_bytes = area.geometry().chunks * area.geometry().chunk_bytes / 1024;
    let told = area.use_ticks() * tick_bytes;
    // A key, 8 bytes in front of a value, and the value. Each host keeps less than a tick.
    let bytes = 8 * (5 + 8 + 200);
    assert!(told + 2 * tick_bytes > bytes, "{told} of {bytes} bytes are told");
}
