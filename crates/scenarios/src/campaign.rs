//! Campaigns: scenarios under many schedules, on as many threads as there are processors.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_memory::Site;
use tombolo_simulator::{
    Adversary, Caches, Coverage, DeathAt, Fate, Mutant, Trial, catch, enumerate,
};

use crate::Scenario;
use crate::failure::{Failure, explain, shorten};
use crate::registry::{PLAYED, all_sites, sites};

/// Seeds that a worker takes at once.
const BATCH: u64 = 64;

/// How far a campaign is, and whether it is to go on: shared with the thread that shows it and
/// stops it.
#[derive(Debug, Default)]
pub struct Control {
    schedules: AtomicU64,
    stopped: AtomicBool,
}

impl Control {
    /// Schedules that were run.
    pub fn schedules(&self) -> u64 {
        self.schedules.load(Ordering::Relaxed)
    }

    /// Ends the campaign soon.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was ended.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn ran(&self, schedules: u64) {
        self.schedules.fetch_add(schedules, Ordering::Relaxed);
    }
}

/// The conditions of a campaign.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The policy that decides what happens when.
    pub adversary: Adversary,
    /// Hosts, where a scenario leaves the number open.
    pub hosts: Option<usize>,
    /// The step that is left out.
    pub without: Option<Mutant>,
    /// Whether breaking a rule about lines is a failure by itself.
    pub sanitize: bool,
    /// Threads.
    pub jobs: usize,
    /// Failures after which a campaign ends.
    pub failures: usize,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            adversary: Adversary::Mixed,
            hosts: None,
            without: None,
            sanitize: true,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            failures: 1,
        }
    }
}

impl Conditions {
    /// One run of these.
    pub fn trial(&self, seed: u64) -> Trial {
        let mut trial = Trial::new(seed).with_adversary(self.adversary.clone());
        trial.without = self.without;
        trial.sanitize = self.sanitize;
        trial.hosts = self.hosts;
        trial
    }
}

/// The outcome of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Schedules run.
    pub schedules: u64,
    /// The coverage.
    pub coverage: Coverage,
    /// Runs in which a death was aimed.
    pub aims: u64,
    /// How many of them came to it.
    pub hits: u64,
    /// Steps at which deaths can be aimed, and the most lines of a host that were dirty then.
    pub targets: BTreeMap<Site, u32>,
    /// Histories checked, those undecided included.
    pub histories: u64,
    /// Histories that the checker's budget did not suffice for: not passed.
    pub undecided: u64,
    /// The failures.
    pub failures: Vec<Failure>,
}

impl Tally {
    pub(crate) fn absorb(&mut self, trial: &Trial, schedules: u64) {
        let observed = trial.observed();
        self.schedules += schedules;
        self.coverage.merge(&observed.coverage);
        self.hits += observed.hits;
        self.histories += observed.histories.0;
        self.undecided += observed.histories.1;
    }

    /// Steps that no schedule has come to.
    pub fn missed_steps(&self) -> Vec<Site> {
        let crossed = self.coverage.sites();
        sites().filter(|site| !crossed.contains_key(site)).collect()
    }

    /// Steps that some schedule has come to, and that no crate has in its list of steps.
    pub fn unlisted_steps(&self) -> Vec<Site> {
        let listed: BTreeSet<Site> = all_sites().chain(PLAYED.iter().copied()).collect();
        self.coverage.sites().into_keys().filter(|site| !listed.contains(site)).collect()
    }

    /// Steps to which no host has come that may die, so that no death was aimed there.
    pub fn spared_steps(&self) -> Vec<Site> {
        sites().filter(|site| !self.targets.contains_key(site)).collect()
    }

