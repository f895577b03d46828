//! Do all accounts together always hold the same amount?
//!
//! The classic test of snapshots: transactions move amounts between accounts, and others read all
//! of them. It needs no values of their own, so it also sees what [serializability] cannot check.
//!
//! [serializability]: crate::serializability

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use crate::transactions::{History, Operation, Transaction};
use crate::verdict;

/// The verdict of [`check`].
pub type Verdict<K> = verdict::Verdict<Constant, Violation<K>, Doubt>;

/// Every read of all accounts found the same sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// How many transactions read all accounts.
    pub reads: usize,
}

/// A committed transaction that read all accounts, and found another sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<K> {
    /// The transaction.
    pub transaction: Transaction<K, i64>,
    /// The balances that it found, before it wrote anything.
    pub balances: BTreeMap<K, i64>,
    /// The sum of these balances.
    pub sum: i128,
    /// The sum that every read of all accounts has to find.
    pub total: i128,
}

/// Why it is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// No committed transaction read all accounts.
    #[error("no committed transaction read all accounts; have some read them")]
    NothingRead,
}

/// Checks that each committed transaction which read all `accounts` found a sum of `total`. An
/// account that is absent holds nothing.
pub fn check<K: Ord + Clone>(history: &History<K, i64>, accounts: &[K], total: i128) -> Verdict<K> {
    let mut reads = 0;
    for transaction in history.transactions().iter().filter(|t| t.committed_at().is_some()) {
        let found = found(transaction, accounts);
        let Some(balances) = found.into_iter().collect::<Option<BTreeMap<_, _>>>() else {
            continue;
        };
        reads += 1;
        let sum = balances.values().copied().map(i128::from).sum();
        if sum != total {
            let transaction = transaction.clone();
            return Verdict::Violation(Box::new(Violation { transaction, balances, sum, total }));
        }
    }
    if reads == 0 {
        return Verdict::Undecided(Doubt::NothingRead);
    }
    Verdict::Passed(Constant { reads })
}

/// The balance of each account before the transaction wrote to it; `None` if it did not look.
fn found<K: Ord + Clone>(
    transaction: &Transaction<K, i64>,
    accounts: &[K],
) -> Vec<Option<(K, i64)>> {
    let mut known: BTreeMap<&K, Option<i64>> = BTreeMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Read { key, value } => {
                known.entry(key).or_insert(Some(value.unwrap_or(0)));
            }
            Operation::Insert { key, .. } => {
                known.entry(key).or_insert(Some(0));
            }
            Operation::Write { key, .. } | Operation::Delete { key } => {
                known.entry(key).or_insert(None);
            }
            Operation::Scan { from, to, found } => {
                for (key, balance) in found {
                    known.entry(key).or_insert(Some(*balance));
                }
                let bounds = (from.as_ref(), to.as_ref());
                let is_scanned = |key: &&K| std::ops::RangeBounds::contains(&bounds, *key);
                accounts.iter().filter(is_scanned).for_each(|key| {
                    known.entry(key).or_insert(Some(0));
                });
            }
            Operation::Append { .. } | Operation::ReadList { .. } => {}
        }
    }
    let balance = |key: &K| Some((key.clone(), (*known.get(key)?)?));
    accounts.iter().map(balance).collect()
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sum is constant ({} reads of all accounts)", self.reads)
    }
}

impl<K: Debug> fmt::Display for Violation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transaction { session, begun_at, .. } = self.transaction;
        let (sum, total) = (self.sum, self.total);
        writeln!(f, "all accounts together hold {sum}, not {total}")?;
        write!(f, "\nsession {session} read in the transaction that began at {begun_at}:")?;
        self.balances.iter().try_for_each(|(key, balance)| write!(f, " {key:?}: {balance}"))?;
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::transactions::Outcome;

    const ACCOUNTS: [char; 3] = ['a', 'b', 'c'];

    fn verdict(outcome: Outcome, operations: Vec<Operation<char, i64>>) -> Verdict<char> {
        let transaction = Transaction { session: 4, begun_at: 1, outcome, operations };
        check(&History::new(vec![transaction]).unwrap(), &ACCOUNTS, 10)
    }

    fn read(key: char, value: i64) -> Operation<char, i64> {
        Operation::Read { key, value: Some(value) }
    }

    const DONE: Outcome = Outcome::Committed { at: 2 };

    #[test]
    fn adds_up() {
        let all = vec![read('a', 7), read('b', -2), read('c', 5)];
        assert_eq!(verdict(DONE, all), Verdict::Passed(Constant { reads: 1 }));
        let (from, to) = (Bound::Included('a'), Bound::Excluded('d'));
        let scan = |found| vec![Operation::Scan { from, to, found }];
        assert!(verdict(DONE, scan(vec![('a', 4), ('c', 6)])).passed());
        assert!(verdict(DONE, scan(vec![('a', 4), ('c', 5)])).violation().is_some());
    }

    #[test]
    fn counts_what_was_there_before_own_writes() {
        let mut transfer = vec![read('a', 7), Operation::Write { key: 'a', value: 0 }];
        transfer.extend([read('b', 3), read('c', 0), read('a', 0)]);
        assert!(verdict(DONE, transfer).passed());
    }

    #[test]
    fn some_accounts_say_nothing() {
        let blind = Operation::Write { key: 'c', value: 0 };
        for some in [vec![read('a', 7)], vec![read('a', 7), read('b', 7), blind, read('c', 0)]] {
            assert_eq!(verdict(DONE, some), Verdict::Undecided(Doubt::NothingRead));
        }
        let all = vec![read('a', 7), read('b', 7), read('c', 7)];
        assert!(!verdict(Outcome::Pending, all).passed());
    }

    #[test]
    fn shows_what_was_read() {
        let verdict = verdict(DONE, vec![read('a', 7), read('b', 2), read('c', 2)]);
        let expected = "all accounts together hold 11, not 10\n\n\
                        session 4 read in the transaction that began at 1: 'a': 7 'b': 2 'c': 2\n";
        assert_eq!(verdict.to_string(), expected);
    }
}
