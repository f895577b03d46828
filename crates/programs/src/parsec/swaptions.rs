//! Like swaptions: prices of options on swaps, by simulating interest rates many times. A thread's
//! paths are its own, in lines of their own, as what threads allocate is; threads share nothing but
//! pages.

use crate::Processor;
use crate::array::{Array, LINE_BYTES};
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Streams of random numbers: one, and one per swaption from here on.
const SWAPTIONS: u64 = 24;
const PATHS: u64 = 1 << 33;
/// Paths per round.
const TRIALS: usize = 64;
/// Steps of a path, of half a year each.
const STEPS: usize = 20;
const STEP: f64 = 0.5;
/// Numbers from one thread's path to the next: whole lines.
const STRIDE: usize = STEPS.next_multiple_of(LINE_BYTES as usize / size_of::<f64>());
/// Rates come back to their mean at this pace, and go off at this one.
const REVERSION: f64 = 0.2;
const VOLATILITY: f64 = 0.012;
/// The cost of a step, in instructions.
const WORK: u64 = 40;

pub(crate) struct Swaptions {
    strikes: Array<f64>,
    rates: Array<f64>,
    /// The step at which a swap may begin.
    maturities: Array<u32>,
    /// Each thread's path: rates, and what money then is worth now.
    paths: Array<f64>,
    discounts: Array<f64>,
    prices: Array<f64>,
    seed: u64,
    rounds: u32,
}

/// A thread's copy of the terms of its present swaption: they are read once.
struct Terms {
    mean: f64,
    strike: f64,
    maturity: usize,
}

impl Swaptions {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let count = 1_usize << setup.scale;
        let seed = setup.parameters.seed;
        let mut random = Random::new(seed, SWAPTIONS);
        let layout = &mut setup.layout;
        let mut rate = |name| {
            layout.array(name, (0..count).map(|_| 0.02 + 0.04 * random.unit()).collect::<Vec<_>>())
        };
        let (strikes, rates) = (rate("strikes"), rate("rates"));
        let maturities = (0..count).map(|_| 2 + random.below(STEPS / 2) as u32);
        let maturities: Vec<u32> = maturities.collect();
        Self {
            strikes,
            rates,
            maturities: layout.array("maturities", maturities),
            paths: layout.filled("paths of threads", setup.threads * STRIDE, 0.0),
            discounts: layout.filled("discounts of threads", setup.threads * STRIDE, 0.0),
            prices: layout.filled("prices", count, f64::NAN),
            seed,
            rounds: setup.rounds,
        }
    }

    fn trials(&self) -> usize {
        self.rounds as usize * TRIALS
    }

    /// The worth of a swaption on a path.
    fn trial<P: Processor>(&self, me: &Member<P>, terms: &Terms, random: &mut Random) -> f64 {
        let (p, start) = (&me.processor, me.thread * STRIDE);
        let Terms { mean, strike, maturity } = *terms;
        let (mut rate, mut discount) = (mean, 1.0);
        for step in start..start + STEPS {
            p.works(WORK);
            rate = next_rate(rate, mean, random);
            discount = next_discount(discount, rate);
            self.paths.set(p, step, rate);
            self.discounts.set(p, step, discount);
        }
        let mut worth = 0.0;
        for step in start + maturity..start + STEPS {
            let rate = self.paths.get(p, step);
            worth += (rate - strike) * STEP * self.discounts.get(p, step);
            p.works(4);
        }
        worth.max(0.0)
    }

    fn oracle(&self, swaption: usize) -> f64 {
        let mut random = Random::new(self.seed, PATHS + swaption as u64);
        let (mean, strike) = (self.rates.peek(swaption), self.strikes.peek(swaption));
        let maturity = self.maturities.peek(swaption) as usize;
        let mut sum = 0.0;
        for _ in 0..self.trials() {
            let (mut rate, mut discount, mut worth) = (mean, 1.0, 0.0);
            for step in 0..STEPS {
                rate = next_rate(rate, mean, &mut random);
                discount = next_discount(discount, rate);
                if step >= maturity {
                    worth += (rate - strike) * STEP * discount;
                }
            }
            sum += f64::max(worth, 0.0);
        }
        sum / self.trials() as f64
    }
}

impl Kernel for Swaptions {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for swaption in me.share(self.prices.len()) {
            let mut random = Random::new(self.seed, PATHS + swaption as u64);
            let p = &me.processor;
            let terms = Terms {
                mean: self.rates.get(p, swaption),
                strike: self.strikes.get(p, swaption),
                maturity: self.maturities.get(p, swaption) as usize,
            };
            let worth = (0..self.trials()).map(|_| self.trial(me, &terms, &mut random));
            let sum: f64 = worth.sum();
            self.prices.set(&me.processor, swaption, sum / self.trials() as f64);
        }
    }

    fn verify(&self) -> Result<(), String> {
        for (swaption, price) in self.prices.values().enumerate() {
            let right = self.oracle(swaption);
            if price != right {
                return Err(format!("swaption {swaption} is worth {right}, not {price}"));
            }
        }
        Ok(())
    }
}

/// Vasicek's model, with a sum of uniform numbers for a normal one.
fn next_rate(rate: f64, mean: f64, random: &mut Random) -> f64 {
    let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    rate + REVERSION * (mean - rate) * STEP + VOLATILITY * STEP.sqrt() * normal
}

fn next_discount(discount: f64, rate: f64) -> f64 {
    discount * libm::exp(-rate * STEP)
}
