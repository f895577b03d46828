//! The hosts of a lab's pod: their threads, their background work, and who asks them for objects.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tombolo_baselines::Pace;
use tombolo_memory::Memory;
use tombolo_pagecache as pages;
use tombolo_pod::{Layout, Pod};
use tombolo_timing::{Simulation, Spec, TimedMemory};
use tombolo_workloads::{Op, Workload};

use super::{Bench, Demand, Ran, Setup};
use crate::drive::{Driver, Load, Phase, Share, histogram};
use crate::phase::PhaseResult;
use crate::requests::{Owner, Partition, Requests, last_of_each};
use crate::subject::{Blank, Subject};

/// How often a host does its background work.
const TICK: Duration = Duration::from_millis(1);

/// How often it does what may take longer.
const TIDY: Duration = Duration::from_millis(10);

/// How often it sees whether threads have ended.
const REST: Duration = Duration::from_micros(20);

/// How often one that serves requests one after the other looks whether it may go on.
const LOOK: Duration = Duration::from_nanos(500);

/// The place for a thread's result.
type Slot<T> = Rc<RefCell<Option<Result<T>>>>;

/// The state that all threads share.
struct Plan {
    workload: Workload,
    hosts: u32,
    threads: u32,
    seed: u64,
    verify: bool,
}

/// The requests, by thread.
#[derive(Clone)]
struct Asked {
    plan: Rc<Plan>,
    requests: Rc<[RefCell<Requests>]>,
}

/// The handles of a pod's hosts.
pub(super) struct Hosts<S> {
    simulation: Simulation,
    handles: Vec<Rc<S>>,
    /// How fast owners answer where operations take time.
    pace: Pace,
    seed: u64,
    verify: bool,
    /// Demands there were.
    demands: u64,
    now: Option<Asked>,
}

impl Plan {
    /// Does `work` as a thread of a host.
    fn drive<S: Subject, R>(
        &self,
        host: u32,
        target: &S,
        work: impl FnOnce(&Driver<'_, S>) -> Result<R>,
    ) -> Result<R> {
        let (done, stopping) = (AtomicU64::new(0), AtomicBool::new(false));
        work(&Driver {
            target,
            workload: &self.workload,
            seed: self.seed,
            host,
            hosts: self.hosts,
            verify: self.verify,
            blank: !self.verify && !self.workload.data_integrity,
            until_full: false,
            done: &done,
            stopping: &stopping,
        })
    }
}

impl<S: Subject> Bench for Hosts<S> {
    fn load(&mut self, workload: &Workload, threads: u32, load: Load) -> Result<()> {
        let plan = self.plan(workload, threads)?;
        self.takes_time(false);
        self.phase(&plan, move |driver, thread| driver.load_share(thread, load))?;
        self.phase(&plan, |driver, thread| {
            if thread % driver.threads() == 0 {
                driver.target.settle()?;
            }
            Ok(Share::default())
        })?;
        Ok(())
    }

    fn demand(&mut self, demand: &Demand) -> Result<()> {
        let plan = self.plan(&demand.workload, demand.threads)?;
        self.demands += 1;
        let mut requests = Vec::new();
        for (host, objects) in (0..).zip(&self.handles) {
            let owner = self.owner(objects, &plan);
            requests.extend(plan.drive(host, &**objects, |driver| {
                let inserts = driver.inserts();
                (host * plan.threads..(host + 1) * plan.threads)
                    .map(|thread| {
                        let seed = plan.seed << 16 | u64::from(thread);
                        let partition = demand
                            .shared
                            .map(|shared| Partition::new(shared, host, Rc::clone(&owner), seed));
                        let operations = driver.operations(thread, &inserts)?;
                        let inserts = inserts.clone();
                        let requests = Requests { operations, inserts, partition };
                        Ok(RefCell::new(requests))
                    })
                    .collect::<Result<Vec<_>>>()
            })?);
        }
        self.now = Some(Asked { plan, requests: requests.into() });
        Ok(())
    }

    fn run(&mut self, operations: u64, pace: Option<Duration>) -> Result<Ran> {
        let asked = self.asked()?;
        let left = Cell::new(operations);
        self.operate(asked, pace, move |requests, _| {
            left.set(left.get().checked_sub(1)?);
            requests.next()
        })
    }

