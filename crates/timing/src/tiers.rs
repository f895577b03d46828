//! The speed of two tiers of memory for threads that copy whole pages.

use serde::Deserialize;

/// Two tiers between which pages move.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiers {
    /// Clock of the cores, for latencies that are stated in cycles.
    pub ghz: f64,
    /// The near tier.
    pub fast: TierSpeed,
    /// The far tier.
    pub slow: TierSpeed,
}

/// How fast a tier is, in GB/s.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierSpeed {
    /// Reads by one thread.
    pub read_gb_per_s: f64,
    /// Writes by one thread.
    pub write_gb_per_s: f64,
    /// Reads by all threads together.
    pub peak_read_gb_per_s: f64,
    /// Writes by all threads together.
    pub peak_write_gb_per_s: f64,
}

impl Tiers {
    /// Every entry by name.
    pub(crate) fn entries(&self) -> [(&'static str, f64); 9] {
        let Self { ghz, fast, slow } = self;
        [
            ("tiers.ghz", *ghz),
            ("tiers.fast.read_gb_per_s", fast.read_gb_per_s),
            ("tiers.fast.write_gb_per_s", fast.write_gb_per_s),
            ("tiers.fast.peak_read_gb_per_s", fast.peak_read_gb_per_s),
            ("tiers.fast.peak_write_gb_per_s", fast.peak_write_gb_per_s),
            ("tiers.slow.read_gb_per_s", slow.read_gb_per_s),
            ("tiers.slow.write_gb_per_s", slow.write_gb_per_s),
            ("tiers.slow.peak_read_gb_per_s", slow.peak_read_gb_per_s),
            ("tiers.slow.peak_write_gb_per_s", slow.peak_write_gb_per_s),
        ]
    }
}
