//! Tables of typed rows, with their indexes.
//!
//! An index is a table of the engine. Its entries change in the transaction that changes the row.

use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::row::{Key, Row};
use super::transaction::{ReadTx, Tx};
use crate::schema::{SchemaError, Table as Schema, Value};
use crate::{Direction, Scan, TableId, Transaction, TxError};

/// A table of rows of type `R`.
pub struct Table<R> {
    schema: Arc<Schema>,
    id: TableId,
    rows: PhantomData<fn() -> R>,
}

impl<R> Clone for Table<R> {
    fn clone(&self) -> Self {
        Self { schema: Arc::clone(&self.schema), id: self.id, rows: PhantomData }
    }
}

/// Keys and rows as the engine has them.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A row as the engine has it, and its entries in indexes.
struct Encoded {
    key: Vec<u8>,
    row: Vec<u8>,
    /// The key of its entry in each index, and whether no other row may have it.
    entries: Vec<(Vec<u8>, bool)>,
}

impl<R: Row> Table<R> {
    pub(super) fn new(schema: Schema, id: TableId) -> Self {
        Self { schema: Arc::new(schema), id, rows: PhantomData }
    }

    /// Its number in the engine.
    pub fn id(&self) -> TableId {
        self.id
    }

    fn index_id(&self, index: usize) -> TableId {
        TableId(self.id.0 + 1 + index as u16)
    }

    fn encode(&self, row: &R) -> Result<Encoded, TxError> {
        self.encode_values(&row.to_values())
    }

    fn encode_values(&self, values: &[Value]) -> Result<Encoded, TxError> {
        let (key, row) = self.schema.encode(values)?;
        let indexes = 0..self.schema.indexes.len();
        let entries = indexes.map(|index| self.schema.index_key(index, values, &key)).collect();
        Ok(Encoded { key, row, entries })
    }

    /// The key of the row whose primary key has these values.
    fn key(&self, key: &(impl Key + ?Sized)) -> Result<Vec<u8>, TxError> {
        let values = key.values();
        let (found, expected) = (values.len(), self.schema.primary_key.len());
        if found != expected {
            let table = self.schema.name.clone();
            return Err(SchemaError::Count { table, found, expected }.into());
        }
        Ok(self.schema.key_prefix(None, &values)?)
    }

    fn decode(&self, key: &[u8], row: &[u8]) -> Result<R, TxError> {
        let values = self.schema.decode(key, row)?;
        Ok(R::from_values(values).ok_or(SchemaError::Damaged)?)
    }

    /// The row whose primary key has these values.
    ///
    /// # Errors
    /// A conflict; that the values are no key.
    pub fn get<T: Transaction>(
        &self,
        tx: &mut ReadTx<T>,
        key: &(impl Key + ?Sized),
    ) -> Result<Option<R>, TxError> {
        let key = self.key(key)?;
        let row = tx.get_bytes(self.id, &key)?;
        row.map(|row| self.decode(&key, &row)).transpose()
    }

    /// As [`get`](Self::get), of a row that this transaction will change.
    ///
    /// # Errors
    /// As of `get`.
    pub fn get_for_update<T: Transaction>(
        &self,
        tx: &mut Tx<T>,
        key: &(impl Key + ?Sized),
    ) -> Result<Option<R>, TxError> {
        let key = self.key(key)?;
        let row = tx.get_bytes_for_update(self.id, &key)?;
        row.map(|row| self.decode(&key, &row)).transpose()
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`TxError::Duplicate`] if its primary key is taken, or what it has in a unique index, with
    /// the number of that table or index: nothing has changed then. A conflict; that a value does
    /// not fit.
    pub fn insert<T: Transaction>(&self, tx: &mut Tx<T>, row: &R) -> Result<(), TxError> {
        let encoded = self.encode(row)?;
        self.check_unique(tx, &encoded, None)?;
        tx.insert_bytes(self.id, &encoded.key, &encoded.row)?;
        for (index, (entry, _)) in encoded.entries.iter().enumerate() {
            tx.insert_bytes(self.index_id(index), entry, &encoded.key)?;
        }
        Ok(())
    }

    /// Whether unique indexes have room for a row, in the place of `before`. Nothing can take it
    /// before this transaction ends.
    fn check_unique<T: Transaction>(
        &self,
        tx: &mut Tx<T>,
        row: &Encoded,
        before: Option<&Encoded>,
    ) -> Result<(), TxError> {
        for (index, (entry, unique)) in row.entries.iter().enumerate() {
            let same = before.is_some_and(|before| before.entries[index].0 == *entry);
            let table = self.index_id(index);
            if *unique && !same && tx.get_bytes(table, entry)?.is_some() {
                return Err(TxError::Duplicate { table });
            }
        }
        Ok(())
    }

