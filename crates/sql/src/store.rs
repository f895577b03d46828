//! Reads and changes rows of tables, with their indexes, in a transaction of the engine.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_database::{Commit, Direction, MAX_KEY_BYTES, Scan, TableId, Transaction, TxError};

use crate::catalog::{IndexDef, TableDef};
use crate::error::{Result, SqlError, state};
use crate::key;
use crate::layout::PREFIX;
use crate::row;
use crate::text;
use crate::types::{Datum, Row};

/// A transaction behind a pointer.
pub(crate) trait BoxedTransaction: Transaction {
    fn commit_boxed(self: Box<Self>) -> std::result::Result<Commit, TxError>;
    fn abort_boxed(self: Box<Self>);
}

impl<T: Transaction> BoxedTransaction for T {
    fn commit_boxed(self: Box<Self>) -> std::result::Result<Commit, TxError> {
        (*self).commit()
    }

    fn abort_boxed(self: Box<Self>) {
        (*self).abort();
    }
}

/// A change that can be undone: what was there before.
struct Undo {
    table: TableId,
    key: Vec<u8>,
    before: Option<Vec<u8>>,
}

/// A transaction of the engine, whose changes can be undone up to savepoints.
pub(crate) struct Work<'e> {
    tx: Box<dyn BoxedTransaction + 'e>,
    undo: Vec<Undo>,
    /// Whether changes are noted.
    pub(crate) notes: bool,
    /// Whether anything was changed.
    pub(crate) has_changed: bool,
}

/// Keys between two, each with its number, and the order in which they are met.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyRange {
    pub(crate) low: Bound<Vec<u8>>,
    pub(crate) high: Bound<Vec<u8>>,
    pub(crate) reverse: bool,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: Vec<u8>) -> Self {
        let high = key::after_all(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self { low: Bound::Included(prefix), high, reverse: false }
    }
}

/// A pair of key and row as the engine has them.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

impl<'e> Work<'e> {
    pub(crate) fn new(tx: Box<dyn BoxedTransaction + 'e>) -> Self {
        Self { tx, undo: Vec::new(), notes: false, has_changed: false }
    }

