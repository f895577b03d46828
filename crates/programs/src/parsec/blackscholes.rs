//! Like blackscholes: prices of options by the formula of Black and Scholes. Each thread has
//! options of its own; nothing is shared but pages.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Stream of random numbers.
const OPTIONS: u64 = 20;
/// The cost of the formula, in instructions.
const WORK: u64 = 200;
/// By how much a price in `f32` may differ from the oracle's in `f64`.
const TOLERANCE: f64 = 2e-3;

pub(crate) struct Blackscholes {
    spots: Array<f32>,
    strikes: Array<f32>,
    rates: Array<f32>,
    volatilities: Array<f32>,
    times: Array<f32>,
    are_puts: Array<u32>,
    prices: Array<f32>,
    rounds: u32,
}

impl Blackscholes {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let count = 1_usize << setup.scale;
        let mut random = Random::new(setup.parameters.seed, OPTIONS);
        let layout = &mut setup.layout;
        let mut between = |name, low: f64, high: f64| {
            let mut value = || (low + (high - low) * random.unit()) as f32;
            layout.array(name, (0..count).map(|_| value()))
        };
        Self {
            spots: between("spot prices", 40.0, 120.0),
            strikes: between("strikes", 40.0, 120.0),
            rates: between("rates", 0.025, 0.1),
            volatilities: between("volatilities", 0.05, 0.65),
            times: between("times", 0.05, 1.0),
            are_puts: layout.array("kinds", (0..count).map(|option| option as u32 % 2)),
            prices: layout.filled("prices", count, f32::NAN),
            rounds: setup.rounds,
        }
    }
}

impl Kernel for Blackscholes {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for _ in 0..self.rounds {
            for option in me.share(self.prices.len()) {
                let terms = Terms {
                    spot: self.spots.get(p, option),
                    strike: self.strikes.get(p, option),
                    rate: self.rates.get(p, option),
                    volatility: self.volatilities.get(p, option),
                    time: self.times.get(p, option),
                    is_put: self.are_puts.get(p, option) == 1,
                };
                p.works(WORK);
                self.prices.set(p, option, terms.price());
            }
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        for (option, price) in self.prices.values().enumerate() {
            let terms = Terms {
                spot: self.spots.peek(option),
                strike: self.strikes.peek(option),
                rate: self.rates.peek(option),
                volatility: self.volatilities.peek(option),
                time: self.times.peek(option),
                is_put: self.are_puts.peek(option) == 1,
            };
            let right = terms.oracle();
            let off = (f64::from(price) - right).abs();
            if off.is_nan() || off > TOLERANCE {
                return Err(format!("option {option} is worth {right}, not {price}"));
            }
        }
        Ok(())
    }
}

/// An option.
struct Terms {
    spot: f32,
    strike: f32,
    rate: f32,
    volatility: f32,
    time: f32,
    is_put: bool,
}

impl Terms {
    fn price(&self) -> f32 {
        let deviation = self.volatility * self.time.sqrt();
        let drift = (self.rate + 0.5 * self.volatility * self.volatility) * self.time;
        let first = (libm::logf(self.spot / self.strike) + drift) / deviation;
        let [a, b] = [first, first - deviation].map(below);
        let discounted = self.strike * libm::expf(-self.rate * self.time);
        if self.is_put {
            discounted * (1.0 - b) - self.spot * (1.0 - a)
        } else {
            self.spot * a - discounted * b
        }
    }

    /// The price by the error function; that of a put from the call's, by parity.
    fn oracle(&self) -> f64 {
        let [spot, strike, rate, volatility, time] =
            [self.spot, self.strike, self.rate, self.volatility, self.time].map(f64::from);
        let deviation = volatility * time.sqrt();
        let middle = (libm::log(spot / strike) + rate * time) / deviation;
        let below = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        let discounted = strike * libm::exp(-rate * time);
        let call =
            spot * below(middle + deviation / 2.0) - discounted * below(middle - deviation / 2.0);
        if self.is_put { call - spot + discounted } else { call }
    }
}

/// How likely a normal number is below `x`: a polynomial (Abramowitz and Stegun, 26.2.17).
fn below(x: f32) -> f32 {
    let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let terms = [1.330_274_4, -1.821_255_9, 1.781_477_9, -0.356_563_78, 0.319_381_54];
    let sum = terms.into_iter().fold(0.0, |sum, term| (sum + term) * k);
    let tail = 0.398_942_3 * libm::expf(-0.5 * x * x) * sum;
    if x < 0.0 { tail } else { 1.0 - tail }
}
