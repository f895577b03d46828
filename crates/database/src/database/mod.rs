//! The embedded database: typed tables over any engine, and closures as transactions.

mod clock;
mod metrics;
mod row;
mod table;
mod transaction;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use clock::{Clock, SystemClock};
pub use metrics::DatabaseMetrics;
use metrics::{Counters, conflict_in};
pub use row::{Decimal, Field, FieldType, Key, Row, Timestamp};
pub use table::{RowRange, Table};
pub use transaction::{ReadTx, Tx};

use crate::schema::{Catalog, SchemaError};
use crate::{Commit, Durability, Engine, TxError};

/// How a database runs transactions.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseSettings {
    /// Workers of this host: so many transactions run at once.
    pub workers: usize,
    /// How often a transaction is run again after conflicts.
    pub retries: u32,
    /// The longest wait before the first retry. It doubles with each retry, up to a hundred times
    /// this.
    pub back_off: Duration,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// How long a transaction waits for a worker, or to become durable.
    pub patience: Duration,
}

impl Default for DatabaseSettings {
    /// One worker, 1,000 retries after 0 to 100 us and more, durable epochs, waits of 10 s.
    fn default() -> Self {
        Self {
            workers: 1,
            retries: 1000,
            back_off: Duration::from_micros(100),
            durability: Durability::default(),
            patience: Duration::from_secs(10),
        }
    }
}

/// How often the wait before a retry doubles.
const DOUBLINGS: u32 = 6;

/// How long a thread sleeps before it looks again whether an epoch is durable, or a worker is free.
const NAP: Duration = Duration::from_micros(100);

/// A host's database: its engine, and the types of what is in it. Shared by the host's threads.
///
/// Another thread has to call [`Engine::tick`] every millisecond.
pub struct Database<E, C = SystemClock> {
    engine: E,
    catalog: Catalog,
    clock: C,
    settings: DatabaseSettings,
    /// Workers that run no transaction.
    idle: Mutex<Vec<usize>>,
    counters: Counters,
}

/// A worker that runs a transaction; it is idle again when this is dropped.
struct BusyWorker<'a> {
    idle: &'a Mutex<Vec<usize>>,
    number: usize,
}

impl Drop for BusyWorker<'_> {
    fn drop(&mut self) {
        lock(self.idle).push(self.number);
    }
}

fn lock(idle: &Mutex<Vec<usize>>) -> MutexGuard<'_, Vec<usize>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcome of an attempt to run a transaction.
enum Attempt<R, F> {
    Committed(R, Commit),
    Conflicted,
    Failed(F),
}

