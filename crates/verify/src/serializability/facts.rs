//! Facts of a history before anything is concluded: its keys, and the transaction of each value.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::{Bound, Range};

use super::Doubt;
use crate::transactions::{Operation, Outcome, Transaction};

/// A key's rank among all keys of the history.
pub(super) type Key = usize;

pub(super) struct Facts<'h, K, V> {
    pub(super) transactions: &'h [Transaction<K, V>],
    keys: Vec<&'h K>,
    is_list: Vec<bool>,
    /// Whether a transaction in doubt wrote a value of the key.
    is_doubtful: Vec<bool>,
    origins: HashMap<(Key, &'h V), Origin>,
}

/// Where a value comes from.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) transaction: usize,
    /// Whether the transaction left this value, and no later one, for its key.
    pub(super) is_final: bool,
}

impl<'h, K: Ord + Debug, V: Eq + Hash + Debug> Facts<'h, K, V> {
    /// # Errors
    ///
    /// The [`Doubt`] that keeps values from naming their writers.
    pub(super) fn new(transactions: &'h [Transaction<K, V>]) -> Result<Self, Doubt> {
        let mut keys: Vec<_> = transactions.iter().flat_map(keys_of).collect();
        keys.sort_unstable();
        keys.dedup();
        let count = keys.len();
        let mut facts = Self {
            transactions,
            keys,
            is_list: vec![false; count],
            is_doubtful: vec![false; count],
            origins: HashMap::new(),
        };
        facts.tell_lists_from_rows()?;
        facts.find_origins()?;
        Ok(facts)
    }

    fn tell_lists_from_rows(&mut self) -> Result<(), Doubt> {
        let mut is_row = vec![false; self.keys.len()];
        for operation in self.transactions.iter().flat_map(|t| &t.operations) {
            let is_list =
                matches!(operation, Operation::Append { .. } | Operation::ReadList { .. });
            for key in keys_of_operation(operation) {
                let key = self.key(key);
                let kind = if is_list { &mut self.is_list } else { &mut is_row };
                kind[key] = true;
            }
        }
        match (0..self.keys.len()).find(|&key| self.is_list[key] && is_row[key]) {
            Some(key) => Err(Doubt::ListAndRow { key: format!("{:?}", self.keys[key]) }),
            None => Ok(()),
        }
    }

    fn find_origins(&mut self) -> Result<(), Doubt> {
        let mut last: HashMap<Key, &'h V> = HashMap::new();
        for (index, transaction) in self.transactions.iter().enumerate() {
            last.clear();
            for operation in &transaction.operations {
                let (key, value) = match operation {
                    Operation::Append { key, value }
                    | Operation::Write { key, value }
                    | Operation::Insert { key, value } => (self.key(key), Some(value)),
                    Operation::Delete { key } => (self.key(key), None),
                    _ => continue,
                };
                let before = match value {
                    Some(value) => {
                        self.add_origin(index, key, value)?;
                        last.insert(key, value)
                    }
                    None => last.remove(&key),
                };
                if let Some(before) = before
                    && let Some(origin) = self.origins.get_mut(&(key, before))
                    && origin.transaction == index
                {
                    origin.is_final = false;
                }
            }
        }
        Ok(())
    }

    /// A value that an aborted transaction wrote, too, is taken for the other transaction's.
    fn add_origin(&mut self, index: usize, key: Key, value: &'h V) -> Result<(), Doubt> {
        let origin = Origin { transaction: index, is_final: true };
        let is_aborted =
            |index: usize| matches!(self.transactions[index].outcome, Outcome::Aborted { .. });
        self.is_doubtful[key] |= self.transactions[index].is_in_doubt();
        match self.origins.entry((key, value)) {
            Entry::Vacant(entry) => {
                entry.insert(origin);
            }
            Entry::Occupied(mut entry) if is_aborted(entry.get().transaction) => {
                entry.insert(origin);
            }
            Entry::Occupied(_) if is_aborted(index) => {}
            Entry::Occupied(_) => {
                let key = format!("{:?}", self.keys[key]);
                return Err(Doubt::WrittenTwice { key, value: format!("{value:?}") });
            }
        }
        Ok(())
    }

