//! The checker's verdicts are those of two checkers that share no code with it.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tombolo_verify::history::Outcome;
use tombolo_verify::linearizability::{Model, Verdict, Violation, check};
use tombolo_verify::models::KeyValue;

use crate::generator::{Shape, damage, linearizable};
use crate::sequential::{Log, Op, Ret, Store, history};
use crate::{brute_force, published};

const SMALL: Shape = Shape {
    clients: 3,
    operations_per_client: 2,
    keys: 1,
    values: 3,
    ticks: 4,
    failed_percent: 5,
    in_doubt_percent: 20,
};

/// `count` histories, a quarter of them as generated and the others damaged once or twice.
fn histories(seed: u64, count: usize, shapes: &[Shape]) -> impl Iterator<Item = Log> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(move |index| {
        let shape = &shapes[index % shapes.len()];
        let mut log = linearizable(&mut rng, shape);
        if !rng.random_bool(0.25) {
            for _ in 0..rng.random_range(1..=2) {
                damage(&mut rng, &mut log, shape.values);
            }
        }
        log
    })
}

fn verdict<M: Model<Operation = Op, Result = Ret>>(model: &M, log: &Log) -> Verdict<u32, Op, Ret> {
    let verdict = check(model, &history(log), 1_000_000);
    assert!(!matches!(verdict, Verdict::Undecided { .. }), "{verdict}");
    verdict
}

/// Neither verdict may be so rare that agreeing on it means nothing.
fn assert_agreement(logs: impl Iterator<Item = Log>, oracle: impl Fn(&Log) -> bool) {
    let (mut good, mut bad) = (0, 0);
    for log in logs {
        let verdict = verdict(&KeyValue::default(), &log);
        assert_eq!(verdict.is_linearizable(), oracle(&log), "{verdict}\n{log:#?}");
        *if verdict.is_linearizable() { &mut good } else { &mut bad } += 1;
    }
    assert!(good.min(bad) > (good + bad) / 5, "{good} good ones, {bad} bad ones");
}

#[test]
fn agrees_with_brute_force() {
    let shapes = [
        SMALL,
        Shape { clients: 2, operations_per_client: 3, ..SMALL },
        Shape { clients: 7, operations_per_client: 1, in_doubt_percent: 10, ..SMALL },
        Shape { operations_per_client: 2, keys: 2, ..SMALL },
        Shape { clients: 2, ticks: 1, ..SMALL },
    ];
    assert_agreement(histories(1, 6_000, &shapes), brute_force::is_linearizable);
}

#[test]
fn agrees_with_a_published_checker() {
    let shapes = [
        SMALL,
        Shape { clients: 4, ..SMALL },
        Shape { operations_per_client: 4, ticks: 2, in_doubt_percent: 10, ..SMALL },
        Shape { clients: 4, operations_per_client: 3, keys: 3, in_doubt_percent: 5, ..SMALL },
    ];
    assert_agreement(histories(2, 4_000, &shapes), published::is_linearizable);
}

#[test]
fn never_doubts_a_generated_history() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let shape = Shape { clients: 6, operations_per_client: 10, keys: 2, ..SMALL };
    for _ in 0..300 {
        let verdict = verdict(&KeyValue::default(), &linearizable(&mut rng, &shape));
        assert!(verdict.is_linearizable(), "{verdict}");
    }
}

/// The key-value model without the hint which operations only read.
struct Plain(KeyValue<u64>);

impl Model for Plain {
    type State = Option<u64>;
    type Operation = Op;
    type Result = Ret;

    fn initial(&self) -> Self::State {
        self.0.initial()
    }

    fn step(&self, state: &Self::State, op: &Op, result: Option<&Ret>) -> Option<Self::State> {
        self.0.step(state, op, result)
    }
}

#[test]
fn placing_reads_eagerly_changes_no_verdict() {
    let shape = Shape { clients: 5, operations_per_client: 6, ..SMALL };
    for log in histories(4, 2_000, &[shape]) {
        let (eager, plain) =
            (verdict(&KeyValue::default(), &log), verdict(&Plain(KeyValue::default()), &log));
        assert_eq!(eager.is_linearizable(), plain.is_linearizable(), "{eager}\n{plain}");
    }
}

#[test]
fn explains_with_a_longest_legal_order() {
    let mut violations = 0;
    for log in histories(5, 3_000, &[SMALL]) {
        if let Some(violation) = verdict(&KeyValue::default(), &log).violation() {
            violations += 1;
            assert_legal(violation);
            let early = at_first_unexplained_return(&log);
            let placed = violation.placed.iter().filter(|record| record.result().is_some());
            assert_eq!(placed.count(), brute_force::longest(&early), "{violation}");
            assert_accounts_for(violation, &early);
        }
    }
    assert!(violations > 600, "{violations}");
}

/// The known part of `log` at the first return by which it was not linearizable.
fn at_first_unexplained_return(log: &Log) -> Log {
    let mut returns: Vec<_> = log.iter().filter(|record| record.result().is_some()).collect();
    returns.sort_by_key(|record| record.responded_at());
    let mut early = returns.iter().map(|last| known_at(log, last.responded_at().unwrap()));
    let completed = |log: &Log| log.iter().filter(|record| record.result().is_some()).count();
    early.find(|early| brute_force::longest(early) < completed(early)).unwrap()
}

fn known_at(log: &Log, time: u64) -> Log {
    let mut early: Log = log.iter().filter(|record| record.invoked_at <= time).cloned().collect();
    for record in &mut early {
        if matches!(record.outcome, Outcome::Returned { at, .. } if at > time) {
            record.outcome = Outcome::Pending;
        }
    }
    early
}

fn assert_legal(violation: &Violation<u32, Op, Ret>) {
    let mut store = Store::default();
    for (index, record) in violation.placed.iter().enumerate() {
        let result = store.apply(record.key, &record.operation);
        assert!(record.result().is_none_or(|told| *told == result), "{violation}");
        let late = &violation.placed[index + 1..];
        assert!(!late.iter().any(|later| brute_force::precedes(later, record)), "{violation}");
    }
    for record in &violation.unplaced {
        let result = store.clone().apply(record.key, &record.operation);
        assert_ne!(record.result(), Some(&result), "{violation}");
    }
}

/// Each operation that was invoked before the first of the unplaced responded is listed once.
fn assert_accounts_for(violation: &Violation<u32, Op, Ret>, log: &Log) {
    let deadline = violation.unplaced[0].responded_at().unwrap();
    let listed = violation.placed.iter().chain(&violation.unplaced).chain(&violation.bystanders);
    let mut listed: Vec<_> =
        listed.filter(|record| record.invoked_at <= deadline).cloned().collect();
    let mut expected: Vec<_> =
        log.iter().filter(|record| record.invoked_at <= deadline).cloned().collect();
    for records in [&mut listed, &mut expected] {
        records.sort_by_key(|record| format!("{record:?}"));
    }
    assert_eq!(listed, expected, "{violation}");
    let in_time = violation.placed.iter().all(|record| record.invoked_at <= deadline);
    assert!(in_time, "{violation}");
    let certain = |outcome: &Outcome<Ret>| matches!(outcome, Outcome::Returned { .. });
    assert!(!violation.bystanders.iter().any(|record| certain(&record.outcome)), "{violation}");
}
