//! Statistics of pages: counters that only grow, and numbers of pages as they are.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal,)*) => {
        /// One of the counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Count {
            $($(#[doc = $doc])* $name,)*
        }

        impl Count {
            /// All of them, in the order in which they are shown.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name, in words.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

counts! {
    /// Pages that were promoted.
    Promotions "promotions",
    /// Pages that were demoted into their shadow, without a copy.
    DemotionsByRemap "demotions by remap",
    /// Pages that were demoted by copying them.
    DemotionsByCopy "demotions by copy",
    /// Transactions that ended because the program wrote the page.
    AbortsWritten "aborts: written",
    /// Transactions that met a page in use by another thread, or given up.
    AbortsBusy "aborts: busy or given up",
    /// Transactions that met a page shared with a child, or pinned.
    AbortsShared "aborts: shared or pinned",
    /// Transactions that met a locked page, or one that is not writable.
    AbortsUnmovable "aborts: locked or not writable",
    /// Transactions that met a page that is not there.
    AbortsAbsent "aborts: absent",
    /// Transactions without a free frame in the tier.
    AbortsNoRoom "aborts: no room",
    /// Transactions during a change of the process' mappings.
    AbortsChanging "aborts: mappings changed",
    /// Transactions that the kernel refused otherwise.
    AbortsOther "aborts: other",
    /// Touches of parked pages.
    HintFaults "hint faults",
    /// Touches of pages that had never been filled.
    FirstTouches "first touches",
    /// Pages that were parked.
    Parked "pages parked",
    /// Shadows that a write of the program made worthless.
    ShadowsWritten "shadows dropped: written",
    /// Shadows that were given up for memory.
    ShadowsReclaimed "shadows dropped: reclaimed",
    /// Candidates that were dropped because newer ones came.
    CandidatesDropped "candidates dropped",
    /// Promotions that found the pending queue full.
    PendingDropped "pending dropped",
    /// Times that promotions stopped, because as many pages went down.
    ThrashStops "thrashing: stops",
    /// Times that promotions went on again.
    ThrashResumes "thrashing: resumes",
    /// Promotions that were made while they were stopped, to see whether they pay again.
    ThrashProbes "thrashing: probes",
    /// Time during which a touch of a moving page had to wait, in nanoseconds.
    GapNanoseconds "time in gaps (ns)",
}

/// Counters of one heap.
#[derive(Debug)]
pub(crate) struct Counters([AtomicU64; Count::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Counters {
    pub(crate) fn add(&self, count: Count, more: u64) {
        self.0[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn all(&self) -> [u64; Count::ALL.len()] {
        std::array::from_fn(|number| self.0[number].load(Ordering::Relaxed))
    }
}

/// Counters of a heap's pages, and numbers of its pages by where they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub(crate) counts: [u64; Count::ALL.len()],
    /// Filled pages of the near tier.
    pub near_pages: u64,
    /// Filled pages of the near tier at most.
    pub near_limit: u64,
    /// Pages of all areas, filled or not.
    pub served: u64,
    /// Shadows that are kept.
    pub shadows: u64,
    /// Pages that are parked.
    pub parked: u64,
    /// Whether promotions are stopped because of thrashing.
    pub is_thrashing: bool,
    /// Whether both tiers are one NUMA node: then nothing becomes faster.
    pub is_one_node: bool,
}

impl Stats {
    /// The value of a counter.
    pub fn get(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    /// Demotions of either kind.
    pub fn demotions(&self) -> u64 {
        self.get(Count::DemotionsByRemap) + self.get(Count::DemotionsByCopy)
    }
}
