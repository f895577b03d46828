//! Having clients wait: `CLIENT PAUSE`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a client that waits looks whether the pause is over.
const LOOK: Duration = Duration::from_millis(5);

/// The commands that wait until the pause is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// Commands that change something.
    Writes,
    /// All commands.
    All,
}

/// A pause of all clients.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// There may be one.
    is_on: AtomicBool,
    until: Mutex<Option<(Instant, Paused)>>,
}

impl Pause {
    pub(crate) fn begin(&self, kind: Paused, time: Duration) {
        *self.until() = Instant::now().checked_add(time).map(|end| (end, kind));
        self.is_on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        *self.until() = None;
        self.is_on.store(false, Ordering::Relaxed);
    }

    fn until(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Paused)>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Waits until a command that writes, or does not, may be executed.
    pub(crate) async fn wait(&self, writes: bool) {
        while self.waits(writes) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn waits(&self, writes: bool) -> bool {
        match *self.until() {
            Some((end, _)) if Instant::now() >= end => {
                self.is_on.store(false, Ordering::Relaxed);
                false
            }
            Some((_, kind)) => writes || kind == Paused::All,
            None => false,
        }
    }
}
