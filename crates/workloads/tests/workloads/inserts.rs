//! Records that are inserted while a workload runs.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;
use tombolo_workloads::{Inserts, Op, Operations, Workload};

use crate::workload;

fn only_inserts() -> Workload {
    workload('d', &["insertproportion=1", "readproportion=0"]).unwrap()
}

#[test]
fn latest_prefers_what_was_acknowledged_last() {
    let workload = Workload::stock('d').unwrap();
    let inserts = Arc::new(Inserts::new(&workload));
    let mut operations = Operations::new(&workload, 5, 0, inserts.clone()).unwrap();
    let mut newest = 0;
    for _ in 0..5000 {
        match operations.next().unwrap() {
            Op::Insert { key } => inserts.acknowledge(key),
            op => {
                assert!(op.key() < inserts.known());
                newest += u32::from(inserts.known() - op.key() <= 10);
            }
        }
    }
    assert!(newest > 1500, "{newest} of 5000 were among the ten newest");
}

#[test]
fn nothing_is_chosen_before_it_was_acknowledged() {
    for distribution in ["latest", "exponential"] {
        let distribution = format!("requestdistribution={distribution}");
        let workload = workload('d', &[&distribution, "exponential.frac=0.01"]).unwrap();
        let inserts = Arc::new(Inserts::of_host(&workload, 2, 5));
        let operations = Operations::new(&workload, 5, 0, inserts.clone()).unwrap();
        let mut waiting = Vec::new();
        let mut there: HashSet<u64> = HashSet::new();
        let mut inserted_were_read = 0;
        for op in operations.take(10_000) {
            match op {
                Op::Insert { key } => waiting.push(key),
                op => {
                    assert!(op.key() < 1000 || there.contains(&op.key()), "{op:?}");
                    inserted_were_read += u32::from(op.key() >= 1000);
                }
            }
            // Several at a time, the latest first.
            if waiting.len() == 4 {
                there.extend(&waiting);
                waiting.drain(..).rev().for_each(|key| inserts.acknowledge(key));
            }
        }
        assert!(inserted_were_read > 2000, "{inserted_were_read} by {distribution}");
    }
}

#[test]
fn hosts_insert_records_of_their_own() {
    let workload = only_inserts();
    let mut all = HashSet::new();
    for host in 0..3 {
        let inserts = Arc::new(Inserts::of_host(&workload, host, 3));
        let operations = Operations::new(&workload, 1, 0, inserts.clone()).unwrap();
        for (place, op) in operations.take(100).enumerate() {
            assert_eq!(op.key(), 1000 + host + 3 * place as u64);
            assert!(all.insert(op.key()), "{op:?} comes twice");
            inserts.acknowledge(op.key());
        }
        assert_eq!(inserts.known(), 1100);
    }
    assert_eq!(all.len(), 300);
}

#[test]
fn threads_insert_records_of_their_own() {
    let workload = only_inserts();
    let inserts = Arc::new(Inserts::of_host(&workload, 1, 2));
    let insert = |thread| {
        let operations = Operations::new(&workload, 1, thread, inserts.clone()).unwrap();
        let keys = operations.take(500).map(Op::key);
        keys.inspect(|&key| inserts.acknowledge(key)).collect::<Vec<_>>()
    };
    let keys: HashSet<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || insert(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(keys, (0..2000).map(|place| 1001 + 2 * place).collect());
    assert_eq!(inserts.known(), 3000);
}

#[test]
#[should_panic(expected = "record 1001 was never to be inserted")]
fn records_of_others_cannot_be_acknowledged() {
    Inserts::of_host(&only_inserts(), 0, 2).acknowledge(1001);
}

#[test]
fn inserts_are_for_one_workload() {
    let small = Arc::new(Inserts::new(&workload('d', &["recordcount=10"]).unwrap()));
    let error = Operations::new(&only_inserts(), 1, 0, small).unwrap_err().to_string();
    assert!(error.contains("10 records") && error.contains("recordcount=1000"), "{error}");
}

proptest! {
    #[test]
    fn a_gap_hides_what_follows(order in Just((0..20).collect::<Vec<u64>>()).prop_shuffle()) {
        let workload = only_inserts();
        let inserts = Arc::new(Inserts::of_host(&workload, 1, 3));
        let keys: Vec<u64> =
            Operations::new(&workload, 1, 0, inserts.clone()).unwrap().take(20).map(Op::key).collect();
        let mut there = HashSet::new();
        for place in order {
            inserts.acknowledge(keys[place as usize]);
            inserts.acknowledge(keys[place as usize]);
            there.insert(place);
            let without_gap = (0..).take_while(|place| there.contains(place)).count() as u64;
            prop_assert_eq!(inserts.known(), 1000 + without_gap);
        }
    }
}
