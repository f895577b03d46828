//! Transactions of several hosts on one database.
//!
//! Where all locks of a transaction are held when its commit begins, the order in which commits
//! begin is an order in which the transactions might have run one after the other. Where
//! transactions commit at logical times, these are the order, and equal times are in the order in
//! which commits began. Run again in that order, on a map, each must find what it has found.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo_database::log::GroupSettings;
use tombolo_database::{
    Direction, Engine, Partitioning, Scan, TableId, TableSpec, Transaction, TxError,
};
use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_pod::{
    Area, AreaRequest, Budget, Kind, Layout, LogOptions, PARAMETERS, Pod, PodOptions,
};
use tombolo_shared_nothing::{LogicalLeases, Protocol, SharedNothing, TwoPhaseLocking};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};
use tombolo_tigon::Tigon;

use crate::world::Busy;

const TABLE: TableId = TableId(0);

/// Words of the longest row, which takes two lines.
const WORDS: u64 = 14;

type Key = [u8; 8];

/// What one operation of a transaction was, and has found.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Get(Key, Option<u64>),
    Update(Key, u64, bool),
    Insert(Key, u64, bool),
    Delete(Key, bool),
    Scan(Walk, Vec<(Key, u64)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Walk {
    lower: Bound<Key>,
    upper: Bound<Key>,
    backward: bool,
    limit: usize,
}

/// The logical time and the number of a commit, and the steps of the transaction.
type Committed = ((u64, usize), Vec<Step>);

/// All that was committed, in the order in which the commits began.
#[derive(Default)]
struct Book {
    begun: Cell<usize>,
    committed: RefCell<Vec<Committed>>,
    busy: Cell<usize>,
    tags: Cell<u64>,
}

/// How a database is made and used.
#[derive(Clone, Copy)]
struct Setup {
    hosts: usize,
    clients: usize,
    transactions: usize,
    /// Keys of a partition.
    keys: u64,
    /// Bytes of SCR that a host's shared rows may take, where rows are shared.
    budget: u64,
    /// Whether phantoms are prevented. If not, transactions neither insert nor delete rows.
    no_phantoms: bool,
}

/// An engine that is put to the test.
trait Tested: Engine + Sized + 'static {
    const AREA: (Kind, u64);

    /// Whether a commit may find a conflict.
    const VALIDATES: bool;

    fn plan(setup: Setup, budget: Budget) -> Result<[u64; PARAMETERS], String>;

    /// Takes part; an error if a host has died meanwhile.
    fn join(
        host: &Arc<Host<SimMemory>>,
        area: Area<SimMemory>,
        setup: Setup,
    ) -> Result<Self, String>;

    /// Waits for all hosts to have loaded their rows.
    fn loaded(&self) -> Result<(), String>;

    fn memory(&self) -> &SimMemory;

    /// Commits: at which logical time, if there is such a time.
    fn commit(tx: Self::Transaction<'_>) -> Result<u64, TxError>;
}

fn group() -> GroupSettings {
    GroupSettings { epoch: Duration::from_micros(1), ..GroupSettings::default() }
}

impl Tested for Tigon<SimMemory> {
    const AREA: (Kind, u64) = (tombolo_tigon::KIND, tombolo_tigon::VERSION);
    const VALIDATES: bool = false;

    fn plan(setup: Setup, budget: Budget) -> Result<[u64; PARAMETERS], String> {
        let shape = tombolo_tigon::Shape {
            homes: setup.hosts as u8,
            partitions: setup.hosts as u32,
            tables: 1,
            workers: setup.clients as u16,
            log_buffer_bytes: 4 << 10,
        };
        shape.plan(budget)
    }

    fn join(
        host: &Arc<Host<SimMemory>>,
        area: Area<SimMemory>,
        setup: Setup,
    ) -> Result<Self, String> {
        let options = tombolo_tigon::Options {
            scr_budget: Some(setup.budget),
            commit: group(),
            ..tombolo_tigon::Options::new(specs())
        };
        Self::join(host, area, options).map_err(|error| error.to_string())
    }

    fn loaded(&self) -> Result<(), String> {
        self.meet(2).map_err(|error| error.to_string())
    }

    fn memory(&self) -> &SimMemory {
        self.memory()
    }

    fn commit(tx: Self::Transaction<'_>) -> Result<u64, TxError> {
        tx.commit().map(|_| 0)
    }
}

impl<P: Protocol> Tested for SharedNothing<SimMemory, P> {
    const AREA: (Kind, u64) = (P::KIND, tombolo_shared_nothing::VERSION);
    const VALIDATES: bool = !P::LOCKS_READS;

    fn plan(setup: Setup, budget: Budget) -> Result<[u64; PARAMETERS], String> {
        let shape = tombolo_shared_nothing::Shape {
            homes: setup.hosts as u8,
            partitions: setup.hosts as u32,
            tables: 1,
            workers: setup.clients as u16,
            log_buffer_bytes: 64,
            // Two rows of a scan, if they are short.
            message_bytes: 512,
        };
        shape.plan(budget)
    }

    fn join(
        host: &Arc<Host<SimMemory>>,
        area: Area<SimMemory>,
        setup: Setup,
    ) -> Result<Self, String> {
        let options = tombolo_shared_nothing::Options {
            commit: group(),
            gap_leases: setup.no_phantoms,
            ..tombolo_shared_nothing::Options::new(specs())
        };
        Self::join(host, area, options).map_err(|error| error.to_string())
    }

    fn loaded(&self) -> Result<(), String> {
        self.meet(2).map_err(|error| error.to_string())
    }

    fn memory(&self) -> &SimMemory {
        self.memory()
    }

    fn commit(tx: Self::Transaction<'_>) -> Result<u64, TxError> {
        tx.commit_at().map(|(_, at)| at)
    }
}

fn specs() -> Vec<TableSpec> {
    vec![TableSpec {
        key_bytes: 8,
        row_bytes: WORDS as u32 * 8,
        partitioning: Partitioning::Leading { per_partition: 1 },
    }]
}

fn simulation<E: Tested>(trial: &Trial, setup: Setup, kills: Option<Kills>) -> Simulation {
    let config = Config {
        hosts: setup.hosts,
        scr_bytes: 32 << 10,
        lnr_bytes: 256 << 10,
        max_steps: 1_500_000,
        kills,
        ..Config::default()
    };
    let (kind, version) = E::AREA;
    let request = AreaRequest {
        kind,
        version,
        scr_bytes: None,
        lnr_bytes: None,
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan: &|budget| E::plan(setup, budget),
    };
    let options = PodOptions { hosts: Some(setup.hosts as u8), mail_slots: Some(2) };
    let layout = Layout::plan(config.scr_bytes, config.lnr_bytes, options, &[request]).unwrap();
    let simulation = Simulation::new(config, trial);
    Pod::format(simulation.memory(0), &layout).unwrap();
    simulation
}

fn key(partition: u64, number: u64) -> Key {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&(partition as u32).to_be_bytes());
    key[4..].copy_from_slice(&(number as u32).to_be_bytes());
    key
}

