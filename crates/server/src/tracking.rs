//! Clients that keep values, and are told when those change.
//!
//! In the default mode a client is told of keys that it has read. The table of those has what each
//! key had before the client read it, as the store [watches](crate::Store::watch) keys. A walk goes
//! through the table all the time, and compares. So a change counts whichever host has made it, and
//! in whatever way; it is told within the time of a walk. In broadcasting mode a client is told of
//! all keys with its prefixes, by messages of the servers that change them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tombolo_kv::Watch;

use crate::clients::Client;
use crate::database::original;
use crate::outbox::{Push, Taken};
use crate::reply::Reply;
use crate::shared::Shared;
use crate::store::Store;
use crate::subscriptions::Kind;

/// Keys that are tracked for all clients, at most: clients are told that an older one has changed.
pub(crate) const MOST_KEYS: usize = 1_000_000;
/// Keys that are looked at before others have their turn.
const STEP: usize = 256;
/// Between two walks.
const PAUSE: Duration = Duration::from_millis(2);
/// A client of RESP2 gets invalidations in this channel.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// How a client is tracked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mode {
    pub(crate) broadcast: bool,
    /// In broadcasting mode; none is all keys.
    pub(crate) prefixes: Vec<Bytes>,
    /// It is not told what it changes itself.
    pub(crate) no_loop: bool,
    pub(crate) opt_in: bool,
    pub(crate) opt_out: bool,
    /// The client that is told instead of it.
    pub(crate) redirect: Option<Arc<Client>>,
}

/// All tracked clients and keys of this host.
#[derive(Default)]
pub(crate) struct Tracking {
    table: Mutex<Table>,
    /// Clients in broadcasting mode.
    broadcasts: AtomicUsize,
    /// There may be keys to look at.
    filled: Notify,
}

#[derive(Default)]
struct Table {
    clients: BTreeMap<u64, (Arc<Client>, Mode)>,
    keys: HashMap<Bytes, Tracked>,
}

struct Tracked {
    /// The key's state before the first of these clients read it.
    before: Watch,
    clients: BTreeSet<u64>,
}

impl Tracking {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tracks a client, or tracks it in another way.
    pub(crate) fn start(&self, client: &Arc<Client>, mode: Mode) {
        let mut table = self.table();
        table.clients.insert(client.id, (client.clone(), mode));
        self.broadcasts.store(table.broadcasts(), Ordering::Release);
    }

    /// Tracks a client no longer.
    pub(crate) fn stop(&self, client: &Client) {
        let mut table = self.table();
        let Some((_, mode)) = table.clients.remove(&client.id) else { return };
        self.broadcasts.store(table.broadcasts(), Ordering::Release);
        if !mode.broadcast {
            table.keys.retain(|_, tracked| {
                tracked.clients.remove(&client.id);
                !tracked.clients.is_empty()
            });
        }
    }

    /// How a client is tracked, if it is.
    pub(crate) fn mode(&self, client: &Client) -> Option<Mode> {
        self.table().clients.get(&client.id).map(|(_, mode)| mode.clone())
    }

    /// How many clients are tracked.
    pub(crate) fn client_count(&self) -> usize {
        self.table().clients.len()
    }

    /// How many keys are tracked.
    pub(crate) fn key_count(&self) -> usize {
        self.table().keys.len()
    }

    /// Whether a client of this host is in broadcasting mode.
    pub(crate) fn broadcasts(&self) -> bool {
        self.broadcasts.load(Ordering::Acquire) > 0
    }

    /// A client is about to read `key`.
    pub(crate) fn reads(&self, store: &dyn Store, client: &Client, key: &Bytes) {
        // Before the read: what changes from here on is told.
        let Ok(now) = store.watch(key) else { return };
        let mut table = self.table();
        if table.keys.len() >= MOST_KEYS && !table.keys.contains_key(key) {
            let other = table.keys.keys().next().cloned();
            other.iter().for_each(|other| table.invalidate(other, None));
        }
        let is_stale = table.keys.get(key).is_some_and(|tracked| tracked.before != now);
        if is_stale {
            // Others have read what was there before.
            table.invalidate(key, None);
        }
        let new = || Tracked { before: now, clients: BTreeSet::new() };
        table.keys.entry(key.clone()).or_insert_with(new).clients.insert(client.id);
        drop(table);
        self.filled.notify_one();
    }

