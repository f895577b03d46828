//! The clients that are connected, whichever thread serves them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::task::AbortHandle;

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
    said: Mutex<Said>,
    task: OnceLock<AbortHandle>,
}

impl Client {
    pub(crate) fn new(id: u64, peer: SocketAddr) -> Self {
        let said = Mutex::new(Said { protocol: 2, ..Said::default() });
        let (active_ms, task) = (AtomicU64::new(0), OnceLock::new());
        Self { id, peer, since: Instant::now(), active_ms, said, task }
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it has sent something.
    pub(crate) fn is_active(&self) {
        self.active_ms.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
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
        format!(
            "id={} addr={} laddr={server} fd=-1 name={name} age={} idle={} flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 cmd=NULL user=default redir=-1 resp={protocol} lib-name={library} lib-ver={library_version}",
            self.id,
            self.peer,
            age_ms / 1000,
            idle_ms / 1000,
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