impl<E: Engine, C: Clock> Database<E, C> {
    /// A database of the tables in `catalog`, which `engine` was made for.
    ///
    /// # Errors
    /// [`SchemaError::RowType`] if the engine has other tables.
    pub fn new(
        engine: E,
        catalog: Catalog,
        clock: C,
        settings: DatabaseSettings,
    ) -> Result<Self, SchemaError> {
        if engine.tables() != catalog.specs() {
            let why = "the engine was made for other tables".to_owned();
            return Err(SchemaError::RowType { table: "*".to_owned(), why });
        }
        let idle = Mutex::new((0..settings.workers).rev().collect());
        Ok(Self { engine, catalog, clock, settings, idle, counters: Counters::default() })
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// The tables.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The counters of transactions.
    pub fn metrics(&self) -> DatabaseMetrics {
        self.counters.read()
    }

    /// The table called `name`, whose rows are of type `R`.
    ///
    /// # Errors
    /// [`SchemaError::NoTable`]; [`SchemaError::RowType`].
    pub fn table<R: Row>(&self, name: &str) -> Result<Table<R>, SchemaError> {
        let (id, schema) = self.catalog.table(name)?;
        row::check::<R>(schema)?;
        Ok(Table::new(schema.clone(), id))
    }

    /// Runs a transaction, and again after conflicts. Returns what `body` returns, when the commit
    /// is as durable as the [settings](DatabaseSettings::durability) say. An error that `body`
    /// returns aborts the transaction, and is returned as it is. Blocks.
    ///
    /// `body` may run several times, and must have no other effects that matter.
    ///
    /// # Errors
    /// The result of `body`; [`TxError::Exhausted`] after as many retries as there may be;
    /// [`TxError::NotDurable`], if it has committed, and may yet be lost; what the engine says.
    pub fn transaction<R, F: From<TxError>>(
        &self,
        body: impl FnMut(&mut Tx<E::Transaction<'_>>) -> Result<R, F>,
    ) -> Result<R, F> {
        self.transaction_with(self.settings.durability, body)
    }

    /// As [`transaction`](Self::transaction), acknowledged as `durability` says.
    ///
    /// # Errors
    /// As there.
    pub fn transaction_with<R, F: From<TxError>>(
        &self,
        durability: Durability,
        mut body: impl FnMut(&mut Tx<E::Transaction<'_>>) -> Result<R, F>,
    ) -> Result<R, F> {
        self.run(durability, |worker| {
            let mut tx = Tx::new(self.engine.begin(worker));
            let done = body(&mut tx);
            (done, tx.into_reads())
        })
    }

    /// As [`transaction`](Self::transaction), which only reads. It returns no earlier than what it
    /// has read is durable.
    ///
    /// # Errors
    /// As there.
    pub fn read<R, F: From<TxError>>(
        &self,
        mut body: impl FnMut(&mut ReadTx<E::Transaction<'_>>) -> Result<R, F>,
    ) -> Result<R, F> {
        self.run(self.settings.durability, |worker| {
            let mut tx = ReadTx::new(self.engine.begin(worker));
            let done = body(&mut tx);
            (done, tx)
        })
    }

    fn run<'a, R, F: From<TxError>>(
        &'a self,
        durability: Durability,
        mut body: impl FnMut(usize) -> (Result<R, F>, ReadTx<E::Transaction<'a>>),
    ) -> Result<R, F> {
        let worker = self.worker()?;
        for retry in 0..=self.settings.retries {
            if retry > 0 {
                self.counters.retried();
                self.back_off(retry);
            }
            match self.attempt(body(worker.number)) {
                Attempt::Conflicted if retry < self.settings.retries => {}
                Attempt::Conflicted => break,
                Attempt::Failed(error) => {
                    self.counters.failed();
                    return Err(error);
                }
                Attempt::Committed(result, commit) => {
                    self.counters.committed();
                    drop(worker);
                    self.acknowledge(commit, durability)?;
                    return Ok(result);
                }
            }
        }
        self.counters.exhausted();
        Err(TxError::Exhausted { attempts: self.settings.retries + 1 }.into())
    }

    fn attempt<R, F: From<TxError>>(
        &self,
        (done, mut tx): (Result<R, F>, ReadTx<E::Transaction<'_>>),
    ) -> Attempt<R, F> {
        if let Some(conflict) = tx.conflict() {
            self.counters.conflicted(conflict);
            tx.abort();
            return Attempt::Conflicted;
        }
        match done {
            Err(error) => match tx.validate() {
                Err(TxError::Conflict(conflict)) => {
                    self.counters.conflicted(conflict);
                    Attempt::Conflicted
                }
                _ => {
                    tx.abort();
                    Attempt::Failed(error)
                }
            },
            Ok(result) => match tx.commit() {
                Ok(commit) => Attempt::Committed(result, commit),
                Err(error) => match conflict_in(&error) {
                    Some(conflict) => {
                        self.counters.conflicted(conflict);
                        Attempt::Conflicted
                    }
                    None => Attempt::Failed(error.into()),
                },
            },
        }
    }

    fn back_off(&self, retry: u32) {
        let most = self.settings.back_off * (1 << (retry - 1).min(DOUBLINGS));
        let part = (self.clock.random() >> 32) as u32;
        self.clock.sleep(most.mul_f64(f64::from(part) / f64::from(u32::MAX)));
    }

    /// A worker that runs no transaction.
    fn worker(&self) -> Result<BusyWorker<'_>, TxError> {
        let since = self.clock.uptime();
        loop {
            if let Some(number) = lock(&self.idle).pop() {
                return Ok(BusyWorker { idle: &self.idle, number });
            }
            let waited = self.clock.uptime().saturating_sub(since);
            if waited >= self.settings.patience {
                return Err(TxError::NoWorker { waited_ms: waited.as_millis() as u64 });
            }
            self.clock.sleep(NAP);
        }
    }

    /// Waits until a commit is as durable as `durability` asks for.
    fn acknowledge(&self, commit: Commit, durability: Durability) -> Result<(), TxError> {
        match durability {
            Durability::Memory => return Ok(()),
            Durability::Epoch => {}
            Durability::Immediate => self.engine.end_epoch(commit.epoch),
        }
        let since = self.clock.uptime();
        while self.engine.durable_epoch() < commit.epoch {
            let waited = self.clock.uptime().saturating_sub(since);
            if waited >= self.settings.patience {
                let (epoch, waited_ms) = (commit.epoch, waited.as_millis() as u64);
                return Err(TxError::NotDurable { epoch, waited_ms });
            }
            self.clock.sleep(NAP);
        }
        Ok(())
    }
}
