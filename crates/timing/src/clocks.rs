//! Which thread has the smallest clock: a tournament, in which a change costs one match per round.

use crate::Ps;

/// Bits for a thread's number, below those of its clock.
const THREAD_BITS: u32 = 12;

/// As many threads as there are numbers.
const THREADS: usize = 1 << THREAD_BITS;

/// The clock of whoever cannot run, which is later than all others: more than an hour.
const NEVER: Ps = Ps::MAX >> THREAD_BITS;

/// A thread's clock, and its number: one word, so that the smaller one of two is found without a branch. (Nobody can foretell who wins,
/// this machine's processor least of all.) Of two threads with one clock, the one with the smaller number wins.
type Player = u64;

fn player(clock: Ps, thread: usize) -> Player {
    clock << THREAD_BITS | thread as u64
}

fn clock_of(player: Player) -> Ps {
    player >> THREAD_BITS
}

/// Whoever wins a match, and who would without the winner.
#[derive(Clone, Copy)]
struct Match {
    first: Player,
    second: Player,
}

impl Match {
    /// A thread among itself.
    fn of(clock: Ps, thread: usize) -> Self {
        Self { first: player(clock, thread), second: Player::MAX }
    }

    /// The winners of two matches meet.
    #[inline]
    fn against(self, other: Self) -> Self {
        let loser = self.first.max(other.first);
        Self {
            first: self.first.min(other.first),
            second: loser.min(self.second).min(other.second),
        }
    }
}

/// The clocks.
pub struct Clocks {
    /// The winner of all is at 1, those who met in match `n` are at `2 * n` and `2 * n + 1`, and threads
    /// themselves from `leaves` on. There is room for all from the start, so that nothing has to be checked in a match.
    matches: Box<[Match; 2 * THREADS]>,
    /// A power of two.
    leaves: usize,
    /// The winner of all: whose clock was set last, or who is first without it. So it is known at once, and the processor can go on
    /// with it while the matches are played that say who is second.
    winner: Player,
}

impl Default for Clocks {
    fn default() -> Self {
        let matches = vec![Match::of(NEVER, 0); 2 * THREADS].into_boxed_slice();
        let matches = matches.try_into().unwrap_or_else(|_| unreachable!("it is as long as that"));
        Self { matches, leaves: 1, winner: player(NEVER, 0) }
    }
}

impl Clocks {
    /// Sets a thread's clock.
    ///
    /// # Panics
    /// If it is later than clocks go, or there are more threads than numbers.
    #[inline]
    pub fn set(&mut self, thread: usize, clock: Ps) {
        assert!(clock < NEVER, "virtual time is up after {} s", NEVER / 1_000_000_000_000);
        self.put(thread, clock);
    }

    /// The thread cannot run.
    pub fn stop(&mut self, thread: usize) {
        self.put(thread, NEVER);
    }

    #[inline]
    fn put(&mut self, thread: usize, clock: Ps) {
        while thread >= self.leaves {
            self.grow();
        }
        let Match { first, second } = self.matches[1];
        let others = if first as usize % THREADS == thread { second } else { first };
        self.winner = player(clock, thread).min(others);
        let mut at = self.leaves + thread;
        let mut outcome = Match::of(clock, thread);
        loop {
            self.matches[at % (2 * THREADS)] = outcome;
            if at == 1 {
                break;
            }
            outcome = outcome.against(self.matches[(at ^ 1) % (2 * THREADS)]);
            at /= 2;
        }
    }

    /// The clock and the number of the thread with the smallest clock.
    #[inline]
    pub fn first(&self) -> Option<(Ps, usize)> {
        let winner = self.winner;
        let thread = winner as usize % THREADS;
        (clock_of(winner) < NEVER).then_some((clock_of(winner), thread))
    }

    /// The smallest clock of all others.
    #[inline]
    pub fn second(&self) -> Ps {
        clock_of(self.matches[1].second)
    }

    fn grow(&mut self) {
        let threads = self.leaves;
        assert!(threads < THREADS, "there are at most {THREADS} threads");
        let before = std::mem::take(self);
        self.leaves = 2 * threads;
        for (thread, leaf) in before.matches[threads..2 * threads].iter().enumerate() {
            self.put(thread, clock_of(leaf.first));
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
