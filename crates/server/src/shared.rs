//! The state that all connections of a server share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::bus::Topic;
use crate::clients::Clients;
use crate::commands;
use crate::config::Config;
use crate::hear::Hearing;
use crate::pause::Pause;
use crate::room::Room;
use crate::scripts::Scripts;
use crate::stats::Counters;
use crate::store::Store;
use crate::subscriptions::Subscriptions;
use crate::tally::Tallies;
use crate::tracking::Tracking;

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store + Send + Sync>,
    pub(crate) config: Config,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Counters,
    pub(crate) room: Room,
    /// Bytes of requests that are not whole, of all connections, but for the first of each.
    pub(crate) held_bytes: AtomicU64,
    pub(crate) clients: Clients,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) hearing: Hearing,
    pub(crate) scripts: Scripts,
    pub(crate) tracking: Tracking,
    pub(crate) tallies: Tallies,
    pub(crate) pause: Pause,
    pub(crate) started: Instant,
    /// Where the search for a random key goes on.
    pub(crate) random_cursor: AtomicU64,
    next_id: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store + Send + Sync>,
        config: Config,
        address: SocketAddr,
    ) -> Self {
        Self {
            room: Room::new(config.reply_bytes),
            held_bytes: AtomicU64::new(0),
            clients: Clients::default(),
            subscriptions: Subscriptions::default(),
            hearing: Hearing::default(),
            scripts: Scripts::default(),
            tracking: Tracking::default(),
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

    /// Has this host listen to messages of others exactly if one of its clients subscribes.
    pub(crate) fn settle_subscriptions(&self) {
        if let Ok(Some(bus)) = self.store.bus() {
            self.hearing.set(bus, Topic::Published, || !self.subscriptions.is_empty());
        }
    }

    /// Has this host listen to changes by others exactly if one of its clients wants to know all.
    pub(crate) fn settle_tracking(&self) {
        if let Ok(Some(bus)) = self.store.bus() {
            self.hearing.set(bus, Topic::Changed, || self.tracking.broadcasts());
        }
    }

    /// Whether a client of some host wants to know what is changed.
    pub(crate) fn wants_changes(&self) -> bool {
        let of_others = || match self.store.bus() {
            Ok(Some(bus)) => bus.is_heard(Topic::Changed),
            _ => false,
        };
        self.tracking.broadcasts() || of_others()
    }

    /// Tells clients of all hosts that want to know it that a client has changed `key`; an empty
    /// key is all keys.
    pub(crate) fn tell_change(&self, key: &[u8], by: u64) {
        if key.is_empty() {
            self.tracking.all_changed(false);
        } else {
            self.tracking.changed(key, Some(by));
        }
        if let Ok(Some(bus)) = self.store.bus()
            && bus.send(Topic::Changed, key).is_err()
        {
            // A key that is too long for a message is told as all keys.
            let _ = bus.send(Topic::Changed, b"");
        }
    }

    /// A number that no other connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}
