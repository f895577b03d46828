//! Measures what a figure needs, one pod at a time.

use std::time::Duration;

use anyhow::Result;
use tombolo_workloads::Workload;

use super::Settings;
use super::point::Measured;
use super::run::{Run, Step};
use super::scheme::{Edition, Scheme};
use crate::lab::{Demand, Lab, Ran, Setup};
use crate::phase::{Hosts, PhaseResult};

/// Operations that are measured of a point, of all threads: one for so many objects, within bounds.
const OBJECTS_PER_OPERATION: u64 = 4;
const LEAST_OPERATIONS: u64 = 7_200;
const MOST_OPERATIONS: u64 = 60_000;

/// A thread that waits for a slow owner is simulated looking for messages all the time; fewer such
/// operations do, if so many of them churn: nearly all the time goes there, so that how many happen to
/// churn decides what is measured.
const SLOW_SHARE: u64 = 2;
const SLOW_CHURNS: f64 = 5_000.0;

/// Operations by which caches are filled, at full scale.
const CACHE_OPERATIONS: f64 = 450_000.0;

/// If some operations bring about changes, others are done in rounds, one operation for so many objects,
/// until as many of them do so in a round as in the one before, but for a small part of those, or of all.
const OBJECTS_PER_SKIPPED: u64 = 8;
const ROUNDS: u32 = 8;
const STEADY: f64 = 0.05;
const RARE: f64 = 0.001;

/// What is done for a point, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The pod, and its objects, come to be.
    Loading,
    /// Caches and records get as they would be after a while.
    WarmingUp,
    /// Operations are measured.
    Measuring,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Loading, Self::WarmingUp, Self::Measuring];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
        }
    }
}

/// How far one is with a pod.
pub(crate) enum Progress {
    /// This is being done, for the step with this number, which is called so.
    Does(Stage, usize, String),
    /// A point is done.
    Done,
}

/// Measures the first `todo` points of a pod, by step.
pub(crate) fn run(
    run: &Run,
    todo: usize,
    settings: &Settings,
    tell: &dyn Fn(Progress) -> Result<()>,
) -> Result<Vec<Measured>> {
    let Settings { profile, scale, seed } = settings;
    let does =
        |stage, number: usize| tell(Progress::Does(stage, number, run.place(&run.steps[number])));
    does(Stage::Loading, 0)?;
    let hosts = profile.pod.hosts;
    let whole = |bytes: f64| ((bytes * scale) as u64).next_multiple_of(4096);
    let mut lab = Lab::create(Setup {
        profile: run.scheme.profile(run.edition, profile.clone().with_caches_of(*scale)),
        hosts,
        sharing: run.scheme.sharing(run.edition, *scale, hosts, u64::from(run.key_bytes)),
        scr_bytes: whole(run.scr_bytes()),
        lnr_bytes: whole(run.lnr_bytes()),
        layout: run.layout(),
        seed: *seed,
        verify: false,
        pages: run.pages.then(|| (run.millions() * 1e6 * scale) as u64),
    })?;
    let mut pod = Pod { run, settings, lab: &mut lab, loaded: 0, written: 0 };
    let mut points = Vec::new();
    for (number, step) in run.steps[..todo].iter().enumerate() {
        does(Stage::Loading, number)?;
        let threads = step.threads.min(profile.pod.cores);
        let workload = pod.prepare(step, threads)?;
        pod.lab.demand(&Demand { workload, threads, shared: step.mix.shared })?;
        points.push(if step.mix.operates() {
            does(Stage::WarmingUp, number)?;
            let settled = pod.settle()?;
            does(Stage::Measuring, number)?;
            pod.measure(settled)?
        } else {
            let idle = pod.lab.run(0)?;
            pod.measured(&idle, 0)?
        });
        tell(Progress::Done)?;
    }
    Ok(points)
}

/// What came of the operations before those that are measured.
struct Settled {
    operations: u64,
    /// How many of the last ones brought about changes, per operation.
    changes: f64,
}

