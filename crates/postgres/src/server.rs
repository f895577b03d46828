//! Takes connections.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tombolo_database::Engine;
use tombolo_sql::SqlDatabase;

use crate::connection;
use crate::scram::{self, Password};

/// How often the server looks for new connections, and whether it is to end.
const TICK: Duration = Duration::from_millis(5);

/// How often the server looks for tables that are gone, and how often it deletes some of their
/// rows.
const SWEEP_LOOK: Duration = Duration::from_secs(1);
const SWEEP: Duration = Duration::from_millis(20);

/// How long connections may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a connection's stack: expressions may nest.
const STACK: usize = 64 << 20;

/// How a server takes connections.
#[derive(Clone)]
pub struct Config {
    /// The user and the keys of the password. Without them all users are believed.
    pub login: Option<(String, Password)>,
    /// Connections at most.
    pub max_connections: usize,
}

impl Default for Config {
    /// All users are believed, and 100 connections.
    fn default() -> Self {
        Self { login: None, max_connections: 100 }
    }
}

/// Why a server does not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Other machines could connect without a password.
    #[error("{0} is no address of loopback; give a user and a password, or listen on 127.0.0.1")]
    Open(SocketAddr),
}

/// A connection as others see it.
struct Peer {
    secret: i32,
    cancel: Arc<AtomicBool>,
    stream: TcpStream,
}

/// The state that connections share.
pub(crate) struct Shared<E> {
    pub(crate) db: SqlDatabase<E>,
    pub(crate) config: Config,
    peers: Mutex<HashMap<i32, Peer>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Engine> Shared<E> {
    /// Notes a connection: its number, its secret, and the word by which it is cancelled. `None`
    /// if there are as many as there may be.
    pub(crate) fn enter(
        &self,
        stream: &TcpStream,
    ) -> io::Result<Option<(i32, i32, Arc<AtomicBool>)>> {
        let (process, secret) = (self.db.next_process(), scram::secret()?);
        let cancel = Arc::new(AtomicBool::new(false));
        let peer = Peer { secret, cancel: Arc::clone(&cancel), stream: stream.try_clone()? };
        let mut peers = lock(&self.peers);
        if peers.len() >= self.config.max_connections {
            return Ok(None);
        }
        peers.insert(process, peer);
        Ok(Some((process, secret, cancel)))
    }

    pub(crate) fn leave(&self, process: i32) {
        lock(&self.peers).remove(&process);
    }

    /// Cancels the statement of a connection, if the secret is its own.
    pub(crate) fn cancel(&self, process: i32, secret: i32) {
        if let Some(peer) = lock(&self.peers).get(&process)
            && peer.secret == secret
        {
            peer.cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Ends all connections.
    fn end(&self) {
        for peer in lock(&self.peers).values() {
            peer.cancel.store(true, Ordering::Relaxed);
            let _ = peer.stream.shutdown(Shutdown::Both);
        }
    }
}

/// A server that listens.
pub struct Server<E> {
    listener: TcpListener,
    shared: Arc<Shared<E>>,
}

impl<E: Engine + Send + Sync + 'static> Server<E> {
    /// Listens on an address.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(
        address: SocketAddr,
        db: SqlDatabase<E>,
        config: Config,
    ) -> Result<Self, ServerError> {
        if config.login.is_none() && !address.ip().is_loopback() {
            return Err(ServerError::Open(address));
        }
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().map_err(|source| ServerError::Listen { address, source })?;
        let shared = Shared { db, config, peers: Mutex::default() };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// Of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Connections at present.
    pub fn connections(&self) -> usize {
        lock(&self.shared.peers).len()
    }

    /// Takes connections until `has_ended` says that it is time to end; then ends all of them.
    /// Blocks.
    ///
    /// # Errors
    /// That no thread can be begun.
    pub fn run(&self, has_ended: impl Fn() -> bool) -> io::Result<()> {
        let (mut swept, mut wait) = (Instant::now(), SWEEP_LOOK);
        while !has_ended() {
            match self.listener.accept() {
                Ok((stream, _)) => self.take(stream)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(TICK),
                // A client that has gone again, or too many open files.
                Err(_) => thread::sleep(TICK),
            }
            if swept.elapsed() >= wait {
                // An engine that fails says so elsewhere.
                let is_more = self.shared.db.sweep().unwrap_or(false);
                (swept, wait) = (Instant::now(), if is_more { SWEEP } else { SWEEP_LOOK });
            }
        }
        self.shared.end();
        let since = Instant::now();
        while self.connections() > 0 && since.elapsed() < END_TIMEOUT {
            thread::sleep(TICK);
        }
        Ok(())
    }

    fn take(&self, stream: TcpStream) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = move || connection::run(stream, &shared);
        thread::Builder::new().stack_size(STACK).name("sql".to_owned()).spawn(run).map(drop)
    }
}
