//! Counts of events, and the times that they took.

use std::ops::Sub;

use tombolo_timing::Ps;

/// Defines [`Counters`] with a difference by field.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Counts and times since the machine began; a difference of two is of the time between.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Sub for Counters {
            type Output = Self;

            fn sub(self, earlier: Self) -> Self {
                Self { $($name: self.$name - earlier.$name,)* }
            }
        }
    };
}

counters! {
    /// Uses of pages.
    accesses: u64,
    /// Bytes that were used.
    bytes: u64,
    /// Uses of pages in the fast tier.
    fast_accesses: u64,
    /// Pages that came into the fast tier.
    promotions: u64,
    /// Promotions that were wanted while no frame was free.
    promotions_without_frame: u64,
    /// Pages that left the fast tier by a copy.
    demotions_by_copy: u64,
    /// Pages that left it for their shadows.
    demotions_by_remap: u64,
    /// Promotions that were aborted, since the page was written meanwhile.
    aborts: u64,
    /// Pages that waited for promotion and found the queue full.
    queue_full: u64,
    /// Hint faults.
    hint_faults: u64,
    /// Writes that found a page read-only because of its shadow.
    shadow_faults: u64,
    /// Shadows given up for room.
    shadows_reclaimed: u64,
    /// Samples taken.
    samples: u64,
    /// Times that thrash control stopped promotions.
    stops: u64,
    /// Times that it let them go on.
    resumes: u64,
    /// Threads' time in the program, accesses to memory included.
    user_ps: Ps,
    /// Threads' time in page faults.
    fault_ps: Ps,
    /// Threads' time in promotions.
    promotion_ps: Ps,
    /// Time of the kernel's threads that promote.
    promoter_ps: Ps,
    /// Time of the thread that demotes.
    demoter_ps: Ps,
}

impl Counters {
    /// Pages that left the fast tier.
    pub fn demotions(&self) -> u64 {
        self.demotions_by_copy + self.demotions_by_remap
    }
}