    /// Replaces the row with the same primary key; whether there was one.
    ///
    /// # Errors
    /// As of [`insert`](Self::insert).
    pub fn update<T: Transaction>(&self, tx: &mut Tx<T>, row: &R) -> Result<bool, TxError> {
        let after = self.encode(row)?;
        if after.entries.is_empty() {
            return tx.update_bytes(self.id, &after.key, &after.row);
        }
        let Some(before) = self.before(tx, &after.key)? else { return Ok(false) };
        self.check_unique(tx, &after, Some(&before))?;
        tx.update_bytes(self.id, &after.key, &after.row)?;
        let entries = before.entries.iter().zip(&after.entries).enumerate();
        for (index, ((old, _), (new, _))) in entries.filter(|(_, (old, new))| old.0 != new.0) {
            tx.delete_bytes(self.index_id(index), old)?;
            tx.insert_bytes(self.index_id(index), new, &after.key)?;
        }
        Ok(true)
    }

    /// The row with `key` as it is, which is going to be changed.
    fn before<T: Transaction>(
        &self,
        tx: &mut Tx<T>,
        key: &[u8],
    ) -> Result<Option<Encoded>, TxError> {
        let Some(row) = tx.get_bytes_for_update(self.id, key)? else { return Ok(None) };
        self.encode_values(&self.schema.decode(key, &row)?).map(Some)
    }

    /// Adds a row, or replaces the one with the same primary key.
    ///
    /// # Errors
    /// As of [`insert`](Self::insert).
    pub fn put<T: Transaction>(&self, tx: &mut Tx<T>, row: &R) -> Result<(), TxError> {
        if self.update(tx, row)? { Ok(()) } else { self.insert(tx, row) }
    }

    /// Deletes the row whose primary key has these values; whether there was one.
    ///
    /// # Errors
    /// As of [`get`](Self::get).
    pub fn delete<T: Transaction>(
        &self,
        tx: &mut Tx<T>,
        key: &(impl Key + ?Sized),
    ) -> Result<bool, TxError> {
        let key = self.key(key)?;
        if self.schema.indexes.is_empty() {
            return tx.delete_bytes(self.id, &key);
        }
        let Some(before) = self.before(tx, &key)? else { return Ok(false) };
        for (index, (entry, _)) in before.entries.iter().enumerate() {
            tx.delete_bytes(self.index_id(index), entry)?;
        }
        tx.delete_bytes(self.id, &key)
    }

    /// All rows, in the order of the primary key: to be narrowed down.
    pub fn range(&self) -> RowRange<'_, R> {
        RowRange::new(self, None)
    }

    /// All rows, in the order of an index: to be narrowed down.
    ///
    /// # Errors
    /// [`SchemaError::NoIndex`].
    pub fn by(&self, index: &str) -> Result<RowRange<'_, R>, TxError> {
        Ok(RowRange::new(self, Some(self.schema.index(index)?)))
    }
}

/// Rows to be read, in the order of the primary key or of an index.
#[must_use]
pub struct RowRange<'a, R> {
    table: &'a Table<R>,
    index: Option<usize>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    direction: Direction,
    limit: usize,
}

/// The least bytes that are greater than all that begin with `prefix`.
fn after_all(prefix: &[u8]) -> Bound<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX);
    last.map_or(Bound::Unbounded, |last| {
        let mut bytes = prefix[..=last].to_vec();
        bytes[last] += 1;
        Bound::Excluded(bytes)
    })
}

impl<'a, R: Row> RowRange<'a, R> {
    fn new(table: &'a Table<R>, index: Option<usize>) -> Self {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        Self { table, index, low, high, direction: Direction::Forward, limit: usize::MAX }
    }

    fn bytes(&self, values: &(impl Key + ?Sized)) -> Result<Vec<u8>, TxError> {
        Ok(self.table.schema.key_prefix(self.index, &values.values())?)
    }

    /// Only rows whose first key columns have these values. Takes the place of earlier bounds.
    ///
    /// # Errors
    /// That they are not values of those columns.
    pub fn prefix(self, values: &(impl Key + ?Sized)) -> Result<Self, TxError> {
        let bytes = self.bytes(values)?;
        Ok(Self { high: after_all(&bytes), low: Bound::Included(bytes), ..self })
    }

