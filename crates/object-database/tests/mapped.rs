//! A database on mapped memory: what every engine must do, and workloads whose rules hold
//! afterwards.

use tempfile::TempDir;
use tombolo_database::hosts::{PodEngine as _, SetupError};
use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, TxError};
use tombolo_memory::Mapped;
use tombolo_object_database::{ObjectDatabase, Options, Shape};
use tombolo_oltp::in_process::{open_all, run, while_ticking};
use tombolo_oltp::tpcc::conditions::{self, When};
use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc};
use tombolo_oltp::{Workload, conformance, load};
use tombolo_pod::{PodSpec, Sizes};

/// A database of some hosts, all of them in this process.
struct Pod {
    hosts: Vec<ObjectDatabase<Mapped>>,
    _directory: TempDir,
}

fn pod(homes: u8, partitions: u32, tables: &[TableSpec]) -> Pod {
    let directory = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(directory.path().join("pod"));
    let shape = Shape {
        homes,
        partitions,
        tables: tables.len() as u16,
        workers: 2,
        log_buffer_bytes: 64 << 10,
    };
    let sizes = Sizes { scr_bytes: Some(8 << 20), lnr_bytes: Some(128 << 20), ..Sizes::default() };
    let _created = ObjectDatabase::create(&spec, sizes, shape).unwrap();
    let options = Options::new(tables.to_vec());
    let hosts = open_all(homes, || ObjectDatabase::open(&spec, options.clone()).unwrap());
    Pod { hosts, _directory: directory }
}

#[test]
fn one_host_does_what_every_engine_must() {
    let pod = pod(1, conformance::PARTITIONS, &conformance::tables());
    while_ticking(&pod.hosts, || conformance::check_hosts(&pod.hosts));
}

#[test]
fn three_hosts_do_what_every_engine_must() {
    let pod = pod(3, conformance::PARTITIONS, &conformance::tables());
    while_ticking(&pod.hosts, || conformance::check_hosts(&pod.hosts));
}

/// TPC-C in full, with more transactions across warehouses than its rules ask for.
#[test]
fn tpcc_is_consistent_after_transactions_of_all_hosts() {
    let workload = Tpcc::new(Scale::small(6), RemoteRates::of_transactions(60, 90), 1);
    let pod = pod(3, workload.partitions(), &workload.tables());
    let first = &pod.hosts[0];
    while_ticking(&pod.hosts, || {
        pod.hosts.iter().for_each(|host| load(&workload, host, 0, 1).unwrap());
        assert_eq!(conditions::check(first, workload.scale(), When::Loaded).unwrap(), []);
        let stats = run(&pod.hosts, &workload, 150);
        let commits: u64 = stats.iter().map(|stats| stats.total().commits).sum();
        assert!(commits > 850, "{commits} transactions were committed");
        assert_eq!(conditions::check(first, workload.scale(), When::Always).unwrap(), []);
    });
}

const TABLE: TableId = TableId(0);

