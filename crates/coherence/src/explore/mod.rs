//! Every order in which messages can arrive.
//!
//! A state is what hosts and node know of some lines, and which messages are under way. Of data it says
//! only whether a copy is the last that was written. A step is a processor that wants something, a host
//! that evicts a line, or a message that arrives. [`explore`] takes every step in every state that can be
//! reached; [`wander`] takes steps at random, where there are too many.
//!
//! In each state:
//! * If a host may change a line, no other host has it.
//! * Whatever a host has is what was written last.
//! * What was written last is somewhere: nothing overwrites it with something older.
//! * A message that arrives is a request, or the answer to one that waits for it.
//! * If no message is under way, nobody waits; and that comes about once processors want nothing more.

mod rules;
mod world;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::{Filter, Protocol};
use rules::{Rules, Step, Taken};
use world::World;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Hosts.
    pub hosts: usize,
    /// Lines.
    pub lines: usize,
    /// What the node knows.
    pub filter: Filter,
    /// A host's processor wants one line at a time, and waits for it; else, each of them.
    pub in_order: bool,
    /// States to be seen, at most.
    pub states: usize,
}

/// A mistake that is planted, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One of the hosts that have to be asked is not.
    SnoopDropped,
    /// Who has changed a line answers before it has written it back.
    AnswerFirst,
    /// A line is granted to one host alone, though others keep it, or may.
    GrantAlone,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SnoopDropped, Self::AnswerFirst, Self::GrantAlone];
}

/// What was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States that were met.
    pub states: usize,
    /// Steps that were taken.
    pub steps: usize,
    /// There were no more.
    pub whole: bool,
}

/// A state that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong with it.
    pub what: String,
    /// How it came about.
    pub steps: Vec<String>,
}

/// Takes every step in every state that can be reached.
///
/// # Errors
/// The shortest way to a state that must not be.
pub fn explore(
    protocol: &Protocol,
    limits: Limits,
    fault: Option<Fault>,
) -> Result<Explored, Box<Violation>> {
    let rules = Rules { protocol, limits, fault };
    let mut numbers = HashMap::from([(World::new(limits), 0usize)]);
    let mut worlds = vec![World::new(limits)];
    // How each of them was reached first.
    let mut ways: Vec<(usize, Option<Step>)> = vec![(0, None)];
    let (mut number, mut steps) = (0, 0);
    while number < worlds.len() && worlds.len() < limits.states {
        let mut wrong = None;
        let world = worlds[number].clone();
        rules.steps(&world, |step, next| {
            steps += 1;
            let found = next.and_then(|mut next| {
                next.wrong().map_or(Ok(()), Err)?;
                if let Entry::Vacant(new) = numbers.entry(next) {
                    rules.comes_to_rest(new.key())?;
                    worlds.push(new.key().clone());
                    ways.push((number, Some(step)));
                    new.insert(worlds.len() - 1);
                }
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
    Ok(Explored { states: worlds.len(), steps, whole: number == worlds.len() })
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
    Ok(Explored { states: steps + 1, steps, whole: false })
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
                let in_order = Limits { in_order: true, ..limits(2, 2, filter) };
                assert!(explore(protocol, in_order, None).is_ok_and(|explored| explored.whole));
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
