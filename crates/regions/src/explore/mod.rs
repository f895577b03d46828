//! Every order of the steps that hosts can take.
//!
//! A state is what hosts hold and map, words in coherent memory, questions and answers under way,
//! and the machines that are at work. Of data it says only whether a copy is the last that was
//! written. A step is an access, a step of a machine, the beginning of a change of mode, or a line
//! that a cache evicts or fetches as it likes. [`explore`] takes every step in every state.
//!
//! In each state:
//! * A page that a host may write and that is not direct is mapped by that host alone.
//! * A page that is direct for one host is not mapped otherwise by another.
//! * Whatever a processor may read is what was written last.
//! * If there is a machine at work, one of them can take a step.
//!
//! Mistakes are planted in the back end ([`Planted`]); the protocol has nothing for them.

mod back;
mod world;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tombolo_coherence::Access;

use crate::{BlockMode, Mode};
use world::World;

/// The bounds of an exploration: the pod's size, the steps of its hosts, and the states.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Hosts, 8 at most.
    pub hosts: usize,
    /// Pages, 4 at most.
    pub pages: usize,
    /// Pages of a block.
    pub block_pages: usize,
    /// The pod's memory is coherent: blocks may be direct, and caches hold nothing stale.
    pub coherent: bool,
    /// Single pages are replicated, and cease to be.
    pub probes: bool,
    /// Changes of mode under way at once, at most; each host has one at most.
    pub changes: usize,
    /// A host's processors want one page at a time, and wait for it; else, each of them.
    pub in_order: bool,
    /// States to be visited, at most.
    pub states: usize,
}

/// A mistake that is planted, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A host answers before it takes its mapping away.
    AnswerBeforeRevoke,
    /// A host writes a page back before it takes its mapping away, and not after.
    CopyBeforeRevoke,
    /// A mode is published before pages are taken from hosts.
    PublishEarly,
    /// One of the hosts that have to give a page up is not asked.
    HandOverDropped,
    /// A page that is written back stays in the caches.
    CleanDropped,
    /// The caches keep a page's old lines when the page is fetched.
    InvalidateDropped,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::AnswerBeforeRevoke,
        Self::CopyBeforeRevoke,
        Self::PublishEarly,
        Self::HandOverDropped,
        Self::CleanDropped,
        Self::InvalidateDropped,
    ];

    /// The name by which it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnswerBeforeRevoke => "answer before revoking",
            Self::CopyBeforeRevoke => "copy before revoking",
            Self::PublishEarly => "mode published early",
            Self::HandOverDropped => "hand-over dropped",
            Self::CleanDropped => "written back into caches only",
            Self::InvalidateDropped => "caches not invalidated",
        }
    }

    /// Whether it can be found in such a pod: caches play no part in a coherent one.
    pub fn applies(self, coherent: bool) -> bool {
        !(coherent && matches!(self, Self::CleanDropped | Self::InvalidateDropped))
    }
}

/// The extent of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States that there are, as far as they were met, those that differ by the names of hosts
    /// among them.
    pub states: usize,
    /// Those that were visited: one of all that differ by the names of hosts.
    pub visited: usize,
    /// Steps that were taken.
    pub steps: usize,
    /// There were no more.
    pub whole: bool,
}

/// A state that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The violation, as a clause.
    pub what: String,
    /// How it came about.
    pub steps: Vec<String>,
}

/// The steps that lead from a state to the next ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    Access(usize, usize, Access),
    Begin(usize, usize, BlockMode),
    Fault(usize, usize),
    Change(usize),
    Answer(usize, usize),
    Evict(usize, usize),
    Prefetch(usize, usize),
}

/// How states follow each other.
struct Rules {
    limits: Limits,
    planted: Option<Planted>,
    steps: Vec<Step>,
    /// Every way to give hosts other names.
    names: Vec<Vec<usize>>,
}

impl Rules {
    fn new(limits: Limits, planted: Option<Planted>) -> Self {
        let mut steps = Vec::new();
        let blocks = limits.pages.div_ceil(limits.block_pages);
        for host in 0..limits.hosts {
            for page in 0..limits.pages {
                steps.push(Step::Fault(host, page));
                steps.push(Step::Access(host, page, Access::Read));
                steps.push(Step::Access(host, page, Access::Write));
                if !limits.coherent {
                    steps.extend([Step::Evict(host, page), Step::Prefetch(host, page)]);
                }
            }
            steps.push(Step::Change(host));
            steps.extend((0..limits.pages + blocks).map(|subject| Step::Answer(host, subject)));
            for block in 0..blocks {
                let modes = modes(limits, block).into_iter();
                steps.extend(modes.map(|mode| Step::Begin(host, block, mode)));
            }
        }
        Self { limits, planted, steps, names: permutations(limits.hosts) }
    }
}

/// The modes that a block may be given.
fn modes(limits: Limits, block: usize) -> Vec<BlockMode> {
    let mut modes = Vec::new();
    for mode in Mode::ALL {
        if mode == Mode::Direct && !limits.coherent {
            continue;
        }
        modes.push(BlockMode::all(mode));
        let first = block * limits.block_pages;
        let pages = first..(first + limits.block_pages).min(limits.pages);
        if limits.probes && mode != Mode::Replicated {
            modes.extend(pages.map(|page| BlockMode { mode, probe: Some(page) }));
        }
    }
    modes
}

