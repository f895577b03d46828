//! Random transactions, compared with a model.

use std::collections::BTreeMap;
use std::ops::Bound;

use tombolo_database::{Direction, Engine, Scan, TableId, Transaction, TxError};

use super::transact::{End, Pairs, Stretch, met, rows_of, transact};
use super::{PARTITIONS, tables};
use crate::Random;

/// Tables whose rows random transactions change.
const TABLES: [TableId; 3] = [TableId(0), TableId(1), TableId(3)];

#[derive(Clone, Debug)]
enum Op {
    Get { table: TableId, key: Vec<u8>, for_update: bool },
    Update { table: TableId, key: Vec<u8>, row: Vec<u8> },
    Insert { table: TableId, key: Vec<u8>, row: Vec<u8> },
    Delete { table: TableId, key: Vec<u8> },
    Scan { table: TableId, stretch: Stretch, backward: bool, limit: usize, most: usize, lock: bool },
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Row(Option<Vec<u8>>),
    /// Whether there was such a row.
    There(bool),
    Rows(Pairs),
}

type Tables = BTreeMap<u16, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Random transactions of all operations, and what the tables must hold after them.
///
/// Each call of [`step`](Self::step) runs one transaction, from whichever host it is given. Rows
/// are few, so transactions meet each other's.
#[derive(Clone, Debug)]
pub struct RandomTransactions {
    seed: u64,
    random: Random,
    steps: u64,
    tables: Tables,
}

impl RandomTransactions {
    /// Transactions for an engine with [`tables`] and [`PARTITIONS`], and no rows but those of
    /// the replicated table.
    pub fn new(seed: u64) -> Self {
        let tables = TABLES.map(|table| (table.0, BTreeMap::new())).into();
        Self { seed, random: Random::new(seed, &[]), steps: 0, tables }
    }

    /// Runs a transaction and compares all that it is told with the model.
    ///
    /// # Panics
    /// If there is a difference; the message has the seed and the number of the step.
    pub fn step<E: Engine>(&mut self, engine: &E) {
        self.steps += 1;
        let count = self.random.within(1, 12);
        let ops: Vec<Op> = (0..count).map(|_| self.random_op()).collect();
        let end =
            *self.random.choose(&[End::Commit, End::Commit, End::Commit, End::Abort, End::Drop]);
        let after = transact(engine, end, |transaction| {
            let mut tables = self.tables.clone();
            for op in &ops {
                let (expected, found) = (expect(&mut tables, op), perform(transaction, op)?);
                assert_eq!(
                    found, expected,
                    "{op:?} is answered wrongly; seed {}, step {}, transaction {ops:?}",
                    self.seed, self.steps
                );
            }
            Ok(tables)
        });
        if end == End::Commit {
            self.tables = after;
        }
    }

    /// Compares all rows with the model, in both directions.
    ///
    /// # Panics
    /// If there is a difference.
    pub fn compare<E: Engine>(&self, engine: &E) {
        for (&table, rows) in &self.tables {
            let mut expected: Pairs = rows.clone().into_iter().collect();
            for direction in [Direction::Forward, Direction::Backward] {
                let found = transact(engine, End::Commit, |transaction| {
                    rows_of(transaction, TableId(table), &Stretch::all(), direction)
                });
                assert_eq!(
                    found, expected,
                    "table {table} {direction:?}, seed {}, step {}",
                    self.seed, self.steps
                );
                expected.reverse();
            }
        }
    }

    fn random_op(&mut self) -> Op {
        let table = *self.random.choose(&TABLES);
        let key = self.random_key(table);
        match self.random.below(10) {
            0 => Op::Get { table, key, for_update: false },
            1 => Op::Get { table, key, for_update: true },
            2 => Op::Update { table, key, row: self.random_row(table) },
            3..6 => Op::Insert { table, key, row: self.random_row(table) },
            6..8 => Op::Delete { table, key },
            _ => self.random_scan(table),
        }
    }

