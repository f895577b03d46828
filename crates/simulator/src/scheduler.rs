//! Threads as coroutines on one OS thread.
//!
//! Which thread runs next is drawn from the world's seed. A thread that panics ends the run: the
//! panic goes on in [`Simulation::run`]. Outside a coroutine, as in the set-up of a test, memory
//! operations work and never switch.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::memory::SimMemory;
use crate::world::{Config, World};

const STACK_BYTES: usize = 256 << 10;

type Thread = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    /// The yielder of the coroutine that is running on this OS thread.
    static RUNNING: Cell<Option<NonNull<Yielder<(), ()>>>> = const { Cell::new(None) };
}

/// Lets another thread run, if this is one. A thread that panics is not left any more.
pub(crate) fn switch() {
    if std::thread::panicking() {
        return;
    }
    if let Some(yielder) = RUNNING.get() {
        // SAFETY: `RUNNING` is set only while the coroutine that owns the yielder runs, and that
        // coroutine is what calls us; its yielder lives until its closure returns.
        unsafe { yielder.as_ref() }.suspend(());
        RUNNING.set(Some(yielder));
    }
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The step budget is used up: a livelock, or a budget that is too small.
    Stuck {
        /// Steps made.
        steps: u64,
        /// Threads that had not finished.
        unfinished: usize,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck { steps, unfinished } => {
                write!(f, "{unfinished} threads had not finished after {steps} steps")
            }
        }
    }
}

impl std::error::Error for Failure {}

/// A pod, its hosts and their threads.
pub struct Simulation {
    world: Rc<World>,
    threads: Vec<Thread>,
}

impl Simulation {
    /// A pod of zeros, all of whose randomness comes from `seed`.
    pub fn new(config: Config, seed: u64) -> Self {
        Self { world: Rc::new(World::new(config, seed)), threads: Vec::new() }
    }

    /// The view of `host`, counted from 0.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn memory(&self, host: usize) -> SimMemory {
        assert!(host < self.world.config.hosts, "there is no host {host}");
        SimMemory::new(Rc::clone(&self.world), host)
    }

    /// Adds a thread to `host`.
    ///
    /// # Panics
    /// If there is no such host, or no memory for its stack.
    pub fn spawn(&mut self, host: usize, body: impl FnOnce(SimMemory) + 'static) {
        let memory = self.memory(host);
        let stack = DefaultStack::new(STACK_BYTES).expect("no memory for a coroutine's stack");
        self.threads.push(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            RUNNING.set(Some(NonNull::from(yielder)));
            body(memory);
        }));
    }

    /// Runs all threads to their end.
    ///
    /// # Errors
    /// [`Failure::Stuck`] if the step budget is used up first.
    ///
    /// # Panics
    /// With the panic of a thread, if one panics.
    pub fn run(&mut self) -> Result<(), Failure> {
        while !self.threads.is_empty() {
            if self.world.steps() > self.world.config.max_steps {
                return Err(Failure::Stuck {
                    steps: self.world.steps(),
                    unfinished: self.threads.len(),
                });
            }
            self.world.count_step();
            let next = self.world.random() as usize % self.threads.len();
            if resume(&mut self.threads[next]) {
                drop(self.threads.swap_remove(next));
            }
        }
        Ok(())
    }

    /// Memory operations made so far.
    pub fn steps(&self) -> u64 {
        self.world.steps()
    }
}

impl Drop for Simulation {
    /// Threads that never finished are abandoned where they stand: unwinding them would run code
    /// that a host which stops does not run.
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            std::mem::forget(thread);
        }
    }
}

/// Runs a thread up to its next switch; whether it has finished.
fn resume(thread: &mut Thread) -> bool {
    struct Restore(Option<NonNull<Yielder<(), ()>>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            RUNNING.set(self.0);
        }
    }
    let _restore = Restore(RUNNING.get());
    matches!(thread.resume(()), CoroutineResult::Return(()))
}
