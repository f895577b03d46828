//! The common half of random players: disturbing caches, delays, sleep and death.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Point;
use crate::config::{Config, Deaths, Kills};
use crate::schedule::{Action, Fate};
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
    /// Deaths, the next at the end.
    deaths: Vec<Due>,
}

/// A death that is to come.
struct Due {
    when: When,
    /// The hosts that die. If it is aimed and not all die together: one of them.
    hosts: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// So many steps after who died before.
    After(u64),
    /// By aim.
    Aimed { together: bool },
}

impl Dice {
    pub(crate) fn new(seed: u64, config: &Config, aimed: bool) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5bf0_3635);
        let style = rng.next_u64();
        let gap = [2, 4, 8, 32][style as usize % 4];
        let late = [0, 2, 4][(style >> 8) as usize % 3];
        let torn = [4, 16][(style >> 16) as usize % 2];
        let kills = config.kills.as_ref().filter(|kills| rng.next_u64() % kills.one_in == 0);
        let mut deaths = kills.map_or_else(Vec::new, |kills| deaths(kills, &mut rng));
        if let Some(kills) = kills.filter(|_| aimed) {
            aim(kills, &mut deaths, rng.next_u64());
        }
        Self { rng, hosts: config.hosts as u64, gap, next: 0, late, torn, deaths }
    }

    /// Whether the next death is aimed, and `host` may be who dies.
    pub(crate) fn aims_at(&self, host: u8) -> bool {
        let aimed = |due: &&Due| matches!(due.when, When::Aimed { .. });
        self.deaths.last().filter(aimed).is_some_and(|due| due.hosts.contains(&host))
    }

    /// The aimed death comes to `host`; returns the hosts that die with it.
    pub(crate) fn strike(&mut self, host: u8) -> Vec<u8> {
        match self.deaths.pop_if(|due| matches!(due.when, When::Aimed { .. })) {
            Some(Due { when: When::Aimed { together: true }, hosts }) => hosts,
            _ => vec![host],
        }
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
        if let Some(due) = self.deaths.pop_if(|due| due.when == When::After(0)) {
            for host in due.hosts {
                let (fate, dice) = (self.fate(), self.roll());
                let dirty = state.lnr.dirty_lines(usize::from(host));
                actions.push(Action::Kill(host, fate.of(dirty, dice)));
            }
        } else if let Some(Due { when: When::After(left), .. }) = self.deaths.last_mut() {
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

    fn fate(&mut self) -> Fate {
        let last = Fate::ALL.len() - 1;
        Fate::ALL[last.min(self.roll() as usize % 6)]
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

/// Deaths at random moments, the next at the end.
fn deaths(kills: &Kills, rng: &mut Xoshiro256PlusPlus) -> Vec<Due> {
    let due = |time, hosts| Due { when: When::After(time), hosts };
    let at = some_time(rng);
    let one = rng.next_u64() as usize % kills.hosts.len();
    match kills.deaths {
        Deaths::One => vec![due(at, vec![kills.hosts[one] as u8])],
        Deaths::Together => vec![due(at, numbers(kills))],
        Deaths::InTurn => {
            numbers(kills).into_iter().rev().map(|host| due(some_time(rng), vec![host])).collect()
        }
    }
}

/// One of the deaths is aimed.
fn aim(kills: &Kills, deaths: &mut [Due], dice: u64) {
    let chosen = dice as usize % deaths.len();
    deaths[chosen].when = When::Aimed { together: kills.deaths == Deaths::Together };
    if kills.deaths == Deaths::One {
        deaths[chosen].hosts = numbers(kills);
    }
}

fn numbers(kills: &Kills) -> Vec<u8> {
    kills.hosts.iter().map(|&host| host as u8).collect()
}

/// A number of steps. Any order of magnitude is as likely: runs are of any length.
fn some_time(rng: &mut Xoshiro256PlusPlus) -> u64 {
    let magnitude = 4 + rng.next_u64() % 9;
    rng.next_u64() % (1 << magnitude)
}
