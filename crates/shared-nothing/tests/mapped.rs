//! A database on mapped memory: what every engine must do, and workloads whose rules hold
//! afterwards.

use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, TxError};
use tombolo_memory::Mapped;
use tombolo_oltp::in_process::{open_all, run, while_ticking};
use tombolo_oltp::tpcc::conditions::{self, When};
use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc};
use tombolo_oltp::{Workload, conformance, load};
use tombolo_pod::{PodSpec, Sizes};
use tombolo_shared_nothing::{
    LogicalLeases, Options, Protocol, Shape, SharedNothing, TwoPhaseLocking,
};

const TABLE: TableId = TableId(0);

type Tx<'a> = <SharedNothing<Mapped, LogicalLeases> as Engine>::Transaction<'a>;

/// A database of some hosts, all of them in this process.
struct Pod<P: Protocol> {
    hosts: Vec<SharedNothing<Mapped, P>>,
    _directory: TempDir,
}

fn pod<P: Protocol>(homes: u8, partitions: u32, tables: &[TableSpec], gap_leases: bool) -> Pod<P> {
    let directory = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(directory.path().join("pod"));
    let shape = Shape {
        homes,
        partitions,
        tables: tables.len() as u16,
        workers: 2,
        log_buffer_bytes: 64 << 10,
        message_bytes: 2 << 10,
    };
    let sizes = Sizes { scr_bytes: Some(8 << 20), lnr_bytes: Some(64 << 20), ..Sizes::default() };
    let _created = SharedNothing::<Mapped, P>::create(&spec, sizes, shape).unwrap();
    let options = Options { gap_leases, ..Options::new(tables.to_vec()) };
    let open = || SharedNothing::<Mapped, P>::open(&spec, options.clone()).unwrap();
    let hosts = open_all(homes, open);
    Pod { hosts, _directory: directory }
}

/// Some hosts do what every engine must.
fn conforms<P: Protocol>(hosts: u8, gap_leases: bool) {
    let pod = pod::<P>(hosts, conformance::PARTITIONS, &conformance::tables(), gap_leases);
    while_ticking(&pod.hosts, || conformance::check_hosts(&pod.hosts));
}

#[test]
fn one_host_does_what_every_engine_must() {
    conforms::<TwoPhaseLocking>(1, false);
    conforms::<LogicalLeases>(1, false);
    conforms::<LogicalLeases>(1, true);
}

#[test]
fn three_hosts_that_lock_do_what_every_engine_must() {
    conforms::<TwoPhaseLocking>(3, false);
}

#[test]
fn three_hosts_with_leases_do_what_every_engine_must() {
    conforms::<LogicalLeases>(3, false);
}

#[test]
fn three_hosts_with_leases_of_gaps_do_what_every_engine_must() {
    conforms::<LogicalLeases>(3, true);
}

/// TPC-C in full, with more transactions across warehouses than its rules ask for.
fn tpcc<P: Protocol>(gap_leases: bool) {
    let workload = Tpcc::new(Scale::small(6), RemoteRates::of_transactions(60, 90), 1);
    let pod = pod::<P>(3, workload.partitions(), &workload.tables(), gap_leases);
    pod.hosts.iter().for_each(|host| load(&workload, host, 0, 1).unwrap());
    let first = &pod.hosts[0];
    while_ticking(&pod.hosts, || {
        assert_eq!(conditions::check(first, workload.scale(), When::Loaded).unwrap(), []);
        let stats = run(&pod.hosts, &workload, 150);
        let commits: u64 = stats.iter().map(|stats| stats.total().commits).sum();
        assert!(commits > 850, "{commits} transactions were committed");
        assert_eq!(conditions::check(first, workload.scale(), When::Always).unwrap(), []);
    });
}

#[test]
fn tpcc_is_consistent_with_locks() {
    tpcc::<TwoPhaseLocking>(false);
}

#[test]
fn tpcc_is_consistent_with_leases() {
    tpcc::<LogicalLeases>(false);
}

#[test]
fn tpcc_is_consistent_with_leases_of_gaps() {
    tpcc::<LogicalLeases>(true);
}

/// A transaction reads that a row is not there, of which its home still has a ghost. The ghost is
/// swept, and the row inserted anew. The transaction used to take the new row for the ghost, and to
/// commit after the insertion though it had not seen the row.
#[test]
fn a_row_that_comes_in_place_of_a_ghost_is_not_the_ghost() {
    let spec = TableSpec {
        key_bytes: 5,
        row_bytes: 1,
        partitioning: Partitioning::Leading { per_partition: 1 },
    };
    let pod = pod::<LogicalLeases>(2, 2, &[spec], true);
    let [first, second] = &pod.hosts[..] else { panic!("two hosts") };
    let partition = (0..2).find(|&partition| first.home_of(partition).0 == first.home().0.0);
    let key = |number: u8| [&partition.unwrap().to_be_bytes()[..], &[number]].concat();
    let (row, other) = (key(1), key(2));
    let commit = |change: &dyn Fn(&mut Tx<'_>)| {
        let mut tx = first.begin(0);
        change(&mut tx);
        tx.commit().unwrap().epoch
    };
    while_ticking(&pod.hosts, || {
        commit(&|tx| tx.insert(TABLE, &row, b"1").unwrap());
        let deleted = commit(&|tx| assert!(tx.delete(TABLE, &row).unwrap()));
        let mut reader = second.begin(0);
        assert_eq!(reader.get(TABLE, &row).unwrap(), None);
        first.end_epoch(deleted);
        thread::sleep(Duration::from_millis(100));
        commit(&|tx| {
            tx.insert(TABLE, &row, b"2").unwrap();
            tx.insert(TABLE, &other, b"2").unwrap();
        });
        let updated = reader.update(TABLE, &row, b"3");
        let found = updated.and_then(|_| reader.get(TABLE, &other).map(|row| row.is_some()));
        let ended = found.and_then(|found| reader.commit().map(|_| found));
        assert!(ended.as_ref().is_err_and(TxError::is_conflict), "{ended:?}");
    });
}
