//! Threads as coroutines on one OS thread.
//!
//! A thread that panics ends the run: the panic goes on in [`Simulation::run`]. A thread whose host
//! dies is unwound while nothing that it does has any effect. Outside a coroutine, as in the set-up
//! of a test, memory operations work and never switch.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::rc::Rc;

use tombolo_coroutines::Thread;

use crate::adversary::Point;
use crate::config::Config;
use crate::memory::SimMemory;
use crate::running::{self, Killed};
use crate::trial::Trial;
use crate::world::{AFTERWARDS, World};

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

type Restart = Rc<dyn Fn(SimMemory)>;

/// A pod, its hosts and their threads.
pub struct Simulation {
    world: Rc<World>,
    /// By thread number; the first stands for who sets the simulation up.
    threads: Vec<Option<Thread>>,
    restarts: Vec<Option<Restart>>,
}

impl Simulation {
    /// A pod of zeros.
    pub fn new(config: Config, trial: &Trial) -> Self {
        let restarts = vec![None; config.hosts];
        let world = Rc::new(World::new(config, trial.clone()));
        Self { world, threads: vec![None], restarts }
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
        self.world.state().add_thread(host, self.world.trial.seed);
        self.threads.push(Some(Thread::new(move || body(memory))));
    }

    /// The program of `host` when it is started again after it has died.
    pub fn restarts(&mut self, host: usize, body: impl Fn(SimMemory) + 'static) {
        self.restarts[host] = Some(Rc::new(body));
    }

    /// Runs all threads to their end while nobody disturbs them: they take turns where they wait.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    ///
    /// # Panics
    /// As of [`run`](Self::run).
    pub fn run_calmly(&mut self) -> Result<(), Failure> {
        self.run_threads()
    }

    /// Runs all threads to their end, as the adversary wants it.
    ///
    /// # Errors
    /// [`Failure::Stuck`] if the step budget is used up first.
    ///
    /// # Panics
    /// With the panic of a thread, if one panics.
    pub fn run(&mut self) -> Result<(), Failure> {
        self.world.state().disturbed = true;
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run_threads()));
        self.world.finish();
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn run_threads(&mut self) -> Result<(), Failure> {
        let budget = self.world.state().steps + self.world.config.max_steps;
        self.world.state().budget = budget;
        while let Some(thread) = self.pick() {
            if self.world.state().steps > budget {
                let unfinished = self.threads.iter().flatten().count();
                return Err(Failure::Stuck { steps: self.world.config.max_steps, unfinished });
            }
            if self.resume(thread) {
                self.threads[thread] = None;
                let mut state = self.world.state();
                state.threads[thread].finished = true;
                let host = usize::from(state.threads[thread].host);
                state.scr.drain(host);
                state.progress();
                self.world.decide(&mut state, Point::End, Location::caller());
            }
            self.start_fallen_hosts();
        }
        let mut state = self.world.state();
        (state.current, state.budget) = (0, state.steps + AFTERWARDS);
        Ok(())
    }

    /// The thread that runs next.
    fn pick(&self) -> Option<usize> {
        let mut state = self.world.state();
        let wanted = state.next.take().filter(|&thread| !state.threads[thread].finished);
        let next = wanted.or_else(|| state.successor(state.current, state.steps))?;
        state.current = next;
        Some(next)
    }

    fn start_fallen_hosts(&mut self) {
        let fallen = std::mem::take(&mut self.world.state().fallen);
        for host in fallen {
            if let Some(body) = self.restarts[host].clone() {
                self.spawn(host, move |memory| body(memory));
            }
        }
    }

    /// Runs a thread up to its next switch; whether it has ended.
    fn resume(&mut self, thread: usize) -> bool {
        let thread = self.threads[thread].as_mut().expect("it has not ended");
        match running::within(&self.world, || thread.resume()) {
            Ok(ended) => ended,
            Err(panic) if panic.is::<Killed>() => true,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Memory operations made so far.
    pub fn steps(&self) -> u64 {
        self.world.state().steps
    }

    /// How often `host` has died.
    pub fn deaths(&self, host: usize) -> u32 {
        self.world.state().lives[host]
    }
}
