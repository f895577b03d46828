//! Transactions of several hosts on one database.
//!
//! Where all locks of a transaction are held when its commit begins, the order in which commits
//! begin is an order in which the transactions might have run one after the other. Where
//! transactions commit at logical times, these are the order, and equal times are in the order in
//! which commits began. Run again in that order, on a map, each must find what it has found. What
//! clients have done and seen is a history, too, which has to be serializable whatever the order;
//! with the order of real time, where a transaction is committed at an instant.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tombolo_database::{Engine, TableId, TxError};
use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_object_database::ObjectDatabase;
use tombolo_pod::Pod;
use tombolo_shared_nothing::{LogicalLeases, SharedNothing, TwoPhaseLocking};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};
use tombolo_tigon::{Coherence, Tigon, Variant, Victims};
use tombolo_verify::serializability::Condition;

use self::client::{Book, Client, Key, key, row};
use self::engines::{Order, Setup, Tested};
use crate::world::{Busy, formatted};

mod client;
pub(crate) mod durable;
mod engines;

const TABLE: TableId = TableId(0);

fn simulation<E: Tested>(trial: &Trial, setup: Setup, kills: Option<Kills>) -> Simulation {
    let config = Config {
        hosts: setup.hosts,
        scr_bytes: 32 << 10,
        lnr_bytes: 512 << 10,
        max_steps: 1_500_000,
        kills,
        ..Config::default()
    };
    let layout = E::layout(setup, &config);
    formatted(trial, config, &layout)
}

/// Hosts join, load their rows, and run transactions.
fn run<E: Tested>(trial: &Trial, setup: Setup) {
    let mut simulation = simulation::<E>(trial, setup, None);
    let book: Rc<Book> = Rc::default();
    let loaded = (0..setup.hosts as u64).flat_map(|partition| loaded_of(partition, setup.keys));
    let loaded: Vec<_> = loaded.collect();
    book.note_loaded(&loaded);
    let homes: Rc<RefCell<Vec<Rc<E>>>> = Rc::default();
    for host in 0..setup.hosts {
        let homes = Rc::clone(&homes);
        simulation.spawn(host, move |memory| {
            let db: E = join(memory, setup);
            load(&db, setup.keys).unwrap();
            db.loaded().unwrap();
            homes.borrow_mut().push(Rc::new(db));
        });
    }
    simulation.run_calmly().unwrap();
    book.busy.set(setup.hosts * setup.clients);
    for db in homes.borrow().iter() {
        let host = db.memory().host();
        for worker in 0..setup.clients {
            let (db, book) = (Rc::clone(db), Rc::clone(&book));
            simulation.spawn(host, move |_| {
                let session = book.session((host * setup.clients + worker) as u32);
                let client = Client { db: &*db, book: &book, setup, session };
                (0..setup.transactions).for_each(|_| client.run(worker));
                book.busy.set(book.busy.get() - 1);
            });
        }
        let (db, book) = (Rc::clone(db), Rc::clone(&book));
        simulation.spawn(host, move |memory| {
            while book.busy.get() > 0 {
                db.tick().unwrap();
                memory.pause();
            }
        });
    }
    simulation.run().unwrap();
    if E::ORDER != Order::Instant {
        book.check(loaded.into_iter().collect());
    }
    let is_logical = E::ORDER == Order::Logical;
    book.check_history(if is_logical { Condition::Serializable } else { Condition::Strict });
    assert!(!book.committed.borrow().is_empty(), "no transaction was committed");
}

fn join<E: Tested>(memory: SimMemory, setup: Setup) -> E {
    let host = Host::join(Pod::open(memory).unwrap()).unwrap();
    E::join(&host, setup).unwrap()
}

/// Hosts come, run transactions, and one of them dies, at any step. The others are told.
fn run_with_death<E: Tested>(trial: &Trial, setup: Setup) {
    let kills = Kills { hosts: vec![1], one_in: 1, deaths: Deaths::One };
    let mut simulation = simulation::<E>(trial, setup, Some(kills));
    let working: Rc<Cell<usize>> = Rc::default();
    for host in 0..setup.hosts {
        let (works, working) = (Busy::new(&working), Rc::clone(&working));
        simulation.spawn(host, move |memory| {
            let works = works;
            let host = Host::join(Pod::open(memory).unwrap()).unwrap();
            let Ok(db) = E::join(&host, setup) else { return };
            // A host may die while rows are loaded.
            if load(&db, setup.keys).is_err() || db.loaded().is_err() {
                return;
            }
            let book = Book::default();
            let client = Client { db: &db, book: &book, setup, session: book.session(0) };
            for _ in 0..setup.transactions {
                if !client.goes_on() || db.tick().is_err() {
                    return;
                }
            }
            drop(works);
            while working.get() > 0 && db.tick().is_ok() {
                db.memory().pause();
            }
        });
    }
    simulation.run().unwrap();
}

