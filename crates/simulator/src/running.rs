//! The thread that runs: how it lets others run, waits, and dies.

use std::cell::RefCell;
use std::panic::{Location, resume_unwind};
use std::rc::Rc;

pub(crate) use tombolo_coroutines::suspend as switch;

use crate::adversary::Point;
use crate::world::World;

thread_local! {
    /// The world of the thread that is running on this OS thread.
    static RUNNING: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The value with which a thread of a dead host is unwound.
pub(crate) struct Killed;

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
    RUNNING.with_borrow(Clone::clone)
}

fn leave_if_dead(world: &World) {
    let state = world.state();
    let dead = state.is_dead(state.current);
    drop(state);
    if dead {
        die();
    }
}

/// Resumes a thread of a world from within another, or from none.
pub(crate) fn within<R>(world: &Rc<World>, resume: impl FnOnce() -> R) -> R {
    let before = RUNNING.replace(Some(Rc::clone(world)));
    let outcome = resume();
    RUNNING.set(before);
    outcome
}
