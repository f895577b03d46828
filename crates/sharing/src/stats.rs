//! Counters of what a host has done.
//!
//! Threads count in shards of their own, so that counting does not make them share a line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};

const SHARDS: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident / $variant:ident,)*) => {
        /// The counters of a host since it joined.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Stats {
            $($(#[$doc])* pub $field: u64,)*
        }

        /// The events that are counted.
        #[derive(Clone, Copy, Debug)]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
        }

        const COUNTERS: usize = [$(Counter::$variant),*].len();

        impl Counters {
            /// The counters so far.
            pub fn snapshot(&self) -> Stats {
                Stats { $($field: self.sum(Counter::$variant),)* }
            }
        }

        impl Stats {
            /// Every counter with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }

            /// The sum of two hosts' counters.
            #[must_use]
            pub fn plus(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field,)* }
            }

            /// The counters since `earlier`.
            #[must_use]
            pub fn since(self, earlier: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
        }
    };
}

counters! {
    /// Objects read.
    reads / Reads,
    /// Writes to existing objects.
    writes / Writes,
    /// Objects created.
    creates / Creates,
    /// Objects deleted.
    deletes / Deletes,
    /// Objects moved to another slot.
    moves / Moves,
    /// Reads from a copy in this host's own memory.
    copy_reads / CopyReads,
    /// Reads of objects that are in this host's own memory alone.
    partition_reads / PartitionReads,
    /// Objects that moved into this host's own memory.
    moved_in / MovedIn,
    /// Objects that it has brought back.
    moved_out / MovedOut,
    /// Reads begun again because the object changed meanwhile.
    retries / Retries,
    /// Operations that had to allocate a coherence record.
    churn / Churn,
    /// Nanoseconds that these operations took for it.
    churn_ns / ChurnNs,
    /// Coherence records taken back.
    reclaims / Reclaims,
    /// Chunks whose memory was given back to the system.
    given_back / GivenBack,
    /// Hosts that died and were cleared up after.
    recoveries / Recoveries,
    /// Objects that a host had locked when it died or was fenced, and that are whole.
    rescues / Rescues,
    /// Objects whose value was lost with a host.
    lost / Lost,
    /// Objects whose value was lost to an error of the memory in which they lay.
    poisoned / Poisoned,
    /// Lines written back so that others see them.
    cleaned_lines / CleanedLines,
    /// Lines dropped because they might be stale.
    invalidated_lines / InvalidatedLines,
}

/// Counters of one host.
pub struct Counters {
    shards: Box<[CachePadded<[AtomicU64; COUNTERS]>; SHARDS]>,
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[inline(always)]
fn shard() -> usize {
    let shard = SHARD.get();
    if shard == usize::MAX { next_shard() } else { shard }
}

#[cold]
fn next_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SHARD.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    SHARD.get()
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl Counters {
    /// All at zero.
    pub fn new() -> Self {
        Self { shards: Box::default() }
    }

    /// Counts.
    #[inline]
    pub fn add(&self, counter: Counter, count: u64) {
        self.add_all([(counter, count)]);
    }

    /// Counts several things at once, for less.
    #[inline]
    pub fn add_all<const N: usize>(&self, counts: [(Counter, u64); N]) {
        // A load and a store, not a read-modify-write: counts may be lost when more threads than
        // shards collide, and nothing depends on them.
        // It is below `SHARDS` as it is; like this, no comparison is made of it.
        let shard = &self.shards[shard() % SHARDS];
        for (counter, count) in counts {
            let cell = &shard[counter as usize];
            cell.store(cell.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
        }
    }

    fn sum(&self, counter: Counter) -> u64 {
        self.shards.iter().map(|shard| shard[counter as usize].load(Ordering::Relaxed)).sum()
    }
}
