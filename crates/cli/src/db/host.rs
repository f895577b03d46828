//! One host of a database: a process that does what it is told, line by line, and tells what came
//! of it in JSON, line by line.
//!
//! Besides the thread that obeys, an [`Attendant`] does the host's background work, and writes its
//! log.

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tombolo::PodSpec;
use tombolo_database::hosts::{Attendant, Participation, PodEngine};
use tombolo_database::log::{GroupSettings, Recovered, recover};
use tombolo_database::{Partitioning, TableSpec, TxError};
use tombolo_oltp::{Seat, load};

use super::conditions::{Checked, Found};
use super::engines::with_engine;
use super::ran::Ran;
use super::setting::{Chosen, Setting, with_workload};
use super::store::Store;
use crate::children::tell;
use crate::cli::{DbWorkerArgs, EngineKind};
use crate::stop::Stop;

/// The parameters of a host's process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) spec: String,
    pub(crate) engine: EngineKind,
    pub(crate) workload: Chosen,
    pub(crate) workers: u16,
    pub(crate) first_epoch: u64,
    pub(crate) log: Option<PathBuf>,
    pub(crate) seed: u64,
    /// Waits between attempts as in Tigon's published source.
    pub(crate) published_waits: bool,
    /// The description of the database that checkpoints record.
    pub(crate) setting: Setting,
    /// The first host writes a checkpoint each time after so many milliseconds.
    pub(crate) checkpoint_ms: Option<u64>,
}

/// A command to a host from the process that started it.
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

/// A message of a host to the process that started it.
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
    /// It has had a checkpoint written while transactions ran.
    Checkpointed,
    /// These transactions are durable.
    Durable { numbers: Vec<u64> },
    /// It cannot go on.
    Failed { what: String },
}

pub(crate) fn run(args: &DbWorkerArgs) -> Result<ExitCode> {
    let orders: Orders = serde_json::from_str(&args.host).context("--host is no JSON of ours")?;
    let outcome = with_workload!(&orders.workload.build(), workload => {
        with_engine!(orders.engine, E => take_part::<_, E>(&orders, workload))
    });
    let Err(error) = outcome else { return Ok(ExitCode::SUCCESS) };
    // The process that started this one says it to people.
    tell(&Event::Failed { what: format!("{error:#}") })?;
    Ok(ExitCode::FAILURE)
}

/// The state that the threads of a host share.
pub(super) struct Member<'a, W, E: PodEngine> {
    pub(super) orders: &'a Orders,
    pub(super) workload: &'a W,
    pub(super) engine: &'a E,
    pub(super) attendant: &'a Attendant<E>,
    pub(super) store: Option<&'a Store>,
    /// Whether this host ends.
    ended: AtomicBool,
    /// Why it does, if not because its attendant cannot go on.
    failure: Mutex<Option<String>>,
    /// Transactions that have ended.
    pub(super) done: AtomicU64,
}

fn take_part<W: Checked, E: PodEngine>(orders: &Orders, workload: &W) -> Result<()> {
    let stop = Stop::on_signals()?;
    stop.with_parent()?;
    let spec: PodSpec = orders.spec.parse().map_err(|error| anyhow!("{error}"))?;
    let store = orders.log.as_ref().map(|log| Store::in_use(log)).transpose()?;
    let engine = Arc::new(E::take_part(
        &spec,
        Participation {
            tables: workload.tables(),
            commit: GroupSettings::default(),
            is_logged: store.is_some(),
            first_epoch: orders.first_epoch,
        },
    )?);
    let attendant = Attendant::start(Arc::clone(&engine));
    let member = Member {
        orders,
        workload,
        engine: &*engine,
        attendant: &attendant,
        store: store.as_ref(),
        ended: AtomicBool::new(false),
        failure: Mutex::default(),
        done: AtomicU64::new(0),
    };
    tell(&Event::Joined)?;
    let outcome = thread::scope(|scope| {
        // A host that is told to stop does so at once, whatever it waits for.
        let watched = &member;
        scope.spawn(move || {
            while !watched.has_ended() {
                if stop.within(Duration::from_millis(20)) {
                    watched.fail("it was told to stop");
                }
            }
        });
        let outcome = member.obey();
        member.ended.store(true, Ordering::Relaxed);
        outcome
    });
    let failure = member.failure.lock().expect("no thread panics with it").take();
    if failure.is_some() {
        drop(attendant);
    } else if let Err(error) = attendant.end() {
        // The reason for all other errors.
        bail!("{error}");
    }
    match failure {
        Some(failure) => bail!(failure),
        None => outcome,
    }
}

impl<W: Checked, E: PodEngine> Member<'_, W, E> {
    /// Notes why this host cannot go on, unless there is a reason already.
    pub(super) fn fail(&self, what: impl ToString) {
        // If the attendant cannot go on, that is the reason for all else.
        if !self.attendant.has_failed() {
            let mut failure = self.failure.lock().expect("no thread panics with it");
            failure.get_or_insert_with(|| what.to_string());
        }
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.attendant.has_failed()
    }

    fn obey(&self) -> Result<()> {
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
                        self.attendant.begin_log(Arc::clone(store.directory()))?;
                    }
                    Event::Done { rows: 0 }
                }
                Task::Share => {
                    let tables = self.workload.shared_tables().iter();
                    let shared = tables.map(|table| self.engine.share(*table));
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
        load_own(self.engine, &recovered)
    }
}

/// Loads the rows of those that were recovered which are at home here, and copies of replicated
/// tables: how many.
pub(super) fn load_own<E: PodEngine>(engine: &E, recovered: &Recovered) -> Result<u64> {
    let (partitions, home) = (engine.partitions(), engine.home().0);
    let is_ours = |spec: &TableSpec, key: &[u8]| {
        spec.partitioning == Partitioning::Replicated
            || engine.home_of(spec.partition_of(key, partitions)) == home
    };
    let mut rows = 0;
    for row in &recovered.rows {
        let spec = engine.tables().get(usize::from(row.table.0));
        let spec = spec.with_context(|| format!("there is no table {}", row.table))?;
        if is_ours(spec, &row.key) {
            engine.load_recovered(row.table, &row.key, row.version, &row.row)?;
            rows += 1;
        }
    }
    Ok(rows)
}