    /// Only rows whose first key columns have these values, and whose next one is text that begins
    /// with `text`. Takes the place of earlier bounds.
    ///
    /// # Errors
    /// That they are not values of those columns, or the next one is not text.
    pub fn text_prefix(self, values: &(impl Key + ?Sized), text: &str) -> Result<Self, TxError> {
        let bytes = self.table.schema.text_prefix(self.index, &values.values(), text)?;
        Ok(Self { high: after_all(&bytes), low: Bound::Included(bytes), ..self })
    }

    /// Only rows from the first on whose first key columns have these values, or that would stand
    /// there.
    ///
    /// # Errors
    /// That they are not values of those columns.
    pub fn from(self, values: &(impl Key + ?Sized)) -> Result<Self, TxError> {
        Ok(Self { low: Bound::Included(self.bytes(values)?), ..self })
    }

    /// Only rows behind those whose first key columns have these values.
    ///
    /// # Errors
    /// As of [`from`](Self::from).
    pub fn after(self, values: &(impl Key + ?Sized)) -> Result<Self, TxError> {
        let low = match after_all(&self.bytes(values)?) {
            Bound::Excluded(bytes) => Bound::Included(bytes),
            // No key is so great.
            other => return Ok(Self { limit: 0, low: other, ..self }),
        };
        Ok(Self { low, ..self })
    }

    /// Only rows up to the last whose first key columns have these values, or that would stand
    /// there.
    ///
    /// # Errors
    /// As of [`from`](Self::from).
    pub fn to(self, values: &(impl Key + ?Sized)) -> Result<Self, TxError> {
        Ok(Self { high: after_all(&self.bytes(values)?), ..self })
    }

    /// Only rows before those whose first key columns have these values.
    ///
    /// # Errors
    /// As of [`from`](Self::from).
    pub fn before(self, values: &(impl Key + ?Sized)) -> Result<Self, TxError> {
        Ok(Self { high: Bound::Excluded(self.bytes(values)?), ..self })
    }

    /// From the last row to the first.
    pub fn reversed(self) -> Self {
        Self { direction: Direction::Backward, ..self }
    }

    /// So many rows at most.
    pub fn limit(self, rows: usize) -> Self {
        Self { limit: self.limit.min(rows), ..self }
    }

    /// The rows.
    ///
    /// # Errors
    /// A conflict.
    pub fn rows<T: Transaction>(self, tx: &mut ReadTx<T>) -> Result<Vec<R>, TxError> {
        let found = self.scan(tx, false)?;
        let Some(_) = self.index else {
            return found.iter().map(|(key, row)| self.table.decode(key, row)).collect();
        };
        let mut rows = Vec::with_capacity(found.len());
        for (_, key) in found {
            // An entry and its row change together.
            let row = tx.get_bytes(self.table.id, &key)?.ok_or(SchemaError::Damaged)?;
            rows.push(self.table.decode(&key, &row)?);
        }
        Ok(rows)
    }

    /// The rows, which this transaction will change.
    ///
    /// # Errors
    /// A conflict.
    pub fn rows_for_update<T: Transaction>(self, tx: &mut Tx<T>) -> Result<Vec<R>, TxError> {
        let Some(_) = self.index else {
            let found = self.scan(tx, true)?;
            return found.iter().map(|(key, row)| self.table.decode(key, row)).collect();
        };
        let mut rows = Vec::new();
        for (_, key) in self.scan(tx, false)? {
            let row = tx.get_bytes_for_update(self.table.id, &key)?;
            rows.push(self.table.decode(&key, &row.ok_or(SchemaError::Damaged)?)?);
        }
        Ok(rows)
    }

    /// The first row.
    ///
    /// # Errors
    /// A conflict.
    pub fn first<T: Transaction>(self, tx: &mut ReadTx<T>) -> Result<Option<R>, TxError> {
        Ok(self.limit(1).rows(tx)?.pop())
    }

    /// Keys and rows of the engine's table.
    fn scan<T: Transaction>(&self, tx: &mut ReadTx<T>, for_update: bool) -> Result<Pairs, TxError> {
        let mut found = Pairs::new();
        if self.limit == 0 || self.is_empty() {
            return Ok(found);
        }
        let table = self.index.map_or(self.table.id, |index| self.table.index_id(index));
        let scan = Scan {
            range: (as_slice(&self.low), as_slice(&self.high)),
            direction: self.direction,
            limit: self.limit,
            for_update,
        };
        tx.scan_bytes(table, scan, &mut |key, row| {
            found.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Whether bounds contradict each other.
    fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Excluded(high)) => low >= high,
            _ => false,
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