    fn recall(&mut self, operations: u64, pace: Duration) -> Result<Ran> {
        let asked = self.asked()?;
        let objects = asked.plan.workload.record_count;
        let last = RefCell::new(last_of_each(&asked.requests, objects, operations)?);
        self.operate(asked, Some(pace), move |_, thread| last.borrow_mut()[thread].pop())
    }

    fn pace_owners(&mut self, pace: Pace) {
        self.pace = pace;
    }
}

impl<S: Subject> Hosts<S> {
    pub(super) fn boxed(setup: Setup, layout: &Layout, options: S::Options) -> Result<Box<Self>> {
        Self::create(setup, layout, options).map(Box::new)
    }

    /// Creates a pod that all hosts have joined.
    fn create(setup: Setup, layout: &Layout, options: S::Options) -> Result<Self> {
        let Setup { profile, hosts, scr_bytes, lnr_bytes, seed, verify, pages, .. } = setup;
        let file = Arc::new(Blank::new(pages.unwrap_or(0)));
        let mut simulation = Simulation::new(Spec { profile, scr_bytes, lnr_bytes, seed });
        Pod::format(simulation.memory(0), layout)?;
        let joined: Vec<Slot<Rc<S>>> = (0..hosts).map(|_| Slot::default()).collect();
        let count = Rc::new(Cell::new(0));
        for (host, slot) in joined.iter().enumerate() {
            let (slot, count, options) = (Rc::clone(slot), Rc::clone(&count), options.clone());
            let file = Arc::clone(&file);
            simulation.spawn(host, 0, move |memory| {
                let handle = join::<S>(memory.clone(), options, file);
                *slot.borrow_mut() = Some(handle.map(Rc::new));
                count.set(count.get() + 1);
                // Those who are joining wait for those who have.
                let handle =
                    slot.borrow().as_ref().and_then(|handle| handle.as_ref().ok()).cloned();
                while count.get() < hosts
                    && handle.as_ref().is_none_or(|handle| handle.tick().is_ok())
                {
                    memory.sleep(TICK);
                }
            });
        }
        simulation.run();
        let handles = joined
            .into_iter()
            .map(|slot| slot.take().context("a host has not joined")?)
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { simulation, handles, pace: Pace::default(), seed, verify, demands: 0, now: None })
    }

    /// The counters of the page cache, over all hosts.
    fn pages(&self) -> pages::Counts {
        self.handles.iter().map(|handle| handle.pages()).sum()
    }

    fn takes_time(&self, timed: bool) {
        self.simulation.takes_time(timed);
        let pace = if timed { self.pace } else { Pace::default() };
        self.handles.iter().for_each(|handle| handle.pace_owners(pace));
    }

    fn asked(&self) -> Result<Asked> {
        self.now.clone().context("nothing is asked for yet")
    }

    /// Has all threads do what `next` says, given their requests and numbers, until there is
    /// nothing; it takes time, unless a `pace` is given that operations are to have.
    fn operate(
        &mut self,
        Asked { plan, requests }: Asked,
        pace: Option<Duration>,
        next: impl Fn(&mut Requests, usize) -> Option<Op> + 'static,
    ) -> Result<Ran> {
        self.takes_time(pace.is_none());
        let (before, pages) = (self.simulation.counts(), self.pages());
        let hosts = self.phase(&plan, move |driver, thread| {
            let mut requests = requests[thread as usize].borrow_mut();
            let inserts = requests.inserts.clone();
            let mut key = Vec::new();
            let next = || {
                let operation = next(&mut requests, thread as usize)?;
                if let Some(pace) = pace {
                    // Others go on meanwhile.
                    driver.workload.key(operation.key(), &mut key);
                    driver.target.prefetch(&key);
                    driver.target.memory().sleep(pace);
                }
                Some(operation)
            };
            driver.run_share(thread, std::iter::from_fn(next), u64::MAX, &inserts)
        })?;
        let counts = self.simulation.counts().since(&before);
        Ok(Ran { hosts, counts, pages: self.pages().since(pages) })
    }

