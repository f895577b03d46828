//! A table of which each host has a copy, read-only after loading.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use tombolo_memory::{HostMutex, Memory};

use crate::hosts::EachVersion;
use crate::{
    Bounds, Direction, EachRow, MAX_KEY_WORDS, OrderedKey, OrderedMap, Scan, TableId, TableSpec,
    TxError, Version,
};

/// A host's copy of a table.
pub struct Replica<M: Memory> {
    width: usize,
    loading: HostMutex<M, Option<OrderedMap<Box<[u8]>>>>,
    /// The rows, as soon as the first one was read.
    loaded: OnceLock<OrderedMap<Box<[u8]>>>,
}

impl<M: Memory> Replica<M> {
    /// A table without rows, whose keys take `width` words.
    pub fn new(width: usize) -> Self {
        let loading = HostMutex::<M, _>::new(Some(OrderedMap::new(width)));
        Self { width, loading, loaded: OnceLock::new() }
    }

    fn rows(&self) -> &OrderedMap<Box<[u8]>> {
        if let Some(rows) = self.loaded.get() {
            return rows;
        }
        // Before the cell: a thread that waits within it would keep all threads of a simulated pod
        // waiting.
        let mut loading = self.loading.lock();
        self.loaded.get_or_init(|| loading.take().unwrap_or_else(|| OrderedMap::new(self.width)))
    }

    /// Loads a row of `table`, which is this one.
    ///
    /// # Errors
    /// [`TxError::Duplicate`]; [`TxError::ReadOnly`] once a row was read.
    pub fn load(&self, table: TableId, key: &OrderedKey, row: &[u8]) -> Result<(), TxError> {
        let mut loading = self.loading.lock();
        let Some(rows) = &mut *loading else { return Err(TxError::ReadOnly { table }) };
        if rows.get(key).is_some() {
            return Err(TxError::Duplicate { table });
        }
        rows.insert(key, row.into());
        Ok(())
    }

    /// Levels of nodes that a lookup goes through.
    pub fn height(&self) -> usize {
        self.rows().height()
    }

    /// The row with `key`.
    pub fn get(&self, key: &OrderedKey) -> Option<&[u8]> {
        self.rows().get(key).map(|row| &**row)
    }

    /// Calls `each` with all rows of `table`, which is this one, in order.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn each_version(
        &self,
        table: TableId,
        spec: &TableSpec,
        each: &mut EachVersion<'_>,
    ) -> Result<(), TxError> {
        let mut outcome = Ok(());
        self.scan(&Bounds::new(table, spec, &Scan::ALL)?, usize::MAX, &mut |key, row| {
            outcome = each(0, key, Version::default(), row);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        outcome
    }

    /// Calls `each` for up to `left` rows within `bounds`, until it breaks.
    pub fn scan(&self, bounds: &Bounds, mut left: usize, each: &mut EachRow<'_>) {
        let rows = self.rows();
        let mut found = match bounds.direction {
            Direction::Forward => rows.after(&bounds.lower.0, bounds.lower.1),
            Direction::Backward => rows.before(&bounds.upper.0, bounds.upper.1),
        };
        while let Some((key, row)) = found.filter(|(key, _)| left > 0 && bounds.has(key)) {
            left -= 1;
            let mut buffer = [0; 8 * MAX_KEY_WORDS];
            if each(key.bytes(self.width, &mut buffer), row).is_break() {
                break;
            }
            found = match bounds.direction {
                Direction::Forward => rows.after(&key, false),
                Direction::Backward => rows.before(&key, false),
            };
        }
    }
}
