//! The checker's verdicts are those of a search through every serial order, and of a published
//! checker.

use adya::Workload;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tombolo_verify::serializability::{Condition, Phenomenon, Verdict, check};
use tombolo_verify::transactions::{History, Operation, Outcome};

use crate::every_order::{self, Log};
use crate::generator::{Kind, Shape, history};
use crate::published;

const BUDGET: u64 = 1_000_000;

const CONDITIONS: [Condition; 3] =
    [Condition::Serializable, Condition::StrongSession, Condition::Strict];

fn shapes(kind: Kind) -> [Shape; 4] {
    let small = Shape {
        kind,
        sessions: 2,
        transactions_per_session: 1,
        most_operations: 4,
        keys: 2,
        torn_percent: 20,
        aborted_percent: 5,
        in_doubt_percent: 5,
    };
    [
        Shape { keys: 3, ..small },
        Shape { sessions: 3, torn_percent: 10, ..small },
        Shape { sessions: 4, keys: 3, most_operations: 3, in_doubt_percent: 25, ..small },
        Shape { sessions: 5, keys: 1, most_operations: 2, in_doubt_percent: 15, ..small },
    ]
}

fn verdict(log: &Log, condition: Condition) -> Verdict<u8, u32> {
    check(&History::new(log.clone()).unwrap(), condition, BUDGET)
}

/// Every verdict is that of all orders, and none is so rare that agreeing on it means nothing. A
/// pass names an order that is good.
fn assert_agreement(kind: Kind, seed: u64, count: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut good, mut bad) = (0, 0);
    for at in 0..count {
        let shapes = shapes(kind);
        let log = history(&mut rng, &shapes[at % shapes.len()]);
        for condition in CONDITIONS {
            if assert_agrees(&log, condition) { good += 1 } else { bad += 1 }
        }
    }
    assert!(good.min(bad) > (good + bad) / 5, "{good} good ones, {bad} bad ones");
}

/// The verdict is that of all orders; returns which.
fn assert_agrees(log: &Log, condition: Condition) -> bool {
    let verdict = verdict(log, condition);
    let expected = every_order::explains(log, condition);
    assert!(!matches!(verdict, Verdict::Undecided(_)), "{verdict}\n{log:#?}");
    assert_eq!(verdict.passed(), expected, "{condition}: {verdict}\n{log:#?}");
    if let Verdict::Passed(serial) = &verdict {
        assert!(every_order::is_good(log, &serial.order, condition), "{serial:?} {log:#?}");
    }
    expected
}

#[test]
fn lists_agree_with_every_order() {
    assert_agreement(Kind::Lists, 1, 6_000);
}

#[test]
fn registers_agree_with_every_order() {
    assert_agreement(Kind::Registers, 2, 6_000);
}

#[test]
fn rows_agree_with_every_order() {
    assert_agreement(Kind::Rows, 3, 12_000);
}

/// As many transactions are in doubt as not.
#[test]
fn rows_in_doubt_agree_with_every_order() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for at in 0..12_000 {
        let shape = shapes(Kind::Rows).into_iter().nth(at % 4).unwrap();
        let log = history(&mut rng, &Shape { in_doubt_percent: 50, ..shape });
        for condition in CONDITIONS {
            assert_agrees(&log, condition);
        }
    }
}

/// No search is led to a wrong verdict by a clock that says nothing, or by many versions of a row.
#[test]
fn serial_histories_pass_whatever_the_clock_says() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut passed = 0;
    for _ in 0..60 {
        let [_, shape, ..] = shapes(Kind::Rows);
        let (torn_percent, aborted_percent, in_doubt_percent) = (0, 0, 0);
        let (sessions, keys, most_operations) = (60, 2, 2);
        let shape = Shape {
            sessions,
            keys,
            most_operations,
            torn_percent,
            aborted_percent,
            in_doubt_percent,
            ..shape
        };
        let mut log = history(&mut rng, &shape);
        for transaction in &mut log {
            let at = rng.random_range(0..1_000);
            (transaction.begun_at, transaction.outcome) = (at, Outcome::Committed { at });
        }
        log.sort_by_key(|transaction| transaction.begun_at);
        let verdict = verdict(&log, Condition::Serializable);
        assert!(verdict.violation().is_none(), "{verdict}\n{log:#?}");
        passed += usize::from(verdict.passed());
    }
    assert!(passed > 30, "{passed} passed");
}

#[test]
fn lists_and_rows_agree_with_every_order() {
    assert_agreement(Kind::All, 4, 6_000);
}

/// Histories for the published checker, which takes reads of transactions in doubt for what these
/// transactions saw even if they had no effect.
fn for_published(kind: Kind, seed: u64, count: usize) -> impl Iterator<Item = Log> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let larger = |shape: Shape| Shape {
        sessions: shape.sessions + 3,
        transactions_per_session: 2,
        torn_percent: shape.torn_percent / 4,
        ..shape
    };
    (0..count).map(move |at| {
        let [a, b, c, d] = shapes(kind);
        let shape = [a, b, c, d].into_iter().nth(at % 4).map(larger).unwrap();
        let mut log = history(&mut rng, &shape);
        for transaction in log.iter_mut().filter(|transaction| transaction.is_in_doubt()) {
            let is_read = |operation: &Operation<u8, u32>| {
                matches!(operation, Operation::Read { .. } | Operation::ReadList { .. })
            };
            transaction.operations.retain(|operation| !is_read(operation));
        }
        log
    })
}

/// But for one thing that the published checker does not look for: a transaction's appends in the
/// wrong order.
#[test]
fn lists_agree_with_a_published_checker() {
    let (mut good, mut bad) = (0, 0);
    for log in for_published(Kind::Lists, 5, 800) {
        for condition in [Condition::Serializable, Condition::Strict] {
            let verdict = verdict(&log, condition);
            let expected = published::finds_nothing(&log, Workload::ListAppend, condition);
            let name = verdict.violation().map(|violation| violation.anomaly.phenomenon);
            if name != Some(Phenomenon::Disorder) {
                assert_eq!(verdict.passed(), expected, "{condition}: {verdict}\n{log:#?}");
                *if expected { &mut good } else { &mut bad } += 1;
            }
        }
    }
    assert!(good.min(bad) > (good + bad) / 5, "{good} good ones, {bad} bad ones");
}

/// The published checker knows only some orders of writes, and misses what is wrong with others.
#[test]
fn a_published_checker_finds_nothing_wrong_with_registers_that_pass() {
    let (mut good, mut missed) = (0, 0);
    for log in for_published(Kind::Registers, 6, 800) {
        for condition in [Condition::Serializable, Condition::Strict] {
            let verdict = verdict(&log, condition);
            let expected = published::finds_nothing(&log, Workload::RwRegister, condition);
            assert!(expected || !verdict.passed(), "{condition}: {verdict}\n{log:#?}");
            good += usize::from(verdict.passed());
            missed += usize::from(expected && !verdict.passed());
        }
    }
    assert!(good > 300 && missed > 0, "{good} good ones, {missed} missed");
}