/// A row that shows when it is torn. Its length depends on its tag.
fn row(tag: u64) -> Vec<u8> {
    std::iter::repeat_n(tag.to_le_bytes(), (1 + tag % WORDS) as usize).flatten().collect()
}

fn tag(bytes: &[u8]) -> u64 {
    let tag = u64::from_le_bytes(*bytes.first_chunk().expect("a row is not empty"));
    assert!(bytes == row(tag), "a torn row: {bytes:?}");
    tag
}

/// One thread that runs transactions.
struct Client<'a, E> {
    db: &'a E,
    book: &'a Book,
    setup: Setup,
}

impl<E: Tested> Client<'_, E> {
    fn random(&self, below: u64) -> u64 {
        self.db.memory().random() % below
    }

    fn any_key(&self) -> Key {
        key(self.random(self.setup.hosts as u64), self.random(self.setup.keys))
    }

    fn next_tag(&self) -> u64 {
        self.book.tags.set(self.book.tags.get() + 1);
        self.book.tags.get()
    }

    /// Runs one transaction: with the same steps, until it commits or has had its chances.
    fn run(&self, worker: usize) {
        for _ in 0..6 {
            let mut tx = self.db.begin(worker);
            match self.steps(&mut tx) {
                Err(error) => assert!(error.is_conflict(), "{error}"),
                Ok(_) if self.random(8) == 0 => tx.abort(),
                Ok(steps) => {
                    let begun = self.book.begun.get();
                    self.book.begun.set(begun + 1);
                    match E::commit(tx) {
                        Ok(at) => {
                            self.book.committed.borrow_mut().push(((at, begun), steps));
                            return;
                        }
                        Err(error) => assert!(E::VALIDATES && error.is_conflict(), "{error}"),
                    }
                }
            }
            (0..self.random(20)).for_each(|_| self.db.memory().pause());
        }
    }

    /// Tries a transaction; whether no host is known to be dead.
    fn goes_on(&self) -> bool {
        let mut tx = self.db.begin(0);
        match self.steps(&mut tx).and_then(|_| E::commit(tx)) {
            Ok(_) => true,
            Err(error) if error.is_conflict() => {
                self.db.memory().pause();
                true
            }
            Err(error) => {
                // A host that sleeps for long is taken for dead, too.
                let died = matches!(error, TxError::HostDied { .. });
                assert!(died || self.db.memory().deaths() > 0, "{error}");
                false
            }
        }
    }

    fn steps(&self, tx: &mut impl Transaction) -> Result<Vec<Step>, TxError> {
        (0..1 + self.random(4)).map(|_| self.step(tx)).collect()
    }

    fn step(&self, tx: &mut impl Transaction) -> Result<Step, TxError> {
        let key = self.any_key();
        let choice = self.random(10);
        if !self.setup.no_phantoms && (5..8).contains(&choice) {
            let new = self.next_tag();
            return Ok(Step::Update(key, new, tx.update(TABLE, &key, &row(new))?));
        }
        Ok(match choice {
            0 | 1 => Step::Get(key, tx.get(TABLE, &key)?.map(tag)),
            2 => Step::Get(key, tx.get_for_update(TABLE, &key)?.map(tag)),
            3 | 4 => {
                let new = self.next_tag();
                Step::Update(key, new, tx.update(TABLE, &key, &row(new))?)
            }
            5 | 6 => {
                let new = self.next_tag();
                match tx.insert(TABLE, &key, &row(new)) {
                    Err(TxError::Duplicate { .. }) => Step::Insert(key, new, false),
                    inserted => {
                        inserted?;
                        Step::Insert(key, new, true)
                    }
                }
            }
            7 => Step::Delete(key, tx.delete(TABLE, &key)?),
            _ => self.scan(tx)?,
        })
    }

    fn scan(&self, tx: &mut impl Transaction) -> Result<Step, TxError> {
        let bound = || {
            let key = self.any_key();
            [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded][self.random(3) as usize]
        };
        let (lower, upper) = (bound(), bound());
        let backward = self.random(2) == 0;
        let limit = [2, usize::MAX][self.random(2) as usize];
        let walk = Walk { lower, upper, backward, limit };
        let bytes = |bound: &Bound<Key>| bound.map(|key| key.to_vec());
        let (lower, upper) = (bytes(&lower), bytes(&upper));
        let scan = Scan {
            range: (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..])),
            direction: if backward { Direction::Backward } else { Direction::Forward },
            limit,
            for_update: self.random(4) == 0,
        };
        let mut found = Vec::new();
        tx.scan(TABLE, scan, &mut |key, row| {
            found.push((*key.first_chunk().expect("8 bytes"), tag(row)));
            ControlFlow::Continue(())
        })?;
        Ok(Step::Scan(walk, found))
    }
}

