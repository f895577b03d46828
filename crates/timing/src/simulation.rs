//! Threads of a pod's hosts, run in the order of their clocks.

use std::any::Any;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Duration;

use tombolo_coroutines::Thread;

use crate::counts::Counts;
use crate::machine::CoreId;
use crate::memory::TimedMemory;
use crate::profile::Profile;
use crate::world::{World, within};

/// The pod to simulate.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The machine's parts, times and sizes.
    pub profile: Profile,
    /// Size of SCR in bytes.
    pub scr_bytes: u64,
    /// Size of LNR in bytes.
    pub lnr_bytes: u64,
    /// Decides everything that is drawn by lot.
    pub seed: u64,
}

/// A pod, its hosts and their threads.
pub struct Simulation {
    world: Rc<World>,
    /// By thread number; the first stands for who sets the pod up.
    threads: Vec<Option<Thread>>,
}

impl Simulation {
    /// A pod of zeros, in which nothing takes time yet.
    pub fn new(spec: Spec) -> Self {
        let Spec { profile, scr_bytes, lnr_bytes, seed } = spec;
        let world = Rc::new(World::new(profile, scr_bytes, lnr_bytes, seed));
        Self { world, threads: vec![None] }
    }

    /// The view of `host`, counted from 0.
    ///
    /// # Panics
    /// If the profile has no such host.
    pub fn memory(&self, host: usize) -> TimedMemory {
        assert!((host as u32) < self.world.profile.pod.hosts, "there is no host {host}");
        TimedMemory::new(Rc::clone(&self.world), host)
    }

    /// How many cores each host has.
    pub fn cores(&self) -> usize {
        self.world.profile.pod.cores as usize
    }

    /// From now on operations take time, or do not: as while a pod is set up.
    pub fn takes_time(&self, timed: bool) {
        self.world.state().timed = timed;
    }

    /// Whether they do.
    pub fn is_timed(&self) -> bool {
        self.world.state().timed
    }

    /// Adds a thread to `host` that runs on `core`, from now on.
    ///
    /// # Panics
    /// If there is no such host or core.
    pub fn spawn(&mut self, host: usize, core: usize, body: impl FnOnce(TimedMemory) + 'static) {
        let memory = self.memory(host);
        assert!((core as u32) < self.world.profile.pod.cores, "host {host} has no core {core}");
        let number = self.world.state().add_thread(CoreId { host, core });
        debug_assert_eq!(number, self.threads.len());
        self.threads.push(Some(Thread::new(move || body(memory))));
    }

    /// Runs all threads to their end.
    ///
    /// # Panics
    /// With the panic of a thread, if one panics; if threads wait for locks that nobody holds.
    pub fn run(&mut self) {
        let world = Rc::clone(&self.world);
        if let Err(panic) = within(&world, || self.run_threads()) {
            resume_unwind(panic);
        }
        let mut state = self.world.state();
        assert_eq!(state.waiting(), 0, "threads wait for locks that nobody will release");
        state.all_ended();
        self.threads.truncate(1);
    }

    /// Runs all threads to their end, or to the panic of one of them.
    fn run_threads(&mut self) -> Result<(), Box<dyn Any + Send>> {
        let mut next = self.world.state().next();
        while let Some(number) = next {
            let thread = self.threads[number].as_mut().expect("it has not ended");
            let ended = thread.resume();
            let mut state = self.world.state();
            if matches!(ended, Ok(false)) {
                state.suspended();
            } else {
                state.ended();
                drop(state);
                self.threads[number] = None;
                ended?;
                state = self.world.state();
            }
            next = state.next();
        }
        Ok(())
    }

    /// The time that has passed.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.world.state().now / 1000)
    }

    /// The events so far.
    pub fn counts(&self) -> Counts {
        self.world.state().machine.counts()
    }
}
