//! Runs: a program with a policy on a platform.

use tombolo_tiers::load::{Chase, Hottest, Liblinear, Micro, PageRank, Redis, Scan};
use tombolo_tiers::{Events, Load, Machine, Policy, Round, System, Tier, pages_of};
use tombolo_timing::Profile;

use super::NomadSettings;

/// One of the paper's platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Platform {
    A,
    B,
    C,
    D,
}

impl Platform {
    pub(super) const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    pub(super) fn name(self) -> &'static str {
        ["A", "B", "C", "D"][self as usize]
    }

    pub(super) fn profile(self) -> Profile {
        let text = match self {
            Self::A => include_str!("../../../../profiles/nomad-a.toml"),
            Self::B => include_str!("../../../../profiles/nomad-b.toml"),
            Self::C => include_str!("../../../../profiles/nomad-c.toml"),
            Self::D => include_str!("../../../../profiles/nomad-d.toml"),
        };
        Profile::parse(self.name(), text).expect("it is tested")
    }

    /// Whether Memtis runs on it: it does not know AMD's sampling.
    pub(super) fn has_memtis(self) -> bool {
        self != Self::D
    }
}

/// A size of the micro-benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Size {
    Small,
    Medium,
    Large,
}

impl Size {
    pub(super) const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    pub(super) fn name(self) -> &'static str {
        ["small", "medium", "large"][self as usize]
    }

    /// Its memory, in GiB: what is filled and not used, what is used, and how much of that lies in
    /// the fast tier. Then its records and its uses of pages in a round.
    fn memory(self) -> Layout {
        let layout =
            |filler, used, fast, records, uses| Layout { filler, used, fast, records, uses };
        match self {
            Self::Small => layout(10.0, 10.0, 6.0, 2_700_000, 18e6),
            Self::Medium => layout(13.5, 13.5, 2.5, 3_600_000, 30e6),
            Self::Large => layout(0.0, 27.0, FAST, 8_000_000, 40e6),
        }
    }
}

struct Layout {
    filler: f64,
    used: f64,
    fast: f64,
    records: u64,
    uses: f64,
}

/// A case of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Case {
    /// 6 M records, all demoted first.
    One,
    /// 10 M records, all demoted first.
    Two,
    /// 10 M records.
    Three,
    /// 20 M records, in the slow tier first.
    Thrashing,
    /// 20 M records.
    Normal,
}

/// The program of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Micro {
        size: Size,
        hottest: Hottest,
        is_write: bool,
    },
    /// Figure 1's: so many GiB are used.
    Motivation {
        gib: u32,
        hottest: Hottest,
    },
    /// So many blocks of 1 GiB.
    Chase {
        blocks: u32,
    },
    /// So many GiB.
    Scan {
        gib: u32,
    },
    Redis {
        case: Case,
    },
    PageRank {
        is_large: bool,
    },
    Liblinear {
        is_large: bool,
    },
}

/// A program with a policy on a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) platform: Platform,
    pub(super) policy: Policy,
    pub(super) program: Program,
}

/// The outcome of a run.
pub(super) struct Outcome {
    /// The paper's "in progress": the first round.
    pub(super) first: Round,
    /// The paper's "stable": the fourth round, of programs that have rounds.
    pub(super) last: Round,
    /// Shadows at the end, in GiB of a machine at full scale.
    pub(super) shadows_gib: f64,
}

/// Memory of the fast tier that the system leaves to programs, in GiB: the paper has 30.7 GB of
/// both tiers, of 32.
pub(super) const FAST: f64 = 14.7;
/// The slow tier, for programs that fit and for those that do not.
const SLOW: f64 = 16.0;
const SLOW_LARGE: f64 = 128.0;
/// Rounds of the micro-benchmark, and the rest after each, in seconds.
const ROUNDS: usize = 4;
const REST: f64 = 10.0;
/// The room, in GiB, that figure 1's larger working set leaves to other memory: both do not fit
/// else.
const ROOM: f64 = 2.5;

/// A program ready to run: its threads, where its pages lie, its rounds, and what it does.
struct Ready {
    slow: f64,
    threads: usize,
    places: Vec<Tier>,
    rounds: usize,
    load: Box<dyn Load>,
}

impl Run {
    pub(super) fn measure(&self, settings: &NomadSettings) -> Outcome {
        let scale = settings.factor();
        let ready = self.ready(scale, settings.seed);
        let profile = self.platform.profile();
        let mut machine = Machine::new(&profile, self.policy, FAST, ready.slow, scale);
        if self.platform == Platform::C {
            machine.events = Events::CacheMisses;
        }
        let mut system = System::new(machine, ready.threads, ready.places);
        let mut load = ready.load;
        let first = system.run(&mut *load);
        let mut last = first.clone();
        for _ in 1..ready.rounds {
            system.rest(REST);
            last = system.run(&mut *load);
        }
        let shadows_gib = f64::from(system.shadows()) / scale / f64::from(pages_of(1.0));
        Outcome { first, last, shadows_gib }
    }