impl Book {
    /// Runs all that was committed on a map.
    fn check(&self, mut rows: BTreeMap<Key, u64>) {
        let mut committed = self.committed.borrow().clone();
        committed.sort_by_key(|&(order, _)| order);
        for (order, steps) in &committed {
            for step in steps {
                let expected = redo(&mut rows, step);
                assert_eq!(*step, expected, "transaction {order:?} of {committed:#?}");
            }
        }
    }
}

/// Does a step on a map: the step, with what it finds there.
fn redo(rows: &mut BTreeMap<Key, u64>, step: &Step) -> Step {
    match *step {
        Step::Get(key, _) => Step::Get(key, rows.get(&key).copied()),
        Step::Update(key, tag, _) => {
            let there = rows.get_mut(&key).map(|row| *row = tag).is_some();
            Step::Update(key, tag, there)
        }
        Step::Insert(key, tag, _) => {
            let absent = !rows.contains_key(&key);
            rows.entry(key).or_insert(tag);
            Step::Insert(key, tag, absent)
        }
        Step::Delete(key, _) => Step::Delete(key, rows.remove(&key).is_some()),
        Step::Scan(walk, _) => {
            let above = |key: &Key| match walk.lower {
                Bound::Included(lower) => *key >= lower,
                Bound::Excluded(lower) => *key > lower,
                Bound::Unbounded => true,
            };
            let below = |key: &Key| match walk.upper {
                Bound::Included(upper) => *key <= upper,
                Bound::Excluded(upper) => *key < upper,
                Bound::Unbounded => true,
            };
            let within = rows.iter().filter(|(key, _)| above(key) && below(key));
            let mut found: Vec<_> = within.map(|(key, tag)| (*key, *tag)).collect();
            if walk.backward {
                found.reverse();
            }
            found.truncate(walk.limit);
            Step::Scan(walk, found)
        }
    }
}

