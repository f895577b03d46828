//! Which thread has the smallest clock: a tournament, in which a change costs one match per round.

use crate::Ps;

/// The clock of whoever cannot run.
const NEVER: Ps = Ps::MAX;

/// A thread's clock, and its number.
type Player = (Ps, usize);

/// Of two threads with one clock, the one with the smaller number wins.
pub struct Clocks {
    /// The winner of all is at 1, those who met in match `n` are at `2 * n` and `2 * n + 1`, and threads
    /// themselves are in the second half.
    winners: Vec<Player>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self { winners: vec![(NEVER, 0); 2] }
    }
}

impl Clocks {
    /// Sets a thread's clock.
    pub fn set(&mut self, thread: usize, clock: Ps) {
        while thread >= self.winners.len() / 2 {
            self.grow();
        }
        let mut at = self.winners.len() / 2 + thread;
        let mut winner = (clock, thread);
        self.winners[at] = winner;
        while at > 1 {
            // On the left are smaller numbers, and so they need no more than a draw. Nobody can foretell who
            // wins, this machine's processor least of all: hence no branch.
            let other = self.winners[at ^ 1];
            let other_wins = other.0 < winner.0 + Ps::from(at & 1 == 1 && winner.0 != NEVER);
            winner = std::hint::select_unpredictable(other_wins, other, winner);
            at /= 2;
            self.winners[at] = winner;
        }
    }

    /// The thread cannot run.
    pub fn stop(&mut self, thread: usize) {
        self.set(thread, NEVER);
    }

    /// The thread with the smallest clock.
    pub fn first(&self) -> Option<Player> {
        Some(self.winners[1]).filter(|&(clock, _)| clock != NEVER)
    }

    /// The smallest clock of all others: those whom the first has met.
    pub fn second(&self) -> Ps {
        let mut at = self.winners.len() / 2 + self.winners[1].1;
        let mut smallest = NEVER;
        while at > 1 {
            smallest = smallest.min(self.winners[at ^ 1].0);
            at /= 2;
        }
        smallest
    }

    fn grow(&mut self) {
        let threads = self.winners.len();
        let before = std::mem::replace(&mut self.winners, vec![(NEVER, 0); 2 * threads]);
        for &(clock, thread) in &before[threads / 2..] {
            self.set(thread, clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_clock_is_first() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.first(), None);
        let mut all = [NEVER; 11];
        let mut dice: u64 = 1;
        for _ in 0..10_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (thread, clock) = ((dice >> 33) as usize % all.len(), dice >> 60);
            all[thread] = if clock == 0 { NEVER } else { clock };
            if clock == 0 {
                clocks.stop(thread)
            } else {
                clocks.set(thread, clock)
            }
            let mut order: Vec<_> = all.iter().copied().zip(0..).collect();
            order.sort_unstable();
            assert_eq!(clocks.first(), Some(order[0]).filter(|&(clock, _)| clock != NEVER));
            if clocks.first().is_some() {
                assert_eq!(clocks.second(), order[1].0);
            }
        }
    }
}
