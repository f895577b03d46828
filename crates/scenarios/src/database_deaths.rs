//! Hosts of a database log their transactions, and die: what was acknowledged as durable is
//! recovered from the logs alone, and any other transaction whole or not at all.
//!
//! All locks of a transaction are held when its commit begins, so commits are in the order in which
//! they might have happened. Recovery must bring back the map that those transactions leave whose
//! epochs are durable. A transaction whose commit was cut off may be among them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo_database::hosts::{CheckpointError, serve_part, write_checkpoint};
use tombolo_database::log::{GroupSettings, Logger, SimulatedDisk, recover, truncate};
use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, TxError};
use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_pod::Pod;
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};
use tombolo_tigon::{Options, Shape, Tigon, plan};

use crate::epochs::PacedDisk;
use crate::world::Busy;

const HOSTS: usize = 3;
const CLIENTS: u16 = 2;
const TRANSACTIONS: u64 = 6;
/// Rows of a partition.
const KEYS: u64 = 3;
const TABLE: TableId = TableId(0);

type Key = [u8; 5];
type Db = Tigon<SimMemory>;
type DbLogger = Logger<SimMemory, PacedDisk>;

/// The rows that a transaction has changed, as it leaves them; `None` for a deleted row.
type Changes = BTreeMap<Key, Option<u64>>;

/// A transaction whose commit has begun.
struct Begun {
    changes: Changes,
    /// The epoch, once the commit has succeeded.
    epoch: Cell<Option<u64>>,
}

#[derive(Default)]
struct Book {
    begun: RefCell<Vec<Rc<Begun>>>,
    /// The greatest epoch that a host has said to be durable.
    acknowledged: Cell<u64>,
    tags: Cell<u64>,
    /// Checkpoints that were written while transactions ran.
    checkpoints: Cell<u64>,
    busy: Rc<Cell<usize>>,
}

/// A host, and its logger.
type Member = (Rc<Db>, RefCell<DbLogger>);

fn key(partition: u64, number: u64) -> Key {
    let mut key = [0; 5];
    key[..4].copy_from_slice(&(partition as u32).to_be_bytes());
    key[4] = number as u8;
    key
}

fn simulation(trial: &Trial, kills: Option<Kills>) -> Simulation {
    let config = Config {
        hosts: HOSTS,
        scr_bytes: 32 << 10,
        lnr_bytes: 256 << 10,
        max_steps: 1_500_000,
        kills,
        ..Config::default()
    };
    let shape = Shape {
        homes: HOSTS as u8,
        partitions: HOSTS as u32,
        tables: 1,
        workers: CLIENTS,
        log_buffer_bytes: 512,
    };
    let layout = plan(config.scr_bytes, config.lnr_bytes, shape).unwrap();
    let simulation = Simulation::new(config, trial);
    Pod::format(simulation.memory(0), &layout).unwrap();
    simulation
}

fn join(trial: &Trial, memory: SimMemory, disk: &Arc<SimulatedDisk>) -> Member {
    let storage = PacedDisk { disk: Arc::clone(disk), memory: memory.clone() };
    let host = Host::join(Pod::open(memory).unwrap()).unwrap();
    let area = host.pod().areas().next().unwrap();
    let specs = vec![TableSpec {
        key_bytes: 5,
        row_bytes: 8,
        partitioning: Partitioning::Leading { per_partition: 1 },
    }];
    let epoch = Duration::from_micros([1, 1000][trial.seed as usize % 2]);
    let options = Options {
        scr_budget: Some([300, u64::MAX][trial.seed as usize / 2 % 2]),
        commit: GroupSettings { epoch, ..GroupSettings::default() },
        is_logged: true,
        ..Options::new(specs)
    };
    let db = Tigon::join(&host, area, options).unwrap();
    let logger = Logger::open(Arc::clone(db.log()), storage).unwrap();
    db.meet(2).unwrap();
    (Rc::new(db), RefCell::new(logger))
}

