//! How a server is to be run, and why it could not.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread::available_parallelism;

/// How a server is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen: `127.0.0.1:7000`, `localhost:7000`, `[::1]:0`. Port 0 is any free one.
    pub listen: String,
    /// The password that clients have to give. An empty one is none.
    pub password: Option<String>,
    /// Threads that serve connections: one fewer than there are processors, unless chosen
    /// otherwise. One is left to what the kernel and the host do besides; and where clients run on
    /// the same machine, a thread more would take from them what it adds.
    pub workers: usize,
    /// Connections at a time.
    pub max_clients: usize,
    /// Bytes for large replies that are under way to all clients: a reply with more than 64 KiB of
    /// values waits for room of twice its size. One that takes more than there is gets all of it.
    pub reply_bytes: u64,
    /// Bytes of requests that have not come whole yet, of all clients, beyond 512 KiB each. A
    /// client that would exceed it is cut off.
    pub request_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7000".to_owned(),
            password: None,
            workers: available_parallelism().map_or(1, |processors| processors.get() - 1).max(1),
            max_clients: 10_000,
            reply_bytes: 1 << 30,
            request_bytes: 2 << 30,
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address means nothing.
    #[error(
        "cannot listen on {address:?}: {reason}; write an address and a port, such as 127.0.0.1:7000"
    )]
    Address {
        /// The address.
        address: String,
        /// Why not.
        reason: io::Error,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}: {reason}{}", if reason.kind() == io::ErrorKind::AddrInUse { "; choose another port, or stop who has it" } else { "" })]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        reason: io::Error,
    },
    /// Anybody could connect.
    #[error(
        "listening on {address} without a password would let everybody in who reaches it; set a password, or listen on 127.0.0.1"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The threads could not be started.
    #[error("cannot start the server's threads: {0}")]
    Threads(io::Error),
}

impl Config {
    /// The password, if there is one: anybody can give an empty one.
    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_deref().filter(|password| !password.is_empty())
    }

    /// The address to listen on.
    ///
    /// # Errors
    /// [`ServerError::Address`], [`ServerError::Exposed`].
    pub fn address(&self) -> Result<SocketAddr, ServerError> {
        let error = |reason| ServerError::Address { address: self.listen.clone(), reason };
        let mut addresses = self.listen.to_socket_addrs().map_err(error)?;
        let address =
            addresses.next().ok_or_else(|| error(io::Error::other("it has no address")))?;
        if self.password().is_none() && !address.ip().is_loopback() {
            return Err(ServerError::Exposed { address });
        }
        Ok(address)
    }
}
