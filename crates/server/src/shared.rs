//! What all connections of a server share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::config::Config;
use crate::latency::Latencies;
use crate::stats::Counters;
use crate::store::Store;

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
    pub(crate) started: Instant,
    next_id: AtomicU64,
}

impl Shared {
    pub(crate) fn new(store: Arc<dyn Store>, config: Config, address: SocketAddr) -> Self {
        Self {
            store,
            config,
            address,
            counters: Counters::default(),
            latencies: Latencies::new(),
            started: Instant::now(),
            next_id: AtomicU64::new(1),
        }
    }

    /// A number that no other connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}