/// Runs transactions until a host has died, or all are through.
fn run_client(db: &Db, book: &Book, worker: usize) {
    let random = |below: u64| db.memory().random() % below;
    for _ in 0..TRANSACTIONS {
        let mut tx = db.begin(worker);
        let mut changes = Changes::new();
        let steps = (0..1 + random(3)).try_for_each(|_| {
            let key = key(random(HOSTS as u64), random(KEYS));
            book.tags.set(book.tags.get() + 1);
            change(&mut tx, random(3), key, book.tags.get(), &mut changes)
        });
        let committed = steps.and_then(|()| {
            let begun = Rc::new(Begun { changes, epoch: Cell::new(None) });
            book.begun.borrow_mut().push(Rc::clone(&begun));
            let epoch = tx.commit()?.epoch;
            db.memory().answered();
            begun.epoch.set(Some(epoch));
            Ok(())
        });
        match committed {
            Ok(()) => {}
            Err(error) if error.is_conflict() => (0..random(20)).for_each(|_| db.memory().pause()),
            Err(error) => {
                assert!(db.memory().deaths() > 0, "{error}");
                return;
            }
        }
        book.acknowledged.set(book.acknowledged.get().max(db.durable_epoch()));
    }
}

fn change(
    tx: &mut impl Transaction,
    what: u64,
    key: Key,
    tag: u64,
    changes: &mut Changes,
) -> Result<(), TxError> {
    let row = tag.to_le_bytes();
    let changed = match what {
        0 => tx.update(TABLE, &key, &row)?.then_some(Some(tag)),
        1 => match tx.insert(TABLE, &key, &row) {
            Err(TxError::Duplicate { .. }) => None,
            inserted => inserted.map(|()| Some(Some(tag)))?,
        },
        _ => tx.delete(TABLE, &key)?.then_some(None),
    };
    changes.extend(changed.map(|left| (key, left)));
    Ok(())
}

/// Checkpoints that each host tries to write.
const CHECKPOINTS: usize = 2;

/// Hosts run transactions; some of them die. The hosts that are left write out what the dead have
/// logged. Hosts also write checkpoints meanwhile, if they are to.
fn run(trial: &Trial, mortal: &[usize], deaths: Deaths, checkpointed: bool) {
    let kills = Kills { hosts: mortal.to_vec(), one_in: 1, deaths };
    let mut simulation = simulation(trial, (!mortal.is_empty()).then_some(kills));
    let disk = Arc::new(SimulatedDisk::new());
    let (book, members) = (Rc::<Book>::default(), Rc::<RefCell<Vec<Rc<Member>>>>::default());
    for host in 0..HOSTS {
        let (members, disk, trial) = (Rc::clone(&members), Arc::clone(&disk), trial.clone());
        simulation.spawn(host, move |memory| {
            let member = join(&trial, memory, &disk);
            members.borrow_mut().push(Rc::new(member));
        });
    }
    simulation.run_calmly().unwrap();
    for member in members.borrow().iter() {
        let host = member.0.memory().host();
        for worker in 0..usize::from(CLIENTS) {
            let (member, book) = (Rc::clone(member), Rc::clone(&book));
            let busy = Busy::new(&book.busy);
            simulation.spawn(host, move |_| {
                run_client(&member.0, &book, worker);
                drop(busy);
            });
        }
        if checkpointed {
            write_checkpoints(&mut simulation, member, &book);
        }
        let (member, book) = (Rc::clone(member), Rc::clone(&book));
        simulation.spawn(host, move |memory| {
            let (db, logger) = &*member;
            while book.busy.get() > 0 && db.tick().is_ok() {
                logger.borrow_mut().tick().unwrap();
                memory.pause();
            }
        });
    }
    simulation.run().unwrap();
    write_out(&mut simulation, &members.borrow());
    check(&book, &disk);
    if checkpointed && mortal.is_empty() {
        assert!(book.checkpoints.get() > 0, "no host has written a checkpoint");
    }
}

