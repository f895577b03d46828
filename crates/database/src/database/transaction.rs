//! A transaction as a closure sees it.

use std::ops::{Deref, DerefMut};

use super::metrics::conflict_in;
use crate::{Commit, Conflict, EachRow, Scan, TableId, Transaction, TxError};

/// Reads, all of one serializable state.
///
/// The rows that a closure has read are of one state for certain only once its transaction has
/// committed.
/// After a conflict all reads fail, and the closure is run again.
pub struct ReadTx<T> {
    inner: T,
    /// The conflict that has ended it.
    conflict: Option<Conflict>,
}

/// Reads and changes, all of one serializable state.
pub struct Tx<T>(ReadTx<T>);

impl<T: Transaction> ReadTx<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, conflict: None }
    }

    pub(super) fn conflict(&self) -> Option<Conflict> {
        self.conflict
    }

    pub(super) fn commit(self) -> Result<Commit, TxError> {
        match self.conflict {
            Some(conflict) => Err(conflict.into()),
            None => self.inner.commit(),
        }
    }

    pub(super) fn validate(&mut self) -> Result<(), TxError> {
        self.inner.validate()
    }

    pub(super) fn abort(self) {
        self.inner.abort();
    }

    /// Does something, unless a conflict has ended the transaction, and notes if one does.
    fn attempt<'a, R: 'a>(
        &'a mut self,
        action: impl FnOnce(&'a mut T) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        if let Some(conflict) = self.conflict {
            return Err(conflict.into());
        }
        let done = action(&mut self.inner);
        if let Err(error) = &done {
            self.conflict = conflict_in(error);
        }
        done
    }

    /// The row of bytes with `key`.
    ///
    /// # Errors
    /// As of [`Transaction::get`].
    pub fn get_bytes(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TxError> {
        self.attempt(|inner| Ok(inner.get(table, key)?.map(<[u8]>::to_vec)))
    }

    /// Calls `each` with keys and rows of bytes.
    ///
    /// # Errors
    /// As of [`Transaction::scan`].
    pub fn scan_bytes(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        self.attempt(|inner| inner.scan(table, scan, each))
    }
}

impl<T: Transaction> Tx<T> {
    pub(super) fn new(inner: T) -> Self {
        Self(ReadTx::new(inner))
    }

    pub(super) fn into_reads(self) -> ReadTx<T> {
        self.0
    }

    /// The row of bytes with `key`, which is going to be changed.
    ///
    /// # Errors
    /// As of [`Transaction::get_for_update`].
    pub fn get_bytes_for_update(
        &mut self,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, TxError> {
        self.attempt(|inner| Ok(inner.get_for_update(table, key)?.map(<[u8]>::to_vec)))
    }

    /// Replaces a row of bytes; whether there was one.
    ///
    /// # Errors
    /// As of [`Transaction::update`].
    pub fn update_bytes(
        &mut self,
        table: TableId,
        key: &[u8],
        row: &[u8],
    ) -> Result<bool, TxError> {
        self.attempt(|inner| inner.update(table, key, row))
    }

    /// Adds a row of bytes.
    ///
    /// # Errors
    /// As of [`Transaction::insert`].
    pub fn insert_bytes(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.attempt(|inner| inner.insert(table, key, row))
    }

    /// Deletes a row of bytes; whether there was one.
    ///
    /// # Errors
    /// As of [`Transaction::delete`].
    pub fn delete_bytes(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        self.attempt(|inner| inner.delete(table, key))
    }
}

impl<T> Deref for Tx<T> {
    type Target = ReadTx<T>;

    fn deref(&self) -> &ReadTx<T> {
        &self.0
    }
}

impl<T> DerefMut for Tx<T> {
    fn deref_mut(&mut self) -> &mut ReadTx<T> {
        &mut self.0
    }
}
