//! Expiry on hosts whose clocks disagree.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tombolo_kv::{Change, Entry, SITES, Store};
use tombolo_memory::{Memory, Site};
use tombolo_objects::Options;
use tombolo_pod::{Geometry, Pod};
use tombolo_simulator::{Config, SimMemory, Simulation, explore, find_failure};

const HOSTS: usize = 3;
const KEY: &[u8] = b"key";

fn config() -> Config {
    Config { hosts: HOSTS, clock_skew_ms: 50, max_steps: 400_000, ..Config::default() }
}

struct World {
    simulation: Simulation,
    stores: Vec<Rc<Store<SimMemory>>>,
    busy: Rc<Cell<usize>>,
}

impl World {
    fn new(config: Config, seed: u64) -> Self {
        let mut simulation = Simulation::new(config, seed);
        let memory = simulation.memory(0);
        let layout = tombolo_pod::Options {
            ring_entries: Some(16),
            segment_entries: Some(16),
            chunk_bytes: Some(1024),
            ..Default::default()
        };
        let geometry = Geometry::plan(memory.scr_bytes(), memory.lnr_bytes(), layout).unwrap();
        Pod::format(memory, geometry).unwrap();
        let stores: Rc<std::cell::RefCell<Vec<Rc<Store<SimMemory>>>>> = Rc::default();
        for host in 0..HOSTS {
            let stores = Rc::clone(&stores);
            simulation.spawn(host, move |memory| {
                while stores.borrow().len() < host {
                    memory.pause();
                }
                let pod = Pod::open(memory.clone()).unwrap();
                let store = Rc::new(Store::join(pod, Options::default()).unwrap());
                stores.borrow_mut().push(Rc::clone(&store));
                while stores.borrow().len() < HOSTS {
                    store.tick().unwrap();
                    memory.pause();
                }
            });
        }
        simulation.run().unwrap();
        let stores = stores.borrow().clone();
        Self { simulation, stores, busy: Rc::default() }
    }

    fn client(&mut self, host: usize, body: impl FnOnce(&Store<SimMemory>) + 'static) {
        let (store, busy) = (Rc::clone(&self.stores[host]), Rc::clone(&self.busy));
        busy.set(busy.get() + 1);
        self.simulation.spawn(host, move |_| {
            body(&store);
            busy.set(busy.get() - 1);
        });
    }

    fn finish(mut self) {
        for (host, store) in self.stores.iter().enumerate() {
            let (store, busy) = (Rc::clone(store), Rc::clone(&self.busy));
            self.simulation.spawn(host, move |memory| {
                while busy.get() > 0 {
                    store.tick().unwrap();
                    (0..memory.random() % 32).for_each(|_| memory.pause());
                }
            });
        }
        self.simulation.run().unwrap();
    }
}

fn wait(store: &Store<SimMemory>, most_ms: u64) {
    let memory = store.objects().memory();
    memory.sleep(Duration::from_millis(memory.random() % most_ms));
}

/// A value expires on all hosts at once: once one has found it gone, nobody sees it again.
fn gone_is_gone(config: Config, seed: u64) {
    let mut world = World::new(config, seed);
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
                let found = if store.objects().memory().random().is_multiple_of(2) {
                    store.get(KEY).unwrap().is_some()
                } else {
                    let mut found = false;
                    store
                        .update(KEY, |before| {
                            found = before.is_some();
                            Change::Keep
                        })
                        .unwrap();
                    found
                };
                assert!(!(found && known_gone), "a value came back after it had expired");
                if !found {
                    gone.set(true);
                    break;
                }
            }
        });
    }
    world.finish();
}

/// Who removes an expired value does not remove the one that took its place.
fn a_new_value_stays(config: Config, seed: u64) {
    let mut world = World::new(config, seed);
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

#[test]
fn expiry_is_right_on_all_hosts() {
    explore(0..150, |seed| {
        gone_is_gone(config(), seed);
        a_new_value_stays(config(), seed);
    });
}

#[test]
fn every_step_is_needed() {
    let clock = tombolo_pod::SITES.iter().filter(|site| site.name() == "pod.clock.advance");
    for &site in SITES.iter().chain(clock) {
        assert!(fails_without(site), "nothing fails without {site:?}");
    }
}

fn fails_without(site: Site) -> bool {
    let config = || config().without(site);
    find_failure(0..1500, |seed| {
        gone_is_gone(config(), seed);
        a_new_value_stays(config(), seed);
    })
    .is_some()
}