/// A host asks for checkpoints, and writes its parts of those that hosts ask for.
fn write_checkpoints(simulation: &mut Simulation, member: &Rc<Member>, book: &Rc<Book>) {
    let host = member.0.memory().host();
    let storage = member.1.borrow().storage().clone();
    let parts = (Rc::clone(member), Rc::clone(book), storage.clone());
    simulation.spawn(host, move |memory| {
        let (member, book, storage) = parts;
        let db = &member.0;
        while book.busy.get() > 0 {
            serve_part((db.homes(), db.log()), storage.clone(), db.tables(), |table, each| {
                db.each_row(table, each)
            });
            memory.pause();
        }
    });
    let (member, book, busy) = (Rc::clone(member), Rc::clone(book), Busy::new(&book.busy));
    simulation.spawn(host, move |memory| {
        let db = &member.0;
        for _ in 0..CHECKPOINTS {
            let wait = || {
                memory.pause();
                Ok(())
            };
            let shorten = || truncate(&*storage.disk, 1);
            let of = (db.homes(), &**db.log());
            match write_checkpoint(of, &storage, b"catalog", shorten, wait) {
                Ok(_) => book.checkpoints.set(book.checkpoints.get() + 1),
                Err(CheckpointError::Busy) => (0..20).for_each(|_| memory.pause()),
                Err(error) => {
                    assert!(memory.deaths() > 0, "{error}");
                    break;
                }
            }
        }
        drop(busy);
    });
}

/// A host that is left drains the buffers of the dead, and writes its own.
fn write_out(simulation: &mut Simulation, members: &[Rc<Member>]) {
    let is_dead = |member: &Rc<Member>| member.0.memory().is_gone();
    let dead: Vec<u8> = members.iter().filter(|m| is_dead(m)).map(|m| m.0.home().0.0).collect();
    for member in members.iter().filter(|member| !is_dead(member)) {
        let (member, dead) = (Rc::clone(member), dead.clone());
        simulation.spawn(member.0.memory().host(), move |_| {
            // So that what was committed last is durable, too.
            member.0.end_epoch(member.0.log().epoch());
            let mut logger = member.1.borrow_mut();
            dead.iter().for_each(|&host| _ = logger.drain(host).unwrap());
            while logger.flush().unwrap() {}
        });
    }
    simulation.run_calmly().unwrap();
}

/// The recovered rows are those that the transactions of durable epochs leave.
fn check(book: &Book, disk: &SimulatedDisk) {
    let recovered = recover(disk, 1).unwrap();
    let acknowledged = book.acknowledged.get();
    assert!(
        acknowledged <= recovered.durable,
        "epoch {acknowledged} was said to be durable, and {} is",
        recovered.durable
    );
    let tag = |row: &[u8]| u64::from_le_bytes(row.try_into().expect("8 bytes"));
    let rows = recovered.rows.iter().map(|row| (Key::try_from(&*row.key).unwrap(), tag(&row.row)));
    let rows: BTreeMap<Key, u64> = rows.collect();
    let begun = book.begun.borrow();
    let in_doubt: Vec<usize> =
        (0..begun.len()).filter(|&n| begun[n].epoch.get().is_none()).collect();
    let explains = |chosen: u32| {
        let has = |n: usize| match begun[n].epoch.get() {
            Some(epoch) => epoch <= recovered.durable,
            None => chosen >> in_doubt.iter().position(|&m| m == n).unwrap() & 1 == 1,
        };
        let mut left = Changes::new();
        let counts = (0..begun.len()).filter(|&n| has(n));
        counts.for_each(|n| left.extend(begun[n].changes.clone()));
        let there = left.into_iter().filter_map(|(key, row)| Some((key, row?)));
        there.collect::<BTreeMap<_, _>>() == rows
    };
    assert!(
        (0..1 << in_doubt.len()).any(explains),
        "recovered in epoch {}: {rows:?}, after {:?}",
        recovered.durable,
        begun.iter().map(|begun| (begun.epoch.get(), &begun.changes)).collect::<Vec<_>>()
    );
}

/// All hosts live.
pub(crate) fn all_live(trial: &Trial) {
    run(trial, &[], Deaths::One, false);
}

/// One host dies: the others stop, and nothing that was committed is lost.
pub(crate) fn a_host_dies(trial: &Trial) {
    run(trial, &[1], Deaths::One, false);
}

/// All hosts die at once: the logs are all that is left.
pub(crate) fn all_die(trial: &Trial) {
    run(trial, &[0, 1, 2], Deaths::Together, false);
}

/// Hosts write checkpoints while transactions run.
pub(crate) fn checkpointed(trial: &Trial) {
    run(trial, &[], Deaths::One, true);
}

/// All hosts die at once, at any step of a checkpoint: recovery takes it whole, or the one before.
pub(crate) fn all_die_while_checkpointed(trial: &Trial) {
    run(trial, &[0, 1, 2], Deaths::Together, true);
}
