//! A host's stay in a pod: a handle, and the thread that does its background work.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tombolo_memory::Mapped;
use tombolo_objects::Options;
use tombolo_pod::{Pod, PodError};

/// How often the background work is done.
const TICK: Duration = Duration::from_millis(1);

/// A way to share a pod: objects, or a key-value store.
pub trait Handle: Sized + Send + Sync + 'static {
    /// Its errors.
    type Error: From<PodError> + Send;
    /// How a host takes part.
    type Options: Default;

    /// Joins a pod.
    ///
    /// # Errors
    /// If there is no seat, or nobody to get the index from.
    fn join(pod: Pod<Mapped>, options: Self::Options) -> Result<Self, Self::Error>;

    /// Does a little of the background work.
    ///
    /// # Errors
    /// If the pod is damaged.
    fn tick(&self) -> Result<(), Self::Error>;

    /// Leaves the pod.
    ///
    /// # Errors
    /// If the pod is damaged.
    fn leave(&self) -> Result<(), Self::Error>;
}

macro_rules! handle {
    ($handle:ty, $error:ty) => {
        impl Handle for $handle {
            type Error = $error;
            type Options = Options;

            fn join(pod: Pod<Mapped>, options: Options) -> Result<Self, $error> {
                Self::join(pod, options)
            }

            fn tick(&self) -> Result<(), $error> {
                self.tick()
            }

            fn leave(&self) -> Result<(), $error> {
                self.leave()
            }
        }
    };
}

handle!(tombolo_objects::Objects<Mapped>, tombolo_objects::Error);
handle!(tombolo_kv::Store<tombolo_objects::Objects<Mapped>>, tombolo_kv::Error);

/// A host that has joined a pod. It is used as what it holds: [`Objects`](crate::Objects) or
/// [`Store`](crate::Store). A clone is the same host. Dropping the last clone leaves the pod.
pub struct Member<H: Handle> {
    stay: Arc<Joined<H>>,
}

/// A host in a pod, for as long as it is there.
struct Joined<H: Handle> {
    handle: Arc<H>,
    background: Option<Background>,
}

impl<H: Handle> Clone for Member<H> {
    fn clone(&self) -> Self {
        Self { stay: self.stay.clone() }
    }
}

struct Background {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    /// In which the thread runs: a child of it has none.
    process: u32,
}

impl<H: Handle> Member<H> {
    /// Joins the pod that `spec` names.
    ///
    /// # Errors
    /// [`PodError`] if it cannot be opened; else those of joining.
    pub fn join(spec: impl AsRef<Path>) -> Result<Self, H::Error> {
        Self::join_pod(crate::open(spec)?, H::Options::default())
    }

    /// Joins a pod that is open, with other than the usual options.
    ///
    /// # Errors
    /// If there is no seat, or nobody to get the index from.
    pub fn join_pod(pod: Pod<Mapped>, options: H::Options) -> Result<Self, H::Error> {
        let handle = Arc::new(H::join(pod, options)?);
        let background = Some(Background::start(handle.clone()));
        Ok(Self { stay: Arc::new(Joined { handle, background }) })
    }

    /// Leaves the pod. The last host to leave puts it in order, so that it can be joined again. If
    /// there are clones of this, or views or rooms that keep the host, it leaves with the last of
    /// them.
    ///
    /// # Errors
    /// If the pod is damaged.
    pub fn leave(self) -> Result<(), H::Error> {
        Arc::into_inner(self.stay).map_or(Ok(()), |mut stay| stay.stop())
    }

    /// How many clones of this, views and rooms keep the host in the pod, this one included.
    pub fn keepers(&self) -> usize {
        Arc::strong_count(&self.stay)
    }
}

impl<H: Handle> Joined<H> {
    fn stop(&mut self) -> Result<(), H::Error> {
        let Some(background) = self.background.take() else { return Ok(()) };
        background.stop();
        self.handle.leave()
    }
}

impl<H: Handle> Deref for Member<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.stay.handle
    }
}

impl<H: Handle> Drop for Joined<H> {
    fn drop(&mut self) {
        // Nobody is left to tell; `leave` is for those who want to know.
        let _ = self.stop();
    }
}

impl Background {
    fn start<H: Handle>(handle: Arc<H>) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let told = stopping.clone();
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                // This host's next operation meets the same error, and reports it.
                let _ = handle.tick();
                thread::park_timeout(TICK);
            }
        });
        Self { stopping, thread, process: std::process::id() }
    }

    fn stop(self) {
        if self.process != std::process::id() {
            return;
        }
        self.stopping.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // If it panicked, that was printed; leaving is still right.
        let _ = self.thread.join();
    }
}
