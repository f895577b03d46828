//! The time of an operation in the published source, beyond the time of our engines.
//!
//! The paper's systems are one program: Tigon and what it is compared with share its transactions,
//! its indexes and its log. So what that program takes longer is charged to all of them alike, for
//! each row that is met and for each byte of a row that is changed.
//!
//! Both are measured on one host with one worker, of which nothing is shared: YCSB that only reads,
//! and YCSB of which half of the operations write. TPC-C, other numbers of hosts, and all that the
//! paper states are predictions.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tombolo_database::log::GroupCommit;
use tombolo_database::{
    Commit, EachRow, Engine, Home, Scan, TableId, TableSpec, Transaction, TxError,
};
use tombolo_memory::Memory;
use tombolo_pod::Layout;
use tombolo_timing::TimedMemory;

use super::subject::{Plan, Shared, Subject};

/// The times by which a program's steps take longer than ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steps {
    /// For each row that an operation meets.
    pub(super) row_ns: f64,
    /// For each byte of a row that is written.
    pub(super) byte_ns: f64,
}

impl Steps {
    /// As the engines of this project are.
    pub(super) const OURS: Self = Self { row_ns: 0.0, byte_ns: 0.0 };

    /// As the published source is. On two virtual processors, one host and one worker of it ran
    /// 108,000 transactions of ten reads a second, and 26,000 of five reads and five changes of
    /// 1,000 bytes: 9.3 us and 38.5 us each. Half of the transactions of our engine take less than
    /// 7.2 us and 15.2 us in virtual time.
    pub(super) const PUBLISHED: Self = Self { row_ns: 206.0, byte_ns: 4.25 };
}

/// An engine that takes longer.
pub(super) struct Charged<S> {
    engine: S,
    memory: TimedMemory,
    steps: Steps,
}

impl<S: Subject> Subject for Charged<S> {
    fn layout(plan: &Plan) -> Result<Layout> {
        S::layout(plan)
    }

    fn join(memory: TimedMemory, plan: &Plan) -> Result<Self> {
        Ok(Self { engine: S::join(memory.clone(), plan)?, memory, steps: plan.steps })
    }

    fn group(&self) -> &Arc<GroupCommit<TimedMemory>> {
        self.engine.group()
    }

    fn share(&self, table: TableId) -> Result<(), TxError> {
        self.engine.share(table)
    }

    fn shared(&self) -> Shared {
        self.engine.shared()
    }
}

impl<S: Subject> Engine for Charged<S> {
    type Transaction<'a> = ChargedTx<'a, S::Transaction<'a>>;

    fn tables(&self) -> &[TableSpec] {
        self.engine.tables()
    }

    fn partitions(&self) -> u32 {
        self.engine.partitions()
    }

    fn home(&self) -> (Home, u8) {
        self.engine.home()
    }

    fn home_of(&self, partition: u32) -> Home {
        self.engine.home_of(partition)
    }

    fn begin(&self, worker: usize) -> Self::Transaction<'_> {
        ChargedTx { tx: self.engine.begin(worker), memory: &self.memory, steps: self.steps }
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.engine.load(table, key, row)
    }

    fn tick(&self) -> Result<(), TxError> {
        self.engine.tick()
    }

    fn end_epoch(&self, epoch: u64) {
        self.engine.end_epoch(epoch);
    }

    fn durable_epoch(&self) -> u64 {
        self.engine.durable_epoch()
    }
}

/// A transaction that takes longer.
pub(super) struct ChargedTx<'a, T> {
    tx: T,
    memory: &'a TimedMemory,
    steps: Steps,
}

impl<T> ChargedTx<'_, T> {
    fn charge(&self, rows: u32, bytes: usize) {
        let ns = f64::from(rows) * self.steps.row_ns + bytes as f64 * self.steps.byte_ns;
        if ns > 0.0 {
            self.memory.sleep(Duration::from_secs_f64(ns / 1e9));
        }
    }
}

impl<T: Transaction> Transaction for ChargedTx<'_, T> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.charge(1, 0);
        self.tx.get(table, key)
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.charge(1, 0);
        self.tx.get_for_update(table, key)
    }

    /// Rows that are changed were read before.
    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        self.charge(0, row.len());
        self.tx.update(table, key, row)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.charge(1, row.len());
        self.tx.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        self.charge(1, 0);
        self.tx.delete(table, key)
    }

    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        let rows = Cell::new(1);
        let outcome = self.tx.scan(table, scan, &mut |key, row| {
            rows.set(rows.get() + 1);
            each(key, row)
        });
        self.charge(rows.get(), 0);
        outcome
    }

    fn validate(&mut self) -> Result<(), TxError> {
        self.tx.validate()
    }

    fn commit(self) -> Result<Commit, TxError> {
        self.tx.commit()
    }

    fn abort(self) {
        self.tx.abort();
    }
}
