//! The bank finds an engine whose transactions see each other's halves.

use std::ops::{Bound, ControlFlow};

use tombolo_database::{
    Commit, Direction, EachRow, Engine, Home, Scan, TableId, TableSpec, Transaction, TxError,
};
use tombolo_oltp::bank::{self, Bank, BankOptions};
use tombolo_oltp::{Driver, DriverOptions, Reference, Seat, Until, Workload, load};

/// Runs of the workload before an engine passes for sound.
const MOST_RUNS: u32 = 200;

/// An engine each of whose operations is a transaction. A scan is one for each row.
struct Halves(Reference);

struct HalvesTransaction<'a> {
    engine: &'a Reference,
    row: Vec<u8>,
}

impl Engine for Halves {
    type Transaction<'a> = HalvesTransaction<'a>;

    fn tables(&self) -> &[TableSpec] {
        self.0.tables()
    }

    fn partitions(&self) -> u32 {
        self.0.partitions()
    }

    fn home(&self) -> (Home, u8) {
        self.0.home()
    }

    fn home_of(&self, partition: u32) -> Home {
        self.0.home_of(partition)
    }

    fn begin(&self, _: usize) -> HalvesTransaction<'_> {
        HalvesTransaction { engine: &self.0, row: Vec::new() }
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.0.load(table, key, row)
    }

    fn tick(&self) -> Result<(), TxError> {
        self.0.tick()
    }

    fn durable_epoch(&self) -> u64 {
        self.0.durable_epoch()
    }
}

impl HalvesTransaction<'_> {
    /// Does one operation, and lets others come between.
    fn alone<R>(
        &self,
        operation: impl FnOnce(&mut <Reference as Engine>::Transaction<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        let mut transaction = self.engine.begin(0);
        let result = operation(&mut transaction)?;
        transaction.commit()?;
        std::thread::yield_now();
        Ok(result)
    }
}

impl Transaction for HalvesTransaction<'_> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        let row = self.alone(|inner| Ok(inner.get(table, key)?.map(<[u8]>::to_vec)))?;
        let there = row.is_some();
        self.row = row.unwrap_or_default();
        Ok(there.then_some(&self.row))
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.get(table, key)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        self.alone(|inner| inner.update(table, key, row))
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.alone(|inner| inner.insert(table, key, row))
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        self.alone(|inner| inner.delete(table, key))
    }

    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..scan.limit {
            let behind = last.as_ref().map(|key| Bound::Excluded(&key[..]));
            let range = match scan.direction {
                Direction::Forward => (behind.unwrap_or(scan.range.0), scan.range.1),
                Direction::Backward => (scan.range.0, behind.unwrap_or(scan.range.1)),
            };
            let mut met = None;
            self.alone(|inner| {
                inner.scan(table, Scan { range, limit: 1, ..scan }, &mut |key, row| {
                    met = Some((key.to_vec(), row.to_vec()));
                    ControlFlow::Break(())
                })
            })?;
            let Some((key, row)) = met else { break };
            if each(&key, &row).is_break() {
                break;
            }
            last = Some(key);
        }
        Ok(())
    }

    fn commit(self) -> Result<Commit, TxError> {
        Ok(Commit { epoch: 0 })
    }

    fn abort(self) {}
}

/// The anomalies after runs of two threads.
fn found<E: Engine + Sync>(make: impl Fn(Reference) -> E, runs: u32) -> Vec<String> {
    let options = BankOptions { partitions: 2, slots: 8, audits_percent: 50 };
    for seed in 0..runs {
        let workload = Bank::new(options, seed.into());
        let engine = make(Reference::new(&workload.tables(), workload.partitions()));
        load(&workload, &engine, 0, 1).unwrap();
        let options = DriverOptions::new(Until::Transactions(100));
        let driver = &Driver::new(&workload, &engine, || 0, options);
        let effect = std::thread::scope(|scope| {
            let threads = [0, 1].map(|number| {
                let seat = Seat::of(&engine, number, 2);
                scope.spawn(move || {
                    let mut worker = driver.worker(&seat);
                    driver.run(&mut worker, |_| {}).unwrap();
                    worker.stats().effect
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let found = bank::check(&engine, &workload, effect).unwrap();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

#[test]
fn halves_of_transactions_are_seen() {
    let found = found(Halves, MOST_RUNS);
    assert!(!found.is_empty(), "a bank without transactions loses no money");
}

#[test]
fn whole_transactions_pass() {
    assert_eq!(found(|engine| engine, 20), [""; 0]);
}
