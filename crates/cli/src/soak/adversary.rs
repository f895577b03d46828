//! When hosts are killed and stopped: at random moments, as the seed says.

use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::cli::SoakArgs;

/// How often a host dies if only how many is given.
const KILL_EVERY: Duration = Duration::from_millis(200);

/// A host that was killed is started again after at most so long.
const AWAY: Duration = Duration::from_millis(20);

/// Moments whose distances have an exponential distribution.
struct Moments {
    mean: Duration,
    next: Instant,
}

pub(super) struct Adversary {
    dice: ChaCha8Rng,
    kills: Option<Moments>,
    stops: Option<Moments>,
    stop_for: Duration,
}

impl Adversary {
    pub(super) fn new(args: &SoakArgs) -> Self {
        // No thread of a host has these numbers.
        let mut seed = [u8::MAX; 32];
        seed[..8].copy_from_slice(&args.seed.to_le_bytes());
        let mut dice = ChaCha8Rng::from_seed(seed);
        let kill_every = args.kill_every.or(args.kills.map(|_| KILL_EVERY));
        let mut moments = |mean| Moments { mean, next: Instant::now() + wait(&mut dice, mean) };
        let (kills, stops) = (kill_every.map(&mut moments), args.stop_every.map(&mut moments));
        Self { dice, kills, stops, stop_for: args.stop_for }
    }

    /// Leaves everybody alone from now on.
    pub(super) fn rest(&mut self) {
        (self.kills, self.stops) = (None, None);
    }

    pub(super) fn wants_to_kill(&self) -> bool {
        self.kills.as_ref().is_some_and(Moments::are_due)
    }

    pub(super) fn wants_to_stop(&self) -> bool {
        self.stops.as_ref().is_some_and(Moments::are_due)
    }

    /// It has killed; when the host is to come back.
    pub(super) fn killed(&mut self) -> Instant {
        renew(&mut self.kills, &mut self.dice);
        Instant::now() + AWAY.mul_f64(unit(&mut self.dice))
    }

    /// It has stopped a host; when that is to go on.
    pub(super) fn stopped(&mut self) -> Instant {
        renew(&mut self.stops, &mut self.dice);
        Instant::now() + self.stop_for
    }

    /// One of them.
    pub(super) fn choose(&mut self, among: &[usize]) -> Option<usize> {
        let number = self.dice.next_u64() as usize;
        number.checked_rem(among.len()).map(|at| among[at])
    }
}

impl Moments {
    fn are_due(&self) -> bool {
        Instant::now() >= self.next
    }
}

fn renew(moments: &mut Option<Moments>, dice: &mut ChaCha8Rng) {
    if let Some(moments) = moments {
        moments.next = Instant::now() + wait(dice, moments.mean);
    }
}

fn wait(dice: &mut ChaCha8Rng, mean: Duration) -> Duration {
    mean.mul_f64(-(1.0 - unit(dice)).ln())
}

/// At least 0, less than 1.
fn unit(dice: &mut ChaCha8Rng) -> f64 {
    (dice.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
