//! How far the background work of a host is.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tombolo_memory::{HostMutex, Memory};

use crate::host::cleanups::Cleanups;

/// How the background work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Records are taken back while more than this share of them is in use, in percent.
    pub watermark_percent: u64,
    /// Records taken back in one tick, at most.
    pub reclaim_batch: u64,
    /// Objects of sparsely used chunks are moved together while more than this share of LNR is
    /// divided into slots and unused, in percent.
    pub fragmented_percent: u64,
    /// Objects moved in one tick, at most.
    pub move_batch: usize,
    /// Chunks that nothing has been in for so long give their memory back to the system: between
    /// once and twice this time after they became free. That holds for files whose system takes
    /// memory back.
    pub give_back_after: Duration,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self {
            watermark_percent: 90,
            reclaim_batch: 256,
            fragmented_percent: 10,
            move_batch: 32,
            give_back_after: Duration::from_secs(5),
        }
    }
}

pub(crate) struct Upkeep<M: Memory> {
    pub(crate) options: Maintenance,
    pub(crate) ticks: AtomicU64,
    /// Whether the last tick moved objects, and the next may go on.
    pub(crate) compacting: AtomicBool,
    /// Which host was in some thread's way last, plus one.
    obstacle: AtomicU8,
    /// Held by the thread that goes on without a dead host.
    pub(crate) recovering: HostMutex<M, ()>,
    pub(crate) cleanups: Cleanups,
}

impl<M: Memory> Upkeep<M> {
    pub(crate) fn new(options: Maintenance) -> Self {
        Self {
            options,
            ticks: AtomicU64::new(0),
            compacting: AtomicBool::new(false),
            obstacle: AtomicU8::new(0),
            recovering: HostMutex::<M, _>::new(()),
            cleanups: Cleanups::default(),
        }
    }

    pub(crate) fn obstructed_by(&self, host: u8) {
        self.obstacle.store(host + 1, Ordering::Relaxed);
    }

    /// Which host was in the way last.
    pub(crate) fn obstacle(&self) -> Option<u8> {
        self.obstacle.load(Ordering::Relaxed).checked_sub(1)
    }
}
