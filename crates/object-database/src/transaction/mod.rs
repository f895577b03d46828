//! Transactions: optimistic, over rows and leaves that are objects.
//!
//! A row is read once, and read rows are noted with the versions of their objects. Changes are kept
//! here until the commit.

mod commit;
mod scan;

use std::collections::BTreeMap;

use tombolo_database::{
    Bounds, Commit, Conflict, EachRow, OrderedKey, Scan, TableId, TableSpec, Transaction, TxError,
    Version, key_width, log,
};
use tombolo_memory::lock_api::MutexGuard;
use tombolo_memory::{Memory, Work};
use tombolo_sharing::Version as ObjectVersion;

use crate::database::{ObjectDatabase, Table};
use crate::index::Leaves;
use crate::rows::ReadRow;

/// A transaction of an [`ObjectDatabase`].
pub struct Tx<'a, M: Memory> {
    db: &'a ObjectDatabase<M>,
    worker: MutexGuard<'a, M::RawMutex, log::Worker<M>>,
    rows: BTreeMap<(TableId, OrderedKey), Access>,
    leaves: Leaves<'a, M>,
    /// Why it can only be aborted.
    failed: Option<Conflict>,
}

/// A row that the transaction has read, or found to be absent.
struct Access {
    /// The version of its object.
    object: Option<ObjectVersion>,
    /// The row's version; if there is none, the least that a new one can have.
    version: Version,
    /// The row that was read.
    seen: Option<Vec<u8>>,
    change: Change,
}

/// The change that the commit makes to a row.
enum Change {
    None,
    Put(Vec<u8>),
    Delete,
}

impl Access {
    fn new(found: Option<ReadRow>) -> Self {
        let (object, version, seen) = match found {
            Some(ReadRow { object, version, row }) => (Some(object), version, Some(row)),
            None => (None, Version::default(), None),
        };
        Self { object, version, seen, change: Change::None }
    }

    /// The row, with the transaction's changes.
    fn current(&self) -> Option<&[u8]> {
        match &self.change {
            Change::None => self.seen.as_deref(),
            Change::Put(row) => Some(row),
            Change::Delete => None,
        }
    }

    fn has_changed(&self) -> bool {
        match self.change {
            Change::None => false,
            Change::Put(_) => true,
            // A row that came and went within the transaction.
            Change::Delete => self.seen.is_some(),
        }
    }
}

impl<'a, M: Memory> Tx<'a, M> {
    pub(crate) fn new(db: &'a ObjectDatabase<M>, worker: usize) -> Self {
        db.memory().works(Work::Transaction);
        let (rows, leaves) = (BTreeMap::new(), Leaves::new(db));
        Self { db, worker: db.workers[worker].lock(), rows, leaves, failed: None }
    }

    /// A conflict, unless nothing goes on any more.
    fn conflict(&mut self, conflict: Conflict) -> TxError {
        self.failed = Some(conflict);
        self.db.homes.check().err().unwrap_or_else(|| conflict.into())
    }

    /// Notes that an error leaves nothing but to abort.
    fn noted<T>(&mut self, outcome: Result<T, TxError>) -> Result<T, TxError> {
        match outcome {
            Err(TxError::Conflict(conflict)) => Err(self.conflict(conflict)),
            outcome => outcome,
        }
    }

    fn check_going(&self) -> Result<(), TxError> {
        self.failed.map_or(Ok(()), |conflict| Err(conflict.into()))
    }

    /// A table, and its spec, if the key fits.
    fn table(&self, table: TableId, key: &[u8]) -> Result<(&'a Table<M>, &'a TableSpec), TxError> {
        self.check_going()?;
        let (what, spec) = self.db.table(table)?;
        spec.check_key(table, key)?;
        Ok((what, spec))
    }

    /// A key of a table whose rows can be changed.
    fn key_to_change(&self, table: TableId, key: &[u8]) -> Result<OrderedKey, TxError> {
        match self.table(table, key)? {
            (Table::Replicated(..), _) => Err(TxError::ReadOnly { table }),
            (Table::Shared(shared), _) => Ok(OrderedKey::new(key, shared.width)),
        }
    }

    /// The access of a row, which is read unless it was.
    fn reach(
        &mut self,
        table: TableId,
        key: &OrderedKey,
        bytes: &[u8],
    ) -> Result<&mut Access, TxError> {
        if !self.rows.contains_key(&(table, *key)) {
            let found = self.db.read_row(table, bytes);
            let found = self.noted(found)?;
            self.rows.insert((table, *key), Access::new(found));
        }
        Ok(self.rows.get_mut(&(table, *key)).expect("it was read"))
    }

    /// Changes a row that is there, or that is not, as `is_there` says; whether that was so.
    fn change(
        &mut self,
        (table, key): (TableId, &[u8]),
        is_there: bool,
        change: impl FnOnce() -> Change,
    ) -> Result<bool, TxError> {
        let ordered = self.key_to_change(table, key)?;
        let access = self.reach(table, &ordered, key)?;
        let fits = access.current().is_some() == is_there;
        if fits {
            access.change = change();
        }
        Ok(fits)
    }

    fn check_row(&self, table: TableId, row: &[u8]) -> Result<(), TxError> {
        self.db.table(table)?.1.check_row(table, row)
    }
}

impl<M: Memory> Transaction for Tx<'_, M> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        let (what, spec) = self.table(table, key)?;
        let ordered = OrderedKey::new(key, key_width(spec.key_bytes));
        match what {
            Table::Replicated(replica, _) => Ok(replica.get(&ordered)),
            Table::Shared(_) => Ok(self.reach(table, &ordered, key)?.current()),
        }
    }

    /// The row is read as by `get`: another transaction that changes it is found at the commit.
    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.get(table, key)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        self.check_row(table, row)?;
        self.change((table, key), true, || Change::Put(row.to_vec()))
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.check_row(table, row)?;
        match self.change((table, key), false, || Change::Put(row.to_vec()))? {
            true => Ok(()),
            false => Err(TxError::Duplicate { table }),
        }
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        self.change((table, key), true, || Change::Delete)
    }

    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        self.check_going()?;
        let (what, spec) = self.db.table(table)?;
        let bounds = Bounds::new(table, spec, &scan)?;
        if bounds.is_empty() || scan.limit == 0 {
            return Ok(());
        }
        match what {
            Table::Replicated(replica, _) => replica.scan(&bounds, scan.limit, each),
            Table::Shared(_) => {
                let scanned = self.scan_leaves(table, &bounds, scan.limit, each);
                self.noted(scanned)?;
            }
        }
        Ok(())
    }

    fn validate(&mut self) -> Result<(), TxError> {
        self.check_going()?;
        let validated = self.validate_reads();
        self.noted(validated)
    }

    fn commit(mut self) -> Result<Commit, TxError> {
        self.check_going()?;
        let committed = self.commit_all();
        self.noted(committed).map(|epoch| Commit { epoch })
    }

    fn abort(self) {}
}

impl<M: Memory> Drop for Tx<'_, M> {
    fn drop(&mut self) {
        if !self.db.memory().is_gone() {
            self.worker.finish();
        }
    }
}
