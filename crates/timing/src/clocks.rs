//! Which thread has the smallest clock: a tournament, in which a change costs one match per round.

use crate::Ps;

/// Bits for a thread's number, below those of its clock.
const THREAD_BITS: u32 = 12;

/// As many threads as there are numbers.
const THREADS: usize = 1 << THREAD_BITS;

/// The clock of a thread that cannot run, which is later than all others: more than an hour.
const NEVER: Ps = Ps::MAX >> THREAD_BITS;

/// A thread's clock, and its number: one word, so that the smaller one of two is found without a
/// branch. (No processor can foretell which one wins, this machine's processor least of all.) Of
/// two threads with one clock, the one with the smaller number wins.
type Player = u64;

fn player(clock: Ps, thread: usize) -> Player {
    clock << THREAD_BITS | thread as u64
}

fn clock_of(player: Player) -> Ps {
    player >> THREAD_BITS
}

/// The clocks.
pub struct Clocks {
    /// Those who met in match `n` are at `2 * n` and `2 * n + 1`, in match 1 the last two, and
    /// threads themselves are from `leaves` on. There is room for all from the start, so that
    /// nothing has to be checked in a match.
    matches: Box<[Player; 2 * THREADS]>,
    /// A power of two, 2 or more.
    leaves: usize,
    /// The winner of all, and who would be without it. So who wins is known before the matches are
    /// played that say who is second: the processor goes on with the winner meanwhile.
    winner: Player,
    second: Player,
}

impl Default for Clocks {
    fn default() -> Self {
        let nobody = player(NEVER, 0);
        let matches = vec![nobody; 2 * THREADS].into_boxed_slice();
        let matches = matches.try_into().unwrap_or_else(|_| unreachable!("it is as long as that"));
        Self { matches, leaves: 2, winner: nobody, second: nobody }
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
        let changed = player(clock, thread);
        let others =
            if self.winner as usize % THREADS == thread { self.second } else { self.winner };
        self.winner = changed.min(others);
        self.play(thread, changed);
    }

    /// Plays the matches of a thread whose clock has changed, and finds out who is the best of
    /// those that the winner of all meets.
    #[inline]
    fn play(&mut self, thread: usize, mut changed: Player) {
        let (mut at, mut best) = (self.leaves + thread, player(NEVER, 0));
        let mut won = self.leaves + self.winner as usize % THREADS;
        while at > 1 {
            self.matches[at % (2 * THREADS)] = changed;
            changed = changed.min(self.matches[(at ^ 1) % (2 * THREADS)]);
            best = best.min(self.matches[(won ^ 1) % (2 * THREADS)]);
            (at, won) = (at / 2, won / 2);
        }
        self.second = best;
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
        clock_of(self.second)
    }

    fn grow(&mut self) {
        let threads = self.leaves;
        assert!(threads < THREADS, "there are at most {THREADS} threads");
        let before = std::mem::take(self);
        self.leaves = 2 * threads;
        for (thread, leaf) in before.matches[threads..2 * threads].iter().enumerate() {
            self.put(thread, clock_of(*leaf));
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
