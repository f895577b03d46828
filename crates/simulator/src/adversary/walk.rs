//! A random walk.

use super::Point;
use super::dice::Dice;
use crate::schedule::Action;
use crate::state::State;

pub(crate) struct Walk {
    pub(crate) dice: Dice,
    /// The steps between two switches, on average.
    gap: u64,
    next: u64,
}

impl Walk {
    pub(crate) fn new(mut dice: Dice) -> Self {
        let gap = [2, 4, 16, 64][dice.roll() as usize % 4];
        Self { dice, gap, next: 0 }
    }

    #[inline]
    pub(crate) fn decide(&mut self, state: &mut State, point: Point, actions: &mut Vec<Action>) {
        self.dice.disturb(state, point, actions);
        if self.next > 0 && !matches!(point, Point::Wait | Point::End) {
            self.next -= 1;
            return;
        }
        self.next = self.dice.some_steps(self.gap);
        if let Some(thread) = self.dice.another(state) {
            self.dice.maybe_sleep(actions);
            actions.push(Action::Switch(thread));
        }
    }
}
