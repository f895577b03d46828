//! Disturbs where it may hurt: when a thread is about to touch what a thread of another host has
//! touched just before, somebody else runs first, or the line moves.

use super::Point;
use super::dice::Dice;
use crate::config::Config;
use crate::schedule::Action;
use crate::state::State;

/// Touches that are remembered.
const RECENT: usize = 16;

pub(crate) struct Aimed {
    pub(crate) dice: Dice,
    hosts: u8,
    /// The places that were touched last, each with its thread.
    recent: [(u64, usize); RECENT],
    touches: usize,
}

impl Aimed {
    pub(crate) fn new(dice: Dice, config: &Config) -> Self {
        Self { dice, hosts: config.hosts as u8, recent: [(u64::MAX, 0); RECENT], touches: 0 }
    }

    pub(crate) fn decide(&mut self, state: &mut State, point: Point, actions: &mut Vec<Action>) {
        let touched = match point {
            Point::Scr(byte) | Point::Store(byte) => (byte / 8) | (1 << 63),
            Point::Line(line) | Point::Issue(line) => u64::from(line),
            Point::Fence | Point::Local => return self.rarely(state, point, actions),
            Point::Wait | Point::End => {
                self.dice.disturb(state, point, actions);
                let other = self.dice.another(state);
                return actions.extend(other.map(Action::Switch));
            }
        };
        let conflict = self.recent.iter().find(|&&(what, thread)| {
            what == touched && thread != state.current && !state.threads[thread].finished
        });
        let conflict = conflict.copied();
        self.recent[self.touches % RECENT] = (touched, state.current);
        self.touches += 1;
        match conflict {
            Some((_, thread)) if self.dice.one_in(2) => {
                self.hit(state, point, thread, actions);
            }
            _ => self.rarely(state, point, actions),
        }
    }

    fn hit(&mut self, state: &mut State, point: Point, thread: usize, actions: &mut Vec<Action>) {
        self.dice.disturb(state, point, actions);
        if let Point::Line(line) | Point::Issue(line) = point {
            let host = (self.dice.roll() % u64::from(self.hosts)) as u8;
            match self.dice.roll() % 3 {
                0 => actions.push(Action::Evict(host, line)),
                1 => actions.push(Action::Prefetch(host, line)),
                _ => {}
            }
        }
        if self.dice.one_in(2) {
            self.dice.maybe_sleep(actions);
            actions.push(Action::Switch(thread as u16));
        }
    }

    fn rarely(&mut self, state: &mut State, point: Point, actions: &mut Vec<Action>) {
        if self.dice.one_in(8) {
            self.dice.disturb(state, point, actions);
        }
        if self.dice.one_in(32) {
            let other = self.dice.another(state);
            actions.extend(other.map(Action::Switch));
        }
    }
}