    pub(super) fn key(&self, key: &K) -> Key {
        self.keys.binary_search(&key).expect("all keys were collected")
    }

    pub(super) fn name(&self, key: Key) -> &'h K {
        self.keys[key]
    }

    pub(super) fn keys(&self) -> Range<Key> {
        0..self.keys.len()
    }

    pub(super) fn is_list(&self, key: Key) -> bool {
        self.is_list[key]
    }

    /// The keys between the bounds, lists included; none if the bounds exclude each other.
    pub(super) fn between(&self, from: &Bound<K>, to: &Bound<K>) -> Range<Key> {
        let start = match from {
            Bound::Included(from) => self.keys.partition_point(|&key| key < from),
            Bound::Excluded(from) => self.keys.partition_point(|&key| key <= from),
            Bound::Unbounded => 0,
        };
        let end = match to {
            Bound::Included(to) => self.keys.partition_point(|&key| key <= to),
            Bound::Excluded(to) => self.keys.partition_point(|&key| key < to),
            Bound::Unbounded => self.keys.len(),
        };
        start..end.max(start)
    }

    pub(super) fn origin(&self, key: Key, value: &V) -> Option<Origin> {
        self.origins.get(&(key, value)).copied()
    }

    pub(super) fn is_aborted(&self, transaction: usize) -> bool {
        matches!(self.transactions[transaction].outcome, Outcome::Aborted { .. })
    }

    /// The committed transactions.
    pub(super) fn committed(&self) -> Vec<bool> {
        self.transactions.iter().map(|t| t.committed_at().is_some()).collect()
    }

    /// Adds to `counted` the transactions in doubt whose values those in `counted` have read: they
    /// did commit.
    pub(super) fn add_observed(&self, counted: &mut [bool]) {
        let mut work: Vec<_> = (0..counted.len()).filter(|&index| counted[index]).collect();
        while let Some(reader) = work.pop() {
            let operations = &self.transactions[reader].operations;
            for writer in operations.iter().flat_map(|operation| self.doubtful_writers(operation)) {
                if !counted[writer] {
                    counted[writer] = true;
                    work.push(writer);
                }
            }
        }
    }

    /// The transactions in doubt whose values `operation` read.
    fn doubtful_writers(&self, operation: &'h Operation<K, V>) -> Vec<usize> {
        let mut writers = Vec::new();
        let mut add = |key: Key, value: &V| {
            if let Some(origin) = self.origin(key, value)
                && self.transactions[origin.transaction].is_in_doubt()
            {
                writers.push(origin.transaction);
            }
        };
        match operation {
            Operation::ReadList { key, list } => {
                let key = self.key(key);
                if self.is_doubtful[key] {
                    list.iter().for_each(|value| add(key, value));
                }
            }
            Operation::Read { key, value: Some(value) } => add(self.key(key), value),
            Operation::Scan { found, .. } => {
                found.iter().for_each(|(key, value)| add(self.key(key), value));
            }
            _ => {}
        }
        writers
    }
}

fn keys_of<K, V>(transaction: &Transaction<K, V>) -> impl Iterator<Item = &K> {
    transaction.operations.iter().flat_map(keys_of_operation)
}

/// The keys that an operation names; of a scan, those that it found.
pub(super) fn keys_of_operation<K, V>(operation: &Operation<K, V>) -> Vec<&K> {
    match operation {
        Operation::Append { key, .. }
        | Operation::ReadList { key, .. }
        | Operation::Read { key, .. }
        | Operation::Write { key, .. }
        | Operation::Insert { key, .. }
        | Operation::Delete { key } => vec![key],
        Operation::Scan { found, .. } => found.iter().map(|(key, _)| key).collect(),
    }
}
