//! Every order in which messages can arrive.
//!
//! A state is what hosts and node know of some lines, and which messages are under way. Of data it
//! says only whether a copy is the last that was written. A step is a processor that wants
//! something, a host that evicts a line, or a message that arrives. [`explore`] takes every step in
//! every state that can be reached, first of one line ([`automaton`]), then of several
//! ([`product`]); [`wander`] takes steps at random, where there are too many.
//!
//! In each state:
//! * If a host may change a line, no other host has it.
//! * Whatever a host has is what was written last.
//! * What was written last is somewhere: nothing overwrites it with something older.
//! * A message that arrives is a request, or the answer to one that waits for it.
//! * If no message is under way, nobody waits; and that comes about once processors want nothing
//!   more.

mod automaton;
mod product;
mod rules;
mod world;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::{Filter, Protocol};
use automaton::Automaton;
use product::Product;
use rules::{Rules, Step, Taken};
use world::World;

/// The bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Hosts.
    pub hosts: usize,
    /// Lines.
    pub lines: usize,
    /// The node's knowledge.
    pub filter: Filter,
    /// A host's processor wants one line at a time, and waits for it; else, each of them.
    pub in_order: bool,
    /// States to be visited, at most.
    pub states: usize,
}

/// States of one line to be visited, at most: these are large, those of several lines are words.
const MOST_OF_ONE_LINE: usize = 10_000_000;

/// A mistake that is planted, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One of the hosts that have to be asked is not.
    SnoopDropped,
    /// A host that has changed a line answers before it has written it back.
    AnswerFirst,
    /// A line is granted to one host alone, though others keep it, or may.
    GrantAlone,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SnoopDropped, Self::AnswerFirst, Self::GrantAlone];
}

/// The extent of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States that there are, as far as they were met.
    pub states: usize,
    /// Those that were visited: of several lines, one of all that differ by the names of hosts and
    /// lines.
    pub visited: usize,
    /// Steps that were taken.
    pub steps: usize,
    /// There were no more.
    pub whole: bool,
}

/// A state that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The fault.
    pub what: String,
    /// How it came about.
    pub steps: Vec<String>,
}

/// Takes every step in every state that can be reached.
///
/// # Errors
/// The shortest way to a state that must not be. It takes one line only.
///
/// # Panics
/// If there are no hosts or lines, more than 8 hosts, or more than 4 lines.
pub fn explore(
    protocol: &Protocol,
    limits: Limits,
    fault: Option<Fault>,
) -> Result<Explored, Box<Violation>> {
    assert!((1..=8).contains(&limits.hosts) && (1..=4).contains(&limits.lines), "{limits:?}");
    let rules = Rules { protocol, limits: Limits { lines: 1, ..limits }, fault };
    let mut line = Automaton::new(&rules, limits.states.min(MOST_OF_ONE_LINE))?;
    let of_one = Explored {
        states: line.seen.len(),
        visited: line.seen.len(),
        steps: line.steps_taken(),
        whole: line.whole,
    };
    if limits.lines == 1 || !line.whole {
        return Ok(of_one);
    }
    line.find_symmetries();
    let beyond = Ok(Explored { whole: false, ..of_one });
    Product::new(&line, limits).map_or(beyond, |lines| lines.explore())
}

/// Visits every state that can be reached, in the order of the steps to it, and tells of each step
/// from where to where it leads, by numbers. All states; and whether there are no more.
fn search(
    rules: &Rules<'_>,
    most: usize,
    mut visit: impl FnMut(usize, Step, usize),
) -> Result<(Vec<World>, bool), Box<Violation>> {
    let start = World::new(rules.limits);
    let mut numbers = HashMap::from([(start.clone(), 0usize)]);
    let mut worlds = vec![start];
    // How each of them was reached first.
    let mut ways: Vec<(usize, Option<Step>)> = vec![(0, None)];
    let mut number = 0;
    while number < worlds.len() && worlds.len() < most {
        let mut wrong = None;
        let world = worlds[number].clone();
        rules.steps(&world, |step, next| {
            let found = next.and_then(|mut next| {
                next.wrong().map_or(Ok(()), Err)?;
                let to = match numbers.entry(next) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        worlds.push(new.key().clone());
                        ways.push((number, Some(step)));
                        *new.insert(worlds.len() - 1)
                    }
                };
                visit(number, step, to);
                Ok(())
            });
            if let Err(what) = found {
                wrong.get_or_insert((what, step));
            }
        });
        if let Some((what, step)) = wrong {
            return Err(Box::new(Violation { what, steps: way_to(&ways, number, step) }));
        }
        number += 1;
    }
    let whole = number == worlds.len();
    Ok((worlds, whole))
}

