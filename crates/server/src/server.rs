//! Accepting connections, and the threads that serve them.
//!
//! A connection stays with the thread that it was given first: a request is executed where it was read, and no thread has to wake
//! another one for it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use crate::config::{Config, ServerError};
use crate::connection;
use crate::reply::{Protocol, Reply};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::{Stats, add};
use crate::store::Store;

/// How long stopping waits for commands that are being executed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks.
const STOP_LOOK: Duration = Duration::from_millis(1);
/// How long accepting waits after it failed: descriptors take time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A server that runs until it is dropped or shut down.
pub struct Server {
    shared: Arc<Shared>,
    /// Each thread listens until it ends.
    stopping: watch::Sender<bool>,
}

impl Server {
    /// Starts a server; it accepts connections when this returns.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(config: Config, store: Arc<dyn Store>) -> Result<Self, ServerError> {
        let address = config.address()?;
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, address) =
            listen().map_err(|reason| ServerError::Listen { address, reason })?;
        let runtime = |_| Builder::new_current_thread().enable_io().enable_time().build();
        let runtimes: Result<Vec<Runtime>, _> = (0..config.workers.max(1)).map(runtime).collect();
        let runtimes = runtimes.map_err(ServerError::Threads)?;
        let shared = Arc::new(Shared::new(store, config, address));
        let (stopping, stopped) = watch::channel(false);
        {
            let _inside = runtimes[0].enter();
            let listener = tokio::net::TcpListener::from_std(listener)
                .map_err(|reason| ServerError::Listen { address, reason })?;
            let workers = runtimes.iter().map(|runtime| runtime.handle().clone()).collect();
            runtimes[0].spawn(accept(listener, workers, shared.clone(), stopped.clone()));
        }
        for runtime in runtimes {
            let stopped = stopped.clone();
            thread::Builder::new()
                .name("tombolo-server".to_owned())
                .spawn(move || serve(runtime, stopped))
                .map_err(ServerError::Threads)?;
        }
        Ok(Self { shared, stopping })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }

    /// What it has done.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// Stops: commands that are being executed are finished, and all connections end. The store is
    /// not used any more afterwards.
    pub fn shutdown(self) {
        drop(self);
    }

    fn stop(&self) {
        self.stopping.send_replace(true);
        let until = Instant::now() + STOP_PATIENCE;
        while self.stopping.receiver_count() > 0 && Instant::now() < until {
            thread::sleep(STOP_LOOK);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves what connections are given to this thread until the server stops.
fn serve(runtime: Runtime, mut stopped: watch::Receiver<bool>) {
    let _ = runtime.block_on(stopped.wait_for(|&stopped| stopped));
    runtime.shutdown_timeout(STOP_PATIENCE);
}

/// Gives connections to the threads, to each in its turn.
async fn accept(
    listener: tokio::net::TcpListener,
    workers: Vec<Handle>,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut turn = workers.iter().cycle();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))),
            _ = stopping.wait_for(|&stopping| stopping) => return,
        };
        // A connection that is gone before it was accepted, or no file descriptor to spare.
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        let Some(worker) = turn.next() else { return };
        worker.spawn(async move {
            // The descriptor is this thread's from now on.
            if let Ok(stream) = TcpStream::from_std(stream) {
                admit(stream, peer, shared).await;
            }
        });
    }
}

async fn admit(mut stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    add(&shared.counters.connections, 1);
    let before = shared.counters.clients.fetch_add(1, Ordering::Relaxed);
    if before >= shared.config.max_clients as u64 {
        add(&shared.counters.rejected, 1);
        let mut reply = BytesMut::new();
        Reply::Error("ERR max number of clients reached".to_owned())
            .encode(Protocol::Resp2, &mut reply);
        let _ = stream.write_all(&reply).await;
    } else {
        let session = Session::new(shared.next_id(), peer, shared.config.password().is_none());
        connection::serve(stream, session, shared.clone()).await;
    }
    shared.counters.clients.fetch_sub(1, Ordering::Relaxed);
}
