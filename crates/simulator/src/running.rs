//! The thread that runs: how it lets others run, waits, and dies.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::panic::{Location, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use corosensei::Yielder;

use crate::adversary::Point;
use crate::world::World;

/// The coroutine that is running on this OS thread, and its world.
pub(crate) struct Running {
    yielder: NonNull<Yielder<(), ()>>,
    world: Rc<World>,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// What a thread of a dead host is unwound with.
pub(crate) struct Killed;

/// Lets another thread run, if this is one. A thread that is being unwound is not left any more.
pub(crate) fn switch() {
    if std::thread::panicking() {
        return;
    }
    let Some(running) = RUNNING.take() else { return };
    // SAFETY: `RUNNING` is set only while the coroutine that owns the yielder runs, and that
    // coroutine is what calls us; its yielder lives until its closure returns.
    unsafe { running.yielder.as_ref() }.suspend(());
    RUNNING.set(Some(running));
}

/// Ends a thread whose host is dead. One that is being unwound already goes on with that.
pub(crate) fn die() {
    if !std::thread::panicking() {
        resume_unwind(Box::new(Killed));
    }
}

/// A thread waits for others: they run, if there are any.
pub(crate) fn wait(world: &World, at: &'static Location<'static>) {
    if std::thread::panicking() || RUNNING.with_borrow(Option::is_none) {
        return;
    }
    let mut state = world.state();
    world.decide(&mut state, Point::Wait, at);
    let next = state.next.or(state.successor(state.current, state.steps));
    state.next = next;
    let (next, current) = (state.next, state.current);
    if next == Some(current) && state.steps <= state.budget {
        state.next = None;
        return;
    }
    drop(state);
    switch();
}

/// A thread is about to take a lock that the threads of its host share.
pub(crate) fn may_switch() {
    if let Some(world) = running_world() {
        let mut state = world.state();
        world.decide(&mut state, Point::Local, Location::caller());
        let goes = state.next.is_some();
        drop(state);
        if goes {
            switch();
        }
        leave_if_dead(&world);
    }
}

/// A thread waits for a lock that the threads of its host share.
pub(crate) fn must_switch() {
    if let Some(world) = running_world() {
        wait(&world, Location::caller());
        leave_if_dead(&world);
    }
}

fn running_world() -> Option<Rc<World>> {
    if std::thread::panicking() {
        return None;
    }
    RUNNING.with_borrow(|running| running.as_ref().map(|running| Rc::clone(&running.world)))
}

fn leave_if_dead(world: &World) {
    let state = world.state();
    let dead = state.is_dead(state.current);
    drop(state);
    if dead {
        die();
    }
}

/// From here on this coroutine is the one that runs.
pub(crate) fn enter(yielder: &Yielder<(), ()>, world: Rc<World>) {
    RUNNING.set(Some(Running { yielder: NonNull::from(yielder), world }));
}

/// Resumes a coroutine from within this one, or from none.
pub(crate) fn within<R>(resume: impl FnOnce() -> R) -> R {
    let before = RUNNING.take();
    let outcome = resume();
    RUNNING.set(before);
    outcome
}
