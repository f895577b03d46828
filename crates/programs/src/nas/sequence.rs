//! The suite's random numbers: x becomes 5^13 x modulo 2^46.

const FACTOR: u64 = 1_220_703_125;
const MODULUS: u64 = 1 << 46;

/// Where the suite begins, but for EP.
pub(super) const START: u64 = 314_159_265;

/// The sequence from some place on.
#[derive(Clone)]
pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) fn new(start: u64) -> Self {
        Self(start)
    }

    /// The sequence without so many numbers.
    pub(super) fn skip(mut self, mut count: u64) -> Self {
        let mut factor = FACTOR;
        while count > 0 {
            if count % 2 == 1 {
                self.0 = times(self.0, factor);
            }
            factor = times(factor, factor);
            count /= 2;
        }
        self
    }

    /// From above 0 to below 1.
    pub(super) fn next(&mut self) -> f64 {
        self.0 = times(self.0, FACTOR);
        self.0 as f64 / MODULUS as f64
    }
}

/// The modulus divides 2^64, so nothing is lost by wrapping around.
fn times(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b) % MODULUS
}
