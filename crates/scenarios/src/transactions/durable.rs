//! Hosts of a database of objects log their transactions, and die: what was acknowledged as durable
//! is recovered from the logs alone, any other transaction whole or not at all, and none without
//! those whose changes it has seen. Hosts that are left go on, and their transactions become
//! durable.
//!
//! Rows are inserted once, and then each update says which one it has found. So the updates of a
//! key are a chain.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tombolo_database::log::{LogError, Logger, SimulatedDisk, recover};
use tombolo_database::{Engine, Transaction, TxError};
use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_object_database::{ObjectDatabase, Options};
use tombolo_pod::Pod;
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};

use super::client::{Key, key, row};
use super::engines::{Setup, options_of_objects};
use super::{SHORT, TABLE, simulation};
use crate::epochs::PacedDisk;
use crate::world::Busy;

type Db = ObjectDatabase<SimMemory>;

/// A host of the database.
struct Member {
    db: Rc<Db>,
    logger: RefCell<Logger<SimMemory, PacedDisk>>,
    /// The others have taken it for dead.
    is_out: Cell<bool>,
}

/// Keys, all of one partition.
const KEYS: u64 = 3;

const TRANSACTIONS: u64 = 6;

/// The change of a row: its tag before, if there was one, and then.
struct Change {
    key: Key,
    from: Option<u64>,
    to: u64,
}

/// A transaction whose commit has begun.
struct Begun {
    changes: Vec<Change>,
    /// The epoch, once the commit has succeeded.
    epoch: Cell<Option<u64>>,
    /// It has met a conflict.
    failed: Cell<bool>,
}

#[derive(Default)]
struct Book {
    begun: RefCell<Vec<Rc<Begun>>>,
    /// The greatest epoch that a host has said to be durable.
    acknowledged: Cell<u64>,
    tags: Cell<u64>,
    busy: Rc<Cell<usize>>,
}

impl Book {
    fn tag(&self) -> u64 {
        self.tags.set(self.tags.get() + 1);
        self.tags.get()
    }
}

fn tag(row: &[u8]) -> u64 {
    u64::from_le_bytes(*row.first_chunk().expect("a row is not empty"))
}

fn join(memory: SimMemory, disk: &Arc<SimulatedDisk>) -> Member {
    let storage = PacedDisk { disk: Arc::clone(disk), memory: memory.clone() };
    let host = Host::join(Pod::open(memory).unwrap()).unwrap();
    let db = Db::join(&host, Options { is_logged: true, ..options_of_objects() }).unwrap();
    let logger = Logger::open(Arc::clone(db.log()), storage).unwrap();
    db.meet(2).unwrap();
    Member { db: Rc::new(db), logger: RefCell::new(logger), is_out: Cell::new(false) }
}

/// One transaction, which inserts all rows, or updates some.
fn transact(db: &Db, book: &Book, worker: usize, insert: bool) -> Result<(), TxError> {
    let mut tx = db.begin(worker);
    let first = db.memory().random() % KEYS;
    let count = if insert { KEYS } else { 1 + db.memory().random() % 2 };
    let mut changes = Vec::new();
    for number in (0..count).map(|n| (first + n) % KEYS) {
        let (key, to) = (key(0, number), book.tag());
        let from = tx.get(TABLE, &key)?.map(tag);
        match insert {
            true => tx.insert(TABLE, &key, &row(to))?,
            false => assert!(tx.update(TABLE, &key, &row(to))?, "rows are never deleted"),
        }
        changes.push(Change { key, from, to });
    }
    let begun = Begun { changes, epoch: Cell::new(None), failed: Cell::new(false) };
    let begun = Rc::new(begun);
    book.begun.borrow_mut().push(Rc::clone(&begun));
    let committed = tx.commit();
    db.memory().answered();
    begun.failed.set(matches!(&committed, Err(error) if error.is_conflict()));
    begun.epoch.set(Some(committed?.epoch));
    Ok(())
}

impl Member {
    /// Runs transactions, and waits until they are durable. A death of another host is no error.
    fn run_client(&self, book: &Book, worker: usize) {
        let (db, memory) = (&self.db, self.db.memory());
        for _ in 0..TRANSACTIONS {
            match transact(db, book, worker, false) {
                Ok(()) => {}
                Err(error) if error.is_conflict() => {
                    (0..memory.random() % 20).for_each(|_| memory.pause());
                }
                Err(error) => {
                    assert!(self.tick().is_err(), "{error}");
                    return;
                }
            }
            book.acknowledged.set(book.acknowledged.get().max(db.durable_epoch()));
        }
        let last = db.log().epoch();
        db.log().request(last);
        while db.durable_epoch() < last && !self.is_out.get() {
            memory.pause();
        }
    }

    /// Does what the host has to do besides, once.
    fn tick(&self) -> Result<(), TxError> {
        let ticked = self.db.tick().and_then(|()| {
            self.db.homes().clean_up(|home, stay| {
                let settled = self.db.settle(home, stay)?;
                if settled {
                    self.logger.borrow_mut().drain(home).unwrap();
                }
                Ok(settled)
            })
        });
        self.is_out.set(ticked.is_err());
        ticked
    }

    fn attend(&self, book: &Book) {
        while book.busy.get() > 0 && self.tick().is_ok() {
            match self.logger.borrow_mut().tick() {
                Ok(_) => {}
                Err(LogError::Retired { .. }) => return self.is_out.set(true),
                Err(error) => panic!("{error}"),
            }
            self.db.memory().pause();
        }
    }
}

