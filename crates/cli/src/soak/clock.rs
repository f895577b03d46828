//! The clock of histories: `CLOCK_MONOTONIC`, which all processes of a machine share.
//!
//! Fences keep what an operation loads and stores between the two times that are taken for it. They
//! also empty the store buffer at each: a mistake that shows only while it is full hides from
//! histories.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::time::{ClockId, clock_gettime};

/// When an operation began and when it had ended, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) invoked_at: u64,
    pub(super) responded_at: u64,
}

/// Now, in nanoseconds.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Does `operation`, and takes the time.
pub(super) fn timed<T>(operation: impl FnOnce() -> T) -> (T, Times) {
    let invoked_at = before();
    let done = operation();
    (done, Times { invoked_at, responded_at: after() })
}

fn before() -> u64 {
    let now = now();
    // Fences do not order the reading of a clock. But the store of what was read comes after it,
    // and what follows the fence after the store.
    black_box(&AtomicU64::new(0)).store(now, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    now
}

fn after() -> u64 {
    fence(Ordering::SeqCst);
    now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_in_order() {
        let (middle, times) = timed(now);
        assert!(times.invoked_at <= middle && middle <= times.responded_at);
        assert!(timed(|| ()).1.invoked_at >= times.responded_at);
    }
}
