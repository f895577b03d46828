//! An engine that is easy to believe: one lock, and an ordered map a table.
//!
//! A transaction holds the lock from its first operation to its end, and keeps an undo list. So
//! transactions run one at a time. Hosts are handles of one value.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tombolo_database::{
    Commit, Conflict, Direction, EachRow, Engine, Home, Partitioning, Scan, TableId, TableSpec,
    Transaction, TxError,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Default)]
struct State {
    tables: Vec<Rows>,
    commits: u64,
}

/// The rows, and one host's view of them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reference {
    specs: Arc<[TableSpec]>,
    state: Arc<Mutex<State>>,
    partitions: u32,
    home: Home,
    hosts: u8,
    waits: bool,
}

impl Reference {
    /// An engine of one host, with empty tables.
    pub fn new(specs: &[TableSpec], partitions: u32) -> Self {
        let tables = specs.iter().map(|_| Rows::new()).collect();
        Self {
            specs: specs.into(),
            state: Arc::new(Mutex::new(State { tables, commits: 0 })),
            partitions,
            home: Home(0),
            hosts: 1,
            waits: true,
        }
    }

    /// The same rows as seen by host `home` of `hosts`. Partitions are dealt out in turn.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn as_host(&self, home: u8, hosts: u8) -> Self {
        assert!(home < hosts, "host {home} of {hosts}");
        Self { home: Home(home), hosts, ..self.clone() }
    }

    /// The same rows for a handle whose transactions do not wait for others. Their first operation
    /// fails with [`Conflict::Lock`] while another transaction runs.
    pub fn without_waiting(&self) -> Self {
        Self { waits: false, ..self.clone() }
    }

    fn spec(&self, table: TableId) -> Result<&TableSpec, TxError> {
        self.specs.get(usize::from(table.0)).ok_or(TxError::NoTable { table })
    }

    fn check_key(&self, table: TableId, key: &[u8]) -> Result<&TableSpec, TxError> {
        let spec = self.spec(table)?;
        let most = usize::from(spec.key_bytes);
        match (1..=most).contains(&key.len()) {
            true => Ok(spec),
            false => Err(TxError::KeyLength { table, bytes: key.len(), most }),
        }
    }

    fn check_row(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<&TableSpec, TxError> {
        let spec = self.check_key(table, key)?;
        let most = spec.row_bytes as usize;
        match row.len() <= most {
            true => Ok(spec),
            false => Err(TxError::RowLength { table, bytes: row.len(), most }),
        }
    }
}

fn writable(spec: &TableSpec, table: TableId) -> Result<(), TxError> {
    match spec.partitioning {
        Partitioning::Replicated => Err(TxError::ReadOnly { table }),
        Partitioning::Leading { .. } => Ok(()),
    }
}

impl Engine for Reference {
    type Transaction<'a> = ReferenceTransaction<'a>;

    fn tables(&self) -> &[TableSpec] {
        &self.specs
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn home(&self) -> (Home, u8) {
        (self.home, self.hosts)
    }

    fn home_of(&self, partition: u32) -> Home {
        Home((partition % u32::from(self.hosts)) as u8)
    }

    fn begin(&self, _worker: usize) -> ReferenceTransaction<'_> {
        ReferenceTransaction { engine: self, state: None, undo: Vec::new(), failed: None }
    }

    /// A row of a replicated table may be loaded by each host; the first one's is kept.
    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        let spec = self.check_row(table, key, row)?;
        let rows = &mut self.state.lock().tables[usize::from(table.0)];
        let replicated = spec.partitioning == Partitioning::Replicated;
        if rows.contains_key(key) && !(replicated && self.hosts > 1) {
            return Err(TxError::Duplicate { table });
        }
        rows.entry(key.to_vec()).or_insert_with(|| row.to_vec());
        Ok(())
    }

    fn tick(&self) -> Result<(), TxError> {
        Ok(())
    }

    fn durable_epoch(&self) -> u64 {
        self.state.lock().commits
    }
}

/// A transaction of a [`Reference`].
#[derive(Debug)]
pub struct ReferenceTransaction<'a> {
    engine: &'a Reference,
    state: Option<MutexGuard<'a, State>>,
    /// The rows before each change, in the order of the changes.
    undo: Vec<(TableId, Vec<u8>, Option<Vec<u8>>)>,
    failed: Option<Conflict>,
}

