//! YCSB with transactions of ten operations, in two variants.
//!
//! [`Ycsb::new`] has Zipfian choices that are scrambled over a partition, as in YCSB. An update
//! replaces one field of ten.
//!
//! [`Ycsb::as_published`] is what the published source of Tigon runs, to be compared with its
//! figures. It has contention that the clean variant does not have:
//!
//! * Zipfian choices are not scrambled: the first rows of each partition are the hot ones.
//! * The first key of a transaction is uniform among the 150 hottest rows of its partition.
//! * An update replaces all ten fields.
//!
//! A row has ten fields of 100 bytes. A field knows its row and how often it was replaced, so that
//! [`check`] finds torn rows and lost updates. Keys of one transaction differ from each other.
//! Operations at home come first. Updates read the row before they replace it.

use std::ops::Bound;

use tombolo_database::{Engine, TableId, TableSpec, Transaction, TxError};
use tombolo_workloads::{ScrambledZipfian, Zipfian, check_value, fill_value};

use crate::walk::walk;
use crate::workload::{missing, table};
use crate::{Outcome, Random, Seat, Workload};

/// The one table.
pub const TABLE: TableId = TableId(0);

/// Operations of a transaction.
const OPERATIONS: usize = 10;
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const ROW_BYTES: usize = FIELDS * FIELD_BYTES;

/// Draws for one key before the next free one is taken.
const MOST_DRAWS: u32 = 100;

/// The tables' sizes, and the mix of transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YcsbOptions {
    /// Partitions of the table. A host has one in Tigon's figures.
    pub partitions: u32,
    /// Rows of a partition, at least 10.
    pub rows: u32,
    /// Of 100 operations, those that only read: 100, 95, 50 and 0 in Tigon's figures.
    pub reads_percent: u32,
    /// Of 100 transactions, those that do half of their operations in one other partition.
    pub cross_percent: u32,
    /// The skew of the choice of rows: 0.7 or 0.99 in Tigon's figures.
    pub theta: f64,
}

impl YcsbOptions {
    /// 300,000 rows a partition, 95 % reads, skew 0.7, no transaction in two partitions.
    pub const fn new(partitions: u32) -> Self {
        Self { partitions, rows: 300_000, reads_percent: 95, cross_percent: 0, theta: 0.7 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Clean,
    AsPublished,
}

/// Rows among which the first key of a transaction is chosen, as published.
const HOTTEST: u64 = 150;

/// YCSB with transactions. The effect of one is the number of fields that it replaces.
#[derive(Clone, Debug)]
pub struct Ycsb {
    options: YcsbOptions,
    seed: u64,
    variant: Variant,
}

/// One operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Operation {
    row: u32,
    field: u8,
    update: bool,
}

/// The input of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YcsbInput([Operation; OPERATIONS]);

impl YcsbInput {
    /// The numbers of the rows, over all partitions, in the order of the operations.
    pub fn rows(&self) -> [u32; 10] {
        self.0.map(|operation| operation.row)
    }
}

/// The choice of a partition's row.
#[derive(Clone, Debug)]
enum Rows {
    Ranked(Zipfian),
    Scrambled(ScrambledZipfian),
}

impl Rows {
    fn new(variant: Variant, options: YcsbOptions) -> Self {
        let (rows, theta) = (u64::from(options.rows), options.theta);
        match variant {
            Variant::AsPublished => Self::Ranked(Zipfian::new(rows, theta)),
            Variant::Clean => Self::Scrambled(ScrambledZipfian::new(rows, theta)),
        }
    }

