//! Do all readers see writes happen in one order?
//!
//! Each key is written once, and transactions read groups of keys. Of two reads of one group, one
//! must have seen all that the other one saw. This is checked for every pair, in about linear time:
//! in the order of how much they saw, each read must have seen all that the one before it saw.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};

use crate::transactions::{History, Operation, Transaction};
use crate::verdict;

/// The verdict of [`check`].
pub type Verdict<K> = verdict::Verdict<OneOrder, Violation<K>, Doubt>;

/// All reads of each group see one order of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneOrder {
    /// How many reads there are of groups that were read more than once.
    pub reads: usize,
}

/// Two committed transactions, each of which saw a write that the other did not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<K> {
    /// A transaction.
    pub first: Read<K>,
    /// Another one that read the same keys.
    pub second: Read<K>,
}

/// The view that a transaction had of a group of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read<K> {
    /// Its session.
    pub session: u32,
    /// When it began.
    pub begun_at: u64,
    /// The keys that it found written.
    pub seen: BTreeSet<K>,
    /// The keys that it found unwritten.
    pub unseen: BTreeSet<K>,
}

/// Why it is undecided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// No two committed transactions read the same keys, and more than one.
    #[error("no two transactions read the same two or more keys; have some read them")]
    NothingRead,
    /// A key was written by two transactions, or removed.
    #[error("key {key} was written twice; write each key once")]
    WrittenTwice {
        /// The key.
        key: String,
    },
}

/// Checks that committed transactions which read the same keys, and wrote none of them, saw their
/// writes in one order.
pub fn check<K: Ord + Clone + Debug, V>(history: &History<K, V>) -> Verdict<K> {
    if let Some(key) = written_twice(history) {
        return Verdict::Undecided(Doubt::WrittenTwice { key: format!("{key:?}") });
    }
    let mut groups: BTreeMap<Vec<K>, Vec<Read<K>>> = BTreeMap::new();
    for transaction in history.transactions().iter().filter(|t| t.committed_at().is_some()) {
        let read = read(transaction);
        let keys: Vec<_> = read.seen.union(&read.unseen).cloned().collect();
        if keys.len() > 1 {
            groups.entry(keys).or_default().push(read);
        }
    }
    let mut reads = 0;
    for mut group in groups.into_values().filter(|group| group.len() > 1) {
        reads += group.len();
        group.sort_by_key(|read| read.seen.len());
        let fork = group.windows(2).find(|pair| !pair[0].seen.is_subset(&pair[1].seen));
        if let Some([first, second]) = fork {
            let (first, second) = (first.clone(), second.clone());
            return Verdict::Violation(Box::new(Violation { first, second }));
        }
    }
    if reads == 0 {
        return Verdict::Undecided(Doubt::NothingRead);
    }
    Verdict::Passed(OneOrder { reads })
}

/// A key that two transactions may have written, or that one removed.
fn written_twice<K: Ord, V>(history: &History<K, V>) -> Option<&K> {
    let mut written: BTreeMap<&K, usize> = BTreeMap::new();
    let possible = |t: &&Transaction<K, V>| t.committed_at().is_some() || t.is_in_doubt();
    for (index, transaction) in history.transactions().iter().filter(possible).enumerate() {
        for operation in &transaction.operations {
            let (key, writer) = match operation {
                Operation::Write { key, .. }
                | Operation::Insert { key, .. }
                | Operation::Append { key, .. } => (key, *written.entry(key).or_insert(index)),
                Operation::Delete { key } => return Some(key),
                _ => continue,
            };
            if writer != index {
                return Some(key);
            }
        }
    }
    None
}

/// The view that the transaction had of the keys that it did not write. Scans do not count.
fn read<K: Ord + Clone, V>(transaction: &Transaction<K, V>) -> Read<K> {
    let (mut seen, mut unseen, mut own) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for operation in &transaction.operations {
        match operation {
            Operation::Read { key, value: Some(_) } => seen.insert(key),
            Operation::Read { key, value: None } => unseen.insert(key),
            Operation::ReadList { key, list } if list.is_empty() => unseen.insert(key),
            Operation::ReadList { key, .. } => seen.insert(key),
            Operation::Write { key, .. }
            | Operation::Insert { key, .. }
            | Operation::Append { key, .. }
            | Operation::Delete { key } => own.insert(key),
            Operation::Scan { .. } => continue,
        };
    }
    let others = |keys: BTreeSet<&K>| keys.difference(&own).copied().cloned().collect();
    let Transaction { session, begun_at, .. } = *transaction;
    Read { session, begun_at, seen: others(seen), unseen: others(unseen) }
}

impl fmt::Display for OneOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writes are seen in one order ({} reads)", self.reads)
    }
}

impl<K: Ord + Debug> fmt::Display for Violation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "long fork: two transactions saw writes in opposite orders\n")?;
        for (read, other) in [(&self.first, &self.second), (&self.second, &self.first)] {
            let more: Vec<_> = read.seen.difference(&other.seen).collect();
            let fewer: Vec<_> = other.seen.difference(&read.seen).collect();
            let Read { session, begun_at, .. } = read;
            let when = format!("session {session}, in the transaction that began at {begun_at}");
            writeln!(f, "{when}, saw writes to {more:?} and none to {fewer:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::Outcome;

    fn done(session: u32, operations: &[Operation<char, u8>]) -> Transaction<char, u8> {
        let outcome = Outcome::Committed { at: 9 };
        Transaction { session, begun_at: 1, outcome, operations: operations.to_vec() }
    }

    /// A read of `group` that saw those of `seen`.
    fn read(session: u32, group: &str, seen: &str) -> Transaction<char, u8> {
        let value = |key| seen.contains(key).then_some(1);
        let read = |key| Operation::Read { key, value: value(key) };
        done(session, &group.chars().map(read).collect::<Vec<_>>())
    }

    fn verdict(transactions: &[Transaction<char, u8>]) -> Verdict<char> {
        check(&History::new(transactions.to_vec()).unwrap())
    }

    #[test]
    fn compares_reads_of_one_group() {
        let reads = [read(0, "xyz", "x"), read(1, "xyz", "xyz"), read(2, "xyz", "xz")];
        assert_eq!(verdict(&reads), Verdict::Passed(OneOrder { reads: 3 }));
        let other = [read(3, "wx", "w"), read(4, "wx", "w")];
        assert!(verdict(&[&reads[..], &other].concat()).passed());
        let fork = verdict(&[&reads[..], &[read(5, "xyz", "xy")]].concat());
        let violation = fork.violation().unwrap();
        assert_eq!([violation.first.session, violation.second.session], [2, 5]);
        let expected = "long fork: two transactions saw writes in opposite orders\n\n\
            session 2, in the transaction that began at 1, saw writes to ['z'] and none to ['y']\n\
            session 5, in the transaction that began at 1, saw writes to ['y'] and none to ['z']\n";
        assert_eq!(fork.to_string(), expected);
    }

    #[test]
    fn says_when_it_cannot_tell() {
        let alone = [read(0, "xy", "x"), read(1, "xz", "z"), read(2, "y", "y"), read(3, "y", "")];
        assert_eq!(verdict(&alone), Verdict::Undecided(Doubt::NothingRead));
        let write = |session| done(session, &[Operation::Write { key: 'x', value: 1 }]);
        let twice = [read(0, "xy", "x"), read(1, "xy", "y"), write(2), write(3)];
        assert!(matches!(verdict(&twice), Verdict::Undecided(Doubt::WrittenTwice { .. })));
        assert!(verdict(&twice[..3]).violation().is_some());
    }
}
