//! Accepting connections.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tombolo_kv::Removal;

use crate::clients::{self, Client};
use crate::config::{Config, ServerError};
use crate::connection;
use crate::events::{Class, Event};
use crate::hear::Listener;
use crate::latency::CommandLatency;
use crate::reply::{Protocol, Reply};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::{Stats, add};
use crate::store::Store;
use crate::tracking;

/// How long stopping waits for commands that are being executed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long accepting waits after it failed: descriptors take time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A server that runs until it is dropped or shut down.
pub struct Server {
    shared: Arc<Shared>,
    stopping: watch::Sender<bool>,
    runtime: Option<Runtime>,
    listener: Option<Listener>,
}

impl Server {
    /// Starts a server; it accepts connections when this returns.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(config: Config, store: Arc<dyn Store + Send + Sync>) -> Result<Self, ServerError> {
        let address = config.address()?;
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, address) =
            listen().map_err(|reason| ServerError::Listen { address, reason })?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(config.workers.max(1))
            .thread_name("tombolo-server")
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServerError::Threads)?;
        let shared = Arc::new(Shared::new(store, config, address));
        tell_removals(&shared);
        let (stopping, stopped) = watch::channel(false);
        {
            let _inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)
                .map_err(|reason| ServerError::Listen { address, reason })?;
            runtime.spawn(accept(listener, shared.clone(), stopped));
            runtime.spawn(tracking::walk(shared.clone()));
        }
        let listener = Listener::start(&shared).map_err(ServerError::Threads)?;
        Ok(Self { shared, stopping, runtime: Some(runtime), listener })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }

    /// Its counters.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// How long commands took, by command: those that were executed.
    pub fn latencies(&self) -> Vec<CommandLatency> {
        self.shared.tallies.latencies()
    }

    /// Stops: commands that are being executed are finished, and all connections end. The store is
    /// not used any more afterwards.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.stopping.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STOP_PATIENCE);
        }
        self.listener.take().into_iter().for_each(Listener::stop);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A number that no client has.
const NO_CLIENT: u64 = 0;

/// Has clients told of values that the store removes by itself.
fn tell_removals(shared: &Arc<Shared>) {
    let server = Arc::downgrade(shared);
    shared.store.on_removal(Arc::new(move |removal, stored| {
        let Some(shared) = server.upgrade() else { return };
        let (class, name) = match removal {
            Removal::Expired => (Class::Expired, "expired"),
            Removal::Evicted => (Class::Evicted, "evicted"),
            _ => return,
        };
        if shared.wants_events() {
            shared.tell_event(&Event { class, name, stored });
        }
        if shared.wants_changes() {
            shared.tell_change(stored, NO_CLIENT);
        }
    }));
}

async fn accept(
    listener: tokio::net::TcpListener,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|&stopping| stopping) => return,
        };
        // A connection that is gone before it was accepted, or no file descriptor to spare.
        let Ok((stream, peer)) = accepted else {
            add(&shared.counters.not_accepted, 1);
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let client = Arc::new(Client::new(shared.next_id(), peer));
        let connected = Connected::new(client.clone(), shared.clone());
        let task = tokio::spawn(async move { admit(stream, connected).await });
        clients::serves(&client, task.abort_handle());
    }
}

/// A client that is connected for as long as this is there, however its task ends.
struct Connected {
    client: Arc<Client>,
    shared: Arc<Shared>,
    /// There were as many before as there may be.
    is_too_many: bool,
}

impl Connected {
    fn new(client: Arc<Client>, shared: Arc<Shared>) -> Self {
        add(&shared.counters.connections, 1);
        let before = shared.counters.clients.fetch_add(1, Ordering::Relaxed);
        let is_too_many = before >= shared.config.max_clients as u64;
        if !is_too_many {
            shared.clients.add(&client);
        }
        Self { client, shared, is_too_many }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.shared.clients.remove(&self.client);
        self.shared.subscriptions.forget(&self.client);
        self.shared.monitors.remove(&self.client);
        self.shared.settle_subscriptions();
        self.shared.tracking.stop(&self.client);
        self.shared.settle_tracking();
        self.shared.counters.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn admit(mut stream: TcpStream, connected: Connected) {
    let shared = &connected.shared;
    if connected.is_too_many {
        add(&shared.counters.rejected, 1);
        let mut reply = BytesMut::new();
        Reply::Error("ERR max number of clients reached".to_owned())
            .encode(Protocol::Resp2, &mut reply);
        let _ = stream.write_all(&reply).await;
    } else {
        let open = shared.config.password().is_none();
        let session = Session::new(connected.client.clone(), open);
        connection::serve(stream, session, shared.clone()).await;
    }
}