    /// A client that is not to be told what it changes itself is about to change `key`: it is told
    /// of changes up to here, and tracked there no longer.
    pub(crate) fn writes(&self, store: &dyn Store, client: &Client, key: &[u8]) {
        let mut table = self.table();
        let Some(tracked) = table.keys.get(key) else { return };
        if !tracked.clients.contains(&client.id) {
            return;
        }
        if store.watch(key).is_ok_and(|now| now != tracked.before) {
            table.invalidate(key, None);
        } else if let Some(tracked) = table.keys.get_mut(key) {
            tracked.clients.remove(&client.id);
        }
    }

    /// Tells the clients in broadcasting mode that `key` was changed, by a client of this host if
    /// that is given.
    pub(crate) fn changed(&self, key: &[u8], by: Option<u64>) {
        let table = self.table();
        let concerns = |mode: &Mode| {
            let mut prefixes = mode.prefixes.iter();
            let (_, key) = original(key);
            mode.broadcast
                && (mode.prefixes.is_empty() || prefixes.any(|prefix| key.starts_with(prefix)))
        };
        let push = invalidation(Some(key));
        for (client, mode) in table.clients.values().filter(|(_, mode)| concerns(mode)) {
            if !(mode.no_loop && by == Some(client.id)) {
                tell(client, mode, &push);
            }
        }
    }

    /// Tells clients that all keys have changed: all clients, or those in broadcasting mode, which
    /// may have missed something.
    pub(crate) fn all_changed(&self, only_broadcast: bool) {
        let mut table = self.table();
        let push = invalidation(None);
        for (client, mode) in table.clients.values() {
            if mode.broadcast || !only_broadcast {
                tell(client, mode, &push);
            }
        }
        if !only_broadcast {
            table.keys.clear();
        }
    }

    /// Tells clients of the keys that have changed since they read them.
    fn compare(&self, store: &dyn Store, keys: &[Bytes]) {
        for key in keys {
            let Ok(now) = store.watch(key) else { continue };
            let mut table = self.table();
            if table.keys.get(key).is_some_and(|tracked| tracked.before != now) {
                // It may have been read again since, and then is told once too often.
                table.invalidate(key, None);
            }
        }
    }
}

impl Table {
    fn broadcasts(&self) -> usize {
        self.clients.values().filter(|(_, mode)| mode.broadcast).count()
    }

    /// Tells all clients that track `key`, but for one, and tracks it no longer.
    fn invalidate(&mut self, key: &[u8], but: Option<u64>) {
        let Some(tracked) = self.keys.remove(key) else { return };
        let push = invalidation(Some(key));
        for id in tracked.clients.iter().filter(|&&id| but != Some(id)) {
            if let Some((client, mode)) = self.clients.get(id) {
                tell(client, mode, &push);
            }
        }
    }
}

/// That a key has changed, or all keys have. Nothing says of which database the key is: clients
/// have it from no more than one.
fn invalidation(key: Option<&[u8]>) -> Push {
    let key = key.map(|stored| original(stored).1);
    let keys = || key.map_or(Reply::Null, |key| Reply::Array(vec![Reply::bulk(key)]));
    let resp2 = vec![Reply::bulk("message"), Reply::bulk(CHANNEL), keys()];
    Push::of_each(resp2, vec![Reply::bulk("invalidate"), keys()])
}

fn tell(client: &Arc<Client>, mode: &Mode, push: &Push) {
    let to = mode.redirect.as_ref().unwrap_or(client);
    let is_gone = to.is_gone();
    if is_gone && client.outbox.is_resp3() {
        let gone = Reply::Integer(to.id as i64);
        let broken = Push::new(vec![Reply::bulk("tracking-redir-broken"), gone]);
        let _ = client.outbox.add(&broken);
    }
    // A client of RESP2 takes for a reply what it has not subscribed to.
    let listens = || to.subscribed()[Kind::Channel as usize].contains(CHANNEL);
    if !is_gone && (to.outbox.is_resp3() || listens()) && to.outbox.add(push) == Taken::TooSlow {
        to.kill();
    }
}

/// Walks through the tracked keys as long as the server runs.
pub(crate) async fn walk(shared: Arc<Shared>) {
    let tracking = &shared.tracking;
    loop {
        let keys: Vec<Bytes> = tracking.table().keys.keys().cloned().collect();
        if keys.is_empty() {
            tracking.filled.notified().await;
            continue;
        }
        for keys in keys.chunks(STEP) {
            let started = Instant::now();
            tracking.compare(&*shared.store, keys);
            // A long walk takes a quarter of a processor.
            if keys.len() == STEP {
                tokio::time::sleep(3 * started.elapsed()).await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
