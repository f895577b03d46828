//! `fork()`: before it, all parked pages are brought back, since the child would find zeros there.
//!
//! The child has the memory, and none of the threads: pages do not move there. Pages that parent
//! and child share do not move in the parent until one of them has written its own.

use std::cell::RefCell;
use std::sync::mpsc::Sender;
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tombolo_memory::AroundForks;

use crate::shared::Shared;
use crate::worker::Job;

/// How long a fork waits for pages to come back. It is for a worker that hangs: a page takes
/// microseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a thread that forks, and the worker, meet.
#[derive(Debug, Default)]
pub(crate) struct ForkGate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that are about to fork.
    forking: u32,
    /// All pages are back, and none is parked.
    is_ready: bool,
    /// There is no worker any more.
    is_over: bool,
}

impl ForkGate {
    /// In the worker, between two pages: brings all pages back, and waits, if a thread forks.
    pub(crate) fn give_way(&self, bring_back: impl FnOnce()) {
        let mut state = self.state.lock();
        if state.forking == 0 {
            return;
        }
        bring_back();
        state.is_ready = true;
        self.changed.notify_all();
        while state.forking > 0 {
            self.changed.wait(&mut state);
        }
        state.is_ready = false;
    }

    /// The worker ends.
    pub(crate) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until the worker has given way, which `wake` wakes.
    fn before(&self, wake: impl FnOnce() -> bool) {
        let limit = Instant::now() + PATIENCE;
        let mut state = self.state.lock();
        state.forking += 1;
        state.is_over |= !wake();
        while !state.is_ready && !state.is_over {
            if self.changed.wait_until(&mut state, limit).timed_out() {
                return;
            }
        }
    }

    fn after(&self) {
        self.state.lock().forking -= 1;
        self.changed.notify_all();
    }
}

/// All heaps of this process, and of those that it was forked from.
static HEAPS: LazyLock<Mutex<Vec<Heap>>> = LazyLock::new(Mutex::default);

/// A heap, and how to wake its worker.
type Heap = (Weak<Shared>, Sender<Job>);

/// The lock and the stopped heaps that a thread holds while it forks. The list stays locked, so
/// that it is not in the midst of a change in the child.
struct Forking {
    _heaps: MutexGuard<'static, Vec<Heap>>,
    stopped: Vec<Arc<Shared>>,
}

thread_local! {
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

/// From here on forks wait for this heap.
pub(crate) fn watch(heap: Weak<Shared>, jobs: Sender<Job>) {
    AroundForks { before, in_parent, in_child }.install();
    let mut heaps = HEAPS.lock();
    heaps.retain(|(heap, _)| heap.strong_count() > 0);
    heaps.push((heap, jobs));
}

fn before() {
    let heaps = HEAPS.lock();
    let living = heaps.iter().filter_map(|(heap, jobs)| Some((heap.upgrade()?, jobs)));
    let ours = living.filter(|(heap, _)| !heap.is_forked());
    let stopped = ours.map(|(heap, jobs)| {
        heap.fork.before(|| jobs.send(Job::Look).is_ok());
        heap
    });
    let stopped = stopped.collect();
    FORKING.set(Some(Forking { _heaps: heaps, stopped }));
}

fn in_parent() {
    if let Some(forking) = FORKING.take() {
        forking.stopped.iter().for_each(|heap| heap.fork.after());
    }
}

fn in_child() {
    // The child has no workers to let go on.
    drop(FORKING.take());
}
