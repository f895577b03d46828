//! The state that all connections of a server share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bus::Topic;
use crate::clients::Clients;
use crate::commands;
use crate::config::Config;
use crate::database::{KeyCounts, key_counts};
use crate::events::{Event, Events};
use crate::functions::Functions;
use crate::hear::Hearing;
use crate::monitors::Monitors;
use crate::pause::Pause;
use crate::room::Room;
use crate::scripts::Scripts;
use crate::stats::Counters;
use crate::store::{Store, StoreError};
use crate::subscriptions::Subscriptions;
use crate::tally::Tallies;
use crate::tracking::Tracking;

/// How long a count of keys is shown that a walk has made.
const COUNTS_LAST: Duration = Duration::from_secs(10);

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
    pub(crate) events: Events,
    pub(crate) monitors: Monitors,
    pub(crate) scripts: Scripts,
    pub(crate) functions: Functions,
    pub(crate) tracking: Tracking,
    pub(crate) tallies: Tallies,
    pub(crate) pause: Pause,
    pub(crate) started: Instant,
    /// Where the search for a random key goes on.
    pub(crate) random_cursor: AtomicU64,
    /// The keys of each database, and when they were counted.
    counted: Mutex<Option<(Instant, KeyCounts)>>,
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
            events: Events::default(),
            monitors: Monitors::default(),
            scripts: Scripts::default(),
            functions: Functions::default(),
            tracking: Tracking::default(),
            tallies: Tallies::new(commands::count()),
            pause: Pause::default(),
            store,
            config,
            address,
            counters: Counters::default(),
            started: Instant::now(),
            counted: Mutex::default(),
            random_cursor: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
        }
    }

    /// Has this host listen to messages of others exactly if one of its clients subscribes; to
    /// events, if it tells those.
    pub(crate) fn settle_subscriptions(&self) {
        if let Ok(Some(bus)) = self.store.bus() {
            self.hearing.set(bus, Topic::Published, || !self.subscriptions.is_empty());
            self.hearing.set(bus, Topic::Event, || self.tells_events());
        }
    }

    /// Whether clients of this host are told of events.
    fn tells_events(&self) -> bool {
        self.events.are_told() && !self.subscriptions.is_empty()
    }

    /// Whether a client of some host is told of events.
    pub(crate) fn wants_events(&self) -> bool {
        self.tells_events() || self.is_heard(Topic::Event)
    }

    /// Whether another host listens to `topic`.
    fn is_heard(&self, topic: Topic) -> bool {
        matches!(self.store.bus(), Ok(Some(bus)) if bus.is_heard(topic))
    }

    /// Tells clients of all hosts that want to know it of an event. One whose key is too long for a
    /// message is told to those of this host alone.
    pub(crate) fn tell_event(&self, event: &Event<'_>) {
        if self.events.are_told() {
            event.tell(self.events.chosen(), &self.subscriptions);
        }
        if let Ok(Some(bus)) = self.store.bus()
            && bus.is_heard(Topic::Event)
        {
            let _ = bus.send(Topic::Event, &event.encode());
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
        self.tracking.broadcasts() || self.is_heard(Topic::Changed)
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

    /// How many keys each database has. If they have to be counted by a walk, that is done every
    /// ten seconds at most.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn key_counts(&self) -> Result<KeyCounts, StoreError> {
        if !self.store.has_databases()? {
            return key_counts(&*self.store);
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, counts)) = &*counted
            && at.elapsed() < COUNTS_LAST
        {
            return Ok(*counts);
        }
        let counts = tokio::task::block_in_place(|| key_counts(&*self.store))?;
        *counted = Some((Instant::now(), counts));
        Ok(counts)
    }

    /// A number that no other connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}
