//! Counters of what a host has done with pages.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of a host.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// The counters since then.
            #[must_use]
            pub fn since(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }
        }

        impl Sum for Counts {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::default(), |sum, counts| Self {
                    $($name: sum.$name + counts.$name,)*
                })
            }
        }

        #[derive(Default)]
        pub(crate) struct Counted {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counted {
            pub(crate) fn sum(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Pages that reads and writes asked for.
    asked,
    /// Pages that were not in the cache when they were asked for.
    missed,
    /// Pages read from files into the cache.
    admitted,
    /// Pages evicted.
    evicted,
    /// Pages written back to files.
    written_back,
    /// Times that a file took no page in the background.
    refused,
    /// Pages brought to their files when it joined, because all hosts that were there had died.
    salvaged,
    /// Pages that one of those was changing, whose bytes are lost: they are as in their files.
    lost,
}

impl Counts {
    /// Pages that were in the cache when they were asked for.
    pub fn hits(&self) -> u64 {
        self.asked.saturating_sub(self.missed)
    }
}

impl Counted {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
