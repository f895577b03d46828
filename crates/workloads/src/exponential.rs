//! Exponentially distributed ranks, as YCSB has them.

/// Draws ranks from 0 (the most popular) to `items - 1`.
///
/// Rank `r` shall be drawn with a probability proportional to `exp(-decay * r)`. YCSB draws again
/// when a rank is too high; here what is beyond the last is cut off, which gives the same law with
/// one draw.
#[derive(Clone, Debug)]
pub(crate) struct Exponential {
    decay: f64,
    items: u64,
    /// The share of the whole curve that belongs to the items.
    share: f64,
}

impl Exponential {
    /// `percentile` percent of the curve lie before the rank `range`.
    pub(crate) fn new(percentile: f64, range: f64) -> Self {
        Self { decay: -libm::log1p(-percentile / 100.0) / range, items: 0, share: 0.0 }
    }

    /// The rank among `items` at `unit`, a uniformly distributed number of 0 to below 1.
    pub(crate) fn rank(&mut self, items: u64, unit: f64) -> u64 {
        if items != self.items {
            self.items = items;
            self.share = -libm::expm1(-self.decay * items as f64);
        }
        let rank = -libm::log1p(-unit * self.share) / self.decay;
        (rank as u64).min(items - 1)
    }
}
