//! The clients that are connected, whichever thread serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::task::AbortHandle;

use crate::outbox::Outbox;
use crate::reply::Reply;
use crate::subscriptions::{KINDS, Kind};

/// The names and the protocol version that a client has given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) library_version: String,
    pub(crate) protocol: i64,
}

/// A client that is connected.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) since: Instant,
    /// When it last sent something, in milliseconds since it came.
    active_ms: AtomicU64,
    /// The database that it has chosen.
    database: AtomicU8,
    said: Mutex<Said>,
    subscribed: Mutex<[BTreeSet<Bytes>; KINDS]>,
    pub(crate) outbox: Outbox,
    task: OnceLock<AbortHandle>,
}

impl Client {
    pub(crate) fn new(id: u64, peer: SocketAddr) -> Self {
        let said = Mutex::new(Said { protocol: 2, ..Said::default() });
        let (active_ms, database, task) = (AtomicU64::new(0), AtomicU8::new(0), OnceLock::new());
        let (since, (subscribed, outbox)) = (Instant::now(), Default::default());
        Self { id, peer, since, active_ms, database, said, subscribed, outbox, task }
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its subscriptions, by kind.
    pub(crate) fn subscribed(&self) -> MutexGuard<'_, [BTreeSet<Bytes>; KINDS]> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To how many things it subscribes, by kind.
    pub(crate) fn subscriptions(&self) -> [usize; KINDS] {
        self.subscribed().each_ref().map(BTreeSet::len)
    }

    pub(crate) fn is_subscriber(&self) -> bool {
        self.subscriptions() != [0; KINDS]
    }

    /// How many subscriptions it has that are counted together with those of a kind.
    pub(crate) fn count_with(&self, kind: Kind) -> Reply {
        let [channels, patterns, shards] = self.subscriptions();
        Reply::Integer(if kind == Kind::Shard { shards } else { channels + patterns } as i64)
    }

    /// Notes that it has sent something.
    pub(crate) fn is_active(&self) {
        self.active_ms.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Notes which database it has chosen.
    pub(crate) fn chooses(&self, database: u8) {
        self.database.store(database, Ordering::Relaxed);
    }

    /// Whether the connection has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.task.get().is_some_and(AbortHandle::is_finished)
    }

    /// Ends the connection, unless it ends by itself.
    pub(crate) fn kill(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// As `CLIENT LIST` has it, without the end of the line.
    pub(crate) fn line(&self, server: SocketAddr) -> String {
        let Said { name, library, library_version, protocol } = self.said().clone();
        let age_ms = self.since.elapsed().as_millis() as u64;
        let idle_ms = age_ms.saturating_sub(self.active_ms.load(Ordering::Relaxed));
        let [sub, psub, ssub] = self.subscriptions();
        let flags = if self.is_subscriber() { 'P' } else { 'N' };
        format!(
            "id={} addr={} laddr={server} fd=-1 name={name} age={} idle={} flags={flags} db={} sub={sub} psub={psub} ssub={ssub} multi=-1 watch=0 cmd=NULL user=default redir=-1 resp={protocol} lib-name={library} lib-ver={library_version}",
            self.id,
            self.peer,
            age_ms / 1000,
            idle_ms / 1000,
            self.database.load(Ordering::Relaxed),
        )
    }
}

/// All clients of a server, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<BTreeMap<u64, Arc<Client>>>);

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn add(&self, client: &Arc<Client>) {
        self.lock().insert(client.id, client.clone());
    }

    pub(crate) fn remove(&self, client: &Client) {
        self.lock().remove(&client.id);
    }
}

/// Says which task serves a client.
pub(crate) fn serves(client: &Client, task: AbortHandle) {
    // There is one task for each client.
    let _ = client.task.set(task);
}
