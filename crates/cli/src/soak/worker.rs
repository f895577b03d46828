//! One host of a soak. It does what it is told, line by line, and tells what came of it in JSON, line by
//! line.

use std::io::BufRead;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tombolo::Objects;

use super::client::{Client, Identity};
use super::record::Record;
use crate::children::tell;
use crate::cli::SoakWorkerArgs;
use crate::stop::Stop;

/// How long a host that was told to stop may take to leave.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a host is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// Do operations, from now until `end`. All times count from `start`.
    Work { start: u64, end: u64 },
    /// Read every key.
    ReadAll { start: u64 },
    /// Leave the pod, and end.
    Leave,
}

/// What a host tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// It is in the pod.
    Joined,
    /// It has done what it was told.
    Done(Done),
    /// It could not go on.
    Failed { what: String },
}

/// What came of a task.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) records: Vec<Record>,
    /// Coherence records allocated, and objects moved.
    pub(super) churn: u64,
    pub(super) moves: u64,
}

pub(crate) fn run(args: &SoakWorkerArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    stop.with_parent()?;
    // Whoever is told to stop is told nothing else any more, and so leaves, unless an operation hangs.
    thread::spawn(move || {
        stop.wait();
        thread::sleep(PATIENCE);
        std::process::exit(1);
    });
    let outcome = stay(args);
    if let Err(error) = &outcome {
        tell(&Event::Failed { what: format!("{error:#}") })?;
    }
    outcome
}

fn stay(args: &SoakWorkerArgs) -> Result<()> {
    let objects = Objects::join_pod(tombolo_pod::open(&args.pod)?, args.local.options())?;
    tell(&Event::Joined)?;
    let client = |thread| {
        let &SoakWorkerArgs { host, life, seed, keys, .. } = args;
        let lies = args.plant_stale_read && thread == 0;
        Client::new(Identity { host, thread, life, seed, keys }, &objects, lies)
    };
    let mut clients: Vec<Client<'_>> = (0..args.threads).map(client).collect();
    let outcome = obey(&objects, &mut clients);
    drop(clients);
    objects.leave()?;
    outcome
}

fn obey(objects: &Objects, clients: &mut [Client<'_>]) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line.context("cannot read what to do")?;
        let task = serde_json::from_str(&line)
            .with_context(|| format!("{line:?} means nothing to a worker"))?;
        let before = objects.stats();
        let records = match task {
            Task::Work { start, end } => work(clients, start, end)?,
            Task::ReadAll { start } => match clients.first_mut() {
                Some(client) => client.read_all(start)?,
                None => bail!("a worker without threads reads nothing"),
            },
            Task::Leave => return Ok(()),
        };
        let stats = objects.stats().since(before);
        tell(&Event::Done(Done { records, churn: stats.churn, moves: stats.moves }))?;
    }
    Ok(())
}

fn work(clients: &mut [Client<'_>], start: u64, end: u64) -> Result<Vec<Record>> {
    thread::scope(|scope| {
        let run = |client| scope.spawn(move || Client::work(client, start, end));
        let threads: Vec<_> = clients.iter_mut().map(run).collect();
        let mut records = Vec::new();
        for thread in threads {
            records.extend(thread.join().expect("no client panics")?);
        }
        Ok(records)
    })
}
