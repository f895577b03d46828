//! One host of a database: a process that does what it is told, line by line, and tells what came
//! of it in JSON, line by line.
//!
//! Besides the thread that obeys, one does the host's background work, and one writes its log.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tombolo::PodSpec;
use tombolo_database::log::{Directory, LogMetrics, Logger, recover};
use tombolo_database::{Engine as _, Partitioning, TableSpec, TxError};
use tombolo_memory::Mapped;
use tombolo_oltp::{BackOff, Driver, DriverOptions, Seat, Step, Until, Worker, load};
use tombolo_tigon::{Options, Tigon};

use super::conditions::{Checked, Found};
use super::ledger::Ledgered;
use super::ran::Ran;
use super::setting::{Built, Chosen, with_workload};
use super::store::Store;
use crate::children::tell;
use crate::cli::DbWorkerArgs;
use crate::stop::Stop;

/// How often a host looks for requests while none of its workers does, and what its logger has to
/// write.
const TICK: Duration = Duration::from_micros(500);
const LOG_TICK: Duration = Duration::from_millis(1);

/// Writes in a row that may fail before the host gives up.
const MOST_FAILED_WRITES: u32 = 3;

const PROGRESS: Duration = Duration::from_millis(200);

/// Waits below this are not worth a sleep.
const SHORT_WAIT_NS: u64 = 20_000;

/// How often a soak's host tells which transactions are durable.
const ACKNOWLEDGE: Duration = Duration::from_millis(5);

/// What a host is to be.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) spec: String,
    pub(crate) workload: Chosen,
    pub(crate) workers: u16,
    pub(crate) first_epoch: u64,
    pub(crate) log: Option<PathBuf>,
    pub(crate) seed: u64,
    /// Waits between attempts as in Tigon's published source.
    pub(crate) published_waits: bool,
}

/// What a host is told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(crate) enum Task {
    /// Load the workload's rows.
    Populate,
    /// Load the rows that checkpoint and logs have.
    Restore,
    /// Begin the log. All rows are loaded.
    Begin,
    /// Share rows.
    Share,
    /// Run transactions.
    Run { warm_up_ns: u64, time_ns: u64, transactions: Option<u64> },
    /// Check the rows that are at home here. No host runs transactions.
    Check,
    /// Run transactions until this host is killed or told to leave, and tell which are durable.
    Soak,
    /// Leave.
    Leave,
}

/// What a host tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// It is in the database.
    Joined,
    /// It has run so many transactions.
    Progress { done: u64 },
    /// It has done what it was told, to so many rows.
    Done { rows: u64 },
    /// It has run transactions.
    Ran(Box<Ran>),
    /// It has checked its rows.
    Checked(Found),
    /// These transactions are durable.
    Durable { numbers: Vec<u64> },
    /// It cannot go on.
    Failed { what: String },
}

pub(crate) fn run(args: &DbWorkerArgs) -> Result<ExitCode> {
    let orders: Orders = serde_json::from_str(&args.host).context("--host is no JSON of ours")?;
    let outcome =
        with_workload!(&orders.workload.build(), workload => take_part(&orders, workload));
    let Err(error) = outcome else { return Ok(ExitCode::SUCCESS) };
    // The process that started this one says it to people.
    tell(&Event::Failed { what: format!("{error:#}") })?;
    Ok(ExitCode::FAILURE)
}

/// What the threads of a host share.
struct Member<'a, W> {
    orders: &'a Orders,
    workload: &'a W,
    engine: &'a Tigon<Mapped>,
    store: Option<&'a Store>,
    /// Whether this host ends.
    ended: AtomicBool,
    /// Why it cannot go on.
    failure: Mutex<Option<String>>,
    logged: Mutex<LogMetrics>,
    /// Transactions that have ended.
    done: AtomicU64,
}

fn take_part<W: Checked>(orders: &Orders, workload: &W) -> Result<()> {
    let stop = Stop::on_signals()?;
    stop.with_parent()?;
    let spec: PodSpec = orders.spec.parse().map_err(|error| anyhow!("{error}"))?;
    let store = orders.log.as_ref().map(|log| Store::in_use(log)).transpose()?;
    let options = Options {
        is_logged: store.is_some(),
        first_epoch: orders.first_epoch,
        ..Options::new(workload.tables())
    };
    let engine = Tigon::open(&spec, options)?;
    let member = Member {
        orders,
        workload,
        engine: &engine,
        store: store.as_ref(),
        ended: AtomicBool::new(false),
        failure: Mutex::default(),
        logged: Mutex::default(),
        done: AtomicU64::new(0),
    };
    tell(&Event::Joined)?;
    let outcome = thread::scope(|scope| {
        scope.spawn(|| member.tick());
        // A host that is told to stop does so at once, whatever it waits for.
        let watched = &member;
        scope.spawn(move || {
            while !watched.has_ended() {
                if stop.within(Duration::from_millis(20)) {
                    watched.fail("it was told to stop");
                }
            }
        });
        let outcome = member.obey(scope);
        member.ended.store(true, Ordering::Relaxed);
        outcome
    });
    let failure = member.failure.lock().expect("no thread panics with it").take();
    match (outcome, failure) {
        (Ok(()), None) => {
            engine.leave();
            Ok(())
        }
        (_, Some(failure)) => bail!(failure),
        (outcome, None) => outcome,
    }
}

