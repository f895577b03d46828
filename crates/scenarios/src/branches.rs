//! Transactions that change a row at each host, and the logs of these hosts: whatever is durable
//! has all of a transaction or nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo_database::log::{GroupSettings, Logger, SimulatedDisk, recover};
use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, TxError};
use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_pod::{AreaRequest, Layout, LogOptions, Pod, PodOptions};
use tombolo_shared_nothing::{
    LogicalLeases, Options, Protocol, Shape, SharedNothing, TwoPhaseLocking, VERSION,
};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};

const HOSTS: u8 = 2;
const TABLE: TableId = TableId(0);

/// Rows of each host.
const ROWS: u64 = 2;

/// Transactions of each host.
const TRANSACTIONS: u64 = 5;

type Db<P> = SharedNothing<SimMemory, P>;

fn key(host: u8, row: u64) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&u32::from(host).to_be_bytes());
    key[4..].copy_from_slice(&(row as u32).to_be_bytes());
    key
}

fn simulation<P: Protocol>(trial: &Trial, kills: Option<Kills>) -> Simulation {
    let config = Config {
        hosts: HOSTS.into(),
        scr_bytes: 32 << 10,
        lnr_bytes: 64 << 10,
        max_steps: 1_500_000,
        kills,
        ..Config::default()
    };
    let shape = Shape {
        homes: HOSTS,
        partitions: HOSTS.into(),
        tables: 1,
        workers: 1,
        log_buffer_bytes: 512,
        message_bytes: 256,
    };
    let request = AreaRequest {
        kind: P::KIND,
        version: VERSION,
        scr_bytes: None,
        lnr_bytes: None,
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan: &|budget| shape.plan(budget),
        on_demand: None,
    };
    let options = PodOptions { hosts: Some(HOSTS), mail_slots: Some(2) };
    let layout = Layout::plan(config.scr_bytes, config.lnr_bytes, options, &[request]).unwrap();
    let simulation = Simulation::new(config, trial);
    Pod::format(simulation.memory(0), &layout).unwrap();
    simulation
}

fn join<P: Protocol>(memory: SimMemory) -> Db<P> {
    let host = Host::join(Pod::open(memory).unwrap()).unwrap();
    let area = host.pod().areas().next().unwrap();
    let partitioning = Partitioning::Leading { per_partition: 1 };
    let spec = TableSpec { key_bytes: 8, row_bytes: 8, partitioning };
    let epoch = Duration::from_micros(1);
    let commit = GroupSettings { epoch, ..GroupSettings::default() };
    let options = Options { commit, is_logged: true, ..Options::new(vec![spec]) };
    let db = Db::join(&host, area, options).unwrap();
    let (home, _) = db.home();
    (0..ROWS).for_each(|row| db.load(TABLE, &key(home.0, row), &[0; 8]).unwrap());
    db.meet(2).unwrap();
    db
}

/// Writes one tag into a row of each host.
fn write<P: Protocol>(db: &Db<P>, row: u64, tag: u64) -> Result<u64, TxError> {
    let mut tx = db.begin(0);
    for host in 0..HOSTS {
        assert!(tx.update(TABLE, &key(host, row), &tag.to_le_bytes())?, "a row is gone");
    }
    tx.commit().map(|commit| commit.epoch)
}

/// Each row that is durable has the same tag on all hosts. Returns the tags by row.
fn check(disk: &SimulatedDisk) -> BTreeMap<u64, u64> {
    let recovered = recover(&disk.synchronised(), 1).unwrap();
    let mut rows: BTreeMap<u64, BTreeMap<u32, u64>> = BTreeMap::new();
    for row in &recovered.rows {
        let number = u32::from_be_bytes(*row.key.last_chunk().expect("8 bytes"));
        let tag = u64::from_le_bytes((*row.row).try_into().expect("8 bytes"));
        rows.entry(number.into()).or_default().insert(row.partition, tag);
    }
    for tags in rows.values() {
        let first = tags.values().next();
        let is_whole = tags.len() == usize::from(HOSTS) && tags.values().all(|t| Some(t) == first);
        assert!(is_whole, "as of epoch {}, half of a transaction: {rows:?}", recovered.durable);
    }
    rows.into_iter().filter_map(|(row, tags)| Some((row, *tags.values().next()?))).collect()
}

