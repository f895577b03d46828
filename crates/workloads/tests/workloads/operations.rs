//! Which operations there are, and about which keys.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tombolo_workloads::{
    Inserts, Op, Operations, Proportions, RequestDistribution, ScanLengths, Workload,
};

use crate::laws::assert_follows;
use crate::{operations, workload};

/// The published mixes: reads, updates, inserts, scans, read-modify-writes.
const MIXES: [(char, [f64; 5], RequestDistribution); 6] = [
    ('a', [0.5, 0.5, 0.0, 0.0, 0.0], RequestDistribution::Zipfian),
    ('b', [0.95, 0.05, 0.0, 0.0, 0.0], RequestDistribution::Zipfian),
    ('c', [1.0, 0.0, 0.0, 0.0, 0.0], RequestDistribution::Zipfian),
    ('d', [0.95, 0.0, 0.05, 0.0, 0.0], RequestDistribution::Latest),
    ('e', [0.0, 0.0, 0.05, 0.95, 0.0], RequestDistribution::Zipfian),
    ('f', [0.5, 0.0, 0.0, 0.0, 0.5], RequestDistribution::Zipfian),
];

#[test]
fn stock_workloads_are_as_published() {
    for (letter, [read, update, insert, scan, read_modify_write], distribution) in MIXES {
        let stock = Workload::stock(letter).unwrap();
        let expected = Proportions { read, update, insert, scan, read_modify_write };
        assert_eq!(stock.proportions, expected, "{letter}");
        assert_eq!(stock.request_distribution, distribution, "{letter}");
        assert_eq!((stock.record_count, stock.operation_count), (1000, Some(1000)), "{letter}");
        assert_eq!((stock.records(), stock.value_bytes()), (0..1000, 1000), "{letter}");
        assert_eq!((stock.zipfian_theta, stock.read_all_fields), (0.99, true), "{letter}");
        assert_eq!(Workload::stock(letter.to_ascii_uppercase()).unwrap(), stock);
    }
    let e = Workload::stock('e').unwrap();
    assert_eq!((e.max_scan_length, e.scan_lengths), (100, ScanLengths::Uniform));
}

#[test]
fn operations_are_mixed_as_published() {
    for (letter, mix, _) in MIXES {
        let mut counts = [0; 5];
        for op in operations(&Workload::stock(letter).unwrap(), 7, 20_000) {
            counts[match op {
                Op::Read { .. } => 0,
                Op::Update { .. } => 1,
                Op::Insert { .. } => 2,
                Op::Scan { .. } => 3,
                Op::ReadModifyWrite { .. } => 4,
            }] += 1;
        }
        assert_follows(&counts, &mix);
    }
}

#[test]
fn a_seed_fixes_everything() {
    let workload = workload('d', &["threadcount=2"]).unwrap();
    assert_eq!(operations(&workload, 9, 1000), operations(&workload, 9, 1000));
    assert_ne!(operations(&workload, 9, 1000), operations(&workload, 10, 1000));
    let inserts = Arc::new(Inserts::new(&workload));
    let other: Vec<Op> = Operations::new(&workload, 9, 1, inserts).unwrap().take(1000).collect();
    assert_ne!(operations(&workload, 9, 1000), other);
}

/// Else results of different versions could not be compared.
#[test]
fn the_operations_of_a_seed_never_change() {
    let found = operations(&Workload::stock('a').unwrap(), 42, 6);
    let expected = [
        Op::Read { key: 452 },
        Op::Read { key: 538 },
        Op::Update { key: 213 },
        Op::Read { key: 55 },
        Op::Read { key: 299 },
        Op::Update { key: 458 },
    ];
    assert_eq!(found, expected);
}

#[test]
fn threads_share_the_work() {
    let workload =
        workload('a', &["threadcount=7", "insertstart=50", "operationcount=1001"]).unwrap();
    let records: Vec<u64> = (0..7).flat_map(|thread| workload.records_of_thread(thread)).collect();
    assert_eq!(records, (50..1000).collect::<Vec<_>>());
    let operations = (0..7).map(|thread| workload.operations_of_thread(thread).unwrap());
    assert_eq!(operations.clone().sum::<u64>(), 1001);
    assert!(operations.max().unwrap() - 143 <= 1);
}

#[test]
fn keys_are_named_as_ycsb_names_them() {
    let name = |assignments: &[&str], number| {
        let mut name = b"what was there".to_vec();
        workload('a', assignments).unwrap().key(number, &mut name);
        String::from_utf8(name).unwrap()
    };
    assert_eq!(name(&["insertorder=ordered"], 42), "user42");
    assert_eq!(name(&["insertorder=ordered"], 0), "user0");
    assert_eq!(name(&["insertorder=ordered", "zeropadding=6"], 42), "user000042");
    assert_eq!(name(&["insertorder=ordered", "keyprefix=k:"], 42), "k:42");
    // YCSB's first keys.
    assert_eq!(name(&[], 0), "user6284781860667377211");
    assert_eq!(name(&[], 1), "user8517097267634966620");
    assert_eq!(name(&["zeropadding=21"], 0), "user006284781860667377211");
    assert_eq!(name(&["keylength=30"], 0), "user00000006284781860667377211");
    let names: HashSet<_> = (0..1000).map(|number| name(&[], number)).collect();
    assert_eq!(names.len(), 1000);
}

#[test]
fn no_key_is_longer_than_said() {
    let mut key = Vec::new();
    for assignments in [
        &["insertorder=ordered"][..],
        &["insertorder=hashed"],
        &["zeropadding=25"],
        &["keyprefix=a-longer-prefix:", "insertorder=ordered", "keylength=20"],
    ] {
        let workload = workload('d', assignments).unwrap();
        let longest = (0..2000).map(|number| {
            workload.key(number, &mut key);
            key.len() as u32
        });
        assert_eq!(longest.max(), Some(workload.longest_key_bytes()), "{assignments:?}");
    }
}

#[test]
fn limits_are_passed_on() {
    let limits = ["operationcount=0", "maxexecutiontime=30", "seed=7", "dataintegrity=true"];
    let workload = workload('a', &limits).unwrap();
    assert_eq!(workload.operations_of_thread(0), None);
    assert_eq!(workload.max_execution_time, Some(Duration::from_secs(30)));
    assert_eq!((workload.seed, workload.data_integrity), (Some(7), true));
    let stock = Workload::stock('a').unwrap();
    assert_eq!((stock.max_execution_time, stock.seed, stock.data_integrity), (None, None, false));
}
