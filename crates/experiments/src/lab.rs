//! A pod in virtual time, and what is done with it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tombolo_baselines::{HcMeta, HcMetaOptions, Pace};
use tombolo_memory::Memory;
use tombolo_objects::{Locks, Objects, Options};
use tombolo_pagecache::{self as pages, ByRecord, InHeader};
use tombolo_pod::{Geometry, Options as Layout, Pod};
use tombolo_timing::{Counts, Profile, Simulation, Spec, TimedMemory};
use tombolo_workloads::{Op, Workload};

use crate::drive::{Driver, Load, Phase, Share, histogram};
use crate::phase::PhaseResult;
use crate::requests::{Owner, Partition, Requests, last_of_each};
use crate::subject::{Blank, Paged, Plain, Subject};

/// How often a host does its background work.
const TICK: Duration = Duration::from_millis(1);

/// How often it does what may take longer.
const TIDY: Duration = Duration::from_millis(10);

/// How often it sees whether threads have ended.
const REST: Duration = Duration::from_micros(20);

/// How often one that serves requests one after the other looks whether it may go on.
const LOOK: Duration = Duration::from_nanos(500);

/// A way of sharing objects, and how hosts take part.
#[derive(Clone, Debug)]
pub enum Sharing {
    /// MEGALON or, as its options say, AllLog.
    Megalon(Options),
    /// HCMeta and its variants.
    HcMeta(HcMetaOptions),
}

/// The pod to simulate.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What it is made of.
    pub profile: Profile,
    /// How many of the profile's hosts take part.
    pub hosts: u32,
    /// How objects are shared.
    pub sharing: Sharing,
    /// Size of SCR in bytes.
    pub scr_bytes: u64,
    /// Size of LNR in bytes.
    pub lnr_bytes: u64,
    /// The rest of its layout.
    pub layout: Layout,
    /// Decides everything that is drawn by lot.
    pub seed: u64,
    /// Check every value that is read.
    pub verify: bool,
    /// Objects are so many pages of a file, in a page cache. Then the number at the end of a key is that of
    /// a page, and records are whole pages.
    pub pages: Option<u64>,
}

/// What threads ask for from now on.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The workload; how many threads there are in all, it does not say.
    pub workload: Workload,
    /// Threads of each host.
    pub threads: u32,
    /// The share of objects, and of operations, that is for all hosts; each other object only its
    /// owner uses. Unless given, all are for all.
    pub shared: Option<f64>,
}

/// A phase of all hosts.
pub struct Ran {
    /// What it came to, by host.
    pub hosts: Vec<PhaseResult>,
    /// What the machine has counted.
    pub counts: Counts,
    /// What all hosts did with pages.
    pub pages: pages::Counts,
}

/// A pod in virtual time, which all its hosts have joined.
pub struct Lab {
    bench: Box<dyn Bench>,
    geometry: Geometry,
}

impl Lab {
    /// Creates a pod.
    ///
    /// # Errors
    /// If the profile has fewer hosts, or the pod would be too small.
    pub fn create(setup: Setup) -> Result<Self> {
        let Profile { name, pod, .. } = &setup.profile;
        ensure!(setup.hosts <= pod.hosts, "{name} has {} hosts, not {}", pod.hosts, setup.hosts);
        let geometry = Geometry::plan(setup.scr_bytes, setup.lnr_bytes, setup.layout)?;
        let (bench, pace): (Box<dyn Bench>, _) = match setup.sharing.clone() {
            Sharing::Megalon(options) => {
                // Nobody dies in virtual time, and hosts that have nothing to do stand still.
                let options = Options { host_timeout: Duration::MAX, ..options };
                let bench: Box<dyn Bench> = match (setup.pages, options.locks) {
                    (None, _) => Hosts::<Plain<Objects<_>>>::boxed(setup, geometry, options)?,
                    (_, Locks::Log) => {
                        let options = pages::Options::with(options);
                        Hosts::<Paged<InHeader<Objects<_>>>>::boxed(setup, geometry, options)?
                    }
                    (_, Locks::Records) => {
                        let small_lines = pages::Options::default().objects.small_lines;
                        let options = pages::Options::with(Options { small_lines, ..options });
                        Hosts::<Paged<ByRecord<_>>>::boxed(setup, geometry, options)?
                    }
                };
                (bench, Pace::default())
            }
            Sharing::HcMeta(options) => {
                let pace = options.pace;
                // Without time to look in, once is enough.
                let options = HcMetaOptions { idle_looks: 1, pace: Pace::default(), ..options };
                let bench: Box<dyn Bench> = if setup.pages.is_none() {
                    Hosts::<Plain<HcMeta<_>>>::boxed(setup, geometry, options)?
                } else {
                    let options = pages::Options::with(options);
                    Hosts::<Paged<InHeader<HcMeta<_>>>>::boxed(setup, geometry, options)?
                };
                (bench, pace)
            }
        };
        let mut lab = Self { bench, geometry };
        lab.pace_owners(pace);
        Ok(lab)
    }