/// Counts threads that are busy, and dead ones no more.
struct Busy(Rc<Cell<u8>>);

impl Busy {
    fn new(count: &Rc<Cell<u8>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Runs transactions, until a host dies.
fn work<P: Protocol>(db: &Db<P>, tags: &Cell<u64>) {
    let memory = db.memory();
    for _ in 0..TRANSACTIONS {
        let tag = tags.get() + 1;
        tags.set(tag);
        let row = memory.random() % ROWS;
        loop {
            match write(db, row, tag) {
                Ok(_) => break,
                Err(TxError::HostDied { .. }) => return,
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
            (0..memory.random() % 20).for_each(|_| memory.pause());
        }
    }
}

fn run<P: Protocol>(trial: &Trial, kills: Option<Kills>) {
    let may_die = kills.is_some();
    let mut simulation = simulation::<P>(trial, kills);
    let disk = Arc::new(SimulatedDisk::new());
    let joined: Rc<RefCell<Vec<_>>> = Rc::default();
    for host in 0..usize::from(HOSTS) {
        let (joined, disk) = (Rc::clone(&joined), Arc::clone(&disk));
        simulation.spawn(host, move |memory| {
            let db = Rc::new(join::<P>(memory));
            let logger = Logger::open(Arc::clone(db.log()), disk).unwrap();
            joined.borrow_mut().push((db, logger));
        });
    }
    simulation.run_calmly().unwrap();
    let (count, tags) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut survivor = None;
    for (db, mut logger) in joined.take() {
        let host = db.memory().host();
        if host == 0 {
            survivor = Some(Rc::clone(&db));
        }
        let client = (Rc::clone(&db), Busy::new(&count), Rc::clone(&tags));
        simulation.spawn(host, move |_| {
            let (db, _busy, tags) = client;
            work(&db, &tags);
        });
        let (count, disk) = (Rc::clone(&count), Arc::clone(&disk));
        simulation.spawn(host, move |memory| {
            while count.get() > 0 {
                match db.tick() {
                    Err(TxError::HostDied { .. }) if may_die => {}
                    ticked => ticked.unwrap(),
                }
                if logger.tick().unwrap() {
                    check(&disk);
                }
                memory.pause();
            }
        });
    }
    simulation.run().unwrap();
    check(&disk);
    if simulation.deaths(1) > 0 {
        let (db, last) = (survivor.expect("host 0 has joined"), tags.get() + 1);
        simulation.spawn(0, move |_| {
            // The dead host's locks may be in the way: conflicts, until it is known to be dead.
            loop {
                match write(&db, 0, last) {
                    Err(TxError::HostDied { .. }) => break,
                    Err(error) if error.is_conflict() => _ = db.tick(),
                    outcome => panic!("a transaction without one of its hosts: {outcome:?}"),
                }
            }
        });
        simulation.run().unwrap();
        check(&disk);
    }
}

/// DS2PL+'s branches.
pub(crate) fn ds2pl(trial: &Trial) {
    run::<TwoPhaseLocking>(trial, None);
}

/// Sundial+'s branches.
pub(crate) fn sundial(trial: &Trial) {
    run::<LogicalLeases>(trial, None);
}

/// A host dies: the other one is told, and what is durable is whole.
pub(crate) fn a_host_dies(trial: &Trial) {
    let kills = Kills { hosts: vec![1], one_in: 1, deaths: Deaths::One };
    run::<TwoPhaseLocking>(trial, Some(kills));
}
