//! One host of a soak. It does what it is told, line by line, and tells what came of it in JSON,
//! line by line.

use std::io::BufRead;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tombolo::{Objects, Stats};

use super::client::{Client, Identity, Plants, is_fenced};
use super::journal::Journal;
use crate::children::tell;
use crate::cli::SoakWorkerArgs;
use crate::stop::Stop;

/// How long a host that was told to stop may take to leave.
const PATIENCE: Duration = Duration::from_secs(20);

/// The tasks of a host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// Do operations, from now until `end`.
    Work { end: u64 },
    /// Read every key.
    ReadAll,
    /// Wait until all that is in use is in order, and tell how much that is.
    Settle,
    /// Leave the pod, and end.
    Leave,
}

/// The events that a host tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// It is in the pod, in this seat.
    Joined { seat: u8 },
    /// It has done what it was told; its journal says more.
    Done(Counts),
    /// It was fenced, and ends.
    Fenced,
    /// Nothing is in use but what objects have.
    Settled(InUse),
    /// It could not go on.
    Failed { what: String },
}

/// The operations of a host since it last told.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Coherence records allocated, and objects moved.
    pub(super) churn: u64,
    pub(super) moves: u64,
    /// Hosts cleared up after; objects that such a host had locked and that are whole, and that are
    /// lost.
    pub(super) recoveries: u64,
    pub(super) rescues: u64,
    pub(super) lost: u64,
}

/// The memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InUse {
    pub(super) objects: u64,
    pub(super) lnr_bytes: u64,
    pub(super) coherence_records: u64,
}

impl Counts {
    fn between(before: Stats, after: Stats) -> Self {
        let Stats { churn, moves, recoveries, rescues, lost, .. } = after.since(before);
        Self { churn, moves, recoveries, rescues, lost }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.churn += other.churn;
        self.moves += other.moves;
        self.recoveries += other.recoveries;
        self.rescues += other.rescues;
        self.lost += other.lost;
    }
}

impl InUse {
    pub(super) fn of(objects: &Objects) -> Self {
        let usage = objects.usage();
        Self {
            objects: usage.objects,
            lnr_bytes: usage.lnr_used_bytes,
            coherence_records: usage.records_used,
        }
    }

    /// Whether a pod that is opened again has this in use, in which no object has a record yet.
    pub(super) fn is_left(self, reopened: Self) -> bool {
        reopened == Self { coherence_records: 0, ..self }
    }
}

pub(crate) fn run(args: &SoakWorkerArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    stop.with_parent()?;
    // A worker that is told to stop is told nothing else any more, and so leaves, unless an
    // operation hangs.
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
    let journal = Journal::open(&args.journal)?;
    let objects = Objects::join_pod(
        tombolo_pod::open(&args.pod.clone().trusted(args.trust_me))?,
        args.local.options(),
    )?;
    tell(&Event::Joined { seat: objects.seat().host() })?;
    let client = |thread| {
        let &SoakWorkerArgs { host, life, seed, keys, .. } = args;
        let plants = Plants {
            stale_read: args.plant_stale_read && thread == 0,
            loss: args.plant_loss && thread == 0,
        };
        let who = Identity { host, thread, life, seed, keys };
        Client::new(who, &objects, &journal, args.load, plants)
    };
    let mut clients: Vec<Client<'_>> = (0..args.threads).map(client).collect::<Result<_>>()?;
    let outcome = obey(&objects, &mut clients);
    drop(clients);
    let outcome = outcome.and(objects.leave().map_err(Into::into));
    match outcome {
        Err(error) if is_fenced(&error) => tell(&Event::Fenced),
        outcome => outcome,
    }
}

fn obey(objects: &Objects, clients: &mut [Client<'_>]) -> Result<()> {
    let mut before = objects.stats();
    for line in std::io::stdin().lock().lines() {
        let line = line.context("cannot read what to do")?;
        let task = serde_json::from_str(&line)
            .with_context(|| format!("{line:?} means nothing to a worker"))?;
        match task {
            Task::Work { end } => work(clients, end)?,
            Task::ReadAll => match clients.first_mut() {
                Some(client) => client.read_all()?,
                None => bail!("a worker without threads reads nothing"),
            },
            Task::Settle => {
                tell(&Event::Settled(settle(objects)?))?;
                continue;
            }
            Task::Leave => return Ok(()),
        }
        let after = objects.stats();
        tell(&Event::Done(Counts::between(before, after)))?;
        before = after;
    }
    Ok(())
}

fn work(clients: &mut [Client<'_>], end: u64) -> Result<()> {
    thread::scope(|scope| {
        let run = |client| scope.spawn(move || Client::work(client, end));
        let threads: Vec<_> = clients.iter_mut().map(run).collect();
        // All are waited for, and what only followed from being fenced is told last.
        let ended = threads.into_iter().map(|thread| thread.join().expect("no client panics"));
        let (fenced, other): (Vec<_>, Vec<_>) = ended.filter_map(Result::err).partition(is_fenced);
        other.into_iter().chain(fenced).next().map_or(Ok(()), Err)
    })
}

/// Waits until all hosts that have died are cleared up after, and no record is in use but objects'.
fn settle(objects: &Objects) -> Result<InUse> {
    let started = Instant::now();
    loop {
        objects.object_count()?;
        let fenced: Vec<u8> = objects.area().membership().fenced().collect();
        let unowned = objects.unowned_records();
        if fenced.is_empty() && unowned == 0 {
            return Ok(InUse::of(objects));
        }
        if started.elapsed() > PATIENCE / 2 {
            let left: Vec<String> =
                fenced.iter().map(|&host| what_is_left(objects, host)).collect();
            bail!(
                "all hosts are quiet, but {unowned} coherence records are in use that are no object's, and hosts \
                 that died are not cleared up after: {}",
                if left.is_empty() { "none".to_owned() } else { left.join(", ") }
            );
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Why a host that was fenced is not cleared up after, as far as this one can tell.
fn what_is_left(objects: &Objects, host: u8) -> String {
    let stay = objects.area().stay_of(host);
    let gone = if objects.area().is_gone(stay) { "gone" } else { "not known to be gone" };
    // An error that the background work meets again and again.
    let error = objects.fence(host).err();
    let error = error.map_or_else(String::new, |error| format!(": {error}"));
    format!("host {host} ({gone}, process {}{error})", objects.pod().pid_at(host))
}
