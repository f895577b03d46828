//! The atomics of the index, which the threads of a host share: the standard ones, or the model
//! checker's.

#[cfg(not(loom))]
pub(crate) use std::sync::OnceLock;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use tombolo_model::sync::{AtomicU64, OnceLock, Ordering, fence};
