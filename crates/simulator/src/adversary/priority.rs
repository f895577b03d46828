//! Probabilistic concurrency testing: the thread with the highest priority runs. A few times in a
//! run, the thread that runs falls below all others; a thread that waits does so, too.

use super::Point;
use super::dice::Dice;
use crate::schedule::Action;
use crate::state::State;

pub(crate) struct Priority {
    pub(crate) dice: Dice,
    /// By thread; higher is first.
    priorities: Vec<i64>,
    lowest: i64,
    /// Steps to the changes, the next one last.
    changes: Vec<u64>,
    step: u64,
    /// When the thread that runs began to.
    since: u64,
}

/// Changes in a run: bugs that take one ordering more than this are found by luck.
const CHANGES: u64 = 3;

/// Steps after which a thread falls below all others, as if it waited: it may be trying something
/// over and over that others are in the way of.
const TURN: u64 = 1_000;

impl Priority {
    pub(crate) fn new(mut dice: Dice) -> Self {
        // The length of the run is not known: any order of magnitude is as likely.
        let length = 1 << (5 + dice.roll() % 8);
        let mut changes: Vec<u64> = (0..CHANGES).map(|_| dice.roll() % length).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Self { dice, priorities: Vec::new(), lowest: 0, changes, step: 0, since: 0 }
    }

    pub(crate) fn decide(&mut self, state: &mut State, point: Point, actions: &mut Vec<Action>) {
        self.dice.disturb(state, point, actions);
        self.step += 1;
        while self.priorities.len() < state.threads.len() {
            self.priorities.push((self.dice.roll() >> 1) as i64);
        }
        let change = self.changes.last().is_some_and(|&at| at <= self.step);
        if change {
            self.changes.pop();
        }
        let yields = matches!(point, Point::Wait | Point::End);
        if !change && !yields && self.step < self.since + TURN {
            return;
        }
        self.since = self.step;
        self.lowest -= 1;
        self.priorities[state.current] = self.lowest;
        let first = state.runnable().max_by_key(|&thread| self.priorities[thread]);
        if let Some(first) = first.filter(|&first| first != state.current) {
            actions.push(Action::Switch(first as u16));
        }
    }
}
