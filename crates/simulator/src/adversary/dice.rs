//! What the random players have in common: disturbing caches, delays, sleep and death.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Point;
use crate::config::{Config, Deaths, Kills};
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
    /// Who dies, and so many steps after who died before; the next at the end.
    kills: Vec<(u64, Vec<u8>)>,
}

impl Dice {
    pub(crate) fn new(seed: u64, config: &Config) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5bf0_3635);
        let style = rng.next_u64();
        let gap = [2, 4, 8, 32][style as usize % 4];
        let late = [0, 2, 4][(style >> 8) as usize % 3];
        let torn = [4, 16][(style >> 16) as usize % 2];
        let kills = config.kills.as_ref().filter(|kills| rng.next_u64() % kills.one_in == 0);
        let kills = kills.map_or_else(Vec::new, |kills| deaths(kills, &mut rng));
        Self { rng, hosts: config.hosts as u64, gap, next: 0, late, torn, kills }
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
        if let Some((_, hosts)) = self.kills.pop_if(|(left, _)| *left == 0) {
            for host in hosts {
                let dirty = state.lnr.dirty_lines(usize::from(host)) as u64;
                let outcome = self.outcome(dirty.max(1));
                actions.push(Action::Kill(host, outcome));
            }
        } else if let Some((left, _)) = self.kills.last_mut() {
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

    /// What becomes of so many dirty lines.
    fn outcome(&mut self, dirty: u64) -> Outcome {
        let (kind, dice) = (self.roll(), self.roll());
        match kind % 6 {
            0 => Outcome::Lost,
            1 => Outcome::Written,
            2 => Outcome::One((dice % dirty) as u32),
            3 => Outcome::AllButOne((dice % dirty) as u32),
            _ => Outcome::Some(dice),
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

/// Who dies, and so many steps after who died before; the next at the end.
fn deaths(kills: &Kills, rng: &mut Xoshiro256PlusPlus) -> Vec<(u64, Vec<u8>)> {
    let hosts: Vec<u8> = kills.hosts.iter().map(|&host| host as u8).collect();
    let at = some_time(rng);
    let one = rng.next_u64() as usize % hosts.len();
    match kills.deaths {
        Deaths::One => vec![(at, vec![hosts[one]])],
        Deaths::Together => vec![(at, hosts)],
        Deaths::InTurn => hosts.iter().rev().map(|&host| (some_time(rng), vec![host])).collect(),
    }
}

/// A number of steps. Any order of magnitude is as likely: runs are of any length.
fn some_time(rng: &mut Xoshiro256PlusPlus) -> u64 {
    let magnitude = 4 + rng.next_u64() % 9;
    rng.next_u64() % (1 << magnitude)
}
