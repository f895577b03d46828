//! Long histories, as a database with two-phase locking would leave them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tombolo_verify::serializability::{Condition, Verdict, check};
use tombolo_verify::transactions::{History, Operation, Outcome, Transaction};

const TRANSACTIONS: usize = 100_000;
const OPERATIONS: usize = 5;
const SESSIONS: u32 = 16;
const BUDGET: u64 = 100_000_000;

type Op = Operation<u32, u64>;
type Log = Vec<Transaction<u32, u64>>;

#[derive(Default)]
struct Database {
    lists: BTreeMap<u32, Vec<u64>>,
    rows: BTreeMap<u32, u64>,
    /// Gives each write a value of its own.
    values: u64,
}

impl Database {
    fn value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    fn append(&mut self, key: u32) -> Op {
        let value = self.value();
        self.lists.entry(key).or_default().push(value);
        Operation::Append { key, value }
    }

    fn list(&self, key: u32) -> Op {
        Operation::ReadList { key, list: self.lists.get(&key).cloned().unwrap_or_default() }
    }

    fn read(&self, key: u32) -> Op {
        Operation::Read { key, value: self.rows.get(&key).copied() }
    }

    fn write(&mut self, key: u32) -> Op {
        let value = self.value();
        self.rows.insert(key, value);
        Operation::Write { key, value }
    }

    fn insert_or_delete(&mut self, key: u32) -> Op {
        if self.rows.remove(&key).is_some() {
            return Operation::Delete { key };
        }
        let value = self.value();
        self.rows.insert(key, value);
        Operation::Insert { key, value }
    }

    fn scan(&self, keys: RangeInclusive<u32>) -> Op {
        let (from, to) = (Bound::Included(*keys.start()), Bound::Included(*keys.end()));
        let found = self.rows.range(keys).map(|(key, value)| (*key, *value)).collect();
        Operation::Scan { from, to, found }
    }
}

/// Serial transactions whose times overlap: the effect of each is at a moment of its own. Of 1,000,
/// one has an effect, and does not end.
fn history(mut operation: impl FnMut(&mut ChaCha8Rng, &mut Database, usize) -> Op) -> Log {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut database = Database::default();
    let mut ended = vec![0; SESSIONS as usize];
    let mut log = Log::new();
    for at in 0..TRANSACTIONS {
        let moment = 100 * (at as u64 + 1);
        let session = loop {
            let session = rng.random_range(0..SESSIONS);
            if ended[session as usize] < moment {
                break session;
            }
        };
        let begun_at = moment - rng.random_range(0..moment - ended[session as usize]).min(500);
        let end = moment + rng.random_range(0..500);
        ended[session as usize] = end;
        let in_doubt = rng.random_range(0..1_000) == 0;
        let outcome = if in_doubt { Outcome::Pending } else { Outcome::Committed { at: end } };
        let operations = (0..OPERATIONS).map(|_| operation(&mut rng, &mut database, at)).collect();
        log.push(Transaction { session, begun_at, outcome, operations });
    }
    log
}

fn lists() -> Log {
    history(|rng, database, at| {
        let key = (at / 100) as u32 * 10 + rng.random_range(0..10);
        if rng.random_bool(0.5) { database.append(key) } else { database.list(key) }
    })
}

/// Reads and blind writes of few rows, some of them hot.
fn registers() -> Log {
    history(|rng, database, _| {
        let key = skewed(rng, 1_000);
        if rng.random_bool(0.5) { database.write(key) } else { database.read(key) }
    })
}

fn rows() -> Log {
    history(|rng, database, _| {
        let key = skewed(rng, 1_000);
        match rng.random_range(0..10) {
            0..4 => database.read(key),
            4..7 => database.insert_or_delete(key),
            7..9 => database.write(key),
            _ => database.scan(key..=key + 9),
        }
    })
}

fn skewed(rng: &mut impl Rng, keys: u32) -> u32 {
    let uniform: f64 = rng.random();
    (uniform.powi(2) * f64::from(keys)) as u32
}

fn verdict(log: Log) -> Verdict<u32, u64> {
    check(&History::new(log).unwrap(), Condition::Strict, BUDGET)
}

#[track_caller]
fn assert_good(log: Log) {
    let verdict = verdict(log);
    assert!(verdict.passed(), "{verdict}");
}

#[test]
fn many_transactions_on_lists() {
    assert_good(lists());
}

#[test]
fn many_transactions_on_registers() {
    assert_good(registers());
}

#[test]
fn many_transactions_on_rows_and_ranges() {
    assert_good(rows());
}

/// One stale read late in a long history is found, and told in few lines.
#[track_caller]
fn assert_finds(mut log: Log, stale: Op) {
    let at = log.iter().filter_map(Transaction::ended_at).max().unwrap();
    let outcome = Outcome::Committed { at: at + 2 };
    log.push(Transaction { session: 99, begun_at: at + 1, outcome, operations: vec![stale] });
    let verdict = verdict(log);
    let violation = verdict.violation().unwrap_or_else(|| panic!("{verdict}"));
    let sessions: BTreeSet<_> = violation.transactions.iter().map(|t| t.session).collect();
    assert!(sessions.contains(&99), "{violation}");
    assert!(verdict.to_string().lines().count() < 100, "{verdict}");
}

#[test]
fn a_stale_read_of_a_list() {
    let log = lists();
    let key = (TRANSACTIONS / 200) as u32 * 10;
    assert_finds(log, Operation::ReadList { key, list: Vec::new() });
}

#[test]
fn a_stale_read_of_a_row() {
    let log = registers();
    let stale = log.iter().flat_map(|t| &t.operations).find_map(|operation| match operation {
        Operation::Read { key, value: Some(value) } => Some((*key, *value)),
        _ => None,
    });
    let (key, value) = stale.unwrap();
    assert_finds(log, Operation::Read { key, value: Some(value) });
}

#[test]
fn a_stale_scan() {
    let mut log = rows();
    let (from, to) = (Bound::Included(2_000), Bound::Unbounded);
    log[50_000].operations.push(Operation::Insert { key: 2_000, value: 1 << 40 });
    assert_finds(log, Operation::Scan { from, to, found: Vec::new() });
}

/// When everything is wrong, that is told, too, and as fast.
#[test]
fn a_database_without_isolation() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for mut log in [lists(), registers(), rows()] {
        for _ in 0..TRANSACTIONS {
            let from = rng.random_range(10..TRANSACTIONS);
            let to = from - rng.random_range(0..10);
            if let Some(operation) = log[from].operations.pop() {
                log[to].operations.push(operation);
            }
        }
        let verdict = verdict(log);
        assert!(verdict.violation().is_some(), "{verdict}");
    }
}
