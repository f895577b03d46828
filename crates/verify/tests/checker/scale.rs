//! Long, wide and hopeless histories.

use std::collections::HashMap;
use std::sync::Mutex;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tombolo_verify::history::{History, Outcome, Record, Recorder};
use tombolo_verify::linearizability::{Verdict, check};
use tombolo_verify::models::{KeyValue, Operation, Result};

use crate::generator::{Shape, linearizable};
use crate::sequential::{Log, Op, Ret};

const LARGE: Shape = Shape {
    clients: 8,
    operations_per_client: 25_000,
    keys: 2_000,
    values: 1 << 40,
    ticks: 100,
    failed_percent: 1,
    in_doubt_percent: 0,
};

fn generate(shape: &Shape) -> Log {
    linearizable(&mut ChaCha8Rng::seed_from_u64(11), shape)
}

fn verdict(log: Log, budget_per_key: u64) -> Verdict<u32, Op, Ret> {
    check(&KeyValue::default(), &History::new(log).unwrap(), budget_per_key)
}

fn record(
    client: u32,
    invoked_at: u64,
    operation: Op,
    outcome: Outcome<Ret>,
) -> Record<u32, Op, Ret> {
    Record { client, key: 0, operation, invoked_at, outcome }
}

fn returned(at: u64, result: Ret) -> Outcome<Ret> {
    Outcome::Returned { at, result }
}

#[test]
fn many_keys() {
    let verdict = verdict(generate(&LARGE), 1_000);
    assert!(verdict.is_linearizable(), "{verdict}");
}

#[test]
fn one_hot_key() {
    let shape = Shape { clients: 16, operations_per_client: 2_000, keys: 1, ..LARGE };
    let verdict = verdict(generate(&shape), 1_000_000);
    assert!(verdict.is_linearizable(), "{verdict}");
}

#[test]
fn one_stale_read_at_the_end_of_a_long_history() {
    let mut log = generate(&Shape { operations_per_client: 5_000, keys: 1, ..LARGE });
    let end = log.iter().filter_map(Record::responded_at).max().unwrap();
    log.push(record(0, end + 1, Operation::Put(1), returned(end + 2, Result::Done)));
    log.push(record(0, end + 3, Operation::Put(2), returned(end + 4, Result::Done)));
    let stale = record(1, end + 5, Operation::Get, returned(end + 6, Result::Value(Some(1))));
    log.push(stale.clone());

    let verdict = verdict(log, 1_000_000);
    let violation = verdict.violation().unwrap();
    assert_eq!(
        (violation.unplaced.as_slice(), violation.state.as_str()),
        (&[stale][..], "Some(2)")
    );
    assert!(violation.placed.len() > 39_000);
    assert!(verdict.to_string().lines().count() < 40, "{verdict}");
}

/// `count` writers at once, each of a value of its own, and then a read of `seen`.
fn crowd(count: u64, outcome: &Outcome<Ret>, seen: u64) -> Log {
    let write = |value| record(value as u32, 1, Operation::Put(value), outcome.clone());
    let mut log: Log = (0..count).map(write).collect();
    log.push(record(0, 20, Operation::Get, returned(30, Result::Value(Some(seen)))));
    log
}

#[test]
fn more_concurrent_writers_than_fit_a_word() {
    let verdict = verdict(crowd(150, &returned(10, Result::Done), 149), 1_000_000);
    assert!(verdict.is_linearizable(), "{verdict}");
}

#[test]
fn out_of_budget_is_undecided() {
    let hopeless = crowd(20, &returned(10, Result::Done), 999);
    assert!(matches!(
        verdict(hopeless.clone(), 5_000),
        Verdict::Undecided { explored: 5_000.., keys } if keys == [0]
    ));

    let mut also_wrong = hopeless;
    let mut read = record(0, 1, Operation::Get, returned(2, Result::Value(Some(1))));
    read.key = 7;
    also_wrong.push(read);
    assert_eq!(verdict(also_wrong, 5_000).violation().map(|violation| violation.key), Some(7));
}

#[test]
fn many_crashed_writers_are_no_exponential_matter() {
    for outcome in [Outcome::Pending, Outcome::Unknown { at: 5 }] {
        assert!(verdict(crowd(60, &outcome, 30), 1_000_000).is_linearizable());
        assert!(verdict(crowd(60, &outcome, 999), 1_000_000).violation().is_some());
    }
}

#[test]
fn nothing_happened() {
    assert_eq!(verdict(Vec::new(), 0), Verdict::Linearizable { explored: 0 });
}

#[test]
fn threads_on_a_locked_map() {
    let map = Mutex::new(HashMap::new());
    let recorder = Recorder::new();
    std::thread::scope(|scope| {
        for id in 0..4 {
            let (client, map) = (recorder.client(id), &map);
            let mut rng = ChaCha8Rng::seed_from_u64(u64::from(id));
            scope.spawn(move || {
                for tag in 0..2_000 {
                    let key = rng.random_range(0..4);
                    let tag = tag * 4 + u64::from(id);
                    if rng.random_bool(0.5) {
                        let get = client.invoke(key, Operation::Get);
                        let found = map.lock().unwrap().get(&key).copied();
                        client.returned(get, Result::Value(found));
                    } else {
                        let update = client.invoke(key, Operation::Update(tag));
                        let old = map.lock().unwrap().insert(key, tag);
                        client.returned(update, Result::Value(old));
                    }
                }
            });
        }
    });
    let verdict = check(&KeyValue::default(), &recorder.history(), 1_000_000);
    assert!(verdict.is_linearizable(), "{verdict}");
}