    fn ready(&self, scale: f64, seed: u64) -> Ready {
        let pages = |gib: f64| pages_of(gib * scale);
        let fast_first = |gib: f64| vec![Tier::Fast; pages(gib) as usize];
        let all_slow = |gib: f64| vec![Tier::Slow; pages(gib) as usize];
        match self.program {
            Program::Micro { size, hottest, is_write } => {
                let Layout { filler, used, fast, records, uses } = size.memory();
                let places = placed(pages(filler), pages(used), pages(fast), pages(FAST));
                let range = pages(filler)..pages(filler) + pages(used);
                let uses = (uses * scale) as u64;
                let load = Micro::new(range, records, hottest, is_write, uses, seed);
                Ready { slow: SLOW, threads: 1, places, rounds: ROUNDS, load: Box::new(load) }
            }
            Program::Motivation { gib, hottest } => {
                let used = f64::from(gib);
                let filler = (FAST + SLOW - ROOM - used).min(10.0);
                let places = placed(pages(filler), pages(used), pages(FAST - filler), pages(FAST));
                let range = pages(filler)..pages(filler) + pages(used);
                let uses = if gib > 16 { 40e6 } else { 18e6 };
                let records = u64::from(pages_of(used));
                let load = Micro::new(range, records, hottest, false, (uses * scale) as u64, seed);
                Ready { slow: SLOW, threads: 1, places, rounds: ROUNDS, load: Box::new(load) }
            }
            Program::Chase { blocks } => {
                let load = Chase::new(blocks, pages(1.0), CHASE_VISITS, seed);
                let places = vec![Tier::Fast; (blocks * pages(1.0)) as usize];
                Ready { slow: SLOW, threads: 1, places, rounds: 2, load: Box::new(load) }
            }
            Program::Scan { gib } => {
                let places = fast_first(gib.into());
                let load = Scan::new(0..places.len() as u32);
                Ready { slow: SLOW, threads: 1, places, rounds: SCANS, load: Box::new(load) }
            }
            Program::Redis { case } => {
                let (millions, operations, gib) = match case {
                    Case::One => (6, 8e6, 13.0),
                    Case::Two | Case::Three => (10, 12e6, 24.0),
                    Case::Thrashing | Case::Normal => (20, 30e6, 36.5),
                };
                let places = match case {
                    Case::Three | Case::Normal => fast_first(gib),
                    Case::One | Case::Two | Case::Thrashing => all_slow(gib),
                };
                let slow = if millions == 20 { SLOW_LARGE } else { SLOW };
                let whole = millions * 1_000_000;
                let records = (whole as f64 * scale) as u32;
                let operations = (operations * scale) as u64;
                let load = Redis::new(records, whole, places.len() as u32, operations, seed);
                Ready { slow, threads: 1, places, rounds: 1, load: Box::new(load) }
            }
            Program::PageRank { is_large } => {
                let (scores, edges, slow) =
                    if is_large { (2.0, 45.0, SLOW_LARGE) } else { (0.5, 21.5, SLOW) };
                let places = fast_first(scores + edges);
                let edges = places.len() as u32 - pages(scores);
                let load = PageRank::new(pages(scores), edges, PAGE_RANKS, 32, seed);
                Ready { slow, threads: 32, places, rounds: 1, load: Box::new(load) }
            }
            Program::Liblinear { is_large } => {
                let (gib, slow, passes) =
                    if is_large { (40.0, SLOW_LARGE, 6) } else { (10.0, SLOW, 20) };
                let places = all_slow(gib);
                let instances = pages(INSTANCES).max(1);
                let features = places.len() as u32 - instances;
                let load = Liblinear::new(instances, features, passes, 16, seed);
                Ready { slow, threads: 16, places, rounds: 1, load: Box::new(load) }
            }
        }
    }
}

/// Visits of blocks in a round of the pointer chase.
const CHASE_VISITS: u32 = 30;
/// Scans of table 3.
const SCANS: usize = 4;
/// Iterations of PageRank.
const PAGE_RANKS: u32 = 10;
/// Liblinear's values of instances, in GiB.
const INSTANCES: f64 = 0.05;

/// Where pages lie that are filled first, and those that are used after them.
fn placed(filler: u32, used: u32, used_fast: u32, fast: u32) -> Vec<Tier> {
    let tier = |is_fast| if is_fast { Tier::Fast } else { Tier::Slow };
    let filler_fast = fast - used_fast.min(fast);
    let of_filler = (0..filler).map(|page| tier(page < filler_fast));
    of_filler.chain((0..used).map(|page| tier(page < used_fast))).collect()
}
