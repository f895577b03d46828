//! The definition of serializability, tried out on every order: no graphs, no cleverness.

use std::collections::BTreeMap;
use std::ops::Bound;

use tombolo_verify::serializability::Condition;
use tombolo_verify::transactions::{Operation, Transaction};

pub(crate) type Log = Vec<Transaction<u8, u32>>;

/// The contents of all keys.
#[derive(Clone, Debug, Default)]
struct Database {
    lists: BTreeMap<u8, Vec<u32>>,
    rows: BTreeMap<u8, u32>,
}

impl Database {
    /// Does what the transaction did. Returns whether it could.
    fn apply(&mut self, transaction: &Transaction<u8, u32>) -> bool {
        transaction.operations.iter().all(|operation| self.does(operation))
    }

    fn does(&mut self, operation: &Operation<u8, u32>) -> bool {
        match operation {
            Operation::Append { key, value } => {
                self.lists.entry(*key).or_default().push(*value);
                true
            }
            Operation::ReadList { key, list } => {
                self.lists.get(key).map_or(list.is_empty(), |now| now == list)
            }
            Operation::Read { key, value } => self.rows.get(key) == value.as_ref(),
            Operation::Write { key, value } => {
                self.rows.insert(*key, *value);
                true
            }
            Operation::Insert { key, value } => self.rows.insert(*key, *value).is_none(),
            Operation::Delete { key } => self.rows.remove(key).is_some(),
            Operation::Scan { from, to, found } => {
                let mut found = found.clone();
                found.sort_unstable();
                found == self.between(*from, *to)
            }
        }
    }

    fn between(&self, from: Bound<u8>, to: Bound<u8>) -> Vec<(u8, u32)> {
        let is_in = |key: &u8| {
            let after = match from {
                Bound::Included(from) => *key >= from,
                Bound::Excluded(from) => *key > from,
                Bound::Unbounded => true,
            };
            let before = match to {
                Bound::Included(to) => *key <= to,
                Bound::Excluded(to) => *key < to,
                Bound::Unbounded => true,
            };
            after && before
        };
        self.rows.iter().filter(|(key, _)| is_in(key)).map(|(key, value)| (*key, *value)).collect()
    }
}

/// Whether some order of the committed transactions, and of any of those in doubt, explains all
/// reads and keeps `condition`.
pub(crate) fn explains(log: &Log, condition: Condition) -> bool {
    let possible: Vec<_> =
        log.iter().filter(|t| t.committed_at().is_some() || t.is_in_doubt()).collect();
    extend(&possible, &mut vec![false; possible.len()], &Database::default(), condition)
}

fn extend(
    log: &[&Transaction<u8, u32>],
    placed: &mut [bool],
    database: &Database,
    condition: Condition,
) -> bool {
    let is_done = |at: usize| placed[at] || log[at].is_in_doubt();
    if (0..log.len()).all(is_done) {
        return true;
    }
    (0..log.len()).any(|next| {
        let must_wait = (0..log.len())
            .any(|other| !placed[other] && precedes(log[other], log[next], condition));
        if placed[next] || must_wait {
            return false;
        }
        let mut database = database.clone();
        if !database.apply(log[next]) {
            return false;
        }
        placed[next] = true;
        let explained = extend(log, placed, &database, condition);
        placed[next] = false;
        explained
    })
}

fn precedes(a: &Transaction<u8, u32>, b: &Transaction<u8, u32>, condition: Condition) -> bool {
    let ended = a.committed_at().is_some_and(|at| at < b.begun_at);
    match condition {
        Condition::Serializable => false,
        Condition::StrongSession => ended && a.session == b.session,
        Condition::Strict => ended,
    }
}

/// Whether `order` itself is a serial order that explains all reads and keeps `condition`.
pub(crate) fn is_good(log: &Log, order: &[usize], condition: Condition) -> bool {
    let mut database = Database::default();
    let mut placed = vec![false; log.len()];
    let fits = order.iter().enumerate().all(|(place, &at)| {
        let is_new = !std::mem::replace(&mut placed[at], true);
        let later = order[place + 1..].iter();
        let in_time = later.clone().all(|&later| !precedes(&log[later], &log[at], condition));
        is_new && in_time && database.apply(&log[at])
    });
    fits && (0..log.len()).all(|at| placed[at] || log[at].committed_at().is_none())
}
