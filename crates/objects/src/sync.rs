//! The primitives that threads of a host share: the standard atomics and bytes of its own memory,
//! or the model checker's.

#[cfg(not(loom))]
pub(crate) use std::sync::OnceLock;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use tombolo_memory::Arena;
#[cfg(loom)]
pub(crate) use tombolo_model::sync::{Arena, AtomicU32, AtomicU64, OnceLock, Ordering, fence};