/// Every order of the first `count` numbers, their own first.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let insert = |shorter: &Vec<usize>| {
        let shorter = shorter.clone();
        (0..count).rev().map(move |place| {
            let mut longer = shorter.clone();
            longer.insert(place, count - 1);
            longer
        })
    };
    permutations(count - 1).iter().flat_map(insert).collect()
}

/// Takes every step in every state that can be reached.
///
/// # Errors
/// The shortest way to a state that must not be.
///
/// # Panics
/// If there are no hosts, pages or pages in a block, or more than [`Limits`] allow.
pub fn explore(limits: Limits, planted: Option<Planted>) -> Result<Explored, Box<Violation>> {
    let Limits { hosts, pages, block_pages, .. } = limits;
    assert!((1..=8).contains(&hosts) && (1..=4).contains(&pages) && block_pages > 0, "{limits:?}");
    let rules = Rules::new(limits, planted);
    let start = World::new(limits);
    let mut numbers = HashMap::from([(start.canonical(&rules).0, ())]);
    let (mut frontier, mut next) = (vec![(start, 0)], Vec::new());
    // How each state was reached first: the state before, and the step.
    let mut ways: Vec<(u32, u16)> = vec![(0, 0)];
    let (mut states, mut taken) = (1, 0);
    while !frontier.is_empty() && ways.len() < limits.states {
        for (world, number) in frontier.drain(..) {
            let mut works = world.rests();
            for (which, &step) in rules.steps.iter().enumerate() {
                let Some(after) = world.take(step, &rules) else { continue };
                taken += 1;
                works |= matches!(step, Step::Fault(..) | Step::Change(_) | Step::Answer(..));
                if let Some(what) = after.wrong() {
                    let steps = way_to(&rules, &ways, number, which);
                    return Err(Box::new(Violation { what, steps }));
                }
                let (key, alike) = after.canonical(&rules);
                if let Entry::Vacant(new) = numbers.entry(key) {
                    new.insert(());
                    states += alike;
                    next.push((after, ways.len()));
                    ways.push((number as u32, which as u16));
                }
            }
            if !works {
                let what = "hosts wait for each other".to_owned();
                let (before, which) = ways[number];
                let steps = way_to(&rules, &ways, before as usize, which.into());
                return Err(Box::new(Violation { what, steps }));
            }
        }
        std::mem::swap(&mut frontier, &mut next);
    }
    Ok(Explored { states, visited: ways.len(), steps: taken, whole: frontier.is_empty() })
}

/// The steps to a state, and the last one from there.
fn way_to(rules: &Rules, ways: &[(u32, u16)], mut number: usize, last: usize) -> Vec<String> {
    let mut steps = vec![last];
    while number > 0 {
        let (before, step) = ways[number];
        steps.push(step.into());
        number = before as usize;
    }
    let mut world = World::new(rules.limits);
    let describe = |step: usize| {
        let step = rules.steps[step];
        let described = world.describe(step);
        world = world.take(step, rules).unwrap_or_else(|| unreachable!("it was taken before"));
        described
    };
    steps.into_iter().rev().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(hosts: usize, pages: usize, coherent: bool) -> Limits {
        Limits {
            hosts,
            pages,
            block_pages: pages,
            coherent,
            probes: false,
            changes: 1,
            in_order: true,
            states: 20_000_000,
        }
    }

    fn all_right(limits: Limits) {
        let explored =
            explore(limits, None).unwrap_or_else(|wrong| panic!("{limits:?}: {wrong:#?}"));
        assert!(explored.whole && explored.visited > 50, "{limits:?}: {explored:?}");
    }

    #[test]
    fn no_order_of_steps_breaks_a_page() {
        for coherent in [true, false] {
            all_right(limits(2, 1, coherent));
            all_right(Limits { changes: 2, ..limits(2, 1, coherent) });
        }
    }

    #[test]
    #[ignore = "takes minutes: `tombolo coherence explore --protocol regions` does the same"]
    fn no_order_of_steps_breaks_more_hosts_or_pages() {
        for coherent in [true, false] {
            for (hosts, pages) in [(3, 1), (2, 2)] {
                all_right(limits(hosts, pages, coherent));
            }
        }
        all_right(Limits { probes: true, ..limits(2, 2, true) });
    }

    #[test]
    fn planted_mistakes_are_found() {
        for coherent in [true, false] {
            for planted in Planted::ALL.into_iter().filter(|planted| planted.applies(coherent)) {
                let explored = explore(limits(2, 1, coherent), Some(planted));
                assert!(explored.is_err(), "{planted:?}, coherent: {coherent}");
            }
        }
    }

    #[test]
    fn a_page_that_is_probed_is_kept_like_the_others() {
        let limits = Limits { probes: true, ..limits(2, 1, true) };
        all_right(limits);
        for planted in Planted::ALL.into_iter().filter(|planted| planted.applies(true)) {
            assert!(explore(limits, Some(planted)).is_err(), "{planted:?}");
        }
    }
}
