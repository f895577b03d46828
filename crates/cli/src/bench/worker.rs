//! One host of a benchmark. It does what it is told, line by line, and tells what came of it in JSON,
//! line by line.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tombolo::{Mapped, Member, Stats, Usage};
use tombolo_baselines::{HcMeta, HcMetaOptions};
use tombolo_objects::{Locks, Objects, Options};
use tombolo_sharing::Scheme as Sharing;
use tombolo_workloads::Workload;

use crate::bench::shared::Shared;
use crate::children::tell;
use crate::cli::{Scheme, WorkerArgs};
use crate::drive::{Driver, Phase};
use crate::stop::Stop;

/// How often progress is told.
const PROGRESS: Duration = Duration::from_millis(200);

/// What a host tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// It is in the pod.
    Joined,
    /// It has done so many operations of the phase.
    Progress { operations: u64 },
    /// The phase is over.
    Done(PhaseResult),
}

impl Event {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    pub(crate) fn result(self) -> Option<PhaseResult> {
        match self {
            Self::Done(result) => Some(result),
            _ => None,
        }
    }
}

/// What a phase came to on one host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PhaseResult {
    pub(crate) operations: u64,
    pub(crate) elapsed_ns: u64,
    /// Latencies in nanoseconds, each with how often it occurred.
    pub(crate) latencies: Vec<(u64, u64)>,
    pub(crate) churn: u64,
    pub(crate) churn_ns: u64,
    pub(crate) retries: u64,
    pub(crate) cleaned_lines: u64,
    pub(crate) invalidated_lines: u64,
    pub(crate) objects: u64,
    pub(crate) records_used: u64,
    pub(crate) records_wide: u64,
    pub(crate) copy_reads: u64,
    pub(crate) home_reads: u64,
    pub(crate) moved_in: u64,
    pub(crate) scr_used_bytes: u64,
    pub(crate) local_bytes: u64,
}

impl PhaseResult {
    pub(crate) fn new(phase: &Phase, stats: Stats, usage: Usage) -> Self {
        let recorded = phase.latency_ns.iter_recorded();
        Self {
            operations: phase.operations,
            elapsed_ns: phase.elapsed.as_nanos() as u64,
            latencies: recorded.map(|v| (v.value_iterated_to(), v.count_at_value())).collect(),
            churn: stats.churn,
            churn_ns: stats.churn_ns,
            retries: stats.retries,
            cleaned_lines: stats.cleaned_lines,
            invalidated_lines: stats.invalidated_lines,
            objects: usage.objects,
            records_used: usage.records_used,
            records_wide: usage.records_wide,
            copy_reads: stats.copy_reads,
            home_reads: stats.home_reads,
            moved_in: stats.moved_in,
            scr_used_bytes: usage.scr_used_bytes,
            local_bytes: usage.local_bytes,
        }
    }
}

pub(crate) fn run(args: &WorkerArgs) -> Result<()> {
    let mut workload = args.workload.workload()?;
    workload.thread_count = args.threads * args.hosts;
    let key_bytes = u64::from(workload.longest_key_bytes());
    match args.scheme {
        Scheme::Megalon => take_part::<Objects<Mapped>>(args, &workload, args.local.options()),
        Scheme::AllLog => {
            let options = Options { locks: Locks::Log, ..Options::default() };
            take_part::<Objects<Mapped>>(args, &workload, options)
        }
        Scheme::HcMeta | Scheme::HcMetaLocal | Scheme::HcMetaUnlimited => {
            let hosts = u8::try_from(args.hosts)?;
            let options = hcmeta_options(args.scheme, hosts, key_bytes, args.owner_delay_us);
            take_part::<HcMeta<Mapped>>(args, &workload, options)
        }
    }
}

/// How each of so many hosts takes part under one of HCMeta's variants.
pub(crate) fn hcmeta_options(
    scheme: Scheme,
    hosts: u8,
    key_bytes: u64,
    owner_delay_us: u64,
) -> HcMetaOptions {
    HcMetaOptions {
        hosts,
        key_bytes,
        local: scheme == Scheme::HcMetaLocal,
        owner_delay: Duration::from_micros(owner_delay_us),
        ..HcMetaOptions::default()
    }
}

fn take_part<S: Sharing<Memory = Mapped> + Send + Sync + 'static>(
    args: &WorkerArgs,
    workload: &Workload,
    options: S::Options,
) -> Result<()> {
    // Whoever started this one catches the signals, and is watched instead.
    let stop = Stop::on_signals()?;
    stop.with_parent()?;
    let stopping = &AtomicBool::new(false);
    let objects = Member::<Shared<S>>::join_pod(tombolo_pod::open(&args.pod)?, options)?;
    tell(&Event::Joined)?;
    let ended = &AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) && !stop.within(PROGRESS) {}
            stopping.store(true, Ordering::Relaxed);
        });
        let outcome = obey(args, &objects, workload, stopping);
        ended.store(true, Ordering::Relaxed);
        outcome
    });
    objects.leave()?;
    outcome
}

fn obey<S: Sharing<Memory = Mapped> + Send + Sync + 'static>(
    args: &WorkerArgs,
    objects: &Member<Shared<S>>,
    workload: &Workload,
    stopping: &AtomicBool,
) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let done = AtomicU64::new(0);
        let driver = Driver {
            target: objects,
            workload,
            seed: args.workload.seed,
            host: args.host,
            hosts: args.hosts,
            verify: args.workload.verify,
            blank: false,
            until_full: false,
            done: &done,
            stopping,
        };
        let before = objects.stats();
        let phase = match line.context("cannot read what to do")?.as_str() {
            "load" => telling_progress(&done, || driver.load())?,
            "run" => telling_progress(&done, || driver.run())?,
            "leave" => return Ok(()),
            other => bail!("{other:?} means nothing to a worker"),
        };
        let stats = objects.stats().since(before);
        tell(&Event::Done(PhaseResult::new(&phase, stats, objects.usage())))?;
    }
    Ok(())
}

/// Runs `body` while another thread tells how far it is.
fn telling_progress<T: Send>(
    done: &AtomicU64,
    body: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    thread::scope(|scope| {
        let running = scope.spawn(body);
        while !running.is_finished() {
            thread::sleep(PROGRESS.min(Duration::from_millis(20)));
            tell(&Event::Progress { operations: done.load(Ordering::Relaxed) })?;
        }
        running.join().expect("the phase does not panic")
    })
}