fn table() -> TableSpec {
    TableSpec {
        key_bytes: 8,
        row_bytes: 100,
        partitioning: Partitioning::Leading { per_partition: 1 },
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Objects that there are, as another host sees them.
fn objects(pod: &Pod) -> u64 {
    pod.hosts[1].objects().object_count().unwrap()
}

#[test]
fn an_index_grows_and_shrinks_with_its_rows() {
    const ROWS: u64 = 3000;
    let pod = pod(2, 1, &[table()]);
    while_ticking(&pod.hosts, || {
        let empty = objects(&pod);
        let change = |numbers: std::ops::Range<u64>, insert: bool| {
            let numbers: Vec<u64> = numbers.collect();
            for numbers in numbers.chunks(50) {
                let mut tx = pod.hosts[numbers[0] as usize / 50 % 2].begin(0);
                for number in numbers {
                    match insert {
                        true => tx.insert(TABLE, &key(*number), b"row").unwrap(),
                        false => assert!(tx.delete(TABLE, &key(*number)).unwrap()),
                    }
                }
                tx.commit().unwrap();
            }
        };
        change(0..ROWS, true);
        let leaves = objects(&pod) - empty - ROWS;
        assert!((ROWS / 64..=ROWS / 30).contains(&leaves), "{leaves} leaves for {ROWS} keys");
        let mut rows = 0;
        let mut tx = pod.hosts[1].begin(0);
        tx.scan(TABLE, tombolo_database::Scan::ALL, &mut |found, _| {
            assert_eq!(found, key(rows));
            rows += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        tx.commit().unwrap();
        assert_eq!(rows, ROWS);
        change(0..ROWS, false);
        assert_eq!(objects(&pod), empty + 1, "one leaf, and no row");
    });
}

/// A row that comes back after it was deleted is newer than what was deleted, so that recovery
/// takes it.
#[test]
fn versions_of_a_key_grow_while_its_row_comes_and_goes() {
    let pod = pod(1, 1, &[table()]);
    let host = &pod.hosts[0];
    let version = || {
        let mut versions = Vec::new();
        host.each_row(TABLE, &mut |_, _, version, _| {
            versions.push(version);
            Ok::<(), TxError>(())
        })
        .unwrap();
        versions.pop().unwrap()
    };
    let mut last = None;
    for _ in 0..5 {
        let mut tx = host.begin(0);
        tx.insert(TABLE, &key(1), b"row").unwrap();
        tx.commit().unwrap();
        let mut tx = host.begin(0);
        assert!(tx.update(TABLE, &key(1), b"again").unwrap());
        tx.commit().unwrap();
        assert!(Some(version()) > last);
        last = Some(version());
        let mut tx = host.begin(0);
        assert!(tx.delete(TABLE, &key(1)).unwrap());
        tx.commit().unwrap();
    }
}

#[test]
fn an_aborted_transaction_leaves_nothing() {
    let pod = pod(2, 1, &[table()]);
    while_ticking(&pod.hosts, || {
        pod.hosts[0].load(TABLE, &key(1), b"row").unwrap();
        let before = objects(&pod);
        for _ in 0..100 {
            let (mut first, mut second) = (pod.hosts[0].begin(0), pod.hosts[1].begin(0));
            assert!(second.update(TABLE, &key(1), b"theirs").unwrap());
            assert!(first.update(TABLE, &key(1), b"ours").unwrap());
            (2..200).for_each(|number| first.insert(TABLE, &key(number), b"new").unwrap());
            second.commit().unwrap();
            assert!(first.commit().unwrap_err().is_conflict());
        }
        assert_eq!(objects(&pod), before);
    });
}

/// A transaction may meet rows of two states, and finds out before anything is told of it.
#[test]
fn a_transaction_that_has_read_rows_of_two_states_is_not_valid() {
    let pod = pod(2, 1, &[table()]);
    while_ticking(&pod.hosts, || {
        for number in [1, 2] {
            pod.hosts[0].load(TABLE, &key(number), b"old").unwrap();
        }
        let mut reader = pod.hosts[0].begin(0);
        assert_eq!(reader.get(TABLE, &key(1)).unwrap(), Some(&b"old"[..]));
        reader.validate().unwrap();
        let mut writer = pod.hosts[1].begin(0);
        for number in [1, 2] {
            assert!(writer.update(TABLE, &key(number), b"new").unwrap());
        }
        writer.commit().unwrap();
        assert_eq!(reader.get(TABLE, &key(2)).unwrap(), Some(&b"new"[..]));
        assert!(reader.validate().unwrap_err().is_conflict());
        assert!(reader.get(TABLE, &key(2)).unwrap_err().is_conflict());
        assert!(reader.commit().unwrap_err().is_conflict());
    });
}

/// A reader that has found nothing committed in an epoch which nobody had asked to end: it was
/// never durable.
#[test]
fn the_epoch_of_a_reader_that_has_found_nothing_ends() {
    let pod = pod(1, 1, &[table()]);
    let host = &pod.hosts[0];
    let mut reader = host.begin(0);
    assert_eq!(reader.get(TABLE, &key(1)).unwrap(), None);
    let read_in = reader.commit().unwrap().epoch;
    while_ticking(&pod.hosts, || {
        while host.log().epoch() == read_in {
            std::thread::yield_now();
        }
    });
}

/// A database in a pod of two hosts, which come and go.
struct Open {
    spec: PodSpec,
    tables: Vec<TableSpec>,
    _directory: TempDir,
}

impl Open {
    fn new(tables: Vec<TableSpec>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let spec = PodSpec::path(directory.path().join("pod"));
        let tables_at_most = tables.len() as u16;
        let shape = Shape {
            homes: 2,
            partitions: 1,
            tables: tables_at_most,
            workers: 1,
            log_buffer_bytes: 4 << 10,
        };
        let sizes =
            Sizes { scr_bytes: Some(8 << 20), lnr_bytes: Some(64 << 20), ..Sizes::default() };
        drop(ObjectDatabase::create(&spec, sizes, shape).unwrap());
        Self { spec, tables, _directory: directory }
    }

    fn open(&self) -> Result<ObjectDatabase<Mapped>, SetupError> {
        ObjectDatabase::open(&self.spec, Options::new(self.tables.clone()))
    }

    fn open_two(&self) -> Vec<ObjectDatabase<Mapped>> {
        open_all(2, || self.open().unwrap())
    }
}

fn read(host: &ObjectDatabase<Mapped>, number: u64) -> Option<Vec<u8>> {
    let mut tx = host.begin(0);
    let row = tx.get(TABLE, &key(number)).unwrap().map(<[u8]>::to_vec);
    tx.commit().unwrap();
    row
}

#[test]
fn a_host_that_comes_later_finds_all_rows() {
    let database = Open::new(vec![table()]);
    let mut hosts = database.open_two();
    hosts[0].load(TABLE, &key(1), b"row").unwrap();
    hosts.pop().unwrap().leave();
    let late = while_ticking(&hosts, || database.open().unwrap());
    assert_eq!((late.is_late(), late.home().0.0), (true, 1));
    hosts.push(late);
    while_ticking(&hosts, || {
        assert_eq!(read(&hosts[1], 1).as_deref(), Some(&b"row"[..]));
        let mut tx = hosts[1].begin(0);
        tx.insert(TABLE, &key(2), b"late").unwrap();
        tx.commit().unwrap();
        assert_eq!(read(&hosts[0], 2).as_deref(), Some(&b"late"[..]));
    });
}

/// Its rows are in the memory of the hosts that were there, and in the pod.
#[test]
fn a_host_that_comes_later_has_a_copy_of_replicated_tables() {
    const REPLICATED: TableId = TableId(1);
    let replicated = TableSpec { partitioning: Partitioning::Replicated, ..table() };
    let database = Open::new(vec![table(), replicated]);
    let mut hosts = database.open_two();
    for host in &hosts {
        (0..500).for_each(|number| host.load(REPLICATED, &key(number), &key(number)).unwrap());
    }
    // The first one, too, which has put the rows there.
    for home in [1, 0] {
        hosts.remove(home).leave();
        let late = while_ticking(&hosts, || database.open().unwrap());
        let mut tx = late.begin(0);
        for number in 0..500 {
            let row = tx.get(REPLICATED, &key(number)).unwrap();
            assert_eq!(row, Some(&key(number)[..]));
        }
        tx.commit().unwrap();
        hosts.insert(home, late);
    }
}

/// The rows that the logs have are loaded anew then.
#[test]
fn a_pod_that_all_hosts_have_left_has_no_rows() {
    let database = Open::new(vec![table()]);
    for life in 0..2_u8 {
        let hosts = database.open_two();
        assert!(hosts.iter().all(|host| !host.is_late()));
        while_ticking(&hosts, || {
            assert_eq!(read(&hosts[0], 1), None);
            hosts[0].load(TABLE, &key(1), &[life]).unwrap();
            assert_eq!(read(&hosts[1], 1), Some(vec![life]));
        });
        hosts.iter().for_each(ObjectDatabase::leave);
    }
}