fn way_to(ways: &[(usize, Option<Step>)], mut number: usize, last: Step) -> Vec<String> {
    let mut steps = vec![last.describe()];
    while let (before, Some(step)) = ways[number] {
        steps.push(step.describe());
        number = before;
    }
    steps.reverse();
    steps
}

/// Takes `steps` steps at random.
///
/// # Errors
/// A state that must not be, and all the steps to it.
pub fn wander(
    protocol: &Protocol,
    limits: Limits,
    fault: Option<Fault>,
    seed: u64,
    steps: usize,
) -> Result<Explored, Box<Violation>> {
    let rules = Rules { protocol, limits, fault };
    let mut world = World::new(limits);
    let (mut state, mut taken) = (seed, Vec::new());
    for _ in 0..steps {
        let mut choices: Vec<(Step, Taken)> = Vec::new();
        rules.steps(&world, |step, next| choices.push((step, next)));
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let chosen = (state >> 33) as usize % choices.len();
        let (step, next) = choices.swap_remove(chosen);
        taken.push(step.describe());
        let checked = next.and_then(|mut next| next.wrong().map_or(Ok(next), Err));
        match checked {
            Ok(next) => world = next,
            Err(what) => return Err(Box::new(Violation { what, steps: taken })),
        }
    }
    let states = steps + 1;
    Ok(Explored { states, visited: states, steps, whole: false })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::PROTOCOLS;

    const FILTERS: [Filter; 2] = [Filter::Broadcast, Filter::Directory];

    fn limits(hosts: usize, lines: usize, filter: Filter) -> Limits {
        Limits { hosts, lines, filter, in_order: false, states: 10_000_000 }
    }

    #[test]
    fn no_order_of_messages_breaks_coherence() {
        for protocol in PROTOCOLS {
            for filter in FILTERS {
                for (hosts, lines) in [(2, 1), (3, 1), (2, 2)] {
                    let explored = explore(protocol, limits(hosts, lines, filter), None)
                        .unwrap_or_else(|wrong| panic!("{protocol:?} {filter:?}: {wrong:#?}"));
                    assert!(explored.whole && explored.states > 50);
                }
            }
        }
    }

    /// The findings of [`explore`] for several lines, by visiting the states themselves.
    fn states(protocol: &Protocol, limits: Limits) -> (usize, usize) {
        let rules = Rules { protocol, limits, fault: None };
        let mut steps = 0;
        let (worlds, whole) = search(&rules, limits.states, |_, _, _| steps += 1).unwrap();
        assert!(whole);
        (worlds.len(), steps)
    }

    #[test]
    fn lines_that_are_explored_as_numbers_have_all_their_states() {
        for protocol in PROTOCOLS {
            for filter in FILTERS {
                for (hosts, lines, in_order) in [(2, 2, false), (2, 2, true), (1, 3, false)] {
                    let limits = Limits { in_order, ..limits(hosts, lines, filter) };
                    let explored = explore(protocol, limits, None).unwrap();
                    assert_eq!(
                        explored.states,
                        states(protocol, limits).0,
                        "{protocol:?} {limits:?}"
                    );
                    // Two names of lines, two or one of hosts.
                    assert!(explored.whole && explored.visited < explored.states);
                }
            }
        }
    }

    #[test]
    fn hosts_may_change_places() {
        for protocol in PROTOCOLS {
            for filter in FILTERS {
                let limits = limits(3, 1, filter);
                let rules = Rules { protocol, limits, fault: None };
                let mut line = Automaton::new(&rules, limits.states).unwrap();
                line.find_symmetries();
                assert_eq!(line.symmetries.len(), 6);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn no_order_that_was_tried_breaks_coherence_among_more(
            protocol in prop::sample::select(&PROTOCOLS[..]),
            filter in prop::sample::select(&FILTERS[..]),
            hosts in 3usize..6,
            lines in 1usize..4,
            seed: u64,
        ) {
            let wandered = wander(protocol, limits(hosts, lines, filter), None, seed, 2_000);
            prop_assert!(wandered.is_ok(), "{wandered:#?}");
        }
    }

    #[test]
    fn planted_faults_are_found() {
        for protocol in PROTOCOLS {
            for filter in FILTERS {
                for fault in Fault::ALL {
                    let explored = explore(protocol, limits(3, 1, filter), Some(fault));
                    assert!(explored.is_err(), "{protocol:?} {filter:?} {fault:?}");
                }
            }
        }
    }
}
