//! Bytes of requests that are not whole yet.
//!
//! A connection may hold [`FREE_BYTES`] of them. Bytes beyond that count against a bound that all
//! connections share. A connection that would exceed the bound is ended: if it waited, it
//! would keep what it holds, and so might all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared::Shared;

/// Bytes of a request that is not whole that a connection holds without being counted.
const FREE_BYTES: u64 = 512 << 10;

/// The bytes that a connection holds, until it ends.
pub(crate) struct Held {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Held {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, bytes: 0 }
    }

    /// Says how many bytes the connection holds now; whether it may.
    #[inline]
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let bytes = (bytes as u64).saturating_sub(FREE_BYTES);
        bytes == self.bytes || self.change(bytes)
    }

    #[cold]
    fn change(&mut self, bytes: u64) -> bool {
        let all: &AtomicU64 = &self.shared.held_bytes;
        let (before, own) = (self.bytes, bytes);
        self.bytes = own;
        if own < before {
            all.fetch_sub(before - own, Ordering::Relaxed);
            return true;
        }
        let sum = all.fetch_add(own - before, Ordering::Relaxed) + (own - before);
        sum <= self.shared.config.request_bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
