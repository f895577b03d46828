//! A mutex for threads that are coroutines in virtual time.

#![allow(unsafe_code)]

use std::cell::Cell;

use crate::world;

/// The host-local mutex. Taking it costs an atomic step, and a line from another core if that had
/// it last. A thread that finds it locked sleeps until it is released.
pub struct TimedRawMutex {
    locked: Cell<bool>,
    waiting: Cell<bool>,
    /// The core that had it last, plus one.
    last: Cell<u32>,
}

impl TimedRawMutex {
    fn charge(&self) {
        let Some(world) = world::running() else { return };
        let mut state = world.in_turn();
        if !state.timed {
            return;
        }
        let core = state.here().core as u32 + 1;
        let moved = self.last.replace(core) != core;
        state.now += state.costs.atomic + if moved { state.costs.core_to_core } else { 0 };
    }
}

// SAFETY: `locked` is set by the thread that acquires and cleared by its release. Threads are
// coroutines of one OS thread (`Cell` makes this type `!Sync`) and switch only where they say so,
// so testing and setting cannot be interleaved.
unsafe impl lock_api::RawMutex for TimedRawMutex {
    const INIT: Self =
        Self { locked: Cell::new(false), waiting: Cell::new(false), last: Cell::new(0) };

    type Guard = lock_api::GuardNoSend;

    fn lock(&self) -> Self::Guard {
        self.charge();
        while self.locked.replace(true) {
            let world = world::running().expect("only a thread finds a lock taken");
            self.waiting.set(true);
            world.state().wait_for(self.number());
            tombolo_coroutines::suspend();
        }
        lock_api::GuardNoSend::new()
    }

    fn try_lock(&self) -> Option<Self::Guard> {
        self.charge();
        (!self.locked.replace(true)).then(lock_api::GuardNoSend::new)
    }

    unsafe fn unlock(&self, _guard: Self::Guard) {
        self.locked.set(false);
        if self.waiting.get()
            && let Some(world) = world::running()
        {
            world.state().wake_one(self.number());
        }
    }

    fn is_locked(&self) -> bool {
        self.locked.get()
    }
}

impl TimedRawMutex {
    /// Tells it from other mutexes: it does not move while somebody waits for it.
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
