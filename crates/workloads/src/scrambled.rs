//! YCSB's Zipfian choice among records: ranks of very many items, scattered by a hash.

use crate::{Zipfian, hash};

/// The number of items that YCSB draws ranks among, whatever the number of records.
const RANKED_ITEMS: u64 = 10_000_000_001;

/// The skew for which YCSB has the sum of popularities as a constant.
const YCSB_THETA: f64 = 0.99;

/// That constant, which is the sum for 10^10 items.
const YCSB_ZETA: f64 = 26.469_028_201_783_02;

/// Chooses among items as YCSB's `ScrambledZipfianGenerator` does: it draws one of 10^10 ranks, and
/// takes the rank's hash modulo the number of items.
///
/// There are so many ranks that each item has some. The hottest item gets 3.8 % of all choices at a
/// skew of 0.99, and 29 % are spread over 18 million items nearly evenly.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// YCSB's choice among `items` items with skew `theta`.
    ///
    /// # Panics
    ///
    /// If `items` is 0, or `theta` is not within 0 to [`MAX_THETA`](crate::MAX_THETA).
    pub fn new(items: u64, theta: f64) -> Self {
        assert!(items > 0, "there is nothing to choose");
        let ranks = Zipfian::new(RANKED_ITEMS, theta);
        let ranks = if theta == YCSB_THETA { ranks.with_zeta(YCSB_ZETA) } else { ranks };
        Self { ranks, items }
    }

    /// The choice of MEGALON's published benchmark. It is YCSB's for a skew of 0.99. For any other
    /// skew the sum of popularities is that of the items, not of the ranks. So at 0.7, with 18
    /// million items, 85 % of all choices are spread evenly.
    ///
    /// # Panics
    ///
    /// As of [`new`](Self::new).
    pub fn as_published(items: u64, theta: f64) -> Self {
        let ycsb = Self::new(items, theta);
        if theta == YCSB_THETA {
            return ycsb;
        }
        let zeta = Zipfian::new(items, theta).zeta();
        Self { ranks: ycsb.ranks.with_zeta(zeta), items }
    }

    /// The number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The item at `unit`, a uniformly distributed number of 0 to below 1.
    pub fn item(&self, unit: f64) -> u64 {
        hash(self.ranks.rank(unit)) % self.items
    }
}
