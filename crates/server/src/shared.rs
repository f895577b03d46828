//! What all connections of a server share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::config::Config;
use crate::latency::Latencies;
use crate::room::Room;
use crate::stats::Counters;
use crate::store::Store;

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
    pub(crate) room: Room,
    pub(crate) started: Instant,
    /// Where the search for a random key goes on.
    pub(crate) random_cursor: AtomicU64,
    next_id: AtomicU64,
}

impl Shared {
    pub(crate) fn new(store: Arc<dyn Store>, config: Config, address: SocketAddr) -> Self {
        Self {
            room: Room::new(config.reply_bytes),
            store,
            config,
            address,
            counters: Counters::default(),
            latencies: Latencies::new(),
            started: Instant::now(),
            random_cursor: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
        }
    }

    /// A number that no other connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}
