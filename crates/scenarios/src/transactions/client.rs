//! Threads that run transactions, and what must hold of all that was committed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use tombolo_database::{Direction, Scan, Transaction, TxError};
use tombolo_memory::Memory;
use tombolo_verify::serializability::{Condition, check};
use tombolo_verify::transactions::{Operation, Recorder, Session};

use super::TABLE;
use super::engines::{Setup, Tested};

/// Words of the longest row, which takes two lines.
pub(super) const WORDS: u64 = 14;

pub(super) type Key = [u8; 8];

/// One operation of a transaction, with its result.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Get(Key, Option<u64>),
    Update(Key, u64, bool),
    Insert(Key, u64, bool),
    Delete(Key, bool),
    Scan(Walk, Vec<(Key, u64)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Walk {
    lower: Bound<Key>,
    upper: Bound<Key>,
    backward: bool,
    limit: usize,
}

/// The logical time and the number of a commit, and the steps of the transaction.
type Committed = ((u64, usize), Vec<Step>);

/// All that was committed, in the order in which the commits began.
#[derive(Default)]
pub(super) struct Book {
    begun: Cell<usize>,
    pub(super) committed: RefCell<Vec<Committed>>,
    pub(super) busy: Cell<usize>,
    tags: Cell<u64>,
    recorder: Recorder<Key, u64>,
}

pub(super) fn key(partition: u64, number: u64) -> Key {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&(partition as u32).to_be_bytes());
    key[4..].copy_from_slice(&(number as u32).to_be_bytes());
    key
}

/// A row that shows when it is torn. Its length depends on its tag.
pub(super) fn row(tag: u64) -> Vec<u8> {
    std::iter::repeat_n(tag.to_le_bytes(), (1 + tag % WORDS) as usize).flatten().collect()
}

fn tag(bytes: &[u8]) -> u64 {
    let tag = u64::from_le_bytes(*bytes.first_chunk().expect("a row is not empty"));
    assert!(bytes == row(tag), "a torn row: {bytes:?}");
    tag
}

/// One thread that runs transactions.
pub(super) struct Client<'a, E> {
    pub(super) db: &'a E,
    pub(super) book: &'a Book,
    pub(super) setup: Setup,
    pub(super) session: Session<Key, u64>,
}

impl<E: Tested> Client<'_, E> {
    fn random(&self, below: u64) -> u64 {
        self.db.memory().random() % below
    }

    fn any_key(&self) -> Key {
        key(self.random(self.setup.hosts as u64), self.random(self.setup.keys))
    }

    fn next_tag(&self) -> u64 {
        self.book.tags.set(self.book.tags.get() + 1);
        self.book.tags.get()
    }

    /// Runs one transaction: with the same steps, until it commits or has had its chances.
    pub(super) fn run(&self, worker: usize) {
        for _ in 0..6 {
            let attempt = self.session.begin();
            let mut tx = self.db.begin(worker);
            let steps = self.steps(&mut tx);
            let operations = steps.iter().flatten().filter_map(operation);
            operations.for_each(|operation| self.session.note(&attempt, operation));
            match steps {
                Err(error) => {
                    assert!(error.is_conflict(), "{error}");
                    self.session.aborted(attempt);
                }
                Ok(_) if self.random(8) == 0 => {
                    tx.abort();
                    self.session.aborted(attempt);
                }
                Ok(steps) => {
                    let begun = self.book.begun.get();
                    self.book.begun.set(begun + 1);
                    match E::commit(tx) {
                        Ok(at) => {
                            self.session.committed(attempt);
                            self.book.committed.borrow_mut().push(((at, begun), steps));
                            return;
                        }
                        Err(error) => {
                            assert!(E::VALIDATES && error.is_conflict(), "{error}");
                            self.session.aborted(attempt);
                        }
                    }
                }
            }
            (0..self.random(20)).for_each(|_| self.db.memory().pause());
        }
    }

    /// Tries a transaction; whether no host is known to be dead.
    pub(super) fn goes_on(&self) -> bool {
        let mut tx = self.db.begin(0);
        match self.steps(&mut tx).and_then(|_| E::commit(tx)) {
            Ok(_) => true,
            Err(error) if error.is_conflict() => {
                self.db.memory().pause();
                true
            }
            Err(error) => {
                // A host that sleeps for long is taken for dead, too.
                let died = matches!(error, TxError::HostDied { .. } | TxError::Fenced { .. });
                assert!(died || self.db.memory().deaths() > 0, "{error}");
                false
            }
        }
    }

    fn steps(&self, tx: &mut impl Transaction) -> Result<Vec<Step>, TxError> {
        (0..1 + self.random(4)).map(|_| self.step(tx)).collect()
    }

    fn step(&self, tx: &mut impl Transaction) -> Result<Step, TxError> {
        let key = self.any_key();
        let choice = self.random(10);
        if !self.setup.no_phantoms && (5..8).contains(&choice) {
            let new = self.next_tag();
            return Ok(Step::Update(key, new, tx.update(TABLE, &key, &row(new))?));
        }
        Ok(match choice {
            0 | 1 => Step::Get(key, tx.get(TABLE, &key)?.map(tag)),
            2 => Step::Get(key, tx.get_for_update(TABLE, &key)?.map(tag)),
            3 | 4 => {
                let new = self.next_tag();
                Step::Update(key, new, tx.update(TABLE, &key, &row(new))?)
            }
            5 | 6 => {
                let new = self.next_tag();
                match tx.insert(TABLE, &key, &row(new)) {
                    Err(TxError::Duplicate { .. }) => Step::Insert(key, new, false),
                    inserted => {
                        inserted?;
                        Step::Insert(key, new, true)
                    }
                }
            }
            7 => Step::Delete(key, tx.delete(TABLE, &key)?),
            _ => self.scan(tx)?,
        })
    }

    fn scan(&self, tx: &mut impl Transaction) -> Result<Step, TxError> {
        let bound = || {
            let key = self.any_key();
            [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded][self.random(3) as usize]
        };
        let (lower, upper) = (bound(), bound());
        let backward = self.random(2) == 0;
        let limit = [2, usize::MAX][self.random(2) as usize];
        let walk = Walk { lower, upper, backward, limit };
        let bytes = |bound: &Bound<Key>| bound.map(|key| key.to_vec());
        let (lower, upper) = (bytes(&lower), bytes(&upper));
        let scan = Scan {
            range: (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..])),
            direction: if backward { Direction::Backward } else { Direction::Forward },
            limit,
            for_update: self.random(4) == 0,
        };
        let mut found = Vec::new();
        tx.scan(TABLE, scan, &mut |key, row| {
            found.push((*key.first_chunk().expect("8 bytes"), tag(row)));
            ControlFlow::Continue(())
        })?;
        Ok(Step::Scan(walk, found))
    }
}