/// Hosts come at once: each has a home of its own, and none begins before all are there.
fn meet<E: Tested>(trial: &Trial) {
    // The first host has its home before others can take one.
    let setup = Setup { hosts: 3, ..SHORT };
    let mut simulation = simulation::<E>(trial, setup, None);
    let come: Rc<RefCell<Vec<u8>>> = Rc::default();
    for host in 0..setup.hosts {
        let come = Rc::clone(&come);
        simulation.spawn(host, move |memory| {
            let db: E = join(memory, setup);
            let (home, _) = db.home();
            assert!(!come.borrow().contains(&home.0), "home {} is two hosts'", home.0);
            come.borrow_mut().push(home.0);
            db.loaded().unwrap();
            assert_eq!(come.borrow().len(), setup.hosts, "a host begins before all have come");
        });
    }
    simulation.run().unwrap();
}

/// Every other row of a partition is there at the beginning.
fn loaded_of(partition: u64, keys: u64) -> impl Iterator<Item = (Key, u64)> {
    let numbers = (0..keys).step_by(2);
    numbers.map(move |number| (key(partition, number), 1_000_000 + 100 * partition + number))
}

fn load(db: &impl Engine, keys: u64) -> Result<(), TxError> {
    let (home, _) = db.home();
    let mut rows = loaded_of(home.0.into(), keys);
    rows.try_for_each(|(key, tag)| db.load(TABLE, &key, &row(tag)))
}

const SHORT: Setup = Setup {
    hosts: 2,
    clients: 1,
    transactions: 4,
    keys: 5,
    budget: 600,
    no_phantoms: true,
    variant: Variant::USUAL,
};

fn long(trial: &Trial) -> Setup {
    let hosts = trial.hosts_or(3);
    Setup { hosts, clients: 2, transactions: 6, budget: u64::MAX, ..SHORT }
}

/// Three hosts, and room for all rows in SCR.
pub(crate) fn anything_goes(trial: &Trial) {
    run::<Tigon<SimMemory>>(trial, long(trial));
}

/// Rows move out all the time.
pub(crate) fn rows_move(trial: &Trial) {
    let hosts = trial.hosts_or(2);
    run::<Tigon<SimMemory>>(trial, Setup { hosts, transactions: 8, budget: 300, ..long(trial) });
}

/// The shared index has several nodes, which come and go.
pub(crate) fn nodes_come_and_go(trial: &Trial) {
    let hosts = trial.hosts_or(2);
    run::<Tigon<SimMemory>>(trial, Setup { hosts, keys: 40, budget: 1500, ..long(trial) });
}

/// Variants that are serializable, one for each seed, while rows move out all the time.
pub(crate) fn variants(trial: &Trial) {
    let of_coherence = |coherence| Variant { coherence, ..Variant::USUAL };
    let of_victims = |victims| Variant { victims, ..Variant::USUAL };
    let variants = [
        of_coherence(Coherence::OneReader),
        of_coherence(Coherence::Uncached),
        of_coherence(Coherence::Hardware),
        of_victims(Victims::LeastRecentlyUsed),
        of_victims(Victims::First),
        Variant { shortcuts: false, ..Variant::USUAL },
        Variant { dirty_bit: false, ..Variant::USUAL },
    ];
    let variant = variants[(trial.seed % variants.len() as u64) as usize];
    let hosts = trial.hosts_or(2);
    let setup = Setup { hosts, transactions: 8, budget: 400, variant, ..long(trial) };
    run::<Tigon<SimMemory>>(trial, setup);
}

/// The rows that move out are those that other hosts have not used for the longest time.
pub(crate) fn least_recently_used(trial: &Trial) {
    let variant = Variant { victims: Victims::LeastRecentlyUsed, ..Variant::USUAL };
    let hosts = trial.hosts_or(3);
    // Few rows that all use, so that many use one list at once.
    let setup = Setup { hosts, transactions: 8, keys: 3, budget: 400, variant, ..long(trial) };
    run::<Tigon<SimMemory>>(trial, setup);
}