    /// Steps at which a host might have died, each with a fate of its dirty lines that no schedule
    /// has shown.
    pub fn missed_deaths(&self) -> Vec<(Site, Fate)> {
        let deaths = self.coverage.deaths();
        let targets = self.targets.iter().map(|(&site, &dirty)| (site, dirty.min(2) as u8));
        targets
            .flat_map(|(site, dirty)| {
                // Of one line, all is as one is, and none as all but one.
                let fates = if dirty < 2 { &[Fate::Lost, Fate::Written][..] } else { &Fate::ALL };
                fates.iter().map(move |&fate| DeathAt { site, fate, dirty })
            })
            .filter(|wanted| {
                !deaths.iter().any(|death| {
                    (death.site, death.fate) == (wanted.site, wanted.fate)
                        && death.dirty >= wanted.dirty
                })
            })
            .map(|missed| (missed.site, missed.fate))
            .collect()
    }

    /// Adds what came of another.
    pub fn merge(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.coverage.merge(&other.coverage);
        (self.aims, self.hits) = (self.aims + other.aims, self.hits + other.hits);
        for (site, dirty) in other.targets {
            let most = self.targets.entry(site).or_default();
            *most = dirty.max(*most);
        }
        self.histories += other.histories;
        self.undecided += other.undecided;
        self.failures.extend(other.failures);
    }
}

/// Runs every scenario under every seed.
pub fn run(
    scenarios: &[Scenario],
    seeds: Range<u64>,
    conditions: &Conditions,
    control: &Control,
) -> Tally {
    let batches = (seeds.end - seeds.start).div_ceil(BATCH);
    let jobs: Vec<(&Scenario, Range<u64>)> = (0..batches)
        .flat_map(|batch| {
            let start = seeds.start + batch * BATCH;
            let end = (start + BATCH).min(seeds.end);
            scenarios.iter().map(move |scenario| (scenario, start..end))
        })
        .collect();
    in_parallel(&jobs, conditions, control, |(scenario, seeds), tally| {
        let trial = conditions.trial(0);
        for seed in seeds.clone() {
            let trial = trial.with_seed(seed);
            control.ran(1);
            tally.schedules += 1;
            if let Err(what) = catch(|| (scenario.run)(&trial)) {
                tally.failures.push(explain(scenario, &conditions.trial(seed), what));
            }
            if control.is_stopped() || tally.failures.len() >= conditions.failures {
                break;
            }
        }
        tally.absorb(&trial, 0);
    })
}

/// Runs every schedule of the scenarios with up to `preemptions` preemptions, with caches of every
/// kind.
pub fn exhaust(
    scenarios: &[Scenario],
    preemptions: usize,
    seed: u64,
    conditions: &Conditions,
    control: &Control,
) -> Tally {
    let all_caches = [(true, true), (true, false), (false, true), (false, false)]
        .map(|(sticky, late)| Caches { sticky, late });
    let jobs: Vec<(&Scenario, Caches)> =
        all_caches.iter().flat_map(|&caches| scenarios.iter().map(move |s| (s, caches))).collect();
    in_parallel(&jobs, conditions, control, |&(scenario, caches), tally| {
        let trial = conditions.trial(seed);
        let goes_on = || {
            control.ran(1);
            !control.is_stopped()
        };
        let found = enumerate(&trial, preemptions, caches, scenario.run, goes_on);
        tally.absorb(&trial, found.schedules);
        if let Some((schedule, what)) = found.failure {
            let found = (schedule, Some(caches));
            tally.failures.push(shorten(scenario, &conditions.trial(seed), what, found));
        }
    })
}

pub(crate) fn in_parallel<J: Sync>(
    jobs: &[J],
    conditions: &Conditions,
    control: &Control,
    work: impl Fn(&J, &mut Tally) + Sync,
) -> Tally {
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    let failures = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..conditions.jobs {
            scope.spawn(|| {
                let mut tally = Tally::default();
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let enough = failures.load(Ordering::Relaxed) >= conditions.failures as u64;
                    if control.is_stopped() || enough {
                        break;
                    }
                    let before = tally.failures.len();
                    work(job, &mut tally);
                    failures.fetch_add((tally.failures.len() - before) as u64, Ordering::Relaxed);
                }
                total.lock().expect("no worker panics").merge(tally);
            });
        }
    });
    let mut tally = total.into_inner().expect("no worker panics");
    tally.failures.sort_by_key(|failure| (failure.scenario, failure.seed));
    tally
}
