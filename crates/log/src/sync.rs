//! The atomics that the threads of a host share: the standard ones, or the model checker's.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use tombolo_model::sync::{AtomicU8, AtomicU64, Ordering};
