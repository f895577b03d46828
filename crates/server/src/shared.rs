//! What all connections of a server share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::clients::Clients;
use crate::commands;
use crate::config::Config;
use crate::pause::Pause;
use crate::room::Room;
use crate::stats::Counters;
use crate::store::Store;
use crate::tally::Tallies;

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Counters,
    pub(crate) room: Room,
    /// Bytes of requests that are not whole, of all connections, but for the first of each.
    pub(crate) held_bytes: AtomicU64,
    pub(crate) clients: Clients,
    pub(crate) tallies: Tallies,
    pub(crate) pause: Pause,
    pub(crate) started: Instant,
    /// Where the search for a random key goes on.
    pub(crate) random_cursor: AtomicU64,
    next_id: AtomicU64,
}

impl Shared {
    pub(crate) fn new(store: Arc<dyn Store>, config: Config, address: SocketAddr) -> Self {
        Self {
            room: Room::new(config.reply_bytes),
            held_bytes: AtomicU64::new(0),
            clients: Clients::default(),
            tallies: Tallies::new(commands::count()),
            pause: Pause::default(),
            store,
            config,
            address,
            counters: Counters::default(),
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
