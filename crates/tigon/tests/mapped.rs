//! A database on mapped memory: what every engine must do, and workloads whose rules hold
//! afterwards.

use tempfile::TempDir;
use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, Version};
use tombolo_memory::Mapped;
use tombolo_oltp::in_process::{open_all, run, while_ticking};
use tombolo_oltp::tpcc::conditions::{self, When};
use tombolo_oltp::tpcc::schema::STOCK;
use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc};
use tombolo_oltp::{Workload, conformance, load};
use tombolo_pod::{PodSpec, Sizes};
use tombolo_tigon::{Options, Shape, Tigon};

/// A database of some hosts, all of them in this process.
struct Pod {
    hosts: Vec<Tigon<Mapped>>,
    _directory: TempDir,
}

fn pod(homes: u8, partitions: u32, tables: &[TableSpec], scr_budget: Option<u64>) -> Pod {
    let directory = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(directory.path().join("pod"));
    let shape = Shape {
        homes,
        partitions,
        tables: tables.len() as u16,
        workers: 2,
        log_buffer_bytes: 64 << 10,
    };
    let sizes = Sizes { scr_bytes: Some(8 << 20), lnr_bytes: Some(64 << 20), ..Sizes::default() };
    let _created = Tigon::create(&spec, sizes, shape).unwrap();
    let options = Options { scr_budget, ..Options::new(tables.to_vec()) };
    let hosts = open_all(homes, || Tigon::open(&spec, options.clone()).unwrap());
    Pod { hosts, _directory: directory }
}

#[test]
fn one_host_does_what_every_engine_must() {
    let pod = pod(1, conformance::PARTITIONS, &conformance::tables(), None);
    while_ticking(&pod.hosts, || conformance::check_hosts(&pod.hosts));
}

#[test]
fn three_hosts_do_what_every_engine_must() {
    let pod = pod(3, conformance::PARTITIONS, &conformance::tables(), None);
    while_ticking(&pod.hosts, || conformance::check_hosts(&pod.hosts));
}

#[test]
fn rows_move_while_hosts_do_what_every_engine_must() {
    let pod = pod(3, conformance::PARTITIONS, &conformance::tables(), Some(1 << 10));
    while_ticking(&pod.hosts, || conformance::check_hosts(&pod.hosts));
    let moves = pod.hosts.iter().map(|host| host.moves().moved_out).sum::<u64>();
    assert!(moves > 100, "{moves} rows have moved out");
}

/// TPC-C in full, with more transactions across warehouses than its rules ask for.
fn tpcc(scr_budget: Option<u64>) {
    let workload = Tpcc::new(Scale::small(6), RemoteRates::of_transactions(60, 90), 1);
    let pod = pod(3, workload.partitions(), &workload.tables(), scr_budget);
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
fn tpcc_is_consistent_after_transactions_of_all_hosts() {
    tpcc(None);
}

#[test]
fn tpcc_is_consistent_while_rows_move() {
    tpcc(Some(64 << 10));
}

/// All rows of the tables, from the hosts at which they are at home.
fn rows_of(pod: &Pod, tables: usize) -> Vec<(u16, Vec<u8>, u64, Vec<u8>)> {
    let mut rows = Vec::new();
    for host in &pod.hosts {
        for table in 0..tables as u16 {
            host.each_row(TableId(table), &mut |_, key, version, row| {
                rows.push((table, key.to_vec(), version.0, row.to_vec()));
                Ok(())
            })
            .unwrap();
        }
    }
    rows.sort();
    rows
}

#[test]
fn rows_that_were_shared_and_changed_are_those_that_are_read_at_home() {
    let workload = Tpcc::new(Scale::small(4), RemoteRates::of_transactions(60, 90), 1);
    let tables = workload.tables().len();
    let pod = pod(2, workload.partitions(), &workload.tables(), None);
    pod.hosts.iter().for_each(|host| load(&workload, host, 0, 1).unwrap());
    let loaded = rows_of(&pod, tables);
    while_ticking(&pod.hosts, || {
        let of_stock = |host: &Tigon<Mapped>| host.share_table(STOCK).unwrap();
        let shared: u64 = pod.hosts.iter().map(of_stock).sum();
        assert_eq!(shared, 4 * (1000 + 1), "stocks of 4 warehouses, and the partitions' ends");
        assert_eq!(pod.hosts.iter().map(of_stock).sum::<u64>(), 0, "all of them are shared");
        assert_eq!(rows_of(&pod, tables), loaded);
        run(&pod.hosts, &workload, 100);
        let after = rows_of(&pod, tables);
        assert_ne!(after, loaded);
        assert_eq!(rows_of(&pod, tables), after);
    });
    // The rows that were read are enough to load another pod with.
    let again = self::pod(2, workload.partitions(), &workload.tables(), None);
    let after = rows_of(&pod, tables);
    let replicated = |table: u16| workload.tables()[usize::from(table)].partitioning;
    for host in &again.hosts {
        let mut seen = std::collections::HashSet::new();
        for (table, key, version, row) in &after {
            let spec = &workload.tables()[usize::from(*table)];
            let is_copy = replicated(*table) == Partitioning::Replicated;
            let partition = spec.partition_of(key, workload.partitions());
            if is_copy && !seen.insert(key.clone())
                || !is_copy && host.home_of(partition) != host.home().0
            {
                continue;
            }
            host.load_version(TableId(*table), key, Version(*version), row).unwrap();
        }
    }
    assert_eq!(rows_of(&again, tables), after);
    while_ticking(&again.hosts, || {
        let first = &again.hosts[0];
        assert_eq!(conditions::check(first, workload.scale(), When::Always).unwrap(), []);
    });
}

#[test]
fn rows_that_do_not_fit_are_not_shared() {
    let workload = Tpcc::new(Scale::small(80), RemoteRates::SPECIFICATION, 1);
    let pod = pod(1, workload.partitions(), &workload.tables(), None);
    load(&workload, &pod.hosts[0], 0, 1).unwrap();
    let mut tables = 0..workload.tables().len() as u16;
    let shared = tables.try_for_each(|table| pod.hosts[0].share_table(TableId(table)).map(drop));
    let error = shared.unwrap_err();
    assert!(error.to_string().contains("the pod is full: give it more SCR"), "{error}");
}

/// A host that is asked for a row and its neighbours shares those that are not shared yet. It
/// counted all of them, each time.
#[test]
fn rows_that_were_shared_before_do_not_count_as_moved_in() {
    const ROWS: u32 = 20;
    let table = TableSpec {
        key_bytes: 8,
        row_bytes: 8,
        partitioning: Partitioning::Leading { per_partition: 1 },
    };
    let key = |number: u32| [0u32.to_be_bytes(), number.to_be_bytes()].concat();
    let pod = pod(2, 2, &[table], None);
    (0..ROWS).for_each(|n| pod.hosts[0].load(TableId(0), &key(2 * n), &[1; 8]).unwrap());
    while_ticking(&pod.hosts, || {
        for number in 0..ROWS {
            let mut tx = pod.hosts[1].begin(0);
            assert_eq!(tx.get(TableId(0), &key(2 * number + 1)).unwrap(), None);
            tx.commit().unwrap();
        }
    });
    // And the end of the partition.
    assert_eq!(pod.hosts[0].moves().moved_in, u64::from(ROWS) + 1);
    assert_eq!(pod.hosts[0].share_table(TableId(0)).unwrap(), 0);
}
