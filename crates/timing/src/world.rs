//! The pod's bytes, its machine, and the threads' clocks.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use tombolo_memory::Word;

use crate::clocks::Clocks;
use crate::machine::{CoreId, Machine};
use crate::profile::Profile;
use crate::sparse::Sparse;
use crate::{Ps, ps};

thread_local! {
    /// The world of the thread that is running on this OS thread.
    static RUNNING: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

pub(crate) struct World {
    pub(crate) profile: Profile,
    pub(crate) scr_bytes: u64,
    pub(crate) lnr_bytes: u64,
    state: RefCell<State>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thread {
    pub(crate) at: CoreId,
    clock: Ps,
    /// When everything that was stored so far is done.
    pub(crate) pending: Ps,
    /// The lock it waits for.
    waits_for: Option<usize>,
}

pub(crate) struct State {
    /// Whether operations take time.
    pub(crate) timed: bool,
    /// The clock of the thread that runs.
    pub(crate) now: Ps,
    /// The smallest clock of all others that could run.
    horizon: Ps,
    current: usize,
    threads: Vec<Thread>,
    clocks: Clocks,
    pub(crate) machine: Machine,
    scr: Vec<u64>,
    pub(crate) lnr: Sparse,
    pub(crate) dice: Xoshiro256PlusPlus,
    pub(crate) costs: Costs,
}

/// Times that the profile states, in picoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Costs {
    pub(crate) atomic: Ps,
    pub(crate) pause: Ps,
    pub(crate) core_to_core: Ps,
    /// By step.
    pub(crate) work: [Ps; 9],
}

impl World {
    pub(crate) fn new(profile: Profile, scr_bytes: u64, lnr_bytes: u64, seed: u64) -> Self {
        let (core, steps) = (&profile.core, &profile.steps);
        let database = profile.database.unwrap_or_default();
        let costs = Costs {
            atomic: ps(core.atomic_ns),
            pause: ps(core.pause_ns),
            core_to_core: ps(core.core_to_core_ns),
            work: [
                ps(steps.operation_ns),
                ps(steps.lock_ns),
                ps(steps.append_ns),
                ps(steps.apply_ns),
                ps(steps.message_ns),
                ps(database.transaction_ns),
                ps(database.node_ns),
                ps(database.row_ns),
                ps(database.change_ns),
            ],
        };
        let state = State {
            timed: false,
            now: 0,
            horizon: Ps::MAX,
            current: 0,
            // The first stands for the creator of the pod.
            threads: vec![Thread::default()],
            clocks: Clocks::default(),
            machine: Machine::new(&profile, scr_bytes, lnr_bytes),
            scr: vec![0; scr_bytes.div_ceil(8) as usize],
            lnr: Sparse::new(lnr_bytes),
            dice: Xoshiro256PlusPlus::seed_from_u64(seed),
            costs,
        };
        Self { profile, scr_bytes, lnr_bytes, state: RefCell::new(state) }
    }

    #[inline]
    pub(crate) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// The state, once no other thread is behind this one.
    #[inline]
    pub(crate) fn in_turn(&self) -> RefMut<'_, State> {
        let state = self.state.borrow_mut();
        if state.now <= state.horizon {
            return state;
        }
        drop(state);
        tombolo_coroutines::suspend();
        self.state.borrow_mut()
    }
}

/// The world of the thread that is running.
pub(crate) fn running() -> Option<Rc<World>> {
    RUNNING.with_borrow(Clone::clone)
}

/// Runs threads of a world from within another, or from none.
pub(crate) fn within<R>(world: &Rc<World>, run: impl FnOnce() -> R) -> R {
    let before = RUNNING.replace(Some(Rc::clone(world)));
    let outcome = run();
    RUNNING.set(before);
    outcome
}

/// Which thread runs when.
impl State {
    /// Adds a thread that starts now; its number.
    pub(crate) fn add_thread(&mut self, at: CoreId) -> usize {
        let number = self.threads.len();
        self.threads.push(Thread { at, clock: self.now, ..Thread::default() });
        self.clocks.set(number, self.now);
        number
    }

    /// The thread that runs next: the one whose clock is smallest.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let (clock, thread) = self.clocks.first()?;
        self.current = thread;
        self.now = clock;
        self.horizon = self.clocks.second();
        Some(thread)
    }

    /// The thread that ran has suspended itself.
    pub(crate) fn suspended(&mut self) {
        let thread = &mut self.threads[self.current];
        thread.clock = self.now;
        if thread.waits_for.is_none() {
            self.clocks.set(self.current, self.now);
        } else {
            self.clocks.stop(self.current);
        }
    }

    /// The thread that ran has ended.
    pub(crate) fn ended(&mut self) {
        self.clocks.stop(self.current);
    }

    /// No thread runs: the code that goes on outside is at least as late as all of them.
    pub(crate) fn all_ended(&mut self) {
        (self.current, self.horizon) = (0, Ps::MAX);
        self.threads.truncate(1);
        self.threads[0].pending = 0;
        self.clocks = Clocks::default();
    }

    /// How many threads wait for locks.
    pub(crate) fn waiting(&self) -> usize {
        self.threads.iter().filter(|thread| thread.waits_for.is_some()).count()
    }

    /// The thread that runs will wait for a lock, once it suspends itself.
    pub(crate) fn wait_for(&mut self, lock: usize) {
        let current = self.current;
        self.threads[current].waits_for = Some(lock);
    }

    /// A lock was released: one of those that wait for it goes on.
    pub(crate) fn wake_one(&mut self, lock: usize) {
        // The one that has waited longest.
        let waiting = (0..self.threads.len())
            .filter(|&thread| self.threads[thread].waits_for == Some(lock))
            .min_by_key(|&thread| (self.threads[thread].clock, thread));
        let Some(number) = waiting else { return };
        let wakes = self.now + self.costs.core_to_core;
        let thread = &mut self.threads[number];
        thread.waits_for = None;
        thread.clock = thread.clock.max(wakes);
        let clock = thread.clock;
        self.horizon = self.horizon.min(clock);
        self.clocks.set(number, clock);
    }

    #[inline]
    pub(crate) fn thread(&mut self) -> &mut Thread {
        let current = self.current;
        &mut self.threads[current]
    }

    /// Where the thread that runs is.
    #[inline]
    pub(crate) fn here(&self) -> CoreId {
        self.threads[self.current].at
    }
}

/// SCR's bytes.
impl State {
    #[inline]
    pub(crate) fn word<W: Word>(&self, offset: u64) -> W {
        W::from_bits(self.scr[(offset / 8) as usize] >> (8 * (offset % 8)))
    }

    #[inline]
    pub(crate) fn set_word<W: Word>(&mut self, offset: u64, value: W) {
        let shift = 8 * (offset % 8);
        let mask = (u64::MAX >> (64 - 8 * size_of::<W>())) << shift;
        let word = &mut self.scr[(offset / 8) as usize];
        *word = *word & !mask | value.to_bits() << shift;
    }
}
