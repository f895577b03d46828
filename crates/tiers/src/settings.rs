//! The machine, and what things take on it.

use tombolo_timing::{Bandwidth, Profile, Ps, ps};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Which pages move, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// None.
    None,
    /// A hint fault promotes an active page while the program waits.
    Tpp,
    /// Samples count uses, a thread moves pages; counts are halved after so many thousand samples.
    Memtis {
        /// Samples after which counts are halved, in thousands.
        cooling: u32,
    },
    /// Promotions are transactions, and shadows stay behind.
    Nomad,
    /// NOMAD's moves, of pages that pay for them, while they are not in vain.
    BreakEven,
}

impl Policy {
    /// Memtis with its default cooling.
    pub const MEMTIS: Self = Self::Memtis { cooling: 2000 };
    /// Memtis with the paper's short cooling.
    pub const MEMTIS_QUICK: Self = Self::Memtis { cooling: 2 };

    /// The name that the paper gives it; the paper has no break-even.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "no migration",
            Self::Tpp => "TPP",
            Self::Memtis { cooling } if cooling < 100 => "Memtis-QuickCool",
            Self::Memtis { .. } => "Memtis-Default",
            Self::Nomad => "NOMAD",
            Self::BreakEven => "break-even",
        }
    }

    /// Whether pages that were touched are found by hint faults.
    pub(crate) fn has_hints(self) -> bool {
        matches!(self, Self::Tpp | Self::Nomad | Self::BreakEven)
    }

    /// Whether promoted pages leave shadows.
    pub(crate) fn has_shadows(self) -> bool {
        matches!(self, Self::Nomad | Self::BreakEven)
    }
}

/// The events by which the sampling hardware sees uses of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Misses of the TLB and stores: misses of the last cache that go to CXL memory are not seen.
    TlbMisses,
    /// Misses of the last cache, and stores.
    CacheMisses,
}

/// Times and bandwidths of the machine's memory.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    /// Reading or writing a page with one thread, by tier.
    pub(crate) page: [[Ps; 2]; 2],
    /// A line that is waited for, by tier.
    pub(crate) line: [Ps; 2],
    /// A copy of a page from one tier into the other one, by the tier it comes from.
    pub(crate) copy: [Ps; 2],
    /// The bandwidth that all threads share, by tier.
    pub(crate) bandwidth: [Bandwidth; 2],
}

/// A minor page fault: an estimate.
pub(crate) const FAULT: Ps = 1_000_000;
/// A migration but for its copy, so that both together take the 4.8 us of published measurements.
pub(crate) const MIGRATION: Ps = 3_900_000;
/// Changing an entry of a page table, with the shootdown after it: an estimate.
pub(crate) const REMAP: Ps = 1_500_000;
/// The time that a shootdown costs each thread that is interrupted: an estimate.
pub(crate) const INTERRUPT: Ps = 300_000;
/// Looking at a page of a list, with its entry in the page table: an estimate.
pub(crate) const LOOK: Ps = 150_000;
/// Making a page inaccessible, as one of many: an estimate.
pub(crate) const PROTECT: Ps = 50_000;
/// The time that a sample costs the thread that is sampled: an estimate.
pub(crate) const SAMPLE: Ps = 250_000;

/// The machine, and the policy.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Frames of the fast tier that programs may use.
    pub fast_pages: u32,
    /// The same of the slow tier.
    pub slow_pages: u32,
    /// Frames of the fast tier that are kept free.
    pub kept_free: u32,
    /// Pages that the demoter demotes in a pass, however many are free meanwhile.
    pub pass: u32,
    /// Which pages move.
    pub policy: Policy,
    /// The events that are sampled.
    pub events: Events,
    /// How much smaller everything is: periods of the kernel are as much shorter.
    pub scale: f64,
    pub(crate) costs: Costs,
}

impl Machine {
    /// A machine of a profile that has `[tiers]`; sizes are in GiB, and `scale` makes all smaller.
    ///
    /// Of the fast tier's 16 GiB, 10 % are kept free, whatever the system has taken of it.
    pub fn new(profile: &Profile, policy: Policy, fast: f64, slow: f64, scale: f64) -> Self {
        let costs = Costs::of(profile);
        Self {
            fast_pages: pages_of(fast * scale),
            slow_pages: pages_of(slow * scale),
            kept_free: pages_of(0.1 * FAST_GIB * scale),
            pass: pages_of(0.1 * FAST_GIB * scale),
            policy,
            events: Events::TlbMisses,
            scale,
            costs,
        }
    }
}

/// The fast tier of all of the paper's platforms.
pub const FAST_GIB: f64 = 16.0;

/// Pages of so many GiB.
pub fn pages_of(gib: f64) -> u32 {
    (gib * (1u64 << 30) as f64 / PAGE_BYTES as f64).round() as u32
}

impl Costs {
    /// # Panics
    /// If the profile has no `[tiers]`.
    fn of(profile: &Profile) -> Self {
        let tiers = profile.tiers.expect("the profile has [tiers]");
        let speeds = [tiers.fast, tiers.slow];
        let page_ns = |gb_per_s: f64| PAGE_BYTES as f64 / gb_per_s;
        let times = speeds
            .map(|speed| [ps(page_ns(speed.read_gb_per_s)), ps(page_ns(speed.write_gb_per_s))]);
        let [fast, slow] = times;
        let bandwidth = |memory: &tombolo_timing::Bandwidth, speed: tombolo_timing::TierSpeed| {
            Bandwidth { gb_per_s: speed.peak_read_gb_per_s, curve: memory.curve.clone() }
        };
        Self {
            page: times,
            line: [ps(profile.local.latency_ns), ps(profile.device.latency_ns)],
            // Loads and stores of a copy overlap: the slower side counts.
            copy: [fast[0].max(slow[1]), slow[0].max(fast[1])],
            bandwidth: [
                bandwidth(&profile.local.bandwidth(), tiers.fast),
                bandwidth(&profile.device.bandwidth(), tiers.slow),
            ],
        }
    }
}