impl<W: Checked> Member<'_, W> {
    /// Notes why this host cannot go on, unless there is a reason already.
    fn fail(&self, what: impl ToString) {
        let mut failure = self.failure.lock().expect("no thread panics with it");
        failure.get_or_insert_with(|| what.to_string());
        self.ended.store(true, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The host's background work, until it ends.
    fn tick(&self) {
        while !self.has_ended() {
            if let Err(error) = self.engine.tick() {
                self.fail(error);
            }
            thread::sleep(TICK);
        }
    }

    /// Writes the host's log until it ends.
    fn log(&self, mut logger: Logger<Mapped, Arc<Directory>>) {
        let mut failed = 0;
        while !self.has_ended() {
            match logger.tick() {
                Ok(_) => failed = 0,
                Err(error) => {
                    failed += 1;
                    if failed == MOST_FAILED_WRITES {
                        self.fail(error);
                    }
                }
            }
            *self.logged.lock().expect("no thread panics with it") = logger.metrics();
            thread::sleep(LOG_TICK);
        }
        let died = self.failure.lock().expect("no thread panics with it").is_some();
        if !died && let Err(error) = logger.leave() {
            self.fail(error);
        }
    }

    fn obey<'s>(&'s self, scope: &'s thread::Scope<'s, '_>) -> Result<()> {
        let (sender, tasks) = std::sync::mpsc::channel();
        // Standard input cannot be waited for with a limit. The thread ends with the process.
        thread::spawn(move || {
            let lines = std::io::stdin().lock().lines();
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        while !self.has_ended() {
            let line = match tasks.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => line,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => continue,
                Err(_) => return Ok(()),
            };
            let task: Task =
                serde_json::from_str(&line).with_context(|| format!("{line:?} is no task"))?;
            let event = match task {
                Task::Leave => return Ok(()),
                Task::Soak => return self.soak(),
                Task::Populate => self.populate()?,
                Task::Restore => Event::Done { rows: self.restore()? },
                Task::Begin => {
                    if let Some(store) = self.store {
                        let log = Arc::clone(self.engine.log());
                        let logger = Logger::open(log, Arc::clone(store.directory()))?;
                        scope.spawn(move || self.log(logger));
                    }
                    Event::Done { rows: 0 }
                }
                Task::Share => {
                    let tables = self.workload.shared_tables().iter();
                    let shared = tables.map(|table| self.engine.share_table(*table));
                    Event::Done { rows: shared.sum::<Result<u64, TxError>>()? }
                }
                Task::Run { warm_up_ns, time_ns, transactions } => {
                    Event::Ran(Box::new(self.run(warm_up_ns, time_ns, transactions)?))
                }
                Task::Check => Event::Checked(self.workload.check(self.engine, self.own())?),
            };
            tell(&event)?;
        }
        Ok(())
    }

    /// The partitions that are at home here.
    fn own(&self) -> Vec<u32> {
        Seat::of(self.engine, 0, 1).partitions
    }

    fn populate(&self) -> Result<Event> {
        let shares = u32::from(self.orders.workers);
        thread::scope(|scope| {
            let load = |share| scope.spawn(move || load(self.workload, self.engine, share, shares));
            let loading: Vec<_> = (0..shares).map(load).collect();
            loading
                .into_iter()
                .try_for_each(|thread| thread.join().expect("loading does not panic"))
        })?;
        Ok(Event::Done { rows: 0 })
    }

    /// Loads what was recovered: rows that are at home here, and copies of replicated tables.
    fn restore(&self) -> Result<u64> {
        let store = self.store.context("there is no log to restore rows from")?;
        let recovered = recover(store.directory(), usize::from(self.orders.workers))?;
        let (tables, partitions, home) =
            (self.workload.tables(), self.workload.partitions(), self.engine.home().0);
        let is_ours = |spec: &TableSpec, key: &[u8]| {
            spec.partitioning == Partitioning::Replicated
                || self.engine.home_of(spec.partition_of(key, partitions)) == home
        };
        let mut rows = 0;
        for row in &recovered.rows {
            let spec = tables.get(usize::from(row.table.0));
            let spec = spec.with_context(|| format!("there is no table {}", row.table))?;
            if is_ours(spec, &row.key) {
                self.engine.load_version(row.table, &row.key, row.version, &row.row)?;
                rows += 1;
            }
        }
        Ok(rows)
    }

    fn options(&self, until: Until) -> DriverOptions {
        let back_off = match self.orders.published_waits {
            true => BackOff::AS_PUBLISHED,
            false => BackOff::default(),
        };
        DriverOptions {
            durable: self.store.is_some(),
            back_off,
            seed: self.orders.seed,
            ..DriverOptions::new(until)
        }
    }

    fn run(&self, warm_up_ns: u64, time_ns: u64, transactions: Option<u64>) -> Result<Ran> {
        self.done.store(0, Ordering::Relaxed);
        let started = Instant::now();
        let clock = || started.elapsed().as_nanos() as u64;
        let end = if transactions.is_some() { u64::MAX } else { warm_up_ns + time_ns };
        let workers = u32::from(self.orders.workers);
        let running = AtomicU64::new(u64::from(workers));
        let run = |number: u32| -> Result<(tombolo_oltp::Stats, [u64; 3])> {
            let driver =
                Driver::new(self.workload, self.engine, clock, self.options(Until::Time(end)));
            let mut worker = driver.worker(&Seat::of(self.engine, number, workers));
            while clock() < warm_up_ns {
                self.step(&driver, &mut worker)?;
            }
            let begun = clock();
            worker.reset_stats(begun);
            let mut ended = 0;
            while ended < transactions.unwrap_or(u64::MAX) && clock() < end {
                ended += u64::from(self.step(&driver, &mut worker)?);
            }
            let measured = clock();
            // The last transactions become durable.
            let last = Driver::new(self.workload, self.engine, clock, self.options(Until::Time(0)));
            last.run(&mut worker, wait)?;
            Ok((worker.stats().clone(), [begun, measured, clock()]))
        };
        let (before, results) = thread::scope(|scope| -> Result<_> {
            let threads: Vec<_> = (0..workers)
                .map(|number| {
                    let (run, running) = (&run, &running);
                    scope.spawn(move || {
                        let ran = run(number);
                        if let Err(error) = &ran {
                            self.fail(format!("{error:#}"));
                        }
                        running.fetch_sub(1, Ordering::Relaxed);
                        ran
                    })
                })
                .collect();
            thread::sleep(Duration::from_nanos(warm_up_ns));
            let before = (self.engine.moves(), self.log_metrics());
            let mut told = Instant::now();
            while running.load(Ordering::Relaxed) > 0 {
                thread::sleep(Duration::from_millis(2));
                if told.elapsed() > PROGRESS {
                    told = Instant::now();
                    tell(&Event::Progress { done: self.done.load(Ordering::Relaxed) })?;
                }
            }
            let results: Result<Vec<_>> = threads
                .into_iter()
                .map(|thread| thread.join().expect("no worker panics"))
                .collect();
            Ok((before, results?))
        })?;
        let after = (self.engine.moves(), self.log_metrics());
        Ran::new(&results, before, after)
    }

    fn log_metrics(&self) -> LogMetrics {
        *self.logged.lock().expect("no thread panics with it")
    }

    /// One attempt; whether a transaction has ended by it.
    fn step<C: Fn() -> u64>(
        &self,
        driver: &Driver<'_, W, Tigon<Mapped>, C>,
        worker: &mut Worker<W>,
    ) -> Result<bool> {
        if self.has_ended() {
            bail!("it ends in the middle of a run");
        }
        match driver.step(worker)? {
            Step::Committed(_) | Step::RolledBack | Step::GivenUp => {
                self.done.fetch_add(1, Ordering::Relaxed);
                return Ok(true);
            }
            Step::Conflict { wait_ns } | Step::Waiting { wait_ns } => wait(wait_ns),
            Step::Ended => {}
        }
        Ok(false)
    }

    /// Runs transactions until this host is told to leave or a host dies.
    fn soak(&self) -> Result<()> {
        let Built::Ledger(workload) = &self.orders.workload.build() else {
            bail!("only a database with a ledger can be soaked");
        };
        let workers = u32::from(self.orders.workers);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|number| scope.spawn(move || self.soak_worker(workload, number, workers)))
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no worker panics"))
        })
    }

    fn soak_worker(&self, workload: &Ledgered, number: u32, workers: u32) -> Result<()> {
        let started = Instant::now();
        let clock = || started.elapsed().as_nanos() as u64;
        let mut options = self.options(Until::Time(u64::MAX));
        options.durable = false;
        let driver = Driver::new(workload, self.engine, clock, options);
        let mut worker = driver.worker(&Seat::of(self.engine, number, workers));
        let mut waiting: VecDeque<(u64, u64)> = VecDeque::new();
        let mut told = Instant::now();
        while !self.has_ended() {
            match driver.step(&mut worker)? {
                Step::Committed(commit) => {
                    waiting.push_back((commit.epoch, workload.current(number as usize)));
                }
                Step::Conflict { wait_ns } | Step::Waiting { wait_ns } => wait(wait_ns),
                Step::RolledBack | Step::GivenUp | Step::Ended => {}
            }
            if told.elapsed() > ACKNOWLEDGE {
                told = Instant::now();
                let durable = self.engine.durable_epoch();
                let mut numbers = Vec::new();
                while let Some((_, number)) = waiting.pop_front_if(|(epoch, _)| *epoch <= durable) {
                    numbers.push(number);
                }
                if !numbers.is_empty() {
                    tell(&Event::Durable { numbers })?;
                }
            }
        }
        Ok(())
    }
}

/// Waits for so many nanoseconds. Other threads run meanwhile.
fn wait(wait_ns: u64) {
    if wait_ns < SHORT_WAIT_NS {
        thread::yield_now();
    } else {
        thread::sleep(Duration::from_nanos(wait_ns));
    }
}