struct Pod<'a> {
    run: &'a Run,
    settings: &'a Settings,
    lab: &'a mut Lab,
    /// Objects there are.
    loaded: u64,
    /// Of these so many have been written since.
    written: u64,
}

impl Pod<'_> {
    /// Creates the objects that a step needs; its workload.
    fn prepare(&mut self, step: &Step, threads: u32) -> Result<Workload> {
        let objects = (step.millions * 1e6 * self.settings.scale) as u64;
        let workload = step.workload(objects, self.run.key_bytes, self.run.value_bytes())?;
        let new = |before: u64| {
            let (insert_start, insert_count) = (before, objects.saturating_sub(before));
            Workload { insert_start, insert_count, ..workload.clone() }
        };
        if objects > self.loaded {
            self.lab.load(&new(self.loaded), threads)?;
            self.loaded = objects;
        }
        let megalon = self.run.scheme == Scheme::Megalon;
        if objects > self.written && step.mix.changes() && megalon {
            // Some time each object will have been written, and needed a record. With the skew that
            // follows, that would take more operations than can be simulated.
            self.lab.write(&new(self.written), threads)?;
            self.written = objects;
        }
        Ok(workload)
    }

    /// Operations that are measured, of which this part brings about changes.
    fn operations(&self, changes: f64) -> u64 {
        let most = (self.loaded / OBJECTS_PER_OPERATION).clamp(LEAST_OPERATIONS, MOST_OPERATIONS);
        ((SLOW_CHURNS / changes) as u64).clamp(most / self.slow_share(), most)
    }

    fn slow_share(&self) -> u64 {
        let slow = self.run.edition == Edition::Published && self.run.scheme.waits_for_owners();
        if slow { SLOW_SHARE } else { 1 }
    }

    /// Runs operations at the pace that they would have until it makes no difference any more.
    fn settle(&mut self) -> Result<Settled> {
        let tried = self.lab.run(self.operations(1.0) / 4)?;
        let pace = Duration::from_nanos(Hosts(&tried.hosts).latencies()?.mean() as u64);
        let changes = |ran: &Ran| Hosts(&ran.hosts).per_op(|stats| stats.churn + stats.moved_in);
        let mut before = changes(&tried);
        let mut operations = Hosts(&tried.hosts).operations();
        for _ in 0..ROUNDS {
            if before == 0.0 {
                break;
            }
            let ran = self.lab.skip(self.loaded / OBJECTS_PER_SKIPPED, pace)?;
            operations += Hosts(&ran.hosts).operations();
            let now = changes(&ran);
            let close = (before - now).abs() <= RARE.max(STEADY * now);
            before = now;
            if close {
                break;
            }
        }
        Ok(Settled { operations, changes: before })
    }

    fn measure(&mut self, settled: Settled) -> Result<Measured> {
        let operations = self.operations(settled.changes);
        let fills = (CACHE_OPERATIONS * self.settings.scale) as u64 / self.slow_share();
        self.lab.run(fills.max(operations / 4))?;
        let ran = self.lab.run(operations)?;
        self.measured(&ran, settled.operations)
    }

    fn measured(&self, ran: &Ran, warm_up: u64) -> Result<Measured> {
        let memory_gb = self.memory_bytes(&ran.hosts) / 1e9 / self.settings.scale;
        Measured::of(ran, warm_up, memory_gb)
    }

    /// Objects, SCR that is used, logs, and what each host's own memory has.
    fn memory_bytes(&self, hosts: &[PhaseResult]) -> f64 {
        let all = Hosts(hosts);
        let of_each: u64 = hosts
            .iter()
            .map(|PhaseResult { usage, .. }| usage.local_bytes + usage.home_bytes)
            .sum();
        let shared =
            all.most(|usage| usage.lnr_used_bytes) + all.most(|usage| usage.scr_used_bytes);
        let key_bytes = u64::from(self.run.key_bytes);
        let more = self.run.scheme.more_index_bytes(self.run.edition, key_bytes);
        let indexes = hosts.len() as u64 * self.loaded * more;
        (shared + self.lab.fixed_bytes() + of_each + indexes) as f64
    }
}
