//! A host's database, as its sessions share it.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tombolo_database::{Commit, Durability, Engine, TxError};

use crate::catalog::Catalog;
use crate::error::Result;
use crate::schema::{self, Places};
use crate::store::{BoxedTransaction, HiddenKeys, Work};

/// How statements run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Workers of the engine: so many transactions run at once on this host.
    pub workers: usize,
    /// How often a statement outside of a transaction is run again after conflicts.
    pub retries: u32,
    /// The longest wait before the first retry; it doubles with each of the first ones.
    pub back_off: Duration,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// How long a transaction waits for a worker, or to become durable.
    pub patience: Duration,
}

impl Default for Settings {
    /// One worker, 1,000 retries after up to 200 us and more, durable epochs, waits of 10 s.
    fn default() -> Self {
        Self {
            workers: 1,
            retries: 1000,
            back_off: Duration::from_micros(200),
            durability: Durability::default(),
            patience: Duration::from_secs(10),
        }
    }
}

/// How often the wait before a retry doubles.
const DOUBLINGS: u32 = 6;

/// How long a thread sleeps before it looks again for a worker, or whether an epoch is durable.
const NAP: Duration = Duration::from_micros(100);

/// A host's database for SQL. Its engine has the tables of [`tables`](crate::tables), and another
/// thread ticks it.
pub struct SqlDatabase<E> {
    engine: E,
    settings: Settings,
    idle: Mutex<Vec<usize>>,
    /// The catalog as some transaction has last seen it.
    catalog: Mutex<Arc<Catalog>>,
    pub(crate) places: Places,
    pub(crate) hidden: HiddenKeys,
    processes: AtomicI32,
}

/// A worker that runs a transaction; it is idle again when this is dropped.
pub(crate) struct BusyWorker<'d> {
    idle: &'d Mutex<Vec<usize>>,
    number: usize,
}

impl Drop for BusyWorker<'_> {
    fn drop(&mut self) {
        lock(self.idle).push(self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Engine> SqlDatabase<E> {
    /// The database of an engine.
    pub fn new(engine: E, settings: Settings) -> Self {
        let (places, home) = (Places::of(&engine), engine.home().0);
        Self {
            engine,
            settings,
            idle: Mutex::new((0..settings.workers).rev().collect()),
            catalog: Mutex::default(),
            places,
            hidden: HiddenKeys::new(home.0),
            processes: AtomicI32::new(1),
        }
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// How statements run.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A number for a new connection, which no other one of this host has.
    pub fn next_process(&self) -> i32 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    /// A worker that runs no transaction. Blocks for as long as the settings say.
    pub(crate) fn worker(&self) -> Result<BusyWorker<'_>> {
        let since = Instant::now();
        loop {
            if let Some(number) = lock(&self.idle).pop() {
                return Ok(BusyWorker { idle: &self.idle, number });
            }
            let waited = since.elapsed();
            if waited >= self.settings.patience {
                return Err(TxError::NoWorker { waited_ms: waited.as_millis() as u64 }.into());
            }
            thread::sleep(NAP);
        }
    }

    pub(crate) fn begin(&self, worker: &BusyWorker<'_>) -> Work<'_> {
        Work::new(Box::new(self.engine.begin(worker.number)) as Box<dyn BoxedTransaction + '_>)
    }

    /// The catalog as a transaction sees it.
    pub(crate) fn catalog(&self, work: &mut Work<'_>) -> Result<Arc<Catalog>> {
        let known = Arc::clone(&lock(&self.catalog));
        let found = schema::read(work, self.places, &known)?;
        if found.version > known.version {
            let mut newest = lock(&self.catalog);
            if newest.version < found.version {
                *newest = Arc::clone(&found);
            }
        }
        Ok(found)
    }

    pub(crate) fn back_off(&self, retry: u32, random: f64) {
        let most = self.settings.back_off * (1 << (retry - 1).min(DOUBLINGS));
        thread::sleep(most.mul_f64(random));
    }

    /// Waits until a commit is as durable as the settings ask for. Blocks.
    pub(crate) fn acknowledge(&self, commit: Commit) -> Result<()> {
        match self.settings.durability {
            Durability::Memory => return Ok(()),
            Durability::Epoch => {}
            Durability::Immediate => self.engine.end_epoch(commit.epoch),
        }
        let since = Instant::now();
        while self.engine.durable_epoch() < commit.epoch {
            let waited = since.elapsed();
            if waited >= self.settings.patience {
                let waited_ms = waited.as_millis() as u64;
                return Err(TxError::NotDurable { epoch: commit.epoch, waited_ms }.into());
            }
            thread::sleep(NAP);
        }
        Ok(())
    }

    /// Deletes some rows of tables that were dropped or truncated, and are at home here. Whether
    /// any are left, or may be. To be called from time to time. Waits for no other transaction.
    ///
    /// # Errors
    /// The engine's error.
    pub fn sweep(&self) -> Result<bool> {
        let Some(number) = lock(&self.idle).pop() else { return Ok(true) };
        let worker = BusyWorker { idle: &self.idle, number };
        let mut work = self.begin(&worker);
        let (partitions, home) = (self.engine.partitions(), self.engine.home().0);
        let spec = crate::layout::tables()[0];
        let is_own = |number: u32| {
            let partition = spec.partition_of(&number.to_be_bytes(), partitions);
            self.engine.home_of(partition) == home
        };
        let swept = schema::sweep(&mut work, is_own).and_then(|is_more| {
            match work.into_inner().commit_boxed() {
                Ok(_) => Ok(is_more),
                Err(error) => Err(error.into()),
            }
        });
        match swept {
            Err(error) if error.is_conflict() => Ok(true),
            swept => swept,
        }
    }
}