/// Gaps are not locked. No row comes or goes, since that lets phantoms in.
pub(crate) fn no_gap_locks(trial: &Trial) {
    let variant = Variant { next_key_locks: false, ..Variant::USUAL };
    let hosts = trial.hosts_or(2);
    let long = Setup { hosts, transactions: 8, budget: 300, ..long(trial) };
    run::<Tigon<SimMemory>>(trial, Setup { no_phantoms: false, variant, ..long });
}

/// One client on each of two hosts.
pub(crate) fn two_clients(trial: &Trial) {
    run::<Tigon<SimMemory>>(trial, SHORT);
}

/// Tigon's hosts come at once.
pub(crate) fn tigon_meets(trial: &Trial) {
    meet::<Tigon<SimMemory>>(trial);
}

/// DS2PL+'s hosts come at once.
pub(crate) fn ds2pl_meets(trial: &Trial) {
    meet::<SharedNothing<SimMemory, TwoPhaseLocking>>(trial);
}

/// DS2PL+ on three hosts.
pub(crate) fn ds2pl(trial: &Trial) {
    run::<SharedNothing<SimMemory, TwoPhaseLocking>>(trial, long(trial));
}

/// The same, with one client on each of two hosts.
pub(crate) fn ds2pl_two_clients(trial: &Trial) {
    run::<SharedNothing<SimMemory, TwoPhaseLocking>>(trial, SHORT);
}

/// Sundial+ as published on three hosts. No row comes or goes, since it lets phantoms in.
pub(crate) fn sundial(trial: &Trial) {
    let setup = Setup { no_phantoms: false, transactions: 8, ..long(trial) };
    run::<SharedNothing<SimMemory, LogicalLeases>>(trial, setup);
}

/// The same, with one client on each of two hosts.
pub(crate) fn sundial_two_clients(trial: &Trial) {
    let setup = Setup { no_phantoms: false, transactions: 6, ..SHORT };
    run::<SharedNothing<SimMemory, LogicalLeases>>(trial, setup);
}

/// Sundial+ with leases of gaps: anything goes.
pub(crate) fn sundial_gap_leases(trial: &Trial) {
    run::<SharedNothing<SimMemory, LogicalLeases>>(trial, long(trial));
}

/// A host of Tigon dies at any step.
pub(crate) fn tigon_host_dies(trial: &Trial) {
    run_with_death::<Tigon<SimMemory>>(trial, Setup { budget: 300, ..SHORT });
}

/// The same, of a database that has its rows in a list by use: the list's latch of the dead host
/// is never waited for without an end.
pub(crate) fn tigon_lister_dies(trial: &Trial) {
    let variant = Variant { victims: Victims::LeastRecentlyUsed, ..Variant::USUAL };
    run_with_death::<Tigon<SimMemory>>(trial, Setup { budget: 300, variant, ..SHORT });
}

/// A host of DS2PL+ dies at any step.
pub(crate) fn ds2pl_host_dies(trial: &Trial) {
    run_with_death::<SharedNothing<SimMemory, TwoPhaseLocking>>(trial, SHORT);
}

/// A host of Sundial+ dies at any step.
pub(crate) fn sundial_host_dies(trial: &Trial) {
    run_with_death::<SharedNothing<SimMemory, LogicalLeases>>(trial, SHORT);
}

/// Transactions over objects of three hosts, whose leaves are split and removed.
pub(crate) fn objects(trial: &Trial) {
    run::<ObjectDatabase<SimMemory>>(trial, long(trial));
}

/// The same, with one client on each of two hosts.
pub(crate) fn objects_two_clients(trial: &Trial) {
    run::<ObjectDatabase<SimMemory>>(trial, Setup { transactions: 8, ..SHORT });
}

/// The hosts of a database of objects come at once.
pub(crate) fn objects_meet(trial: &Trial) {
    meet::<ObjectDatabase<SimMemory>>(trial);
}

/// A host of a database of objects dies at any step.
pub(crate) fn objects_host_dies(trial: &Trial) {
    run_with_death::<ObjectDatabase<SimMemory>>(trial, SHORT);
}
