//! The steps of one line, with numbers instead of states.

use std::collections::HashMap;

use super::rules::{Rules, Step};
use super::world::World;
use super::{Violation, search};

/// A step, as far as it matters to other lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A processor of this host wants something.
    Want(u8),
    /// A message arrives at this host.
    Arrival(u8),
    /// A message arrives at the node.
    AtNode,
    /// A host evicts the line.
    Eviction,
}

impl Kind {
    fn of(step: Step) -> Self {
        match step {
            Step::Want(host, ..) => Self::Want(host as u8),
            Step::Evict(..) => Self::Eviction,
            Step::AtNode(_) => Self::AtNode,
            Step::AtHost(letter) => Self::Arrival(letter.host),
        }
    }

    /// The same, after hosts have changed places.
    fn renamed(self, places: &[usize]) -> Self {
        match self {
            Self::Want(host) => Self::Want(places[usize::from(host)] as u8),
            Self::Arrival(host) => Self::Arrival(places[usize::from(host)] as u8),
            other => other,
        }
    }

    fn is_arrival(self) -> bool {
        matches!(self, Self::Arrival(_) | Self::AtNode)
    }
}

/// Hosts there may be.
pub(super) const HOSTS: usize = 8;

/// The part of a line's state that other lines, and their order, depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Messages under way to each host.
    pub(super) letters: [u8; HOSTS],
    /// A bit per host whose processor waits for the line.
    pub(super) wanting: u8,
}

/// All states of one line, and all steps between them.
pub(super) struct Automaton {
    pub(super) hosts: usize,
    /// By state; the first one is the beginning.
    pub(super) seen: Vec<Seen>,
    /// Where the steps of each state begin.
    first: Vec<usize>,
    steps: Vec<(Kind, u32)>,
    worlds: Vec<World>,
    /// Which places hosts may change, and by state, which state it becomes then.
    pub(super) symmetries: Vec<(Vec<usize>, Vec<u32>)>,
    pub(super) whole: bool,
}

impl Automaton {
    /// Explores one line.
    pub(super) fn new(rules: &Rules<'_>, most: usize) -> Result<Self, Box<Violation>> {
        let (mut first, mut steps) = (Vec::new(), Vec::new());
        let (worlds, whole) = search(rules, most, |from, step, to| {
            if first.len() <= from {
                first.resize(from + 1, steps.len());
            }
            steps.push((Kind::of(step), to as u32));
        })?;
        first.resize(worlds.len() + 1, steps.len());
        let automaton = Self {
            hosts: rules.limits.hosts,
            seen: worlds.iter().map(|world| world.seen()).collect(),
            first,
            steps,
            worlds,
            symmetries: Vec::new(),
            whole,
        };
        if !automaton.comes_to_rest() {
            let what = "messages go to and fro without end".to_owned();
            return Err(Box::new(Violation { what, steps: Vec::new() }));
        }
        Ok(automaton)
    }

    pub(super) fn steps(&self, state: usize) -> &[(Kind, u32)] {
        &self.steps[self.first[state]..self.first[state + 1]]
    }

    pub(super) fn steps_taken(&self) -> usize {
        self.steps.len()
    }

    fn arrivals(&self, state: usize) -> impl Iterator<Item = usize> + '_ {
        let arrivals = self.steps(state).iter().filter(|(kind, _)| kind.is_arrival());
        arrivals.map(|&(_, to)| to as usize)
    }

    /// Whether there is no end of messages in no order of arrivals: states by arrivals have no
    /// cycle.
    fn comes_to_rest(&self) -> bool {
        let mut before = vec![0usize; self.seen.len()];
        let all = 0..self.seen.len();
        all.clone().flat_map(|state| self.arrivals(state)).for_each(|to| before[to] += 1);
        let mut sources: Vec<usize> = all.filter(|&state| before[state] == 0).collect();
        let mut done = 0;
        while let Some(state) = sources.pop() {
            done += 1;
            for to in self.arrivals(state) {
                before[to] -= 1;
                if before[to] == 0 {
                    sources.push(to);
                }
            }
        }
        done == self.seen.len()
    }

    /// Finds the places that hosts may change: those after which the same states and steps are
    /// there.
    pub(super) fn find_symmetries(&mut self) {
        let worlds = std::mem::take(&mut self.worlds);
        let numbers: HashMap<&World, u32> = worlds.iter().zip(0..).collect();
        for places in permutations(self.hosts) {
            let images = worlds.iter().map(|world| numbers.get(&world.renamed(&places)).copied());
            let Some(images) = images.collect::<Option<Vec<u32>>>() else { continue };
            if (0..self.seen.len()).all(|state| self.has_image(state, &places, &images)) {
                self.symmetries.push((places, images));
            }
        }
    }

    /// Whether a state's steps become those of its image.
    fn has_image(&self, state: usize, places: &[usize], images: &[u32]) -> bool {
        let sorted = |mut steps: Vec<(Kind, u32)>| {
            steps.sort_unstable();
            steps
        };
        let renamed = |&(kind, to): &(Kind, u32)| (kind.renamed(places), images[to as usize]);
        let expected = sorted(self.steps(state).iter().map(renamed).collect());
        expected == sorted(self.steps(images[state] as usize).to_vec())
    }
}

/// All orders of so many things, as where each of them goes; first that in which nothing moves.
pub(super) fn permutations(count: usize) -> impl Iterator<Item = Vec<usize>> {
    let all = (1..=count).product::<usize>();
    (0..all).map(move |mut number| {
        let mut left: Vec<usize> = (0..count).collect();
        (1..=count)
            .rev()
            .map(|many| {
                let next = left.remove(number % many);
                number /= many;
                next
            })
            .collect()
    })
}