    /// The pod's layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// SCR that is in use whatever is in the pod.
    pub fn scr_fixed_bytes(&self) -> u64 {
        self.geometry.areas().records.offset()
    }

    /// SCR and LNR that are: logs, tables and windows.
    pub fn fixed_bytes(&self) -> u64 {
        self.scr_fixed_bytes() + self.geometry.areas().chunks.offset()
    }

    /// Loads the records of a workload, which takes no time; pages are admitted. There may be others.
    ///
    /// # Errors
    /// Those of the scheme.
    pub fn load(&mut self, workload: &Workload, threads: u32, load: Load) -> Result<()> {
        self.bench.load(workload, threads, load)
    }

    /// Says what threads ask for from now on.
    ///
    /// # Errors
    /// If the workload makes no sense, or a host has fewer cores.
    pub fn demand(&mut self, demand: &Demand) -> Result<()> {
        self.bench.demand(demand)
    }

    /// Runs so many operations in virtual time. Who is faster does more of them, so that all threads end
    /// together.
    ///
    /// # Errors
    /// Those of the scheme.
    pub fn run(&mut self, operations: u64) -> Result<Ran> {
        self.bench.run(operations, None)
    }

    /// Runs so many operations without caches and links: for what only many operations bring about. Each
    /// takes `pace`, so that hosts get to their background work as often as they would.
    ///
    /// # Errors
    /// Those of the scheme.
    pub fn skip(&mut self, operations: u64, pace: Duration) -> Result<Ran> {
        self.bench.run(operations, Some(pace))
    }

    /// Brings about what so many operations would have, as far as that depends on which objects were used
    /// last: of each object's operations only the last one is done, in their order, as [`skip`](Self::skip) does them.
    ///
    /// # Errors
    /// Those of the scheme, or if operations insert objects.
    pub fn recall(&mut self, operations: u64, pace: Duration) -> Result<Ran> {
        self.bench.recall(operations, pace)
    }

    /// From now on owners answer so fast, if there are owners, wherever operations take time. One that
    /// serves one request after the other looks for them whenever it may, whatever its host's threads
    /// do.
    pub fn pace_owners(&mut self, pace: Pace) {
        self.bench.pace_owners(pace);
    }
}

/// A pod with its hosts.
trait Bench {
    fn load(&mut self, workload: &Workload, threads: u32, load: Load) -> Result<()>;
    fn demand(&mut self, demand: &Demand) -> Result<()>;
    fn run(&mut self, operations: u64, pace: Option<Duration>) -> Result<Ran>;
    fn recall(&mut self, operations: u64, pace: Duration) -> Result<Ran>;
    fn pace_owners(&mut self, pace: Pace);
}

/// What a thread will have come to.
type Slot<T> = Rc<RefCell<Option<Result<T>>>>;

/// What all threads share.
struct Plan {
    workload: Workload,
    hosts: u32,
    threads: u32,
    seed: u64,
    verify: bool,
}

/// What is asked for, by thread.
#[derive(Clone)]
struct Asked {
    plan: Rc<Plan>,
    requests: Rc<[RefCell<Requests>]>,
}

/// The handles of a pod's hosts.
struct Hosts<S> {
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
    fn boxed(setup: Setup, geometry: Geometry, options: S::Options) -> Result<Box<Self>> {
        Self::create(setup, geometry, options).map(Box::new)
    }

    /// Creates a pod that all hosts have joined.
    fn create(setup: Setup, geometry: Geometry, options: S::Options) -> Result<Self> {
        let Setup { profile, hosts, scr_bytes, lnr_bytes, seed, verify, pages, .. } = setup;
        let file = Arc::new(Blank::new(pages.unwrap_or(0)));
        let mut simulation = Simulation::new(Spec { profile, scr_bytes, lnr_bytes, seed });
        Pod::format(simulation.memory(0), geometry)?;
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

    /// What all hosts have done with pages.
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

    /// Has all threads do what `next` says, given their requests and numbers, until there is nothing; it takes time, unless a `pace` is
    /// given that operations are to have.
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
                    driver.target.foresee(&key);
                    driver.target.memory().sleep(pace);
                }
                Some(operation)
            };
            driver.run_share(thread, std::iter::from_fn(next), u64::MAX, &inserts)
        })?;
        let counts = self.simulation.counts().since(&before);
        Ok(Ran { hosts, counts, pages: self.pages().since(pages) })
    }

    /// What threads share who do this workload.
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

    /// Has all threads of all hosts do something, while each host does its background work; what came of
    /// it, by host.
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

