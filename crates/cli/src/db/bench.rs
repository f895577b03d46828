//! `tombolo bench tpcc`, `ycsb-txn` and `smallbank`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::conditions::{Checked as _, Found};
use super::host::{Event, Orders, Task};
use super::hosts::{Hosts, temporary};
use super::ran::Ran;
use super::report::{Conditions, Report, Where};
use super::setting::{Chosen, Setting, with_workload};
use super::store::Store;
use crate::bench::comparison::compare;
use crate::cli::{EngineKind, LogMode, SmallBankArgs, TpccArgs, TransactionArgs, YcsbTxnArgs};
use crate::output::{self, PROBLEMS};
use crate::place::Place;
use crate::stop::Stop;
use anyhow::{Result, bail, ensure};
use tempfile::TempDir;

/// Bytes that a temporary log may take in shared memory.
const LOG_ROOM: u64 = 4 << 30;

pub(crate) fn tpcc(args: &TpccArgs) -> Result<ExitCode> {
    let workers = u32::from(args.run.hosts) * u32::from(args.run.workers);
    run(&args.run, Chosen::tpcc(&args.scale, workers, args.run.seed))
}

pub(crate) fn ycsb(args: &YcsbTxnArgs) -> Result<ExitCode> {
    run(&args.run, Chosen::ycsb(&args.scale, args.run.hosts, args.run.seed))
}

pub(crate) fn smallbank(args: &SmallBankArgs) -> Result<ExitCode> {
    run(&args.run, Chosen::smallbank(&args.scale, args.run.hosts, args.run.seed))
}

fn run(args: &TransactionArgs, workload: Chosen) -> Result<ExitCode> {
    ensure!(
        args.seconds > 0.0 && args.warm_up >= 0.0,
        "times are not negative; give more --seconds"
    );
    ensure!(
        args.checkpoint_every.is_none_or(|seconds| seconds > 0.0),
        "a checkpoint takes time; give more seconds to --checkpoint-every"
    );
    let stop = Stop::on_signals()?;
    let setting = Setting { rows: workload, hosts: args.hosts, workers: args.workers };
    let partitions = setting.shape().partitions;
    ensure!(
        partitions >= args.hosts.into(),
        "{partitions} partitions are not enough for {} hosts; have one for each at least",
        args.hosts
    );
    let Some(others) = &args.compare else {
        let report = measure(args, args.engine, &setting, &stop)?;
        output::print(&report, args.format, Report::text)?;
        return Ok(code([&report]));
    };
    let others = if others.is_empty() { &EngineKind::ALL[..] } else { others };
    let compared =
        compare(args.rounds, args.engine, others, |engine| measure(args, engine, &setting, &stop))?;
    output::print(&compared, args.format, |compared| {
        format!("{}: {}\n{}", setting.rows.title(), setting.rows.describe(), compared.text())
    })?;
    Ok(code(compared.results()))
}

fn code<'a>(reports: impl IntoIterator<Item = &'a Report>) -> ExitCode {
    let violated = reports.into_iter().any(Report::is_violated);
    if violated { ExitCode::from(PROBLEMS) } else { ExitCode::SUCCESS }
}

/// Where a run logs to.
enum LogPlace {
    Nowhere,
    Temporary(TempDir),
    Given(PathBuf),
}

impl LogPlace {
    fn of(args: &TransactionArgs) -> Result<Self> {
        let default = if args.log.is_some() { LogMode::Epoch } else { LogMode::Memory };
        match (args.durability.unwrap_or(default), &args.log) {
            (LogMode::Memory, Some(_)) => {
                bail!("--durability memory writes no log; leave --log out, or say epoch")
            }
            (LogMode::Memory, None) => Ok(Self::Nowhere),
            (LogMode::Epoch, Some(path)) => Ok(Self::Given(path.clone())),
            (LogMode::Epoch, None) => temporary("log", LOG_ROOM).map(Self::Temporary),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Nowhere => None,
            Self::Temporary(directory) => Some(directory.path().to_owned()),
            Self::Given(path) => Some(path.clone()),
        }
    }