/// How hosts end before they have run all transactions.
#[derive(Clone, Copy)]
enum End {
    None,
    /// The second host dies.
    OneDies,
    /// The second of three hosts dies, and then the third, which may be cleaning up.
    TwoDie,
    AllDie,
    /// The second host is fenced, and lives.
    OneIsFenced,
}

impl End {
    fn kills(self) -> Option<Kills> {
        let (hosts, deaths) = match self {
            Self::None | Self::OneIsFenced => return None,
            Self::OneDies => (vec![1], Deaths::One),
            Self::TwoDie => (vec![1, 2], Deaths::InTurn),
            Self::AllDie => (vec![0, 1], Deaths::Together),
        };
        Some(Kills { hosts, one_in: 1, deaths })
    }
}

fn run(trial: &Trial, end: End) {
    let hosts = if let End::TwoDie = end { 3 } else { 2 };
    let setup = Setup { hosts, clients: 2, ..SHORT };
    let mut simulation = simulation::<Db>(trial, setup, end.kills());
    let disk = Arc::new(SimulatedDisk::new());
    let (book, members) = (Rc::<Book>::default(), Rc::<RefCell<Vec<Rc<Member>>>>::default());
    for host in 0..setup.hosts {
        let (members, disk) = (Rc::clone(&members), Arc::clone(&disk));
        simulation.spawn(host, move |memory| {
            let member = join(memory, &disk);
            members.borrow_mut().push(Rc::new(member));
        });
    }
    simulation.run_calmly().unwrap();
    let first = Rc::clone(&members.borrow()[0]);
    let inserting = Rc::clone(&book);
    simulation.spawn(first.db.memory().host(), move |_| {
        transact(&first.db, &inserting, 0, true).unwrap();
    });
    simulation.run_calmly().unwrap();
    for member in members.borrow().iter() {
        let host = member.db.memory().host();
        for worker in 0..setup.clients {
            let (member, book) = (Rc::clone(member), Rc::clone(&book));
            let busy = Busy::new(&book.busy);
            simulation.spawn(host, move |_| {
                member.run_client(&book, worker);
                drop(busy);
            });
        }
        let (member, book) = (Rc::clone(member), Rc::clone(&book));
        simulation.spawn(host, move |_| member.attend(&book));
    }
    if let End::OneIsFenced = end {
        let first = Rc::clone(&members.borrow()[0]);
        simulation.spawn(first.db.memory().host(), move |memory| {
            (0..memory.random() % 100).for_each(|_| memory.pause());
            let area = first.db.homes().area();
            area.fence(area.stay_of(1 - first.db.homes().host().seat().host()));
        });
    }
    simulation.run().unwrap();
    check(&book, &disk);
}

/// The recovered rows are those that the transactions of durable epochs leave. A transaction whose
/// commit was cut off may be among them.
fn check(book: &Book, disk: &SimulatedDisk) {
    let recovered = recover(disk, 1).unwrap();
    let acknowledged = book.acknowledged.get();
    assert!(
        acknowledged <= recovered.durable,
        "epoch {acknowledged} was said to be durable, and {} is",
        recovered.durable
    );
    let rows = recovered.rows.iter().map(|row| (Key::try_from(&*row.key).unwrap(), tag(&row.row)));
    let rows: BTreeMap<Key, u64> = rows.collect();
    let begun = book.begun.borrow();
    let in_doubt: Vec<&Rc<Begun>> =
        begun.iter().filter(|it| it.epoch.get().is_none() && !it.failed.get()).collect();
    let explains = |chosen: u32| {
        let known =
            begun.iter().filter(|it| it.epoch.get().is_some_and(|e| e <= recovered.durable));
        let cut_off = (0..).zip(&in_doubt).filter(|(n, _)| chosen >> n & 1 == 1);
        let there = known.chain(cut_off.map(|(_, it)| *it));
        left_by(there.flat_map(|it| &it.changes)) == Some(rows.clone())
    };
    assert!(
        (0..1 << in_doubt.len()).any(explains),
        "recovered in epoch {}: {rows:?}",
        recovered.durable
    );
}

/// The rows that these changes leave; `None` if one has seen a change that is not among them, or
/// two have seen the same.
fn left_by<'c>(changes: impl Iterator<Item = &'c Change>) -> Option<BTreeMap<Key, u64>> {
    let mut chains: BTreeMap<Key, BTreeMap<Option<u64>, u64>> = BTreeMap::new();
    for Change { key, from, to } in changes {
        if chains.entry(*key).or_default().insert(*from, *to).is_some() {
            return None;
        }
    }
    let last = |(key, chain): (Key, BTreeMap<Option<u64>, u64>)| {
        let (mut at, mut steps) = (None, 0);
        while let Some(&next) = chain.get(&at) {
            (at, steps) = (Some(next), steps + 1);
        }
        (steps == chain.len()).then_some((key, at?))
    };
    chains.into_iter().map(last).collect()
}

/// All hosts live.
pub(crate) fn all_live(trial: &Trial) {
    run(trial, End::None);
}

/// One host dies: the other goes on.
pub(crate) fn a_host_dies(trial: &Trial) {
    run(trial, End::OneDies);
}

/// One host dies, and then another one, which may be cleaning up: the third goes on.
pub(crate) fn a_cleaner_dies(trial: &Trial) {
    run(trial, End::TwoDie);
}

/// One host is fenced, and does not notice at once: the other goes on.
pub(crate) fn a_host_is_fenced(trial: &Trial) {
    run(trial, End::OneIsFenced);
}

/// All hosts die at once: the logs are all that is left.
pub(crate) fn all_die(trial: &Trial) {
    run(trial, End::AllDie);
}
