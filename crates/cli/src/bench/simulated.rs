//! `tombolo bench ycsb --profile`: the same benchmark in a pod in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use tombolo_baselines::{HcMeta, HcMetaOptions};
use tombolo_memory::Memory;
use tombolo_objects::{Locks, Objects, Options};
use tombolo_pod::{Geometry, Pod};
use tombolo_sharing::Scheme as Sharing;
use tombolo_timing::{Profile, Simulation, Spec, TimedMemory};
use tombolo_workloads::{Inserts, Operations, Workload};

use super::report::{Report, Setting, Simulated};
use super::worker::PhaseResult;
use crate::cli::{Scheme, YcsbArgs};
use crate::drive::{Driver, Phase, Share, Target, histogram};

/// How often a host does its background work.
const TICK: Duration = Duration::from_millis(1);

/// One run.
pub(crate) fn measure(args: &YcsbArgs, scheme: Scheme, profile: &Profile) -> Result<Report> {
    let mut workload = args.workload.workload()?;
    let hosts = args.hosts.map_or(profile.pod.hosts, u32::from);
    let threads = args.threads.unwrap_or(profile.pod.cores);
    let Profile { name, pod, .. } = profile;
    ensure!(hosts <= pod.hosts, "{name} has {} hosts, not {hosts}", pod.hosts);
    ensure!(threads <= pod.cores, "{name} has {} cores a host, not {threads}", pod.cores);
    workload.thread_count = threads * hosts;
    workload.check()?;
    let key_bytes = u64::from(workload.longest_key_bytes());
    let run = Run { args, scheme, profile, workload, hosts, threads };
    match scheme {
        Scheme::Megalon => run.of::<Objects<TimedMemory>>(args.local.options()),
        Scheme::AllLog => {
            run.of::<Objects<TimedMemory>>(Options { locks: Locks::Log, ..Options::default() })
        }
        Scheme::HcMeta | Scheme::HcMetaLocal | Scheme::HcMetaUnlimited => run
            .of::<HcMeta<TimedMemory>>(HcMetaOptions {
                hosts: u8::try_from(hosts)?,
                key_bytes,
                local: scheme == Scheme::HcMetaLocal,
                owner_delay: Duration::from_micros(args.schemes.owner_delay_us),
                idle_looks: 1,
                ..HcMetaOptions::default()
            }),
    }
}

struct Run<'a> {
    args: &'a YcsbArgs,
    scheme: Scheme,
    profile: &'a Profile,
    workload: Workload,
    hosts: u32,
    threads: u32,
}

impl Run<'_> {
    fn of<S: Sharing<Memory = TimedMemory> + 'static>(self, options: S::Options) -> Result<Report> {
        let started = Instant::now();
        let Self { args, scheme, profile, workload, hosts, threads } = self;
        let sizes = super::sizes(args, scheme, &workload).options_for(u8::try_from(hosts)?);
        let spec = Spec {
            profile: profile.clone(),
            scr_bytes: sizes.scr_bytes.unwrap_or(super::DEFAULT_SCR),
            lnr_bytes: sizes
                .lnr_bytes
                .context("the size of LNR is not known")?
                .next_multiple_of(64),
            seed: args.workload.seed,
        };
        let geometry = Geometry::plan(spec.scr_bytes, spec.lnr_bytes, sizes.layout)?;
        let scr_fixed_bytes = geometry.areas().records.offset();
        let per_thread = workload.operations_of_thread(0).unwrap_or(0);
        let warm_up = args.warm_up.unwrap_or(per_thread);
        let records = workload.record_count;
        let mut lab: Lab<S> =
            Lab::create(spec, geometry, workload, hosts, threads, args.workload.verify, &options)?;
        lab.load()?;
        lab.run(warm_up)?;
        let before = lab.simulation.counts();
        let ran = lab.run(per_thread)?;
        let counts = lab.simulation.counts().since(&before);
        let setting = Setting {
            scheme,
            workload: args.workload.name(),
            world: "simulated",
            hosts: u8::try_from(hosts)?,
            threads_per_host: threads,
            records,
            scr_fixed_bytes,
        };
        let simulated = Simulated {
            profile: profile.name.clone(),
            wall_s: started.elapsed().as_secs_f64(),
            counts,
        };
        Report::new(setting, None, &ran, Some(simulated))
    }
}

/// A host's objects in virtual time.
struct Timed<S>(Rc<S>);

impl<S: Sharing<Memory = TimedMemory>> Target for Timed<S> {
    fn uptime(&self) -> Duration {
        self.0.memory().uptime()
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.0.read(key, value)?.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value)?;
        Ok(())
    }

    fn put_part(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<bool> {
        self.0.write_range(key, offset, bytes)?;
        Ok(true)
    }
}

/// What all threads share.
struct Plan {
    workload: Workload,
    hosts: u32,
    threads: u32,
    seed: u64,
    verify: bool,
}

