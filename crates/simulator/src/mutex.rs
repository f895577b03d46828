//! A mutex for threads that are coroutines: waiting lets others run.

#![allow(unsafe_code)]

use std::cell::Cell;

use crate::running;

/// The simulator's host-local mutex.
pub struct SimRawMutex {
    locked: Cell<bool>,
}

// SAFETY: `locked` is set by the thread that acquires and cleared by its release. Threads are
// coroutines of one OS thread (`Cell` makes this type `!Sync`) and switch only in `running`, so
// testing and setting cannot be interleaved.
unsafe impl lock_api::RawMutex for SimRawMutex {
    const INIT: Self = Self { locked: Cell::new(false) };

    type Guard = lock_api::GuardNoSend;

    /// A thread that is being unwound takes what it cannot wait for: nobody else runs any more, or
    /// its host is dead and all its threads are.
    fn lock(&self) -> Self::Guard {
        running::may_switch();
        while self.locked.replace(true) && !std::thread::panicking() {
            running::must_switch();
        }
        lock_api::GuardNoSend::new()
    }

    fn try_lock(&self) -> Option<Self::Guard> {
        (!self.locked.replace(true)).then(lock_api::GuardNoSend::new)
    }

    unsafe fn unlock(&self, _guard: Self::Guard) {
        self.locked.set(false);
    }

    fn is_locked(&self) -> bool {
        self.locked.get()
    }
}
