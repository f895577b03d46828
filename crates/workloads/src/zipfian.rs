//! Zipf-distributed ranks, by the formula of Gray et al., "Quickly Generating Billion-Record
//! Synthetic Databases" (SIGMOD 1994), which is YCSB's.
//!
//! Rank `r` of `n` (from 0) shall be drawn with probability `(r + 1)^-theta / zeta(n)`, where
//! `zeta(n)` is the sum of `i^-theta` for `i` from 1 to `n`. The formula does so exactly for ranks
//! 0 and 1 and approximates the others by a continuous curve.
//!
//! `zeta(n)` is not summed up: the first [`HEAD`] terms are, and the Euler-Maclaurin formula gives
//! the rest to within 1e-13. So a change of `n`, by one or by a billion, up or down, costs one
//! power, and the result depends on `n` alone, not on the steps that led there.
//!
//! Powers come from `libm`, since the standard library's differ between machines in their last bit,
//! which would now and then give another rank. Those of single ranks are made of a logarithm, which
//! is twice as fast and true to 13 digits.

/// Terms of zeta that are summed up.
const HEAD: u64 = 128;

/// Draws ranks from 0 (the most popular) to `items - 1`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    theta: f64,
    /// 1 / (1 - `theta`).
    exponent: f64,
    items: u64,
    /// The difference between zeta and `tail`.
    offset: f64,
    zeta2: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Ranks of `items` items with skew `theta`.
    ///
    /// # Panics
    ///
    /// If `items` is 0 or more than [`MAX_RECORDS`](crate::MAX_RECORDS), or `theta` is not within 0
    /// to [`MAX_THETA`](crate::MAX_THETA).
    pub fn new(items: u64, theta: f64) -> Self {
        assert!((0.0..=crate::MAX_THETA).contains(&theta), "theta {theta} is out of range");
        let offset = sum(HEAD, theta) - tail(HEAD, theta);
        let zeta2 = sum(2, theta);
        let exponent = 1.0 / (1.0 - theta);
        let mut zipfian = Self { theta, exponent, items: 0, offset, zeta2, zeta: 0.0, eta: 0.0 };
        zipfian.set_items(items);
        zipfian
    }

    /// The same with another sum of popularities than that of `items` items. Ranks follow the
    /// formula then, but not Zipf's law.
    pub(crate) fn with_zeta(self, zeta: f64) -> Self {
        Self { zeta, ..self }.scaled()
    }

    /// Changes the number of items. Takes some 30 ns, or 3 µs below 128 items.
    ///
    /// # Panics
    ///
    /// If `items` is 0 or more than [`MAX_RECORDS`](crate::MAX_RECORDS).
    pub fn set_items(&mut self, items: u64) {
        if items == self.items {
            return;
        }
        assert!((1..=crate::MAX_RECORDS).contains(&items), "{items} items are out of range");
        self.items = items;
        self.zeta = match items {
            ..=HEAD => sum(items, self.theta),
            _ => self.offset + tail(items, self.theta),
        };
        *self = self.clone().scaled();
    }

    /// The same, with the curve that fits the number of items and their sum.
    fn scaled(self) -> Self {
        let scale = libm::pow(2.0 / self.items as f64, 1.0 - self.theta);
        Self { eta: (1.0 - scale) / (1.0 - self.zeta2 / self.zeta), ..self }
    }

    /// The number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The sum of the popularities of all items, that of rank 0 being 1. So the share of rank `r`
    /// is `(r + 1)^-theta / zeta`.
    pub fn zeta(&self) -> f64 {
        self.zeta
    }

    /// The rank at `unit`, a uniformly distributed number of 0 to below 1.
    pub fn rank(&self, unit: f64) -> u64 {
        let share = unit * self.zeta;
        if share < 1.0 || self.items == 1 {
            return 0;
        }
        if share < self.zeta2 || self.items == 2 {
            return 1;
        }
        let base = self.eta * unit - self.eta + 1.0;
        let curve = libm::exp2(libm::log2(base) * self.exponent);
        ((self.items as f64 * curve) as u64).min(self.items - 1)
    }
}

/// `zeta(count)`, the slow way.
fn sum(count: u64, theta: f64) -> f64 {
    (1..=count).map(|i| libm::pow(i as f64, -theta)).sum()
}

/// A function that grows with `count` as `zeta(count)` does, once `count` is large: the
/// Euler-Maclaurin formula up to the third derivative.
fn tail(count: u64, theta: f64) -> f64 {
    let x = count as f64;
    let third = theta * (theta + 1.0) * (theta + 2.0) / (720.0 * x * x * x);
    libm::pow(x, -theta) * (x / (1.0 - theta) + 0.5 - theta / (12.0 * x) + third)
}
