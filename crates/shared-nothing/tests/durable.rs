//! Transactions across hosts are in all logs that they have to be in, or in none that counts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tombolo_database::log::{GroupSettings, Logger, SimulatedDisk, recover};
use tombolo_database::{
    Direction, Engine, Partitioning, Scan, TableId, TableSpec, Transaction, TxError,
};
use tombolo_memory::Mapped;
use tombolo_pod::{PodSpec, Sizes};
use tombolo_shared_nothing::{
    LogicalLeases, Options, Protocol, Shape, SharedNothing, TwoPhaseLocking,
};

const TABLE: TableId = TableId(0);
const HOSTS: u8 = 3;

/// Accounts of each host.
const ACCOUNTS: u32 = 4;

/// The balance of an account at first.
const BALANCE: i64 = 100;

type Db<P> = SharedNothing<Mapped, P>;

fn key(account: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&(account % u32::from(HOSTS)).to_be_bytes());
    key[4..].copy_from_slice(&account.to_be_bytes());
    key
}

fn balance(row: &[u8]) -> i64 {
    i64::from_le_bytes(row.try_into().expect("8 bytes"))
}

fn spec() -> TableSpec {
    let partitioning = Partitioning::Leading { per_partition: 1 };
    TableSpec { key_bytes: 8, row_bytes: 8, partitioning }
}

/// Moves an amount from one account to another, and closes an account that has nothing left.
fn transfer<P: Protocol>(db: &Db<P>, from: u32, to: u32) -> Result<u64, TxError> {
    let mut tx = db.begin(0);
    let there = tx.get_for_update(TABLE, &key(from))?.map_or(0, balance);
    if there <= 1 {
        tx.delete(TABLE, &key(from))?;
    } else {
        tx.update(TABLE, &key(from), &(there - 1).to_le_bytes())?;
    }
    let moved = there.min(1);
    match tx.get_for_update(TABLE, &key(to))?.map(balance) {
        Some(other) => _ = tx.update(TABLE, &key(to), &(other + moved).to_le_bytes())?,
        None => tx.insert(TABLE, &key(to), &moved.to_le_bytes())?,
    }
    Ok(tx.commit()?.epoch)
}

/// All balances, by key.
fn balances<P: Protocol>(db: &Db<P>) -> BTreeMap<Vec<u8>, i64> {
    loop {
        let (mut tx, mut found) = (db.begin(0), BTreeMap::new());
        let scan = Scan {
            range: (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
            direction: Direction::Forward,
            limit: usize::MAX,
            for_update: false,
        };
        let scanned = tx.scan(TABLE, scan, &mut |key, row| {
            found.insert(key.to_vec(), balance(row));
            ControlFlow::Continue(())
        });
        if scanned.and_then(|()| tx.commit()).is_ok() {
            return found;
        }
    }
}

fn open_all<P: Protocol>(spec_of_pod: &PodSpec) -> Vec<Db<P>> {
    let shape = Shape {
        homes: HOSTS,
        partitions: HOSTS.into(),
        tables: 1,
        workers: 1,
        log_buffer_bytes: 4 << 10,
        message_bytes: 512,
    };
    let sizes = Sizes { scr_bytes: Some(2 << 20), lnr_bytes: Some(16 << 20), ..Sizes::default() };
    let _created = Db::<P>::create(spec_of_pod, sizes, shape).unwrap();
    let epoch = Duration::from_millis(1);
    let commit = GroupSettings { epoch, ..GroupSettings::default() };
    let options = Options { commit, is_logged: true, ..Options::new(vec![spec()]) };
    thread::scope(|scope| {
        let open = |_| scope.spawn(|| Db::<P>::open(spec_of_pod, options.clone()).unwrap());
        let opening: Vec<_> = (0..HOSTS).map(open).collect();
        opening.into_iter().map(|host| host.join().unwrap()).collect()
    })
}

/// A participant logs in the epoch that the coordinator has read. If its own log had passed that
/// epoch before, half of a transfer would count. So the disks are looked at all the time while
/// hosts transfer.
fn transfers_are_whole<P: Protocol>() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = open_all::<P>(&PodSpec::path(directory.path().join("pod")));
    let (disk, stop) = (Arc::new(SimulatedDisk::new()), AtomicBool::new(false));
    thread::scope(|scope| {
        for db in &hosts {
            let mut logger = Logger::open(db.log().clone(), Arc::clone(&disk)).unwrap();
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    db.tick().unwrap();
                    logger.tick().unwrap();
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        let all = u32::from(HOSTS) * ACCOUNTS;
        let first = &hosts[0];
        let opened = retried(|| {
            let mut tx = first.begin(0);
            for account in 0..all {
                tx.insert(TABLE, &key(account), &BALANCE.to_le_bytes())?;
            }
            Ok(tx.commit()?.epoch)
        });
        first.log().wait_durable(opened, Default::default(), || Ok(())).unwrap();
        let total = BALANCE * i64::from(all);
        let clients: Vec<_> = hosts
            .iter()
            .map(|db| {
                scope.spawn(move || {
                    let mut last = 0;
                    for number in 0..400_u32 {
                        let from = (number * 7 + u32::from(db.home().0.0)) % all;
                        let to = (from + 1 + number % (all - 1)) % all;
                        last = retried(|| transfer(db, from, to));
                    }
                    db.log().wait_durable(last, Default::default(), || Ok(())).unwrap();
                })
            })
            .collect();
        let mut looks = 0;
        while clients.iter().any(|client| !client.is_finished()) {
            let recovered = recover(&disk.synchronised(), 1).unwrap();
            let sum: i64 = recovered.rows.iter().map(|row| balance(&row.row)).sum();
            assert_eq!(sum, total, "as of epoch {}", recovered.durable);
            looks += 1;
            thread::sleep(Duration::from_millis(2));
        }
        assert!(looks > 1, "the disks were looked at {looks} times");
        clients.into_iter().for_each(|client| client.join().unwrap());
        let recovered = recover(&disk.synchronised(), 2).unwrap();
        let rows = recovered.rows.iter().map(|row| (row.key.to_vec(), balance(&row.row)));
        assert_eq!(rows.collect::<BTreeMap<_, _>>(), balances(first), "nothing was lost");
        stop.store(true, Ordering::Relaxed);
    });
}

/// Runs a transaction until it meets no conflict.
fn retried(mut attempt: impl FnMut() -> Result<u64, TxError>) -> u64 {
    for round in 0..100_000 {
        match attempt() {
            Ok(epoch) => return epoch,
            Err(error) => assert!(error.is_conflict(), "{error}"),
        }
        thread::sleep(Duration::from_micros(round % 50));
    }
    panic!("a transaction met 100,000 conflicts")
}

#[test]
fn transfers_with_locks_are_whole() {
    transfers_are_whole::<TwoPhaseLocking>();
}

#[test]
fn transfers_with_leases_are_whole() {
    transfers_are_whole::<LogicalLeases>();
}
