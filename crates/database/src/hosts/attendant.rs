//! The threads of a host that do what no transaction does: background work, and the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tombolo_memory::Mapped;

use super::{CheckpointError, PodEngine, Written, serve_part, write_checkpoint};
use crate::log::{LogError, LogMetrics, Logger, Storage, truncate};
use crate::{Engine as _, TxError};

/// How often the host looks for requests while none of its workers does.
const TICK: Duration = Duration::from_micros(500);

/// How often the logger looks for what it has to write.
const LOG_TICK: Duration = Duration::from_millis(1);

/// How often the host looks whether a checkpoint is asked for.
const CHECKPOINT_TICK: Duration = Duration::from_millis(5);

/// How long a checkpoint may take.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(600);

/// Threads that read logs after a checkpoint.
const READERS: usize = 2;

/// Writes in a row that may fail before the host gives up.
const MOST_FAILED_WRITES: u32 = 3;

/// A host's background work, its log, and its parts of checkpoints, each by a thread of its own.
/// When another host has died, this one does what its engine [wants](PodEngine::AFTER_DEATH).
///
/// Dropping it ends both threads, and the log as it is.
pub struct Attendant<E: PodEngine> {
    shared: Arc<Shared<E>>,
    ticking: Option<JoinHandle<()>>,
    /// The logger's thread, and that of checkpoints.
    logging: Mutex<Vec<JoinHandle<()>>>,
    /// In which the threads run: a child of it has none.
    process: u32,
}

