//! Random histories of transactions on a database whose isolation is weak at random.

use std::collections::BTreeMap;
use std::ops::Bound;

use rand::{Rng, RngExt};
use tombolo_verify::transactions::{Operation, Outcome, Transaction};

use crate::every_order::Log;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Lists,
    /// Rows that are read and written, and never removed.
    Registers,
    /// Rows that are inserted, deleted and scanned, too.
    Rows,
    /// Lists and rows.
    All,
}

pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) sessions: u32,
    pub(crate) transactions_per_session: u32,
    pub(crate) most_operations: u32,
    pub(crate) keys: u8,
    /// Of 100 operations, how many go to the database at another moment than the transaction's
    /// own: this is what breaks isolation.
    pub(crate) torn_percent: u32,
    /// Of 100 transactions, how many abort, and how many have an unknown outcome or never end.
    pub(crate) aborted_percent: u32,
    pub(crate) in_doubt_percent: u32,
}

/// An operation that is to be done, by its transaction and its place there.
struct Planned {
    moment: (u64, u32),
    transaction: usize,
    place: usize,
}

/// A history of a database without isolation.
pub(crate) fn history(rng: &mut impl Rng, shape: &Shape) -> Log {
    let (mut log, times): (Log, Vec<_>) =
        (0..shape.sessions).flat_map(|id| session(rng, shape, id)).unzip();
    let mut plan = Vec::new();
    for (transaction, &moment) in times.iter().enumerate() {
        let effect = rng.random_bool(0.5) || !log[transaction].is_in_doubt();
        let is_aborted = matches!(log[transaction].outcome, Outcome::Aborted { .. });
        // An aborted transaction's operations sometimes are seen all the same.
        if !effect || (is_aborted && rng.random_range(0..100) >= shape.torn_percent) {
            continue;
        }
        let tie = rng.random();
        for place in 0..log[transaction].operations.len() {
            let is_torn = rng.random_range(0..100) < shape.torn_percent;
            let moment =
                if is_torn { (rng.random_range(0..40), rng.random()) } else { (moment, tie) };
            plan.push(Planned { moment, transaction, place });
        }
    }
    plan.sort_by_key(|planned| (planned.moment, planned.transaction, planned.place));
    let mut store = Store::default();
    for Planned { transaction, place, .. } in plan {
        let operation = &mut log[transaction].operations[place];
        store.run(operation);
    }
    log.sort_by_key(|transaction| transaction.begun_at);
    log
}

/// One session's transactions, and when each takes effect.
fn session(rng: &mut impl Rng, shape: &Shape, session: u32) -> Vec<(Transaction<u8, u32>, u64)> {
    let mut now = rng.random_range(0..5);
    let mut transactions = Vec::new();
    for _ in 0..shape.transactions_per_session {
        let begun_at = now + rng.random_range(0..4);
        let at = begun_at + rng.random_range(0..12);
        let outcome = outcome(rng, shape, at);
        let count = rng.random_range(1..=shape.most_operations);
        let operations = (0..count).map(|_| operation(rng, shape)).collect();
        let moment = rng.random_range(begun_at..=at);
        transactions.push((Transaction { session, begun_at, outcome, operations }, moment));
        now = at + 1;
    }
    transactions
}

fn outcome(rng: &mut impl Rng, shape: &Shape, at: u64) -> Outcome {
    let draw = rng.random_range(0..100);
    if draw < shape.aborted_percent {
        Outcome::Aborted { at }
    } else if draw >= shape.aborted_percent + shape.in_doubt_percent {
        Outcome::Committed { at }
    } else if rng.random_bool(0.5) {
        Outcome::Unknown { at }
    } else {
        Outcome::Pending
    }
}

/// An operation; what it returns is filled in when it is run. Keys of lists are even if there are
/// rows, too.
fn operation(rng: &mut impl Rng, shape: &Shape) -> Operation<u8, u32> {
    let key = rng.random_range(0..shape.keys);
    let value = rng.random();
    let read = rng.random_bool(0.5);
    match shape.kind {
        Kind::Lists if read => Operation::ReadList { key, list: Vec::new() },
        Kind::Lists => Operation::Append { key, value },
        Kind::Registers if read => Operation::Read { key, value: None },
        Kind::Registers => Operation::Write { key, value },
        Kind::All if key % 2 == 0 && read => Operation::ReadList { key, list: Vec::new() },
        Kind::All if key % 2 == 0 => Operation::Append { key, value },
        Kind::Rows | Kind::All => match rng.random_range(0..8) {
            0 => Operation::Read { key, value: None },
            1..3 => Operation::Scan {
                from: Bound::Included(rng.random_range(0..=key)),
                to: bound(rng, key),
                found: Vec::new(),
            },
            3..6 => Operation::Insert { key, value },
            6 => Operation::Delete { key },
            _ => Operation::Write { key, value },
        },
    }
}

fn bound(rng: &mut impl Rng, key: u8) -> Bound<u8> {
    match rng.random_range(0..3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key + 1),
        _ => Bound::Unbounded,
    }
}

/// Runs one operation after the other, whatever transaction it is of.
#[derive(Default)]
struct Store {
    lists: BTreeMap<u8, Vec<u32>>,
    rows: BTreeMap<u8, u32>,
}

impl Store {
    /// Refused inserts and deletes become reads.
    fn run(&mut self, operation: &mut Operation<u8, u32>) {
        match operation {
            Operation::Append { key, value } => self.lists.entry(*key).or_default().push(*value),
            Operation::ReadList { key, list } => {
                *list = self.lists.get(key).cloned().unwrap_or_default();
            }
            Operation::Read { key, value } => *value = self.rows.get(key).copied(),
            Operation::Write { key, value } => {
                self.rows.insert(*key, *value);
            }
            Operation::Insert { key, value } => {
                if let Some(&found) = self.rows.get(key) {
                    *operation = Operation::Read { key: *key, value: Some(found) };
                } else {
                    self.rows.insert(*key, *value);
                }
            }
            Operation::Delete { key } => {
                if self.rows.remove(key).is_none() {
                    *operation = Operation::Read { key: *key, value: None };
                }
            }
            Operation::Scan { from, to, found } => {
                *found = self.rows.range((*from, *to)).map(|(key, value)| (*key, *value)).collect();
            }
        }
    }
}
