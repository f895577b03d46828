//! Expiry on hosts whose clocks disagree.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tombolo_kv::{Change, DeadlineChange, Entry, Store};
use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_pod::Pod;
use tombolo_simulator::{Deaths, Kills, SimMemory, Simulation, Trial};

use crate::world::{Busy, Setup, options};

pub(crate) type SharedStore = Store<Objects<SimMemory>>;

const HOSTS: usize = 3;
const KEY: &[u8] = b"key";

/// A pod with stores on all its hosts, whose threads are counted.
pub(crate) struct StoreWorld {
    simulation: Simulation,
    stores: Vec<Rc<SharedStore>>,
    busy: Rc<Cell<usize>>,
}

impl StoreWorld {
    fn new(trial: &Trial) -> Self {
        Self::with(trial, None)
    }

    fn with(trial: &Trial, kills: Option<Kills>) -> Self {
        Self::of(trial, &Setup { kills, ..Setup::roomy(HOSTS) })
    }

    pub(crate) fn of(trial: &Trial, setup: &Setup) -> Self {
        let (mut simulation, hosts) = (setup.simulation(trial), setup.hosts);
        let stores: Rc<std::cell::RefCell<Vec<Rc<SharedStore>>>> = Rc::default();
        for host in 0..hosts {
            let stores = Rc::clone(&stores);
            simulation.spawn(host, move |memory| {
                while stores.borrow().len() < host {
                    memory.pause();
                }
                let pod = Pod::open(memory.clone()).unwrap();
                let store = Rc::new(Store::join(pod, options()).unwrap());
                stores.borrow_mut().push(Rc::clone(&store));
                while stores.borrow().len() < hosts {
                    store.tick().unwrap();
                    memory.pause();
                }
            });
        }
        simulation.run_calmly().unwrap();
        let stores = stores.borrow().clone();
        Self { simulation, stores, busy: Rc::default() }
    }

    pub(crate) fn stores(&self) -> Vec<Rc<SharedStore>> {
        self.stores.clone()
    }

    pub(crate) fn client(&mut self, host: usize, body: impl FnOnce(&SharedStore) + 'static) {
        let (store, busy) = (Rc::clone(&self.stores[host]), Busy::new(&self.busy));
        self.simulation.spawn(host, move |_| {
            let _busy = busy;
            body(&store);
        });
    }

    /// Runs to the end; the stores of the hosts that have not died.
    pub(crate) fn finish(mut self) -> Vec<Rc<SharedStore>> {
        for (host, store) in self.stores.iter().enumerate() {
            let (store, busy) = (Rc::clone(store), Rc::clone(&self.busy));
            self.simulation.spawn(host, move |memory| {
                while busy.get() > 0 {
                    store.tick().unwrap();
                    (0..memory.random() % 32).for_each(|_| memory.pause());
                }
                // Another host may be in the middle of something that waits for this one.
                store.tick().unwrap();
            });
        }
        self.simulation.run().unwrap();
        let stores = self.stores.into_iter().enumerate();
        let living = stores.filter(|&(host, _)| self.simulation.deaths(host) == 0);
        living.map(|(_, store)| store).collect()
    }
}

fn wait(store: &SharedStore, most_ms: u64) {
    let memory = store.objects().memory();
    memory.sleep(Duration::from_millis(memory.random() % most_ms));
}

/// Whether `key` has a value, by one of two ways to ask; only one of them removes what has expired.
fn is_there(store: &SharedStore, key: &[u8]) -> bool {
    if store.objects().memory().random().is_multiple_of(2) {
        return store.get(key).unwrap().is_some();
    }
    let mut found = false;
    store
        .update(key, |before| {
            found = before.is_some();
            Change::Keep
        })
        .unwrap();
    found
}

/// A value expires on all hosts at once: once one has found it gone, nobody sees it again.
pub(crate) fn gone_is_gone(trial: &Trial) {
    expire(StoreWorld::new(trial));
}

/// The same, while one of the hosts dies.
pub(crate) fn a_host_dies(trial: &Trial) {
    let kills = Kills { hosts: (0..HOSTS).collect(), one_in: 1, deaths: Deaths::One };
    expire(StoreWorld::with(trial, Some(kills)));
}

fn expire(mut world: StoreWorld) {
    let gone = Rc::new(Cell::new(false));
    let deadline_ms = Some(world.stores[0].now_ms() + 60);
    world.stores[0].put(KEY, &Entry { value: b"short-lived".to_vec(), deadline_ms }).unwrap();
    for client in 0..2 * HOSTS {
        let gone = Rc::clone(&gone);
        world.client(client % HOSTS, move |store| {
            for round in 0.. {
                assert!(round < 1000, "it expires at last");
                wait(store, 20);
                let known_gone = gone.get();
                let found = is_there(store, KEY);
                assert!(!(found && known_gone), "a value came back after it had expired");
                if !found {
                    store.objects().memory().answered();
                    gone.set(true);
                    break;
                }
            }
        });
    }
    world.finish();
}