    pub(crate) fn into_inner(self) -> Box<dyn BoxedTransaction + 'e> {
        self.tx
    }

    /// The outcome of a statement; a conflict instead, if it has read rows of several states.
    pub(crate) fn validated<R>(&mut self, done: Result<R>) -> Result<R> {
        match done {
            Err(error) if error.is_conflict() => Err(error),
            done => {
                self.tx.validate()?;
                done
            }
        }
    }

    /// Where the list of changes stands.
    pub(crate) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Undoes all changes behind a mark.
    pub(crate) fn undo_to(&mut self, mark: usize) -> Result<()> {
        while self.undo.len() > mark {
            let Undo { table, key, before } = self.undo.pop().expect("it is longer");
            let is_there = self.tx.get_for_update(table, &key)?.is_some();
            match before {
                Some(row) if is_there => {
                    self.tx.update(table, &key, &row)?;
                }
                Some(row) => self.tx.insert(table, &key, &row)?,
                None => {
                    self.tx.delete(table, &key)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn get(
        &mut self,
        table: TableId,
        key: &[u8],
        for_update: bool,
    ) -> Result<Option<&[u8]>> {
        Ok(match for_update {
            true => self.tx.get_for_update(table, key)?,
            false => self.tx.get(table, key)?,
        })
    }

    fn note(&mut self, table: TableId, key: &[u8]) -> Result<()> {
        self.has_changed = true;
        if self.notes {
            let before = self.tx.get_for_update(table, key)?.map(<[u8]>::to_vec);
            self.undo.push(Undo { table, key: key.to_vec(), before });
        }
        Ok(())
    }

    /// Adds a row, unless there is one with its key; whether it was added.
    pub(crate) fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool> {
        match self.tx.insert(table, key, row) {
            Ok(()) => {
                self.has_changed = true;
                if self.notes {
                    self.undo.push(Undo { table, key: key.to_vec(), before: None });
                }
                Ok(true)
            }
            Err(TxError::Duplicate { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool> {
        self.note(table, key)?;
        Ok(self.tx.update(table, key, row)?)
    }

    pub(crate) fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool> {
        self.note(table, key)?;
        Ok(self.tx.delete(table, key)?)
    }

    /// Keys and rows within a range.
    pub(crate) fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        limit: usize,
        for_update: bool,
    ) -> Result<Vec<Pair>> {
        let mut found = Vec::new();
        if limit == 0 || is_empty(range) {
            return Ok(found);
        }
        let scan = Scan {
            range: (as_slice(&range.low), as_slice(&range.high)),
            direction: if range.reverse { Direction::Backward } else { Direction::Forward },
            limit,
            for_update,
        };
        self.tx.scan(table, scan, &mut |key, row| {
            found.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

fn is_empty(range: &KeyRange) -> bool {
    match (&range.low, &range.high) {
        (Bound::Included(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        _ => false,
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Keys of rows without a primary key: the time in microseconds, and the host. They grow on each
/// host, so rows stand in the order in which a host inserts them.
pub(crate) struct HiddenKeys {
    last: AtomicU64,
    host: u8,
}

impl HiddenKeys {
    pub(crate) fn new(host: u8) -> Self {
        Self { last: AtomicU64::new(0), host }
    }

    fn next(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = since.map_or(0, |since| since.as_micros() as u64);
        let next = |last: u64| Some(now.max(last + 1));
        let before = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let time = before.map_or(now, |last| now.max(last + 1));
        time << 8 | u64::from(self.host)
    }
}

/// How often a hidden key is tried that another row has already.
const HIDDEN_KEYS: usize = 100;

/// Appends the columns of an index to a key; whether none of them is null.
fn push_columns(columns: &[usize], row: &[Datum], key: &mut Vec<u8>) -> bool {
    columns.iter().fold(true, |all, &column| {
        key::encode(&row[column], key);
        all && !row[column].is_null()
    })
}

/// The key of a row's entry in an index.
pub(crate) fn entry_key(index: &IndexDef, row: &[Datum], primary: &[u8]) -> Vec<u8> {
    let mut key = index.number.to_be_bytes().to_vec();
    let all = push_columns(&index.columns, row, &mut key);
    if !(index.unique && all) {
        key.extend(&primary[PREFIX..]);
    }
    key
}

/// The key of a row with a primary key.
pub(crate) fn primary_key(table: &TableDef, primary: &IndexDef, row: &[Datum]) -> Vec<u8> {
    let mut key = table.number.to_be_bytes().to_vec();
    push_columns(&primary.columns, row, &mut key);
    key
}

fn check_key(table: &TableDef, index: &IndexDef, key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY_BYTES {
        return Ok(());
    }
    let message = format!(
        "index row size {} exceeds maximum {MAX_KEY_BYTES} for index \"{}\"",
        key.len(),
        index.name
    );
    Err(SqlError::new(state::PROGRAM_LIMIT, message).with_hint(format!(
        "Values of columns that are keys of table \"{}\" have to be shorter.",
        table.name
    )))
}

/// Checks that columns have values that must have one.
pub(crate) fn check_nulls(table: &TableDef, row: &[Datum]) -> Result<()> {
    for (column, value) in table.columns.iter().zip(row) {
        if column.not_null && value.is_null() {
            let (name, table) = (&column.name, &table.name);
            let message = format!(
                "null value in column \"{name}\" of relation \"{table}\" violates not-null \
                 constraint"
            );
            return Err(SqlError::new(state::NOT_NULL_VIOLATION, message));
        }
    }
    Ok(())
}

fn encode_row(table: &TableDef, values: &[Datum]) -> Result<Vec<u8>> {
    let bytes = row::encode(&table.columns, values);
    let most = crate::layout::tables()[usize::from(table.place)].row_bytes as usize;
    if bytes.len() <= most {
        return Ok(bytes);
    }
    let message = format!("row is too big: size {}, maximum size {most}", bytes.len());
    Err(SqlError::new(state::PROGRAM_LIMIT, message))
}

fn duplicate(table: &TableDef, index: &IndexDef, values: &[Datum]) -> SqlError {
    let names = index.columns.iter().map(|&column| table.columns[column].name.as_str());
    let texts = index.columns.iter().map(|&column| match &values[column] {
        Datum::Null => "null".to_owned(),
        value => text::format(value, table.columns[column].ty),
    });
    let (names, texts) = (names.collect::<Vec<_>>(), texts.collect::<Vec<_>>());
    let message = format!("duplicate key value violates unique constraint \"{}\"", index.name);
    SqlError::new(state::UNIQUE_VIOLATION, message).with_detail(format!(
        "Key ({})=({}) already exists.",
        names.join(", "),
        texts.join(", ")
    ))
}

/// Adds a row, with its entries in indexes.
///
/// # Errors
/// That a value is missing, too long or there already.
pub(crate) fn insert(
    work: &mut Work<'_>,
    hidden: &HiddenKeys,
    table: &TableDef,
    values: &[Datum],
) -> Result<()> {
    check_nulls(table, values)?;
    let row = encode_row(table, values)?;
    let key = match &table.primary {
        Some(primary) => {
            let key = primary_key(table, primary, values);
            check_key(table, primary, &key)?;
            if !work.insert(table.table(), &key, &row)? {
                return Err(duplicate(table, primary, values));
            }
            key
        }
        None => insert_hidden(work, hidden, table, &row)?,
    };
    for index in &table.indexes {
        insert_entry(work, table, index, values, &key)?;
    }
    Ok(())
}

fn insert_hidden(
    work: &mut Work<'_>,
    hidden: &HiddenKeys,
    table: &TableDef,
    row: &[u8],
) -> Result<Vec<u8>> {
    for _ in 0..HIDDEN_KEYS {
        let mut key = table.number.to_be_bytes().to_vec();
        key.extend(hidden.next().to_be_bytes());
        if work.insert(table.table(), &key, row)? {
            return Ok(key);
        }
    }
    Err(SqlError::new(state::INTERNAL, "no hidden key is free; look at the clocks of the hosts"))
}

/// Adds a row's entry to an index.
pub(crate) fn insert_entry(
    work: &mut Work<'_>,
    table: &TableDef,
    index: &IndexDef,
    values: &[Datum],
    key: &[u8],
) -> Result<()> {
    let entry = entry_key(index, values, key);
    check_key(table, index, &entry)?;
    match work.insert(index.table(), &entry, &key[PREFIX..])? {
        true => Ok(()),
        false => Err(duplicate(table, index, values)),
    }
}

/// Replaces a row.
///
/// # Errors
/// As of [`insert`].
pub(crate) fn update(
    work: &mut Work<'_>,
    table: &TableDef,
    key: &[u8],
    (old, new): (&[Datum], &[Datum]),
) -> Result<()> {
    check_nulls(table, new)?;
    let row = encode_row(table, new)?;
    let new_key = match &table.primary {
        Some(primary) => primary_key(table, primary, new),
        None => key.to_vec(),
    };
    if let Some(primary) = &table.primary
        && new_key != key
    {
        check_key(table, primary, &new_key)?;
        work.delete(table.table(), key)?;
        if !work.insert(table.table(), &new_key, &row)? {
            return Err(duplicate(table, primary, new));
        }
    } else {
        work.update(table.table(), key, &row)?;
    }
    for index in &table.indexes {
        let (before, after) = (entry_key(index, old, key), entry_key(index, new, &new_key));
        if before == after && new_key == key {
            continue;
        }
        work.delete(index.table(), &before)?;
        insert_entry(work, table, index, new, &new_key)?;
    }
    Ok(())
}

/// Deletes a row.
pub(crate) fn delete(
    work: &mut Work<'_>,
    table: &TableDef,
    key: &[u8],
    values: &[Datum],
) -> Result<()> {
    work.delete(table.table(), key)?;
    for index in &table.indexes {
        work.delete(index.table(), &entry_key(index, values, key))?;
    }
    Ok(())
}

/// The row that has the same values as `values` in a unique index, or in the primary key.
pub(crate) fn find_equal(
    work: &mut Work<'_>,
    table: &TableDef,
    index: &IndexDef,
    values: &[Datum],
) -> Result<Option<(Vec<u8>, Row)>> {
    let mut key = index.number.to_be_bytes().to_vec();
    if !push_columns(&index.columns, values, &mut key) {
        return Ok(None);
    }
    check_key(table, index, &key)?;
    let is_primary = table.primary.as_ref().is_some_and(|primary| primary.oid == index.oid);
    if !is_primary {
        let Some(rest) = work.get(index.table(), &key, true)?.map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        key = table.number.to_be_bytes().to_vec();
        key.extend(rest);
    }
    match work.get(table.table(), &key, true)? {
        Some(row) => Ok(Some((key, row::decode(&table.columns, row)?))),
        None => Ok(None),
    }
}

/// Whether a statement was cancelled.
///
/// # Errors
/// That it was.
pub(crate) fn check_cancel(cancel: &AtomicBool) -> Result<()> {
    if cancel.load(Ordering::Relaxed) {
        let message = "canceling statement due to user request";
        return Err(SqlError::new(state::QUERY_CANCELED, message));
    }
    Ok(())
}
