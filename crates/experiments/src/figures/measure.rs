//! Measures what a figure needs, one pod at a time.

use std::time::Duration;

use anyhow::Result;
use tombolo_workloads::Workload;

use super::Settings;
use super::point::Measured;
use super::run::{Popularity, Run, Step};
use super::scheme::{Edition, Scheme};
use crate::drive::Load;
use crate::lab::{Demand, Lab, Ran, Setup};
use crate::phase::{Hosts, PhaseResult};

/// Operations that are measured of a point, of all threads: one for so many objects, within bounds.
const OBJECTS_PER_OPERATION: u64 = 4;
const LEAST_OPERATIONS: u64 = 7_200;
const MOST_OPERATIONS: u64 = 60_000;

/// Where some churn, nearly all the time may go there, so that how many happen to decides what is
/// measured. So there are as many operations as let so many of them churn, within bounds.
const CHURNS: f64 = 8_000.0;
const MOST_CHURNING: u64 = 250_000;

/// The same where threads wait for slow owners: now for one, now for another, so how long one of
/// them has nothing to do is a matter of luck besides.
const SLOW_CHURNS: f64 = 16_000.0;

/// A thread that waits for a slow owner is simulated looking for messages all the time; fewer
/// operations do there to fill caches, and if few churn.
const SLOW_SHARE: u64 = 2;

/// Operations by which caches are filled, at full scale.
const CACHE_OPERATIONS: f64 = 450_000.0;

/// If some operations bring about changes, others are done before, one for so many objects, without
/// caches and links. How many is fixed: a run that went on until it makes no difference would end
/// here with one seed, and there with another.
const OBJECTS_PER_SKIPPED: u64 = 8;

/// Before that, wherever other objects are popular than were, comes the result of so many
/// operations for each object, as far as it depends on which were used last. In 30 s, as the
/// published scripts go on before they measure, the published HCMeta does as many.
const RECALLED_PER_OBJECT: u64 = 2;

/// The stages of a point, one after the other.
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

    /// The stage's name, for progress.
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
    let mut pod = Pod { run, settings, lab: &mut lab, loaded: 0, written: 0, popular: None };
    let mut points = Vec::new();
    for (number, step) in run.steps[..todo].iter().enumerate() {
        does(Stage::Loading, number)?;
        let threads = step.threads.min(profile.pod.cores);
        let workload = pod.prepare(step, threads)?;
        pod.lab.demand(&Demand { workload, threads, shared: step.mix.shared })?;
        points.push(if step.mix.operates() {
            does(Stage::WarmingUp, number)?;
            let settled = pod.settle(step)?;
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

/// The outcome of the operations before those that are measured.
struct Settled {
    operations: u64,
    /// How many of the last ones brought about changes, per operation.
    changes: f64,
}

/// How many operations brought about changes, of each.
fn changes_of(ran: &Ran) -> f64 {
    Hosts(&ran.hosts).per_op(|stats| stats.churn + stats.moved_in)
}

struct Pod<'a> {
    run: &'a Run,
    settings: &'a Settings,
    lab: &'a mut Lab,
    /// Objects there are.
    loaded: u64,
    /// Of these so many have been written since.
    written: u64,
    /// The popularity of objects in the last step that brought about changes.
    popular: Option<Popularity>,
}

impl Pod<'_> {
    /// Creates the objects that a step needs; its workload.
    fn prepare(&mut self, step: &Step, threads: u32) -> Result<Workload> {
        let objects = (step.millions * 1e6 * self.settings.scale) as u64;
        let workload = step.workload(objects, self.run.key_bytes, self.run.value_bytes())?;
        let some = |insert_start: u64, insert_count: u64| Workload {
            insert_start,
            insert_count,
            ..workload.clone()
        };
        let (created, written) =
            (objects.saturating_sub(self.loaded), self.to_write(step, objects));
        if self.loaded == self.written {
            self.load(&some(self.loaded, written), threads, Load::CreateAndWrite)?;
            self.load(&some(self.loaded + written, created - written), threads, Load::Create)?;
        } else {
            self.load(&some(self.loaded, created), threads, Load::Create)?;
            self.load(&some(self.written, written), threads, Load::Write)?;
        }
        self.loaded = self.loaded.max(objects);
        if written > 0 {
            self.written = objects;
        }
        Ok(workload)
    }

    /// How many objects that have not been written are to be before a step. Some time each will
    /// have been, and needed a record. With the skew that follows, that would take more operations
    /// than can be simulated. Once all records are in use, one that is written takes another's.
    fn to_write(&self, step: &Step, objects: u64) -> u64 {
        let writes = step.mix.changes() && self.run.scheme == Scheme::Megalon;
        let new = if writes { objects.saturating_sub(self.written) } else { 0 };
        new.min(self.lab.geometry().records)
    }

    fn load(&mut self, workload: &Workload, threads: u32, load: Load) -> Result<()> {
        if workload.insert_count == 0 { Ok(()) } else { self.lab.load(workload, threads, load) }
    }

    /// Operations that are measured, of which this part brings about changes.
    fn operations(&self, changes: f64) -> u64 {
        let within = |most| (self.loaded / OBJECTS_PER_OPERATION).clamp(LEAST_OPERATIONS, most);
        if changes == 0.0 {
            return within(MOST_OPERATIONS);
        }
        let least = within(MOST_OPERATIONS) / self.slow_share();
        let churns = if self.is_slow() { SLOW_CHURNS } else { CHURNS };
        ((churns / changes) as u64).clamp(least, within(MOST_CHURNING))
    }

    fn slow_share(&self) -> u64 {
        if self.is_slow() { SLOW_SHARE } else { 1 }
    }

    /// Whether threads wait for slow owners.
    fn is_slow(&self) -> bool {
        self.run.edition == Edition::Published && self.run.scheme.waits_for_owners()
    }

    /// Brings about what a while of such operations would.
    fn settle(&mut self, step: &Step) -> Result<Settled> {
        let tried = self.lab.run(self.operations(1.0) / 4)?;
        let (mut operations, changes) = (Hosts(&tried.hosts).operations(), changes_of(&tried));
        if changes == 0.0 {
            return Ok(Settled { operations, changes });
        }
        let pace = Duration::from_nanos(Hosts(&tried.hosts).latencies()?.mean() as u64);
        let known = self.popular.replace(step.popularity()) == Some(step.popularity());
        if !known && self.run.scheme.depends_on_last_uses() && !step.mix.inserts() {
            let recalled = RECALLED_PER_OBJECT * self.loaded;
            self.lab.recall(recalled, pace)?;
            operations += recalled;
        }
        let ran = self.lab.skip(self.loaded / OBJECTS_PER_SKIPPED, pace)?;
        operations += Hosts(&ran.hosts).operations();
        Ok(Settled { operations, changes: changes_of(&ran) })
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
            .map(|PhaseResult { usage, .. }| usage.local_bytes + usage.partition_bytes)
            .sum();
        let shared =
            all.most(|usage| usage.lnr_used_bytes) + all.most(|usage| usage.scr_used_bytes);
        let key_bytes = u64::from(self.run.key_bytes);
        let more = self.run.scheme.more_index_bytes(self.run.edition, key_bytes);
        let indexes = hosts.len() as u64 * self.loaded * more;
        (shared + self.lab.fixed_bytes() + of_each + indexes) as f64
    }
}
