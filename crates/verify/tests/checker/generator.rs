//! Random histories: linearizable ones, made by running a store at a random moment of each
//! operation, and damaged ones.

use rand::{Rng, RngExt};
use tombolo_verify::history::{Outcome, Record};
use tombolo_verify::models::{Operation, Result};

use crate::sequential::{Log, Op, Ret, Store};

/// When an operation takes effect, with a random number to settle ties.
type Moment = (u64, u32);

pub(crate) struct Shape {
    pub(crate) clients: u32,
    pub(crate) operations_per_client: u32,
    pub(crate) keys: u32,
    /// Values are below this.
    pub(crate) values: u64,
    /// An operation's longest duration, and its longest distance from the client's next.
    pub(crate) ticks: u64,
    /// Of 100 operations, how many fail, and how many have an unknown outcome or never return.
    pub(crate) failed_percent: u32,
    pub(crate) in_doubt_percent: u32,
}

/// A linearizable history.
pub(crate) fn linearizable(rng: &mut impl Rng, shape: &Shape) -> Log {
    let mut moments: Vec<_> = (0..shape.clients).flat_map(|id| client(rng, shape, id)).collect();
    moments.sort_by_key(|(moment, _)| *moment);
    let mut store = Store::default();
    for (_, record) in &mut moments {
        match &mut record.outcome {
            Outcome::Returned { result, .. } => {
                *result = store.apply(record.key, &record.operation)
            }
            Outcome::Failed { .. } => {}
            Outcome::Unknown { .. } | Outcome::Pending => {
                if rng.random_bool(0.5) {
                    store.apply(record.key, &record.operation);
                }
            }
        }
    }
    moments.into_iter().map(|(_, record)| record).collect()
}

/// One client's operations, one after the other, and when each takes effect.
fn client(rng: &mut impl Rng, shape: &Shape, client: u32) -> Vec<(Moment, Record<u32, Op, Ret>)> {
    let mut now = 0;
    let mut records = Vec::new();
    for _ in 0..shape.operations_per_client {
        let invoked_at = now + rng.random_range(0..=shape.ticks);
        let at = invoked_at + rng.random_range(0..=shape.ticks);
        let outcome = outcome(rng, shape, at);
        let is_in_doubt = matches!(outcome, Outcome::Unknown { .. } | Outcome::Pending);
        let latest = if is_in_doubt { at + 4 * shape.ticks } else { at };
        let moment = rng.random_range(invoked_at..=latest);
        let key = rng.random_range(0..shape.keys);
        let operation = operation(rng, shape.values);
        let record = Record { client, key, operation, invoked_at, outcome };
        records.push(((moment, rng.random()), record));
        now = at + 1;
    }
    records
}

fn outcome(rng: &mut impl Rng, shape: &Shape, at: u64) -> Outcome<Ret> {
    let draw = rng.random_range(0..100);
    if draw < shape.failed_percent {
        Outcome::Failed { at }
    } else if draw >= shape.failed_percent + shape.in_doubt_percent {
        Outcome::Returned { at, result: Result::Done }
    } else if rng.random_bool(0.5) {
        Outcome::Unknown { at }
    } else {
        Outcome::Pending
    }
}

fn operation(rng: &mut impl Rng, values: u64) -> Op {
    let value = rng.random_range(0..values);
    match rng.random_range(0..12) {
        0..4 => Operation::Get,
        4..6 => Operation::Put(value),
        6 => Operation::Create(value),
        7 => Operation::Replace(value),
        8 => Operation::Delete,
        9 => Operation::CompareAndSwap { expected: rng.random_range(0..values), new: value },
        10 => Operation::Update(value),
        _ => Operation::Append(value),
    }
}

/// Changes one record, which may or may not break the history.
pub(crate) fn damage(rng: &mut impl Rng, log: &mut Log, values: u64) {
    let index = rng.random_range(0..log.len());
    match rng.random_range(0..4) {
        0 | 1 => change_result(rng, &mut log[index], values),
        2 => shift(rng, &mut log[index]),
        _ => {
            log.remove(index);
        }
    }
}

fn change_result(rng: &mut impl Rng, record: &mut Record<u32, Op, Ret>, values: u64) {
    if let Outcome::Returned { result, .. } = &mut record.outcome {
        *result = match result {
            Result::Done => Result::Done,
            Result::Flag(applied) => Result::Flag(!*applied),
            Result::Value(_) if rng.random_bool(0.2) => Result::Value(None),
            Result::Value(_) => Result::Value(Some(rng.random_range(0..values))),
        };
    }
}

fn shift(rng: &mut impl Rng, record: &mut Record<u32, Op, Ret>) {
    let (earlier, later) = (rng.random_range(0..=record.invoked_at), rng.random_range(0..10));
    let moved = |time: u64| time - earlier + later;
    record.invoked_at = moved(record.invoked_at);
    match &mut record.outcome {
        Outcome::Returned { at, .. } | Outcome::Failed { at } | Outcome::Unknown { at } => {
            *at = moved(*at);
        }
        Outcome::Pending => {}
    }
}