/// A host that removes an expired value does not remove the one that took its place.
pub(crate) fn a_new_value_stays(trial: &Trial) {
    let mut world = StoreWorld::new(trial);
    let deadline_ms = Some(world.stores[0].now_ms() + 1);
    world.stores[0].put(KEY, &Entry { value: b"old".to_vec(), deadline_ms }).unwrap();
    world.client(0, |store| {
        wait(store, 100);
        store.put(KEY, &Entry::lasting("new")).unwrap();
        let found = store.get(KEY).unwrap();
        assert_eq!(found, Some(Entry::lasting("new")), "a value that lasts is gone");
    });
    for host in 1..HOSTS {
        world.client(host, |store| {
            for _ in 0..8 {
                wait(store, 20);
                store.get(KEY).unwrap();
                store.delete(b"another").unwrap();
            }
        });
    }
    let last = Rc::clone(&world.stores[1]);
    world.finish();
    assert_eq!(last.get(KEY).unwrap(), Some(Entry::lasting("new")), "a value that lasts is gone");
}

/// Deadlines pass on hosts whose clocks differ: what has passed for one has passed for all.
pub(crate) fn deadlines(trial: &Trial) {
    let setup = Setup::small(HOSTS);
    let mut simulation = setup.simulation(trial);
    let passed: Rc<[Cell<bool>; 8]> = Rc::default();
    for host in 0..HOSTS {
        let passed = Rc::clone(&passed);
        simulation.spawn(host, move |memory| {
            let clock = Pod::open(memory.clone()).unwrap().clock();
            let start = 1_000_000 + 50;
            for _ in 0..24 {
                memory.sleep(Duration::from_millis(memory.random() % 2));
                let which = memory.random() as usize % passed.len();
                let known = passed[which].get();
                let now = clock.has_passed(&memory, start + which as u64);
                memory.answered();
                assert!(now || !known, "a deadline that had passed is to come");
                passed[which].set(known || now);
            }
        });
    }
    simulation.run().unwrap();
}

/// Deadlines that values are given: none, one to come, and two that take more than 48 bits.
const DEADLINES: [Option<u64>; 4] = [None, Some(1 << 45), Some(1 << 50 | 7), Some(1 << 62 | 9)];
/// Lengths of values, of which each has a letter of its own.
const LENGTHS: [(u8, usize); 3] = [(b'a', 0), (b'b', 30), (b'c', 300)];

/// Deadlines and parts of values are read and changed where they are, while others put and delete
/// the whole: what is seen belongs together.
pub(crate) fn parts(trial: &Trial) {
    let mut world = StoreWorld::new(trial);
    for client in 0..2 * HOSTS {
        world.client(client % HOSTS, |store| (0..12).for_each(|_| change_or_read_part(store)));
    }
    world.finish();
}

fn change_or_read_part(store: &SharedStore) {
    let random = |end: usize| store.objects().memory().random() as usize % end;
    let deadline_ms = DEADLINES[random(DEADLINES.len())];
    let is_known = |bytes: &[u8], length: usize| {
        LENGTHS
            .iter()
            .any(|&(letter, known)| known == length && bytes.iter().all(|&byte| byte == letter))
    };
    match random(8) {
        0 | 1 => {
            let (letter, length) = LENGTHS[random(LENGTHS.len())];
            store.put(KEY, &Entry { value: vec![letter; length], deadline_ms }).unwrap();
        }
        2 => _ = store.delete(KEY).unwrap(),
        3 => {
            store
                .update_deadline(KEY, |old| {
                    assert!(DEADLINES.contains(&old), "a deadline in parts: {old:?}");
                    DeadlineChange::Set(deadline_ms)
                })
                .unwrap();
        }
        4 => {
            // The bytes are those that a value of this length has there, so the value stays whole.
            if let Some(stat) = store.stat(KEY).unwrap() {
                assert!(DEADLINES.contains(&stat.deadline_ms), "a deadline in parts: {stat:?}");
                assert!(is_known(b"", stat.value_bytes as usize), "a length in parts: {stat:?}");
            }
            let changed = store.set_range(KEY, 100, &[b'c'; 100]).unwrap();
            assert!(changed.is_none_or(|length| length == 300), "{changed:?}");
        }
        5 => {
            let length = Cell::new(0);
            let choose = |bytes: u64| {
                length.set(bytes as usize);
                bytes / 2..bytes
            };
            if let Some(part) = store.get_range(KEY, choose).unwrap() {
                assert_eq!(part.len(), length.get() - length.get() / 2);
                assert!(is_known(&part, length.get()), "a value in parts: {part:?}");
            }
        }
        _ => {
            if let Some(Entry { value, deadline_ms }) = store.get(KEY).unwrap() {
                assert!(DEADLINES.contains(&deadline_ms), "a deadline in parts: {deadline_ms:?}");
                assert!(is_known(&value, value.len()), "a value in parts: {value:?}");
            }
        }
    }
    store.objects().memory().answered();
}
