//! Floor 1: threads as coroutines of one OS thread, for simulators.
//!
//! A thread runs from [`Thread::resume`] to its next [`suspend`], or to its end. The caller decides
//! which thread runs when, so a run can be done again. Stacks are recycled.
//!
//! * A thread that panics ends, and its panic is handed to the thread that resumed it.
//! * A thread that is dropped before its end is abandoned where it stands: unwinding it would run
//!   code that a thread which just stops does not run. The contents of its stack are never given
//!   back.
//! * Threads may be nested: a thread may resume others.
//!
//! Left out: the choice of the next thread, time, locks.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

const STACK_BYTES: usize = 256 << 10;

/// Stacks are pages, so threads that are suspended at one place would have what they need next in
/// the same few sets of this machine's caches: so each begins so many bytes below another one, out
/// of so many.
const COLOUR_BYTES: usize = 320;
const COLOURS: usize = 32;

/// The payload of a thread's panic.
type Panic = Box<dyn Any + Send>;

type Resumed = Coroutine<(), (), Result<(), Panic>, Coloured>;

/// A stack that begins somewhat below its end.
struct Coloured {
    stack: DefaultStack,
    unused: usize,
}

// SAFETY: it is a part of a stack with the guard page of that, aligned as it is since
// `COLOUR_BYTES` is, and much larger than it has to be.
unsafe impl Stack for Coloured {
    #[inline]
    fn base(&self) -> StackPointer {
        let base = self.stack.base().get() - self.unused;
        StackPointer::new(base).expect("a stack is not at the beginning of memory")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }
}

thread_local! {
    /// Stacks of threads that have ended.
    static STACKS: Cell<Vec<Coloured>> = const { Cell::new(Vec::new()) };
    /// How many there are.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// The thread that is running.
    static RUNNING: Cell<Option<NonNull<Yielder<(), ()>>>> = const { Cell::new(None) };
}

/// A thread.
pub struct Thread(Option<Resumed>);

impl Thread {
    /// A thread that will run `body` when it is first resumed.
    ///
    /// # Panics
    /// If there is no memory for its stack.
    pub fn new(body: impl FnOnce() + 'static) -> Self {
        // The closure that a thread begins with may not be large.
        let body = Box::new(body);
        Self(Some(Coroutine::with_stack(stack(), move |yielder, ()| {
            RUNNING.set(Some(NonNull::from(yielder)));
            // Here, and not where it is resumed, which is done ever so often.
            catch_unwind(AssertUnwindSafe(body))
        })))
    }

    /// Runs the thread up to where it suspends itself, or to its end; whether it has ended.
    ///
    /// # Errors
    /// The panic that it ended with.
    ///
    /// # Panics
    /// If it has ended before.
    #[inline]
    pub fn resume(&mut self) -> Result<bool, Panic> {
        let coroutine = self.0.as_mut().expect("a thread is there until it is dropped");
        let outside = RUNNING.take();
        let outcome = coroutine.resume(());
        RUNNING.set(outside);
        match outcome {
            CoroutineResult::Yield(()) => Ok(false),
            CoroutineResult::Return(ended) => ended.map(|()| true),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let Some(coroutine) = self.0.take() else { return };
        if coroutine.done() {
            let mut stacks = STACKS.take();
            stacks.push(coroutine.into_stack());
            STACKS.set(stacks);
        } else if coroutine.started() {
            std::mem::forget(coroutine);
        }
    }
}

/// Whether a thread is running, and can suspend itself.
#[inline]
pub fn is_running() -> bool {
    RUNNING.get().is_some()
}

/// Suspends the thread that is running, if one is, and is not being unwound.
#[inline]
pub fn suspend() {
    if std::thread::panicking() {
        return;
    }
    let Some(yielder) = RUNNING.get() else { return };
    // SAFETY: `RUNNING` is set only while the coroutine that owns the yielder runs, and that
    // coroutine is what calls us; its yielder lives until its closure returns.
    unsafe { yielder.as_ref() }.suspend(());
    RUNNING.set(Some(yielder));
}

fn stack() -> Coloured {
    let mut stacks = STACKS.take();
    let stack = stacks.pop();
    STACKS.set(stacks);
    stack.unwrap_or_else(|| {
        let count = COUNT.replace(COUNT.get() + 1);
        let stack = DefaultStack::new(STACK_BYTES).expect("no memory for a coroutine's stack");
        Coloured { stack, unused: count % COLOURS * COLOUR_BYTES }
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn threads_take_turns_as_they_are_resumed() {
        let said = Rc::new(RefCell::new(Vec::new()));
        let mut threads: Vec<_> = (0..2)
            .map(|thread| {
                let said = Rc::clone(&said);
                Thread::new(move || {
                    for step in 0..2 {
                        said.borrow_mut().push((thread, step));
                        suspend();
                    }
                })
            })
            .collect();
        let ended: Vec<_> = [0, 1, 1, 0, 0, 1].map(|n: usize| threads[n].resume().unwrap()).into();
        assert_eq!(*said.borrow(), [(0, 0), (1, 0), (1, 1), (0, 1)]);
        assert_eq!(ended, [false, false, false, false, true, true]);
        assert!(!is_running());
    }

    #[test]
    fn a_panic_goes_to_who_resumed() {
        let mut thread = Thread::new(|| panic!("told you"));
        let panic = thread.resume().unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"told you"));
    }

    #[test]
    fn an_abandoned_thread_is_not_unwound() {
        struct Loud;
        impl Drop for Loud {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        let mut thread = Thread::new(|| {
            let _loud = Loud;
            suspend();
        });
        assert!(!thread.resume().unwrap());
    }

    #[test]
    fn threads_nest() {
        let mut outer = Thread::new(|| {
            let mut inner = Thread::new(suspend);
            assert!(!inner.resume().unwrap());
            suspend();
            assert!(inner.resume().unwrap());
        });
        assert!(!outer.resume().unwrap());
        assert!(outer.resume().unwrap());
    }
}
