//! The mutex of [`HostMemory`](crate::HostMemory): a flag, and yielding while it is set.
#![allow(unsafe_code)]

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::yield_now;

use crate::switches;

/// How many mutexes a model has at most.
const FLAGS: usize = 6;

thread_local! {
    static FLAGS_LEFT: RefCell<Vec<Rc<AtomicBool>>> = const { RefCell::new(Vec::new()) };
}

/// Makes the flags of a model's mutexes, before it starts its threads: a mutex is a constant at
/// first, and loom's atomics are not.
pub(crate) fn make_flags() {
    FLAGS_LEFT.set((0..FLAGS).map(|_| Rc::new(AtomicBool::new(false))).collect());
}

pub struct LoomMutex(OnceCell<Rc<AtomicBool>>);

impl LoomMutex {
    fn flag(&self) -> &AtomicBool {
        self.0.get_or_init(|| {
            let flag = FLAGS_LEFT.with_borrow_mut(Vec::pop);
            flag.expect("a model has six mutexes at most")
        })
    }
}

// SAFETY: the flag goes from clear to set in one step, by the thread that acquires, and is cleared
// by the release. loom's threads are coroutines of one OS thread (`OnceCell` makes this type
// `!Sync`).
unsafe impl lock_api::RawMutex for LoomMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(OnceCell::new());

    type Guard = lock_api::GuardNoSend;

    fn lock(&self) -> Self::Guard {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            yield_now();
        }
    }

    fn try_lock(&self) -> Option<Self::Guard> {
        switches::here();
        let taken = self.flag().compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(lock_api::GuardNoSend::new)
    }

    /// A thread that panics leaves it locked: the model is over, and can take no more steps.
    unsafe fn unlock(&self, _guard: Self::Guard) {
        if !std::thread::panicking() {
            switches::here();
            self.flag().store(false, Ordering::Release);
        }
    }

    fn is_locked(&self) -> bool {
        self.flag().load(Ordering::Relaxed)
    }
}
