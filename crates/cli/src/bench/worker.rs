//! One host of a benchmark. It does what it is told, line by line, and tells what came of it in
//! JSON, line by line.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tombolo::{Mapped, Member};
use tombolo_baselines::HcMeta;
use tombolo_experiments::{Driver, PhaseResult, Sharing};
use tombolo_objects::Objects;
use tombolo_sharing::Scheme;
use tombolo_workloads::Workload;

use crate::bench::shared::Shared;
use crate::bench::sharing;
use crate::children::tell;
use crate::cli::WorkerArgs;
use crate::stop::Stop;

/// How often progress is told.
pub(super) const PROGRESS: Duration = Duration::from_millis(200);

/// The events that a host tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// It is in the pod.
    Joined,
    /// It has done so many operations of the phase.
    Progress { operations: u64 },
    /// The phase is over.
    Done(Box<PhaseResult>),
}

impl Event {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    pub(crate) fn result(self) -> Option<PhaseResult> {
        match self {
            Self::Done(result) => Some(*result),
            _ => None,
        }
    }
}

pub(crate) fn run(args: &WorkerArgs) -> Result<()> {
    let mut workload = args.workload.workload()?;
    workload.thread_count = args.threads * args.hosts;
    let key_bytes = u64::from(workload.longest_key_bytes());
    match sharing(args.scheme, &args.local, args.owners, args.hosts, key_bytes)? {
        Sharing::Megalon(options) => take_part::<Objects<Mapped>>(args, &workload, options),
        Sharing::HcMeta(options) => take_part::<HcMeta<Mapped>>(args, &workload, options),
    }
}

fn take_part<S: Scheme<Memory = Mapped> + Send + Sync + 'static>(
    args: &WorkerArgs,
    workload: &Workload,
    options: S::Options,
) -> Result<()> {
    // The process that started this one catches the signals, and is watched instead.
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

fn obey<S: Scheme<Memory = Mapped> + Send + Sync + 'static>(
    args: &WorkerArgs,
    objects: &Member<Shared<S>>,
    workload: &Workload,
    stopping: &AtomicBool,
) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let done = AtomicU64::new(0);
        let driven = objects.driven();
        let driver = Driver {
            target: &driven,
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
        let result = PhaseResult::new(&phase, stats, objects.usage());
        tell(&Event::Done(Box::new(result)))?;
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