    fn describe(&self) -> Option<String> {
        match self {
            Self::Nowhere => None,
            Self::Temporary(directory) => {
                Some(format!("{} (temporary)", directory.path().display()))
            }
            Self::Given(path) => Some(path.display().to_string()),
        }
    }
}

/// The epoch to go on from, if the log is that of a database with the same rows.
fn existing(setting: &Setting, log: &LogPlace) -> Result<Option<u64>> {
    let LogPlace::Given(path) = log else { return Ok(None) };
    let store = Store::at_rest(path)?;
    if store.is_empty()? {
        return Ok(None);
    }
    let (there, recovered) = store.read()?;
    ensure!(
        there.rows.rows() == setting.rows.rows(),
        "{} has another workload's rows ({}); give its options, or another directory",
        path.display(),
        there.rows.size()
    );
    recovered.close(store.directory())?;
    Ok(Some(recovered.next))
}

fn measure(
    args: &TransactionArgs,
    engine: EngineKind,
    setting: &Setting,
    stop: &Stop,
) -> Result<Report> {
    let log = LogPlace::of(args)?;
    let existing = existing(setting, &log)?;
    let (shape, row_bytes) = (setting.shape(), setting.row_bytes());
    let bytes = args.scr + args.size.unwrap_or_else(|| engine.lnr_bytes(&shape, row_bytes));
    let place = Place::new(args.pod.as_ref(), "txn", bytes);
    let pod = engine.create_pod(&place.spec, &shape, (args.scr, args.size, row_bytes))?;
    let published_waits = matches!(
        setting.rows,
        Chosen::TpccAsPublished { .. } | Chosen::Ycsb { as_published: true, .. }
    );
    let orders = Orders {
        spec: place.spec.to_string(),
        engine,
        workload: setting.rows.clone(),
        workers: args.workers,
        first_epoch: existing.unwrap_or(1),
        log: log.path(),
        seed: args.seed,
        published_waits,
        setting: Setting { rows: setting.rows.rows(), ..setting.clone() },
        checkpoint_ms: args.checkpoint_every.map(|seconds| (seconds * 1e3) as u64),
    };
    let mut hosts = Hosts::start(&orders, args.hosts, stop)?;
    let load = if existing.is_some() { Task::Restore } else { Task::Populate };
    hosts.rows("loading", load)?;
    hosts.rows("beginning the log", Task::Begin)?;
    let shared_before = args.moved_in.then(|| hosts.rows("sharing", Task::Share)).transpose()?;
    let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
    let task = Task::Run {
        warm_up_ns: nanoseconds(args.warm_up),
        time_ns: nanoseconds(args.seconds),
        transactions: args.transactions,
    };
    let workers = u64::from(args.hosts) * u64::from(args.workers);
    let total = args.transactions.map_or(u64::MAX, |each| each * workers);
    let ran = hosts.phase("running", total, task, |event| matches!(event, Event::Ran(_)))?;
    let ran: Vec<Ran> = ran.into_iter().filter_map(ran_of).collect();
    let conditions = with_workload!(&setting.rows.build(), workload => {
        match workload.conditions() {
            None => None,
            Some(checked) => {
                let violations = workload.violations(&check(&mut hosts)?);
                Some(Conditions { checked, violations })
            }
        }
    });
    hosts.leave()?;
    drop(pod);
    let of = Where {
        engine: engine.name(),
        workload: setting.rows.title(),
        setting: setting.rows.describe(),
        hosts: args.hosts,
        workers: args.workers,
        durability: if orders.log.is_some() { "epoch" } else { "memory" },
        log: log.describe(),
        scr_bytes: args.scr,
        shared_before,
        tables: with_workload!(&setting.rows.build(), workload => workload.table_names()),
    };
    Ok(Report::new(of, &ran, conditions))
}

fn ran_of(event: Event) -> Option<Ran> {
    match event {
        Event::Ran(ran) => Some(*ran),
        _ => None,
    }
}

/// Has each host check its rows.
fn check(hosts: &mut Hosts<'_>) -> Result<Vec<Found>> {
    let events =
        hosts.phase("checking", 0, Task::Check, |event| matches!(event, Event::Checked(_)))?;
    let found = |event| if let Event::Checked(found) = event { Some(found) } else { None };
    Ok(events.into_iter().filter_map(found).collect())
}