    fn choose(&self, unit: f64) -> u64 {
        match self {
            Self::Ranked(zipfian) => zipfian.rank(unit),
            Self::Scrambled(zipfian) => zipfian.item(unit),
        }
    }
}

/// A worker of [`Ycsb`].
#[derive(Clone, Debug)]
pub struct YcsbWorker {
    random: Random,
    rows: Rows,
    partitions: Vec<u32>,
}

impl Ycsb {
    /// The clean variant; `seed` decides on all choices.
    ///
    /// # Panics
    /// If a partition has fewer than 10 rows, or the skew is out of range.
    pub fn new(options: YcsbOptions, seed: u64) -> Self {
        assert!(options.rows as usize >= OPERATIONS, "ten keys need {OPERATIONS} rows");
        Self { options, seed, variant: Variant::Clean }
    }

    /// The variant as published with Tigon, which has a name of its own.
    ///
    /// # Panics
    /// As of [`new`](Self::new).
    pub fn as_published(options: YcsbOptions, seed: u64) -> Self {
        Self { variant: Variant::AsPublished, ..Self::new(options, seed) }
    }

    fn choose_row(
        &self,
        worker: &mut YcsbWorker,
        partition: u32,
        is_first: bool,
        taken: impl Fn(u32) -> bool,
    ) -> u32 {
        let rows = self.options.rows;
        let number = |chosen: u64| partition * rows + chosen as u32;
        let mut chosen = 0;
        for _ in 0..MOST_DRAWS {
            chosen = self.choose(worker, is_first);
            if !taken(number(chosen)) {
                return number(chosen);
            }
        }
        let next = (1..=OPERATIONS as u64).map(|more| number((chosen + more) % u64::from(rows)));
        next.into_iter().find(|row| !taken(*row)).expect("fewer rows are taken than there are")
    }

    fn choose(&self, worker: &mut YcsbWorker, is_first: bool) -> u64 {
        let rows = u64::from(self.options.rows);
        match self.variant {
            Variant::AsPublished if is_first => worker.random.below(HOTTEST.min(rows)),
            _ => worker.rows.choose(worker.random.unit()),
        }
    }

    /// Returns how many fields were replaced.
    fn update<T: Transaction>(
        &self,
        operation: &Operation,
        transaction: &mut T,
    ) -> Result<i64, TxError> {
        let Operation { row, field, .. } = *operation;
        let key = row.to_be_bytes();
        let bytes = transaction.get_for_update(TABLE, &key)?;
        let bytes = bytes.ok_or_else(|| missing(TABLE, &key))?;
        let fields = match self.variant {
            Variant::Clean => field.into()..usize::from(field) + 1,
            Variant::AsPublished => 0..FIELDS,
        };
        let version = version(row, fields.start, bytes)? + 1;
        let mut bytes: [u8; ROW_BYTES] = bytes.try_into().expect("the size was checked");
        for field in fields.clone() {
            fill(row, field, version, &mut bytes);
        }
        transaction.update(TABLE, &key, &bytes)?;
        Ok(fields.len() as i64)
    }
}

fn number(row: u32, field: usize) -> u64 {
    u64::from(row) * FIELDS as u64 + field as u64
}

fn fill(row: u32, field: usize, version: u64, bytes: &mut [u8; ROW_BYTES]) {
    let at = field * FIELD_BYTES;
    fill_value(number(row, field), version, &mut bytes[at..at + FIELD_BYTES]);
}

/// How often a field was replaced.
fn version(row: u32, field: usize, bytes: &[u8]) -> Result<u64, TxError> {
    if bytes.len() != ROW_BYTES {
        return Err(crate::row::misshapen("YCSB", bytes.len(), ROW_BYTES));
    }
    let at = field * FIELD_BYTES;
    check_value(number(row, field), &bytes[at..at + FIELD_BYTES])
        .map_err(|corruption| TxError::Failed(format!("row {row}, field {field}: {corruption}")))
}

/// Checks that all fields are whole, and were replaced `effect` times together, which is the effect
/// of all transactions that have committed. No transaction may run meanwhile. An empty list says
/// that all holds.
///
/// # Errors
/// Those of the engine, after 1000 conflicts in a row too.
pub fn check<E: Engine>(
    engine: &E,
    options: &YcsbOptions,
    effect: i64,
) -> Result<Vec<String>, TxError> {
    let (mut rows, mut replaced, mut found) = (0, 0, Vec::new());
    walk(engine, TABLE, (Bound::Unbounded, Bound::Unbounded), &mut |key, bytes| {
        let row = key.try_into().map_or(u32::MAX, u32::from_be_bytes);
        rows += 1;
        for field in 0..FIELDS {
            match version(row, field, bytes) {
                Ok(version) => replaced += version as i64,
                Err(error) => found.push(error.to_string()),
            }
        }
        Ok(())
    })?;
    let expected = u64::from(options.partitions) * u64::from(options.rows);
    if rows != expected {
        found.push(format!("there are {rows} rows instead of {expected}"));
    }
    if replaced != effect {
        found.push(format!("fields were replaced {replaced} times instead of {effect}"));
    }
    Ok(found)
}

impl Workload for Ycsb {
    type Worker = YcsbWorker;
    type Input = YcsbInput;