/// Hosts join, load their rows, and run transactions.
fn run<E: Tested>(trial: &Trial, setup: Setup) {
    let mut simulation = simulation::<E>(trial, setup, None);
    let book: Rc<Book> = Rc::default();
    let homes: Rc<RefCell<Vec<Rc<E>>>> = Rc::default();
    for host in 0..setup.hosts {
        let homes = Rc::clone(&homes);
        simulation.spawn(host, move |memory| {
            let db: E = join(memory, setup);
            load(&db, setup.keys);
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
                let client = Client { db: &*db, book: &book, setup };
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
    let loaded = (0..setup.hosts as u64).flat_map(|partition| loaded_of(partition, setup.keys));
    book.check(loaded.collect());
    assert!(!book.committed.borrow().is_empty(), "no transaction was committed");
}

fn join<E: Tested>(memory: SimMemory, setup: Setup) -> E {
    let host = Host::join(Pod::open(memory).unwrap()).unwrap();
    let area = host.pod().areas().next().unwrap();
    E::join(&host, area, setup).unwrap()
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
            let area = host.pod().areas().next().unwrap();
            let Ok(db) = E::join(&host, area, setup) else { return };
            load(&db, setup.keys);
            if db.loaded().is_err() {
                return;
            }
            let book = Book::default();
            let client = Client { db: &db, book: &book, setup };
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

fn load(db: &impl Engine, keys: u64) {
    let (home, _) = db.home();
    for (key, tag) in loaded_of(home.0.into(), keys) {
        db.load(TABLE, &key, &row(tag)).unwrap();
    }
}

const SHORT: Setup =
    Setup { hosts: 2, clients: 1, transactions: 4, keys: 5, budget: 600, no_phantoms: true };

fn long(trial: &Trial) -> Setup {
    let hosts = trial.hosts_or(3);
    Setup { hosts, clients: 2, transactions: 6, keys: 5, budget: u64::MAX, no_phantoms: true }
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

/// A host of DS2PL+ dies at any step.
pub(crate) fn ds2pl_host_dies(trial: &Trial) {
    run_with_death::<SharedNothing<SimMemory, TwoPhaseLocking>>(trial, SHORT);
}

/// A host of Sundial+ dies at any step.
pub(crate) fn sundial_host_dies(trial: &Trial) {
    run_with_death::<SharedNothing<SimMemory, LogicalLeases>>(trial, SHORT);
}