impl ReferenceTransaction<'_> {
    fn state(&mut self) -> Result<&mut State, TxError> {
        if let Some(conflict) = self.failed {
            return Err(conflict.into());
        }
        if self.state.is_none() {
            self.state = match self.engine.waits {
                true => Some(self.engine.state.lock()),
                false => self.engine.state.try_lock(),
            };
        }
        let Self { state, failed, .. } = self;
        match state {
            Some(state) => Ok(state),
            None => {
                *failed = Some(Conflict::Lock);
                Err(Conflict::Lock.into())
            }
        }
    }

    fn rows(&mut self, table: TableId) -> Result<&mut Rows, TxError> {
        Ok(&mut self.state()?.tables[usize::from(table.0)])
    }

    fn set(&mut self, table: TableId, key: &[u8], row: Option<&[u8]>) -> Result<(), TxError> {
        let rows = self.rows(table)?;
        let before = match row {
            Some(row) => rows.insert(key.to_vec(), row.to_vec()),
            None => rows.remove(key),
        };
        self.undo.push((table, key.to_vec(), before));
        Ok(())
    }

    fn roll_back(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        let Some(state) = &mut self.state else { return };
        for (table, key, before) in undo.into_iter().rev() {
            let rows = &mut state.tables[usize::from(table.0)];
            match before {
                Some(row) => rows.insert(key, row),
                None => rows.remove(&key),
            };
        }
    }
}

impl Transaction for ReferenceTransaction<'_> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.engine.check_key(table, key)?;
        Ok(self.rows(table)?.get(key).map(Vec::as_slice))
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.get(table, key)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        writable(self.engine.check_row(table, key, row)?, table)?;
        let there = self.rows(table)?.contains_key(key);
        if there {
            self.set(table, key, Some(row))?;
        }
        Ok(there)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        writable(self.engine.check_row(table, key, row)?, table)?;
        match self.rows(table)?.contains_key(key) {
            true => Err(TxError::Duplicate { table }),
            false => self.set(table, key, Some(row)),
        }
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        writable(self.engine.check_key(table, key)?, table)?;
        let there = self.rows(table)?.contains_key(key);
        if there {
            self.set(table, key, None)?;
        }
        Ok(there)
    }

    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        self.engine.spec(table)?;
        let rows = self.rows(table)?;
        if !may_hold_keys(scan.range.0, scan.range.1) {
            return Ok(());
        }
        let met = rows.range::<[u8], _>(scan.range);
        let mut call = |(key, row): (&Vec<u8>, &Vec<u8>)| each(key, row);
        // That `each` broke off is no error.
        let _: ControlFlow<()> = match scan.direction {
            Direction::Forward => met.take(scan.limit).try_for_each(&mut call),
            Direction::Backward => met.rev().take(scan.limit).try_for_each(&mut call),
        };
        Ok(())
    }

    fn commit(mut self) -> Result<Commit, TxError> {
        let state = self.state()?;
        state.commits += 1;
        let epoch = state.commits;
        self.undo.clear();
        Ok(Commit { epoch })
    }

    fn abort(self) {}
}

impl Drop for ReferenceTransaction<'_> {
    fn drop(&mut self) {
        self.roll_back();
    }
}

/// Whether there can be a key between the bounds. An ordered map panics where they are crossed.
fn may_hold_keys(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(low), Bound::Included(high)) => low <= high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low < high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn it_conforms() {
        conformance::check(Reference::new);
    }

    #[test]
    fn it_conforms_from_three_hosts() {
        let all = Reference::new(&conformance::tables(), conformance::PARTITIONS);
        let hosts: Vec<Reference> = (0..3).map(|home| all.as_host(home, 3)).collect();
        conformance::check_hosts(&hosts);
    }

    #[test]
    fn without_waiting_the_second_transaction_conflicts_until_the_first_ends() {
        let waiting = Reference::new(&conformance::tables(), conformance::PARTITIONS);
        let engine = waiting.without_waiting();
        let mut first = engine.begin(0);
        first.insert(TableId(0), &[0; 4], b"row").unwrap();
        let mut second = engine.begin(1);
        let error = second.get(TableId(0), &[0; 4]).unwrap_err();
        assert!(error.is_conflict(), "{error}");
        assert!(second.commit().unwrap_err().is_conflict());
        first.abort();
        let mut third = engine.begin(1);
        assert_eq!(third.get(TableId(0), &[0; 4]).unwrap(), None);
    }
}