impl Plan {
    /// Does `work` as a thread of a host.
    fn drive<S: Sharing<Memory = TimedMemory>, R>(
        &self,
        host: u32,
        objects: &Rc<S>,
        work: impl FnOnce(&Driver<'_, Timed<S>>) -> Result<R>,
    ) -> Result<R> {
        let (done, stopping) = (AtomicU64::new(0), AtomicBool::new(false));
        work(&Driver {
            target: &Timed(Rc::clone(objects)),
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

/// What a thread will have come to.
type Slot<T> = Rc<RefCell<Option<Result<T>>>>;

/// A thread's operations, which go on from phase to phase.
struct Work {
    operations: Operations,
    inserts: Arc<Inserts>,
}

/// A pod in virtual time, with its hosts' handles.
struct Lab<S> {
    simulation: Simulation,
    hosts: Vec<Rc<S>>,
    plan: Rc<Plan>,
    work: Vec<Rc<RefCell<Work>>>,
}

impl<S: Sharing<Memory = TimedMemory> + 'static> Lab<S> {
    /// Creates a pod that all hosts have joined.
    fn create(
        spec: Spec,
        geometry: Geometry,
        workload: Workload,
        hosts: u32,
        threads: u32,
        verify: bool,
        options: &S::Options,
    ) -> Result<Self> {
        let seed = spec.seed;
        let mut simulation = Simulation::new(spec);
        Pod::format(simulation.memory(0), geometry)?;
        let joined: Vec<Slot<Rc<S>>> = (0..hosts).map(|_| Slot::default()).collect();
        let count = Rc::new(Cell::new(0));
        for (host, slot) in joined.iter().enumerate() {
            let (slot, count, options) = (Rc::clone(slot), Rc::clone(&count), options.clone());
            simulation.spawn(host, 0, move |memory| {
                let handle = join::<S>(memory.clone(), options);
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
        let hosts_joined = joined
            .into_iter()
            .map(|slot| slot.take().context("a host has not joined")?)
            .collect::<Result<Vec<_>>>()?;
        let plan = Rc::new(Plan { workload, hosts, threads, seed, verify });
        let mut work = Vec::new();
        for (host, objects) in (0..).zip(&hosts_joined) {
            work.extend(plan.drive(host, objects, |driver| {
                let inserts = driver.inserts();
                (host * threads..(host + 1) * threads)
                    .map(|thread| {
                        let operations = driver.operations(thread, &inserts)?;
                        let inserts = Arc::clone(&inserts);
                        Ok(Rc::new(RefCell::new(Work { operations, inserts })))
                    })
                    .collect::<Result<Vec<_>>>()
            })?);
        }
        Ok(Self { simulation, hosts: hosts_joined, plan, work })
    }

    /// Loads the records, which takes no time.
    fn load(&mut self) -> Result<()> {
        self.phase(|driver, thread, _| driver.load_share(thread))?;
        Ok(())
    }

    /// Runs so many operations of each thread, in virtual time.
    fn run(&mut self, operations: u64) -> Result<Vec<PhaseResult>> {
        self.simulation.takes_time(true);
        self.phase(move |driver, thread, work| {
            let Work { operations: all, inserts } = work;
            driver.run_share(thread, all, operations, inserts)
        })
    }

    /// Has all threads of all hosts do something, while each host does its background work; what came of
    /// it, by host.
    fn phase(
        &mut self,
        body: impl Fn(&Driver<'_, Timed<S>>, u32, &mut Work) -> Result<Share> + 'static,
    ) -> Result<Vec<PhaseResult>> {
        let Plan { hosts, threads, .. } = *self.plan;
        let body = Rc::new(body);
        let running = Rc::new(Cell::new(hosts * threads));
        let shares: Vec<Slot<(Share, Duration)>> =
            self.work.iter().map(|_| Slot::default()).collect();
        let before: Vec<_> = self.hosts.iter().map(|host| host.stats()).collect();
        let started = self.simulation.now();
        for (host, objects) in (0..).zip(&self.hosts) {
            let (ticking, running_here) = (Rc::clone(objects), Rc::clone(&running));
            let last_core = self.simulation.cores() - 1;
            self.simulation.spawn(host as usize, last_core, move |memory| {
                while running_here.get() > 0 && ticking.tick().is_ok() {
                    memory.sleep(TICK);
                }
            });
            for core in 0..threads {
                let thread = host * threads + core;
                let (plan, body, objects) =
                    (Rc::clone(&self.plan), Rc::clone(&body), Rc::clone(objects));
                let (work, slot) =
                    (Rc::clone(&self.work[thread as usize]), Rc::clone(&shares[thread as usize]));
                let running = Rc::clone(&running);
                self.simulation.spawn(host as usize, core as usize, move |memory| {
                    let share = plan.drive(host, &objects, |driver| {
                        body(driver, thread, &mut work.borrow_mut())
                    });
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
            let objects = &self.hosts[host];
            Ok(PhaseResult::new(&phase, objects.stats().since(before[host]), objects.usage()))
        };
        (0..self.hosts.len()).map(of_host).collect()
    }
}

fn join<S: Sharing<Memory = TimedMemory>>(memory: TimedMemory, options: S::Options) -> Result<S> {
    Ok(S::join(Pod::open(memory)?, options)?)
}
