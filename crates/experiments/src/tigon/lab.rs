//! A database in virtual time: its hosts, their workers, dispatchers and loggers.
//!
//! A host has a core for each worker, one for its dispatcher, which does the background work, and
//! one for its logger. Requests of other hosts are handed to workers, as published: a worker
//! answers when it begins a transaction, and while it waits itself. Setting up, loading and sharing
//! rows take no time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tombolo_database::TableId;
use tombolo_database::log::Logger;
use tombolo_memory::Memory;
use tombolo_oltp::{
    Aborts, BackOff, Driver, DriverOptions, Seat, Stats, Step, Until, Worker, Workload, load,
};
use tombolo_pod::Pod;
use tombolo_timing::{Counts, Profile, Simulation, Spec, TimedMemory};

use super::storage::TimedStorage;
use super::subject::{Plan, Shared, Subject};

/// How often a dispatcher does background work, and a logger looks for an epoch that has ended.
const TICK: Duration = Duration::from_millis(1);

type Log = Logger<TimedMemory, TimedStorage>;
type Shelf<T> = Rc<RefCell<Option<T>>>;

/// The outcome of a stretch of time.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) seconds: f64,
    pub(super) commits: u64,
    /// Committed transactions that became durable.
    pub(super) durable: u64,
    /// From the first attempt to the commit, in microseconds: half of all transactions, and all but
    /// one of 100.
    pub(super) commit_us: [f64; 2],
    /// The same until it is durable, in milliseconds.
    pub(super) durable_ms: [f64; 2],
    pub(super) aborts: Aborts,
    /// The counters of hosts; SCR is the memory that they hold at the end.
    pub(super) shared: Shared,
    pub(super) log_bytes: u64,
    pub(super) counts: Counts,
}

/// The state that threads of one stretch share.
#[derive(Clone, Default)]
struct Stretch {
    running: Rc<Cell<u32>>,
    failure: Rc<RefCell<Option<anyhow::Error>>>,
}

impl Stretch {
    fn goes_on(&self) -> bool {
        self.running.get() > 0 && self.failure.borrow().is_none()
    }

    /// Notes why a thread cannot go on; the first reason counts.
    fn note<E: Into<anyhow::Error>>(&self, outcome: Result<(), E>) {
        if let Err(error) = outcome {
            self.failure.borrow_mut().get_or_insert_with(|| error.into());
        }
    }

    fn work<E: Into<anyhow::Error>>(&self, outcome: Result<(), E>) {
        self.note(outcome);
        self.running.set(self.running.get() - 1);
    }
}

/// A database that all hosts have joined.
pub(super) struct Lab<S, W: Workload> {
    simulation: Simulation,
    hosts: Vec<Rc<S>>,
    loggers: Vec<Shelf<Log>>,
    workload: Rc<W>,
    /// By host and number.
    workers: Vec<Vec<Shelf<Worker<W>>>>,
    seed: u64,
}