    fn name(&self) -> &'static str {
        match self.variant {
            Variant::Clean => "ycsb-txn",
            Variant::AsPublished => "ycsb-txn-as-published",
        }
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["transaction"]
    }

    fn tables(&self) -> Vec<TableSpec> {
        vec![table(4, ROW_BYTES, self.options.rows)]
    }

    fn partitions(&self) -> u32 {
        self.options.partitions
    }

    fn load_replicated<E: Engine>(&self, _: &E) -> Result<(), TxError> {
        Ok(())
    }

    fn load_partition<E: Engine>(&self, engine: &E, partition: u32) -> Result<(), TxError> {
        let first = partition * self.options.rows;
        for row in first..first + self.options.rows {
            let mut bytes = [0; ROW_BYTES];
            for field in 0..FIELDS {
                fill(row, field, 0, &mut bytes);
            }
            engine.load(TABLE, &row.to_be_bytes(), &bytes)?;
        }
        Ok(())
    }

    fn worker(&self, seat: &Seat) -> YcsbWorker {
        YcsbWorker {
            random: seat.random(self.seed),
            rows: Rows::new(self.variant, self.options),
            partitions: seat.own_partitions(),
        }
    }

    fn next(&self, worker: &mut YcsbWorker) -> YcsbInput {
        let YcsbOptions { partitions, reads_percent, cross_percent, .. } = self.options;
        let random = &mut worker.random;
        let home = *random.choose(&worker.partitions);
        let mut second = home;
        if partitions > 1 && random.percent(cross_percent) {
            second = random.other_than(home, partitions);
        }
        let mut operations = [Operation::default(); OPERATIONS];
        for index in 0..OPERATIONS {
            let partition = if index < OPERATIONS / 2 { home } else { second };
            let taken = |row| operations[..index].iter().any(|before| before.row == row);
            let row = self.choose_row(worker, partition, index == 0, taken);
            let update = !worker.random.percent(reads_percent);
            let field = worker.random.below(FIELDS as u64) as u8;
            operations[index] = Operation { row, field, update };
        }
        YcsbInput(operations)
    }

    fn kind(&self, _: &YcsbInput) -> usize {
        0
    }

    fn run<T: Transaction>(
        &self,
        _: &mut YcsbWorker,
        input: &YcsbInput,
        transaction: &mut T,
    ) -> Result<Outcome, TxError> {
        let mut effect = 0;
        for operation in &input.0 {
            effect += match operation.update {
                true => self.update(operation, transaction)?,
                false => read(operation, transaction)?,
            };
        }
        Ok(Outcome::Commit { effect })
    }
}

fn read<T: Transaction>(operation: &Operation, transaction: &mut T) -> Result<i64, TxError> {
    let key = operation.row.to_be_bytes();
    let row = transaction.get(TABLE, &key)?.ok_or_else(|| missing(TABLE, &key))?;
    version(operation.row, operation.field.into(), row)?;
    Ok(0)
}
