//! Workloads on an engine whose operations meet conflicts now and then, in the middle of
//! transactions.

use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_database::{
    Commit, Conflict, EachRow, Engine, Home, Scan, TableId, TableSpec, Transaction, TxError,
};
use tombolo_oltp::smallbank::{self, SmallBank, SmallBankOptions};
use tombolo_oltp::tpcc::conditions::{self, When};
use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc, TpccAsPublished};
use tombolo_oltp::ycsb::{self, Ycsb, YcsbOptions};
use tombolo_oltp::{
    Driver, DriverOptions, Random, Reference, ReferenceTransaction, Seat, Stats, Until, Workload,
    load,
};

/// Of how many operations one meets a conflict.
const ONE_OF: u64 = 60;

struct Flaky {
    engine: Reference,
    begun: AtomicU64,
}

impl Engine for Flaky {
    type Transaction<'a> = FlakyTransaction<'a>;

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

    fn begin(&self, worker: usize) -> FlakyTransaction<'_> {
        let random = Random::new(1, &[self.begun.fetch_add(1, Ordering::Relaxed)]);
        FlakyTransaction { inner: self.engine.begin(worker), random }
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.engine.load(table, key, row)
    }

    fn tick(&self) -> Result<(), TxError> {
        self.engine.tick()
    }

    fn durable_epoch(&self) -> u64 {
        self.engine.durable_epoch()
    }
}

struct FlakyTransaction<'a> {
    inner: ReferenceTransaction<'a>,
    random: Random,
}

impl FlakyTransaction<'_> {
    fn perhaps_fail(&mut self) -> Result<(), TxError> {
        let reasons = [Conflict::Lock, Conflict::Gap, Conflict::Validation, Conflict::Moved];
        match self.random.below(ONE_OF) {
            0 => Err((*self.random.choose(&reasons)).into()),
            _ => Ok(()),
        }
    }
}

impl Transaction for FlakyTransaction<'_> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.perhaps_fail()?;
        self.inner.get(table, key)
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.perhaps_fail()?;
        self.inner.get_for_update(table, key)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        self.perhaps_fail()?;
        self.inner.update(table, key, row)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.perhaps_fail()?;
        self.inner.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        self.perhaps_fail()?;
        self.inner.delete(table, key)
    }

    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        self.inner.scan(table, scan, each)?;
        // Rows were met before the conflict was.
        self.perhaps_fail()
    }

    fn commit(mut self) -> Result<Commit, TxError> {
        self.perhaps_fail()?;
        self.inner.commit()
    }

    fn abort(self) {
        self.inner.abort();
    }
}

/// Runs a worker for as many transactions, all of which end in spite of conflicts.
fn run<W: Workload>(workload: &W, transactions: u64) -> (Flaky, Stats) {
    let engine = Reference::new(&workload.tables(), workload.partitions());
    let engine = Flaky { engine, begun: AtomicU64::new(0) };
    load(workload, &engine, 0, 1).unwrap();
    let options = DriverOptions::new(Until::Transactions(transactions));
    let driver = Driver::new(workload, &engine, || 0, options);
    let mut worker = driver.worker(&Seat::of(&engine, 0, 1));
    let mut waits = 0;
    driver.run(&mut worker, |_| waits += 1).unwrap();
    let stats = worker.stats().clone();
    let total = stats.total();
    assert_eq!(total.commits + total.rollbacks, transactions);
    assert_eq!((total.given_up, total.durable), (0, total.commits));
    let aborts = total.aborts;
    assert!([aborts.lock, aborts.gap, aborts.validation, aborts.moved].iter().all(|n| *n > 0));
    assert_eq!((aborts.total(), aborts.other), (total.retries, 0));
    assert!(waits >= aborts.total());
    (engine, stats)
}

#[test]
fn tpcc_is_consistent_after_conflicts() {
    let workload = Tpcc::new(Scale::small(2), RemoteRates::SPECIFICATION, 11);
    let (engine, _) = run(&workload, 1000);
    assert_eq!(conditions::check(&engine.engine, workload.scale(), When::Always).unwrap(), []);
    // The check itself, too, reads again after conflicts.
    assert_eq!(conditions::check(&engine, workload.scale(), When::Always).unwrap(), []);
}

#[test]
fn tpcc_as_published_is_as_consistent_as_it_says_after_conflicts() {
    let workload = TpccAsPublished::new(Scale::small(2), 10, 15, 11);
    let (engine, _) = run(&workload, 1000);
    let found = conditions::check(&engine, workload.scale(), When::Always).unwrap();
    let broken = found.iter().find(|violation| TpccAsPublished::holds(violation.rule));
    assert_eq!(broken, None);
}

#[test]
fn ycsb_and_smallbank_are_consistent_after_conflicts() {
    let options = YcsbOptions { rows: 50, reads_percent: 50, ..YcsbOptions::new(2) };
    for workload in [Ycsb::new(options, 1), Ycsb::as_published(options, 1)] {
        let (engine, stats) = run(&workload, 500);
        assert_eq!(ycsb::check(&engine, &options, stats.effect).unwrap(), [""; 0]);
    }
    let options = SmallBankOptions { accounts: 50, hot_accounts: 5, ..SmallBankOptions::new(2) };
    let workload = SmallBank::new(options, 1);
    let (engine, stats) = run(&workload, 3000);
    assert_eq!(smallbank::check(&engine, &workload, stats.effect).unwrap(), [""; 0]);
}
