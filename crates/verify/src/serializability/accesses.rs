//! The values that transactions took from outside, and those that they left, by key.
//!
//! A transaction's reads of its own writes are checked here, and lead nowhere else.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Range;

use super::anomaly::{Direct, Phenomenon};
use super::facts::{Facts, Key};
use crate::transactions::Operation;

/// The accesses of transactions to the keys of a history.
pub(super) struct Accesses<'h, V> {
    pub(super) lists: Vec<ListAccesses<'h, V>>,
    pub(super) rows: Vec<RowAccesses<'h, V>>,
}

/// The accesses to one list, in the order of transactions.
pub(super) struct ListAccesses<'h, V> {
    /// The lists that transactions read, without their own appends.
    pub(super) reads: Vec<(usize, &'h [V])>,
    /// The values that each transaction appended.
    pub(super) appends: Vec<(usize, Vec<&'h V>)>,
}

/// The accesses to one row, in the order of transactions.
pub(super) struct RowAccesses<'h, V> {
    pub(super) reads: Vec<RowRead<'h, V>>,
    /// The value that each writer of the row left in it; `None` if it deleted the row.
    pub(super) writes: Vec<(usize, Option<&'h V>)>,
}

pub(super) struct RowRead<'h, V> {
    pub(super) transaction: usize,
    pub(super) seen: Seen<&'h V>,
    pub(super) by_scan: bool,
}

/// The state in which a transaction found a row before it wrote the row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen<R> {
    Value(R),
    Absent,
    /// There was a row, which was deleted.
    Present,
}

impl<'h, V: Eq + Hash + Debug> Accesses<'h, V> {
    /// The accesses of the transactions in `counted`.
    ///
    /// # Errors
    ///
    /// The first transaction that does not see its own writes as they are.
    pub(super) fn of<K: Ord + Debug>(
        facts: &Facts<'h, K, V>,
        counted: &[bool],
    ) -> Result<Self, Direct> {
        let no_list = |_| ListAccesses { reads: Vec::new(), appends: Vec::new() };
        let no_row = |_| RowAccesses { reads: Vec::new(), writes: Vec::new() };
        let mut accesses = Self {
            lists: facts.keys().map(no_list).collect(),
            rows: facts.keys().map(no_row).collect(),
        };
        for index in (0..counted.len()).filter(|&index| counted[index]) {
            let mut walk = Walk {
                facts,
                index,
                accesses: &mut accesses,
                appends: HashMap::new(),
                writes: HashMap::new(),
                lists: HashMap::new(),
                seen: HashMap::new(),
            };
            for operation in &facts.transactions[index].operations {
                walk.follow(operation)?;
            }
            walk.end();
        }
        Ok(accesses)
    }
}

/// One transaction, followed through its operations.
struct Walk<'a, 'h, K, V> {
    facts: &'a Facts<'h, K, V>,
    index: usize,
    accesses: &'a mut Accesses<'h, V>,
    /// The values that it appended so far.
    appends: HashMap<Key, Vec<&'h V>>,
    /// The value that it wrote last to each row; `None` if it deleted the row.
    writes: HashMap<Key, Option<&'h V>>,
    /// The part of a list, as it was read last, that is from outside.
    lists: HashMap<Key, &'h [V]>,
    /// The state in which it found each row last, as others left it.
    seen: HashMap<Key, Seen<&'h V>>,
}

impl<'h, K: Ord + Debug, V: Eq + Hash + Debug> Walk<'_, 'h, K, V> {
    fn follow(&mut self, operation: &'h Operation<K, V>) -> Result<(), Direct> {
        match operation {
            Operation::Append { key, value } => {
                self.appends.entry(self.facts.key(key)).or_default().push(value);
                Ok(())
            }
            Operation::ReadList { key, list } => self.read_list(self.facts.key(key), list),
            Operation::Read { key, value } => {
                let seen = value.as_ref().map_or(Seen::Absent, Seen::Value);
                self.see(self.facts.key(key), seen, false)
            }
            Operation::Write { key, value } => {
                self.writes.insert(self.facts.key(key), Some(value));
                Ok(())
            }
            Operation::Insert { key, value } => {
                let key = self.facts.key(key);
                self.see(key, Seen::Absent, false)?;
                self.writes.insert(key, Some(value));
                Ok(())
            }
            Operation::Delete { key } => {
                let key = self.facts.key(key);
                self.see(key, Seen::Present, false)?;
                self.writes.insert(key, None);
                Ok(())
            }
            Operation::Scan { from, to, found } => self.scan(self.facts.between(from, to), found),
        }
    }

    fn read_list(&mut self, key: Key, list: &'h [V]) -> Result<(), Direct> {
        let own = self.appends.get(&key).map_or(&[][..], Vec::as_slice);
        let outside = list.len().checked_sub(own.len());
        let ends_with_own =
            |outside: &usize| list[*outside..].iter().zip(own).all(|(listed, own)| listed == *own);
        let Some(outside) = outside.filter(ends_with_own) else {
            let what = "T1 read a list that does not end with its own appends".to_owned();
            return Err(self.internal(key, what));
        };
        let outside = &list[..outside];
        if self.lists.insert(key, outside) != Some(outside) {
            self.accesses.lists[key].reads.push((self.index, outside));
        }
        Ok(())
    }

    /// Notes that the transaction met this in a row.
    fn see(&mut self, key: Key, seen: Seen<&'h V>, by_scan: bool) -> Result<(), Direct> {
        if let Some(own) = self.writes.get(&key) {
            let is_own = match seen {
                Seen::Value(value) => *own == Some(value),
                Seen::Absent => own.is_none(),
                Seen::Present => own.is_some(),
            };
            return if is_own {
                Ok(())
            } else {
                Err(self.internal(key, "T1 does not find what it wrote itself".to_owned()))
            };
        }
        let before = self.seen.get(&key);
        let is_known = before == Some(&seen)
            || (seen == Seen::Present && matches!(before, Some(Seen::Value(_))));
        if !is_known {
            self.seen.insert(key, seen);
            let read = RowRead { transaction: self.index, seen, by_scan };
            self.accesses.rows[key].reads.push(read);
        }
        Ok(())
    }

    fn scan(&mut self, range: Range<Key>, found: &'h [(K, V)]) -> Result<(), Direct> {
        let mut rows: HashMap<Key, &'h V> = HashMap::new();
        for (key, value) in found {
            let key = self.facts.key(key);
            if !range.contains(&key) {
                return Err(self.internal(key, "T1 scanned a row outside of its bounds".to_owned()));
            }
            if rows.insert(key, value).is_some() {
                return Err(self.internal(key, "T1 met a row twice in one scan".to_owned()));
            }
        }
        for key in range.filter(|&key| !self.facts.is_list(key)) {
            let seen = rows.get(&key).map_or(Seen::Absent, |&value| Seen::Value(value));
            self.see(key, seen, true)?;
        }
        Ok(())
    }

    fn internal(&self, key: Key, what: String) -> Direct {
        let (phenomenon, transactions) = (Phenomenon::Internal, vec![self.index]);
        Direct { phenomenon, transactions, key, what }
    }

    fn end(self) {
        for (key, values) in self.appends {
            self.accesses.lists[key].appends.push((self.index, values));
        }
        for (key, left) in self.writes {
            self.accesses.rows[key].writes.push((self.index, left));
        }
    }
}