    fn random_scan(&mut self, table: TableId) -> Op {
        let bound = |random: &mut Self| {
            let mut key = random.random_key(table);
            if random.random.percent(10) {
                key.truncate(random.random.below(4) as usize);
            }
            match random.random.below(5) {
                0 => Bound::Unbounded,
                1 | 2 => Bound::Included(key),
                _ => Bound::Excluded(key),
            }
        };
        let stretch = Stretch { low: bound(self), high: bound(self) };
        let random = &mut self.random;
        let counts = [0, 1, 2, 5, usize::MAX];
        Op::Scan {
            table,
            stretch,
            backward: random.percent(50),
            limit: *random.choose(&counts),
            most: *random.choose(&counts[1..]),
            lock: random.percent(30),
        }
    }

    /// A number that decides on the partition, also one beyond the last, and a few more bytes.
    fn random_key(&mut self, table: TableId) -> Vec<u8> {
        let random = &mut self.random;
        let lead = random.below(u64::from(PARTITIONS) + 1) as u32;
        let (lead, bytes) = match table.0 {
            0 => (lead, random.below(4)),
            1 => (lead * 10 + random.below(2) as u32, random.below(2)),
            _ => (lead * 100 + random.below(4) as u32, 0),
        };
        let mut key = lead.to_be_bytes().to_vec();
        key.extend((0..bytes).map(|_| random.below(2) as u8));
        key
    }

    fn random_row(&mut self, table: TableId) -> Vec<u8> {
        let most = u64::from(tables()[usize::from(table.0)].row_bytes);
        let bytes = match self.random.below(4) {
            0 => most,
            _ => self.random.within(0, most),
        };
        let mut row = self.random.word().to_le_bytes().repeat(bytes.div_ceil(8) as usize);
        row.truncate(bytes as usize);
        row
    }
}

fn expect(tables: &mut Tables, op: &Op) -> Answer {
    match op {
        Op::Get { table, key, .. } => Answer::Row(tables[&table.0].get(key).cloned()),
        Op::Update { table, key, row } => {
            let there = rows(tables, *table).get_mut(key).map(|old| old.clone_from(row));
            Answer::There(there.is_some())
        }
        Op::Insert { table, key, row } => {
            let rows = rows(tables, *table);
            let there = rows.contains_key(key);
            rows.entry(key.clone()).or_insert_with(|| row.clone());
            Answer::There(there)
        }
        Op::Delete { table, key } => Answer::There(rows(tables, *table).remove(key).is_some()),
        Op::Scan { table, stretch, backward, limit, most, .. } => {
            // By comparison of each key, so that it shares nothing with how engines find them.
            let (low, high) = (&stretch.low, &stretch.high);
            let above = |key: &Vec<u8>| match low {
                Bound::Unbounded => true,
                Bound::Included(low) => key >= low,
                Bound::Excluded(low) => key > low,
            };
            let below = |key: &Vec<u8>| match high {
                Bound::Unbounded => true,
                Bound::Included(high) => key <= high,
                Bound::Excluded(high) => key < high,
            };
            let all = tables[&table.0].clone().into_iter();
            let mut met: Pairs = all.filter(|(key, _)| above(key) && below(key)).collect();
            if *backward {
                met.reverse();
            }
            met.truncate(*limit.min(most));
            Answer::Rows(met)
        }
    }
}

fn rows(tables: &mut Tables, table: TableId) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
    tables.get_mut(&table.0).expect("operations are about tables of the model")
}

fn perform<T: Transaction>(transaction: &mut T, op: &Op) -> Result<Answer, TxError> {
    Ok(match op {
        Op::Get { table, key, for_update: false } => {
            Answer::Row(transaction.get(*table, key)?.map(<[u8]>::to_vec))
        }
        Op::Get { table, key, for_update: true } => {
            Answer::Row(transaction.get_for_update(*table, key)?.map(<[u8]>::to_vec))
        }
        Op::Update { table, key, row } => Answer::There(transaction.update(*table, key, row)?),
        Op::Insert { table, key, row } => match transaction.insert(*table, key, row) {
            Ok(()) => Answer::There(false),
            Err(TxError::Duplicate { .. }) => Answer::There(true),
            Err(error) => return Err(error),
        },
        Op::Delete { table, key } => Answer::There(transaction.delete(*table, key)?),
        Op::Scan { table, stretch, backward, limit, most, lock } => {
            let direction = if *backward { Direction::Backward } else { Direction::Forward };
            let range = stretch.range();
            let scan = Scan { range, direction, limit: *limit, for_update: *lock };
            Answer::Rows(met(transaction, *table, scan, *most)?)
        }
    })
}