#[cfg(test)]
mod tests {
    use tombolo_baselines::Victims;

    use super::*;

    const OBJECTS: u64 = 3000;

    /// A small pod whose objects do not all have entries, and are read.
    fn small(options: HcMetaOptions) -> Lab {
        small_of(options, 8)
    }

    /// The same, of hosts with so many threads.
    fn small_of(options: HcMetaOptions, threads: u32) -> Lab {
        let sharing = Sharing::HcMeta(HcMetaOptions { hosts: 3, ..options });
        busy(sharing, 64 << 10, threads, 'c', OBJECTS)
    }

    /// A pod whose hosts have so many threads, for a stock workload with so many objects.
    fn busy(sharing: Sharing, scr_bytes: u64, threads: u32, workload: char, objects: u64) -> Lab {
        let profile = crate::figures::test_bed();
        let hosts = profile.pod.hosts;
        let setup = Setup {
            profile,
            hosts,
            sharing,
            scr_bytes,
            lnr_bytes: 64 << 20,
            layout: Layout::default(),
            seed: 1,
            verify: true,
            pages: None,
        };
        let mut lab = Lab::create(setup).unwrap();
        let stock = Workload::stock(workload).unwrap();
        let workload = Workload { record_count: objects, insert_count: objects, ..stock };
        lab.load(&workload, threads, Load::Create).unwrap();
        lab.demand(&Demand { workload, threads, shared: None }).unwrap();
        lab
    }

    fn churn(ran: &Ran) -> f64 {
        crate::phase::Hosts(&ran.hosts).per_op(|stats| stats.churn)
    }

    /// Operations and churns per second where owners answer so fast.
    fn churns(pace: Pace) -> (f64, f64) {
        let mut lab = small(HcMetaOptions { pace, ..HcMetaOptions::default() });
        lab.run(2000).unwrap();
        let ran = lab.run(6000).unwrap();
        let per_second = crate::phase::Hosts(&ran.hosts).per_second();
        (per_second, per_second * churn(&ran))
    }

    const PACE: Duration = Duration::from_micros(1);

    #[test]
    fn objects_that_are_read_keep_their_entries_where_reads_count() {
        let of = |victims| {
            let mut lab = small(HcMetaOptions { victims, ..HcMetaOptions::default() });
            lab.skip(20_000, PACE).unwrap();
            churn(&lab.skip(100_000, PACE).unwrap())
        };
        let (not_used, least_written) = (of(Victims::NotUsed), of(Victims::LeastWritten));
        assert!(1.05 * not_used < least_written, "{not_used} and {least_written}");
    }

    #[test]
    fn what_is_recalled_need_not_be_done() {
        let after = |before: &dyn Fn(&mut Lab)| {
            let mut lab = small(HcMetaOptions::default());
            before(&mut lab);
            churn(&lab.skip(1000, PACE).unwrap())
        };
        let at_first = after(&|_| ());
        let done = after(&|lab| _ = lab.skip(20 * OBJECTS, PACE).unwrap());
        let recalled = after(&|lab| {
            let ran = lab.recall(3 * OBJECTS, PACE).unwrap();
            let operations = crate::phase::Hosts(&ran.hosts).operations();
            assert!((OBJECTS / 4..OBJECTS).contains(&operations), "each object once: {operations}");
        });
        assert!(recalled - done < 0.5 * (at_first - done), "{at_first}, {recalled}, {done}");
    }

    #[test]
    fn who_waits_for_an_object_does_not_look_all_the_time() {
        let mut lab = busy(Sharing::Megalon(Options::default()), 4 << 20, 8, 'a', 2);
        lab.run(1000).unwrap();
        let looks =
            crate::phase::Hosts(&lab.run(5000).unwrap().hosts).per_op(|stats| stats.retries);
        assert!(looks < 10.0, "{looks} in vain for each operation");
    }

    #[test]
    fn who_asks_an_owner_looks_for_the_answer_all_the_time() {
        let mut lab = small_of(HcMetaOptions::default(), 1);
        lab.run(2000).unwrap();
        let took = crate::phase::Hosts(&lab.run(6000).unwrap().hosts).churn_us().unwrap();
        // Looks that become rarer would add a tenth.
        assert!(took < 7.0, "{took} µs");
    }

    #[test]
    fn owners_who_serve_one_request_after_the_other_limit_what_all_do() {
        let micros = Duration::from_micros;
        let delayed = churns(Pace { delay: micros(20), ..Pace::default() }).0;
        let (served, churns) = churns(Pace { service: micros(20), ..Pace::default() });
        let most = 3.0 / 20e-6;
        assert!(churns < most && churns > 0.5 * most, "{churns} churns/s of at most {most}");
        assert!(served < 0.5 * delayed, "{served} operations/s, not {delayed}");
    }
}
