//! The checker's verdicts are those of a search through every serial order.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tombolo_verify::serializability::{Condition, Verdict, check};
use tombolo_verify::transactions::History;

use crate::every_order::{self, Log};
use crate::generator::{Kind, Shape, history};

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
            let verdict = verdict(&log, condition);
            let expected = every_order::explains(&log, condition);
            assert!(!matches!(verdict, Verdict::Undecided(_)), "{verdict}\n{log:#?}");
            assert_eq!(verdict.passed(), expected, "{condition}: {verdict}\n{log:#?}");
            if let Verdict::Passed(serial) = &verdict {
                assert!(
                    every_order::is_good(&log, &serial.order, condition),
                    "{serial:?} {log:#?}"
                );
            }
            *if expected { &mut good } else { &mut bad } += 1;
        }
    }
    assert!(good.min(bad) > (good + bad) / 5, "{good} good ones, {bad} bad ones");
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

#[test]
fn lists_and_rows_agree_with_every_order() {
    assert_agreement(Kind::All, 4, 6_000);
}