struct Shared<E> {
    engine: Arc<E>,
    has_ended: AtomicBool,
    /// Why the host cannot go on.
    failure: Mutex<Option<TxError>>,
    /// Whether the log can go on.
    log_failed: AtomicBool,
    logged: Mutex<LogMetrics>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: PodEngine> Shared<E> {
    /// Notes why this host cannot go on, unless there is a reason already.
    fn fail(&self, error: TxError) {
        lock(&self.failure).get_or_insert(error);
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn tick(&self) {
        while !self.has_ended() {
            if let Err(error) = self.engine.tick().and_then(|()| self.clean_up_unlogged()) {
                self.fail(error);
                if E::AFTER_DEATH.drains() {
                    // Committed transactions are still to become durable.
                    self.engine.group().tick();
                }
            }
            thread::park_timeout(TICK);
        }
    }

    /// Goes on without hosts that have died, and have logged nothing.
    fn clean_up_unlogged(&self) -> Result<(), TxError> {
        let engine = &self.engine;
        engine.homes().clean_up(|home, stay| {
            Ok(engine.settle(home, stay)? && engine.group().retire_unlogged(home))
        })
    }

    /// Goes on without hosts that have died, and writes out their logs.
    fn clean_up<S: Storage>(&self, logger: &mut Logger<Mapped, S>) -> Result<(), LogError> {
        self.engine.homes().clean_up(|home, stay| match self.engine.settle(home, stay) {
            Ok(true) => logger.drain(home).map(|_| true),
            Ok(false) => Ok(false),
            Err(error) => {
                self.fail(error);
                Ok(false)
            }
        })
    }

    fn log<S: Storage>(&self, mut logger: Logger<Mapped, S>) {
        let (mut failed, mut drained) = (0, 0);
        while !self.has_ended() && failed < MOST_FAILED_WRITES {
            let written = self.drain(&mut logger, &mut drained).and_then(|()| logger.tick());
            match written {
                Ok(_) => failed = 0,
                Err(error) => {
                    failed += 1;
                    if failed == MOST_FAILED_WRITES {
                        self.log_failed.store(true, Ordering::Release);
                        self.fail(error.into());
                    }
                }
            }
            *lock(&self.logged) = logger.metrics();
            thread::park_timeout(LOG_TICK);
        }
        if !self.log_failed.load(Ordering::Acquire)
            && (E::AFTER_DEATH.drains() || lock(&self.failure).is_none())
            && let Err(error) = self.drain(&mut logger, &mut drained).and_then(|()| logger.leave())
        {
            self.fail(error.into());
        }
    }

    /// Writes this host's parts of checkpoints that are asked for.
    fn write_parts<S: Storage + Clone>(&self, storage: &S) {
        let (homes, group) = (self.engine.homes(), self.engine.group());
        while !self.has_ended() {
            serve_part((homes, group), storage.clone(), self.engine.tables(), |table, each| {
                self.engine.each_version(table, each)
            });
            thread::park_timeout(CHECKPOINT_TICK);
        }
    }

    /// Writes out what hosts that have died have left in their buffers. `drained` has a bit for
    /// each home of which that was done.
    fn drain<S: Storage>(
        &self,
        logger: &mut Logger<Mapped, S>,
        drained: &mut u64,
    ) -> Result<(), LogError> {
        let homes = self.engine.homes();
        if E::AFTER_DEATH.goes_on() {
            return self.clean_up(logger);
        }
        if !E::AFTER_DEATH.drains() || homes.check().is_ok() {
            return Ok(());
        }
        for home in homes.dead().filter(|home| home != &homes.own()) {
            if *drained >> home & 1 == 0 {
                logger.drain(home)?;
                *drained |= 1 << home;
            }
        }
        Ok(())
    }
}

impl<E: PodEngine> Attendant<E> {
    /// Begins the background work.
    pub fn start(engine: Arc<E>) -> Self {
        let shared = Arc::new(Shared {
            engine,
            has_ended: AtomicBool::new(false),
            failure: Mutex::default(),
            log_failed: AtomicBool::new(false),
            logged: Mutex::default(),
        });
        let ticking = Arc::clone(&shared);
        let ticking = Some(thread::spawn(move || ticking.tick()));
        Self { shared, ticking, logging: Mutex::default(), process: std::process::id() }
    }

    /// Begins the log. The host's workers may commit when this has returned.
    ///
    /// # Errors
    /// As of [`Logger::open`].
    pub fn begin_log<S: Storage + Clone + Send + 'static>(
        &self,
        storage: S,
    ) -> Result<(), LogError> {
        let parts = storage.clone();
        let logger = Logger::open(Arc::clone(self.shared.engine.group()), storage)?;
        let (logging, writing) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let mut threads = lock(&self.logging);
        threads.push(thread::spawn(move || logging.log(logger)));
        threads.push(thread::spawn(move || writing.write_parts(&parts)));
        Ok(())
    }

    /// Writes a checkpoint while transactions run, and removes files that recovery does not need
    /// any more. Every host writes the rows that are at home there, so each of them has begun its
    /// log in the same storage. `catalog` is what recovery is to find as its catalog. Blocks until
    /// all that was read is durable.
    ///
    /// # Errors
    /// [`CheckpointError`]: then the last checkpoint is still good.
    pub fn checkpoint<S: Storage + Clone + Sync>(
        &self,
        storage: &S,
        catalog: &[u8],
    ) -> Result<Written, CheckpointError> {
        let (homes, group) = (self.shared.engine.homes(), self.shared.engine.group());
        let since = Instant::now();
        let shorten = || truncate(storage, READERS);
        write_checkpoint((homes, group), storage, catalog, shorten, || {
            thread::sleep(LOG_TICK);
            let waited_ms = since.elapsed().as_millis() as u64;
            if since.elapsed() < CHECKPOINT_TIMEOUT && !self.shared.has_ended() {
                return Ok(());
            }
            Err(TxError::NoAnswer { host: homes.own(), waited_ms })
        })
    }

    /// Whether the host cannot go on: another host has died, or its log cannot be written.
    pub fn has_failed(&self) -> bool {
        lock(&self.shared.failure).is_some()
    }

    /// Why the host cannot go on, for people.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).as_ref().map(ToString::to_string)
    }

    /// Whether what this host has committed can still become durable.
    pub fn can_log(&self) -> bool {
        let failed = self.has_failed();
        !self.shared.log_failed.load(Ordering::Acquire) && (E::AFTER_DEATH.drains() || !failed)
    }

    /// Counts and times of this host's logger since the host joined.
    pub fn log_metrics(&self) -> LogMetrics {
        *lock(&self.shared.logged)
    }

    /// Ends the background work and the log, and leaves the database if nothing has failed. No
    /// thread runs a transaction. Blocks while the log's file is synchronised.
    ///
    /// # Errors
    /// Why the host could not go on.
    pub fn end(mut self) -> Result<(), TxError> {
        self.stop();
        match lock(&self.shared.failure).take() {
            Some(error) => Err(error),
            None => {
                self.shared.engine.leave_all();
                Ok(())
            }
        }
    }

    fn stop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.shared.has_ended.store(true, Ordering::Release);
        let threads = std::mem::take(&mut *lock(&self.logging));
        for thread in threads.into_iter().chain(self.ticking.take()) {
            thread.thread().unpark();
            // If it panicked, that was printed.
            let _ = thread.join();
        }
    }
}

impl<E: PodEngine> Drop for Attendant<E> {
    fn drop(&mut self) {
        self.stop();
    }
}