    /// The state that the threads of this workload share.
    fn plan(&self, workload: &Workload, threads: u32) -> Result<Rc<Plan>> {
        let cores = self.simulation.cores();
        ensure!(threads as usize <= cores, "a host has {cores} cores, not {threads}");
        let hosts = self.handles.len() as u32;
        let mut workload = workload.clone();
        workload.thread_count = threads * hosts;
        workload.check()?;
        // Each demand draws anew.
        let seed = self.seed.wrapping_add(self.demands << 32);
        Ok(Rc::new(Plan { workload, hosts, threads, seed, verify: self.verify }))
    }

    fn owner(&self, objects: &Rc<S>, plan: &Rc<Plan>) -> Owner {
        let (objects, plan) = (Rc::clone(objects), Rc::clone(plan));
        let name = RefCell::new(Vec::new());
        Rc::new(move |number| {
            let mut name = name.borrow_mut();
            plan.workload.key(number, &mut name);
            objects.owner(&name, plan.hosts)
        })
    }

    /// Has all threads of all hosts do something, while each host does its background work; returns
    /// the results by host.
    fn phase(
        &mut self,
        plan: &Rc<Plan>,
        body: impl Fn(&Driver<'_, S>, u32) -> Result<Share> + 'static,
    ) -> Result<Vec<PhaseResult>> {
        let Plan { hosts, threads, .. } = **plan;
        let body = Rc::new(body);
        // Once a thread has ended, there are fewer to do what others ask for.
        let paced = self.simulation.is_timed() && self.pace != Pace::default();
        let all = hosts * threads;
        let running = Rc::new(Cell::new(hosts * threads));
        let shares: Vec<Slot<(Share, Duration)>> =
            (0..hosts * threads).map(|_| Slot::default()).collect();
        let before: Vec<_> = self.handles.iter().map(|host| host.stats()).collect();
        let started = self.simulation.now();
        for (host, objects) in (0..).zip(&self.handles) {
            let (ticking, running_here) = (Rc::clone(objects), Rc::clone(&running));
            let last_core = self.simulation.cores() - 1;
            let (tidied, running_too) = (Rc::clone(objects), Rc::clone(&running));
            if S::TIDIES {
                self.simulation.spawn(host as usize, last_core, move |memory| {
                    while running_too.get() > 0 && tidied.tidy().is_ok() {
                        memory.sleep(TIDY);
                    }
                });
            }
            self.simulation.spawn(host as usize, last_core, move |memory| {
                while running_here.get() > 0 && ticking.tick().is_ok() {
                    let next = memory.uptime() + TICK;
                    while running_here.get() > 0 && memory.uptime() < next {
                        let looks = paced || running_here.get() < all;
                        if looks {
                            let _ = ticking.serve();
                        }
                        memory.sleep(if looks { LOOK } else { REST });
                    }
                }
            });
            for core in 0..threads {
                let thread = host * threads + core;
                let (plan, body, objects) = (Rc::clone(plan), Rc::clone(&body), Rc::clone(objects));
                let (slot, running) = (Rc::clone(&shares[thread as usize]), Rc::clone(&running));
                self.simulation.spawn(host as usize, core as usize, move |memory| {
                    let share = plan.drive(host, &*objects, |driver| body(driver, thread));
                    *slot.borrow_mut() = Some(share.map(|share| (share, memory.uptime())));
                    running.set(running.get() - 1);
                });
            }
        }
        self.simulation.run();
        let of_host = |host: usize| {
            let first = host * threads as usize;
            let mut phase =
                Phase { operations: 0, elapsed: Duration::ZERO, latency_ns: histogram() };
            for slot in &shares[first..first + threads as usize] {
                let (share, ended) = slot.take().context("a thread has not ended")??;
                phase.elapsed = phase.elapsed.max(ended.saturating_sub(started));
                phase.add(share)?;
            }
            let objects = &self.handles[host];
            Ok(PhaseResult::new(&phase, objects.stats().since(before[host]), objects.usage()))
        };
        (0..self.handles.len()).map(of_host).collect()
    }
}

fn join<S: Subject>(memory: TimedMemory, options: S::Options, file: Arc<Blank>) -> Result<S> {
    S::join(Pod::open(memory)?, options, file)
}