impl<S: Subject, W: Workload + 'static> Lab<S, W>
where
    W::Worker: 'static,
    W::Input: 'static,
{
    /// Creates a database and loads it.
    pub(super) fn create(
        profile: Profile,
        plan: &Plan,
        workload: W,
        (seed, shared): (u64, &[TableId]),
    ) -> Result<Self> {
        let (name, pod) = (&profile.name, &profile.pod);
        let cores = u32::from(plan.workers) + 2;
        ensure!(pod.hosts >= plan.hosts.into(), "{name} has {} hosts", pod.hosts);
        ensure!(pod.cores >= cores, "{name} has {} cores a host, not {cores}", pod.cores);
        ensure!(profile.database.is_some(), "{name} has no [database] section");
        let device = profile.storage.with_context(|| format!("{name} has no [storage] section"))?;
        let (layout, (scr_bytes, lnr_bytes)) = (S::layout(plan)?, plan.bytes);
        let simulation = Simulation::new(Spec { profile, scr_bytes, lnr_bytes, seed });
        Pod::format(simulation.memory(0), &layout)?;
        let count = usize::from(plan.hosts);
        let mut lab = Self {
            simulation,
            hosts: Vec::new(),
            loggers: (0..count).map(|_| Shelf::default()).collect(),
            workload: Rc::new(workload),
            workers: Vec::new(),
            seed,
        };
        lab.join(plan)?;
        lab.load(shared)?;
        if plan.is_logged {
            lab.open_logs(device)?;
        }
        lab.seat(u32::from(plan.workers));
        Ok(lab)
    }

    fn join(&mut self, plan: &Plan) -> Result<()> {
        let joined: Vec<Shelf<S>> = self.loggers.iter().map(|_| Shelf::default()).collect();
        let stretch = Stretch::default();
        for (host, shelf) in joined.iter().enumerate() {
            let (shelf, plan, stretch) = (Rc::clone(shelf), plan.clone(), stretch.clone());
            self.simulation.spawn(host, 0, move |memory| {
                let outcome = S::join(memory, &plan);
                stretch.note(outcome.map(|joined| _ = shelf.borrow_mut().replace(joined)));
            });
        }
        self.finish(&stretch)?;
        let hosts = joined.into_iter().map(|shelf| shelf.take().context("a host is missing"));
        self.hosts = hosts.map(|host| host.map(Rc::new)).collect::<Result<_>>()?;
        Ok(())
    }

    fn load(&mut self, shared: &[TableId]) -> Result<()> {
        let stretch = Stretch::default();
        stretch.running.set(self.hosts.len() as u32);
        for (host, engine) in self.hosts.iter().enumerate() {
            let (engine, workload) = (Rc::clone(engine), Rc::clone(&self.workload));
            let (stretch, shared) = (stretch.clone(), shared.to_vec());
            self.simulation.spawn(host, 0, move |memory| {
                let loaded = load(&*workload, &*engine, 0, 1);
                stretch
                    .work(loaded.and_then(|()| shared.iter().try_for_each(|&t| engine.share(t))));
                // Others may need this host until they have loaded theirs.
                while stretch.goes_on() {
                    stretch.note(engine.tick());
                    memory.pause();
                }
            });
        }
        self.finish(&stretch)
    }

    fn open_logs(&mut self, device: tombolo_timing::Storage) -> Result<()> {
        let stretch = Stretch::default();
        for (host, (engine, shelf)) in self.hosts.iter().zip(&self.loggers).enumerate() {
            let (engine, shelf, stretch) = (Rc::clone(engine), Rc::clone(shelf), stretch.clone());
            self.simulation.spawn(host, 0, move |memory| {
                let storage = TimedStorage::new(memory, device);
                let opened = Logger::open(Arc::clone(engine.group()), storage);
                stretch.note(opened.map(|logger| _ = shelf.borrow_mut().replace(logger)));
            });
        }
        self.finish(&stretch)
    }

    fn seat(&mut self, workers: u32) {
        let (workload, seed) = (&*self.workload, self.seed);
        let of_host = |engine: &Rc<S>| {
            let driver = Driver::new(workload, &**engine, || 0, options(seed, 0, false));
            let worker = |number| driver.worker(&Seat::of(&**engine, number, workers));
            (0..workers).map(|number| Rc::new(RefCell::new(Some(worker(number))))).collect()
        };
        self.workers = self.hosts.iter().map(of_host).collect();
    }

    /// Runs all threads that were spawned.
    fn finish(&mut self, stretch: &Stretch) -> Result<()> {
        self.simulation.run();
        stretch.failure.take().map_or(Ok(()), Err)
    }

    /// Runs transactions for so long; `durable` says whether they are waited for until they are.
    pub(super) fn run(&mut self, time: Duration, durable: bool) -> Result<Ran> {
        self.simulation.takes_time(true);
        let now_ns = self.simulation.now().as_nanos() as u64;
        let options = options(self.seed, now_ns + time.as_nanos() as u64, durable);
        let (before, counts) = (self.shared(), self.simulation.counts());
        let logged = self.log_bytes();
        let stretch = Stretch::default();
        stretch.running.set(self.workers.iter().map(Vec::len).sum::<usize>() as u32);
        for host in 0..self.hosts.len() {
            self.spawn_workers(host, options, now_ns, &stretch);
            self.spawn_services(host, &stretch);
        }
        self.finish(&stretch)?;
        let stats = self.stats()?;
        let (total, after) = (stats.total(), self.shared());
        let quantiles = |histogram: &hdrhistogram::Histogram<u64>, unit: f64| {
            [0.5, 0.99].map(|quantile| histogram.value_at_quantile(quantile) as f64 / unit)
        };
        Ok(Ran {
            seconds: time.as_secs_f64(),
            commits: total.commits,
            durable: total.durable,
            commit_us: quantiles(&total.latency, 1e3),
            durable_ms: quantiles(&total.durable_latency, 1e6),
            aborts: total.aborts,
            shared: Shared {
                moved_in: after.moved_in - before.moved_in,
                moved_out: after.moved_out - before.moved_out,
                messages: after.messages - before.messages,
                scr_bytes: after.scr_bytes,
            },
            log_bytes: self.log_bytes() - logged,
            counts: self.simulation.counts().since(&counts),
        })
    }

    fn spawn_workers(
        &mut self,
        host: usize,
        options: DriverOptions,
        now_ns: u64,
        stretch: &Stretch,
    ) {
        for (core, shelf) in self.workers[host].iter().enumerate() {
            let (engine, workload) = (Rc::clone(&self.hosts[host]), Rc::clone(&self.workload));
            let (shelf, stretch) = (Rc::clone(shelf), stretch.clone());
            self.simulation.spawn(host, core, move |memory| {
                let Some(mut worker) = shelf.take() else { return };
                worker.reset_stats(now_ns);
                let clock = || memory.uptime().as_nanos() as u64;
                let driver = Driver::new(&*workload, &*engine, clock, options);
                let outcome = loop {
                    match driver.step(&mut worker) {
                        Ok(Step::Ended) => break Ok(()),
                        Ok(Step::Conflict { wait_ns } | Step::Waiting { wait_ns }) => {
                            memory.sleep(Duration::from_nanos(wait_ns));
                        }
                        Ok(Step::Committed(_) | Step::RolledBack | Step::GivenUp) => {}
                        Err(error) => break Err(error),
                    }
                    if !stretch.goes_on() {
                        break Ok(());
                    }
                };
                stretch.work(outcome);
                shelf.replace(Some(worker));
            });
        }
    }

    fn spawn_services(&mut self, host: usize, stretch: &Stretch) {
        let cores = self.simulation.cores();
        let (engine, dispatching) = (Rc::clone(&self.hosts[host]), stretch.clone());
        self.simulation.spawn(host, cores - 2, move |memory| {
            while dispatching.goes_on() {
                dispatching.note(engine.tick());
                memory.sleep(TICK);
            }
        });
        let (shelf, logging) = (Rc::clone(&self.loggers[host]), stretch.clone());
        self.simulation.spawn(host, cores - 1, move |memory| {
            let Some(mut logger) = shelf.take() else { return };
            while logging.goes_on() {
                logging.note(logger.tick().map(drop));
                memory.sleep(TICK);
            }
            shelf.replace(Some(logger));
        });
    }

    fn shared(&self) -> Shared {
        let all = |figure: fn(Shared) -> u64| self.hosts.iter().map(|h| figure(h.shared())).sum();
        Shared {
            moved_in: all(|shared| shared.moved_in),
            moved_out: all(|shared| shared.moved_out),
            messages: all(|shared| shared.messages),
            scr_bytes: all(|shared| shared.scr_bytes),
        }
    }

    fn log_bytes(&self) -> u64 {
        let bytes =
            |shelf: &Shelf<Log>| shelf.borrow().as_ref().map_or(0, |logger| logger.metrics().bytes);
        self.loggers.iter().map(bytes).sum()
    }

    fn stats(&self) -> Result<Stats> {
        let mut all: Option<Stats> = None;
        for shelf in self.workers.iter().flatten() {
            let worker = shelf.borrow();
            let stats = worker.as_ref().context("a worker has not ended")?.stats();
            match &mut all {
                Some(all) => all.add(stats),
                None => all = Some(stats.clone()),
            }
        }
        all.context("there are no workers")
    }
}

/// Conflicts are tried again as published.
fn options(seed: u64, end_ns: u64, durable: bool) -> DriverOptions {
    let back_off = BackOff::AS_PUBLISHED;
    DriverOptions { back_off, durable, seed, ..DriverOptions::new(Until::Time(end_ns)) }
}
