//! A pod in virtual time, and what is done with it.

mod hosts;

use std::time::Duration;

use anyhow::{Result, ensure};
use tombolo_baselines::{HcMeta, HcMetaOptions, Pace};
use tombolo_objects::{Locks, Objects, Options};
use tombolo_pagecache::{self as pages, ByRecord, InHeader};
use tombolo_sharing::{Geometry, Options as Layout, plan_layout};
use tombolo_timing::{Counts, Profile};
use tombolo_workloads::Workload;

use self::hosts::Hosts;
use crate::drive::Load;
use crate::phase::PhaseResult;
use crate::subject::{Paged, Plain};

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
    /// The machine's latencies, bandwidths and sizes.
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
    /// Objects are so many pages of a file, in a page cache. Then the number at the end of a key is
    /// that of a page, and records are whole pages.
    pub pages: Option<u64>,
}

/// The operations that threads ask for from now on.
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
    /// The results, by host.
    pub hosts: Vec<PhaseResult>,
    /// The machine's counters.
    pub counts: Counts,
    /// The counters of the page cache, over all hosts.
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
        let layout = plan_layout(setup.scr_bytes, setup.lnr_bytes, setup.layout)?;
        let geometry = Geometry::within(&layout, &layout.areas[0])?;
        let (bench, pace): (Box<dyn Bench>, _) = match setup.sharing.clone() {
            Sharing::Megalon(options) => {
                // Nobody dies in virtual time, and hosts that have nothing to do stand still.
                let options = Options { host_timeout: Duration::MAX, ..options };
                let bench: Box<dyn Bench> = match (setup.pages, options.locks) {
                    (None, _) => Hosts::<Plain<Objects<_>>>::boxed(setup, &layout, options)?,
                    (_, Locks::Log) => {
                        let options = pages::Options::with(options);
                        Hosts::<Paged<InHeader<Objects<_>>>>::boxed(setup, &layout, options)?
                    }
                    (_, Locks::Records) => {
                        let small_lines = pages::Options::default().objects.small_lines;
                        let options = pages::Options::with(Options { small_lines, ..options });
                        Hosts::<Paged<ByRecord<_>>>::boxed(setup, &layout, options)?
                    }
                };
                (bench, Pace::default())
            }
            Sharing::HcMeta(options) => {
                let pace = options.pace;
                // Without time to look in, once is enough.
                let options = HcMetaOptions { idle_looks: 1, pace: Pace::default(), ..options };
                let bench: Box<dyn Bench> = if setup.pages.is_none() {
                    Hosts::<Plain<HcMeta<_>>>::boxed(setup, &layout, options)?
                } else {
                    let options = pages::Options::with(options);
                    Hosts::<Paged<InHeader<HcMeta<_>>>>::boxed(setup, &layout, options)?
                };
                (bench, pace)
            }
        };
        let mut lab = Self { bench, geometry };
        lab.pace_owners(pace);
        Ok(lab)
    }

    /// Where objects lie in the pod.
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

    /// Loads the records of a workload, which takes no time; pages are admitted. There may be
    /// others.
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

    /// Runs so many operations in virtual time. A faster thread does more of them, so that all
    /// threads end together.
    ///
    /// # Errors
    /// Those of the scheme.
    pub fn run(&mut self, operations: u64) -> Result<Ran> {
        self.bench.run(operations, None)
    }

    /// Runs so many operations without caches and links: for what only many operations bring about.
    /// Each takes `pace`, so that hosts get to their background work as often as they would.
    ///
    /// # Errors
    /// Those of the scheme.
    pub fn skip(&mut self, operations: u64, pace: Duration) -> Result<Ran> {
        self.bench.run(operations, Some(pace))
    }

    /// Brings about what so many operations would have, as far as that depends on which objects
    /// were used last: of each object's operations only the last one is done, in their order, as
    /// [`skip`](Self::skip) does them.
    ///
    /// # Errors
    /// Those of the scheme, or if operations insert objects.
    pub fn recall(&mut self, operations: u64, pace: Duration) -> Result<Ran> {
        self.bench.recall(operations, pace)
    }

    /// From now on owners answer so fast, if there are owners, wherever operations take time. One
    /// that serves one request after the other looks for them whenever it may, whatever its host's
    /// threads do.
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

#[cfg(test)]
mod tests {
    use tombolo_baselines::Victims;
    use tombolo_workloads::RequestDistribution;

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
        // Few objects are popular, so that it matters which of them keep their entries.
        let request_distribution = RequestDistribution::ZipfianExact;
        let (record_count, insert_count) = (objects, objects);
        let workload = Workload { record_count, insert_count, request_distribution, ..stock };
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