/// The operation of a step in a history. `None` for a refused insert, which does not say what it
/// has found, and for a scan of an empty range.
fn operation(step: &Step) -> Option<Operation<Key, u64>> {
    Some(match *step {
        Step::Get(key, value) => Operation::Read { key, value },
        Step::Update(key, value, true) => Operation::Write { key, value },
        Step::Insert(key, value, true) => Operation::Insert { key, value },
        Step::Insert(_, _, false) => return None,
        Step::Delete(key, true) => Operation::Delete { key },
        Step::Update(key, _, false) | Step::Delete(key, false) => {
            Operation::Read { key, value: None }
        }
        Step::Scan(walk, ref found) => return met(walk, found),
    })
}

/// The range that a scan has met. One that ended at its limit ended at the last row that it met.
fn met(walk: Walk, found: &[(Key, u64)]) -> Option<Operation<Key, u64>> {
    let (mut from, mut to) = (walk.lower, walk.upper);
    if let Some((last, _)) = found.last().filter(|_| found.len() == walk.limit) {
        *(if walk.backward { &mut from } else { &mut to }) = Bound::Included(*last);
    }
    let is_empty = match (from, to) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) => low >= high,
        _ => false,
    };
    (!is_empty).then(|| Operation::Scan { from, to, found: found.to_vec() })
}

/// Edges and accesses that the search for an order may visit.
const BUDGET: u64 = 10_000_000;

impl Book {
    /// The session in which a client records its transactions, by its number.
    pub(super) fn session(&self, number: u32) -> Session<Key, u64> {
        self.recorder.session(number)
    }

    /// The rows that are there at the beginning are as if a transaction had inserted them.
    pub(super) fn note_loaded(&self, rows: &[(Key, u64)]) {
        let session = self.session(u32::MAX);
        let attempt = session.begin();
        for &(key, value) in rows {
            session.note(&attempt, Operation::Insert { key, value });
        }
        session.committed(attempt);
    }

    /// All that was done is a history that keeps a condition.
    pub(super) fn check_history(&self, condition: Condition) {
        let verdict = check(&self.recorder.history(), condition, BUDGET);
        assert!(verdict.passed(), "{verdict}");
    }

    /// Runs all that was committed on a map.
    pub(super) fn check(&self, mut rows: BTreeMap<Key, u64>) {
        let mut committed = self.committed.borrow().clone();
        committed.sort_by_key(|&(order, _)| order);
        for (order, steps) in &committed {
            for step in steps {
                let expected = redo(&mut rows, step);
                assert_eq!(*step, expected, "transaction {order:?} of {committed:#?}");
            }
        }
    }
}

/// Does a step on a map: the step, with what it finds there.
fn redo(rows: &mut BTreeMap<Key, u64>, step: &Step) -> Step {
    match *step {
        Step::Get(key, _) => Step::Get(key, rows.get(&key).copied()),
        Step::Update(key, tag, _) => {
            let there = rows.get_mut(&key).map(|row| *row = tag).is_some();
            Step::Update(key, tag, there)
        }
        Step::Insert(key, tag, _) => {
            let absent = !rows.contains_key(&key);
            rows.entry(key).or_insert(tag);
            Step::Insert(key, tag, absent)
        }
        Step::Delete(key, _) => Step::Delete(key, rows.remove(&key).is_some()),
        Step::Scan(walk, _) => {
            let above = |key: &Key| match walk.lower {
                Bound::Included(lower) => *key >= lower,
                Bound::Excluded(lower) => *key > lower,
                Bound::Unbounded => true,
            };
            let below = |key: &Key| match walk.upper {
                Bound::Included(upper) => *key <= upper,
                Bound::Excluded(upper) => *key < upper,
                Bound::Unbounded => true,
            };
            let within = rows.iter().filter(|(key, _)| above(key) && below(key));
            let mut found: Vec<_> = within.map(|(key, tag)| (*key, *tag)).collect();
            if walk.backward {
                found.reverse();
            }
            found.truncate(walk.limit);
            Step::Scan(walk, found)
        }
    }
}
