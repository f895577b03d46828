//! What the random players have in common: disturbing caches, delays, sleep and death.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Point;
use crate::config::Config;
use crate::schedule::{Action, Outcome};
use crate::state::State;

/// Random decisions, whose rates are the seed's.
pub(crate) struct Dice {
    rng: Xoshiro256PlusPlus,
    hosts: u64,
    /// The steps between two disturbances, on average.
    gap: u64,
    next: u64,
    /// One store, clean or invalidate in so many is held back; none, if 0.
    late: u64,
    /// One copy in so many is torn.
    torn: u64,
    /// Who dies, and when.
    kill: Option<(u64, Vec<u8>)>,
}

impl Dice {
    pub(crate) fn new(seed: u64, config: &Config) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5bf0_3635);
        let style = rng.next_u64();
        let gap = [2, 4, 8, 32][style as usize % 4];
        let late = [0, 2, 4][(style >> 8) as usize % 3];
        let torn = [4, 16][(style >> 16) as usize % 2];
        let kill = config.kills.as_ref().filter(|kills| rng.next_u64() % kills.one_in == 0);
        // Any order of magnitude is as likely: runs are of any length.
        let kill = kill.map(|kills| {
            let magnitude = 4 + rng.next_u64() % 9;
            let at = rng.next_u64() % (1 << magnitude);
            let one = rng.next_u64() as usize % kills.hosts.len();
            let who = if kills.together { 0..kills.hosts.len() } else { one..one + 1 };
            (at, kills.hosts[who].iter().map(|&host| host as u8).collect())
        });
        Self { rng, hosts: config.hosts as u64, gap, next: 0, late, torn, kill }
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.rng.next_u64()
    }

    #[inline]
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.rng.next_u64().is_multiple_of(n)
    }

    /// A number of steps, `gap` on average.
    pub(crate) fn some_steps(&mut self, gap: u64) -> u64 {
        1 + self.rng.next_u64() % (2 * gap)
    }

    /// Everything but the choice of who runs.
    #[inline]
    pub(crate) fn disturb(&mut self, state: &mut State, point: Point, actions: &mut Vec<Action>) {
        match point {
            Point::Store(_) if self.late > 0 && self.one_in(self.late) => {
                actions.push(Action::Hold);
            }
            Point::Issue(_) if self.late > 0 && self.one_in(self.late) => {
                actions.push(Action::Defer);
            }
            Point::Line(_) if self.one_in(self.torn) => {
                actions.push(Action::Tear(1 + (self.roll() % 63) as u8));
            }
            _ => {}
        }
        if let Some((_, hosts)) = self.kill.take_if(|(left, _)| *left == 0) {
            for host in hosts {
                let outcome = match self.roll() % 4 {
                    0 => Outcome::Lost,
                    1 => Outcome::Written,
                    _ => Outcome::Some(self.roll()),
                };
                actions.push(Action::Kill(host, outcome));
            }
        }
        if let Some((left, _)) = &mut self.kill {
            *left -= 1;
        }
        if self.next > 0 {
            self.next -= 1;
            return;
        }
        self.next = self.some_steps(self.gap);
        let dice = self.roll();
        let host = ((dice >> 8) % self.hosts) as u8;
        match dice % 8 {
            0..3 => {
                let line = state.lnr.some_present(usize::from(host), dice >> 16);
                actions.extend(line.map(|line| Action::Evict(host, line)));
            }
            3..6 => actions.push(Action::Prefetch(host, state.lnr.recent(dice >> 16))),
            6 => {
                let issued = &state.lnr.issued;
                if let Some(index) = ((dice >> 16) as usize).checked_rem(issued.len()) {
                    let issued = issued[index];
                    actions.push(Action::Complete(issued.host as u8, issued.line));
                }
            }
            _ => {
                if state.scr.holds(usize::from(host)) {
                    actions.push(Action::Deliver(host));
                }
            }
        }
    }

    /// A thread other than the one that runs, at random; none, if there is no other.
    pub(crate) fn another(&mut self, state: &State) -> Option<u16> {
        let awake = |&thread: &usize| {
            thread != state.current && state.threads[thread].asleep_until <= state.steps
        };
        let count = state.runnable().filter(awake).count();
        let index = (self.roll() as usize).checked_rem(count)?;
        state.runnable().filter(awake).nth(index).map(|thread| thread as u16)
    }

    /// Sends the thread that runs to sleep for long, now and then.
    pub(crate) fn maybe_sleep(&mut self, actions: &mut Vec<Action>) {
        if self.one_in(64) {
            actions.push(Action::Sleep(20 << (self.roll() % 8)));
        }
    }
}
