//! The clock of recorders.
//!
//! Times are ticks of one counter: exact in real-time order and never equal, at the price that
//! every tick is a full fence on one shared line. A mistake that shows only while a host's store
//! buffer is full may thus hide from a recorded run; missing cleans and invalidates do not, as
//! fences move no cache lines.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Counts ticks. Threads share one clock.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// The fences keep the operation's own loads and stores on their side of the tick, on machines
    /// too where an atomic addition alone would let them pass.
    pub(crate) fn tick(&self) -> u64 {
        fence(Ordering::SeqCst);
        let now = self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        now
    }
}
