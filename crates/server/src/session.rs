//! What a server knows of one client.

use std::net::SocketAddr;
use std::time::Instant;

use crate::decode::Sender;
use crate::reply::Protocol;

/// A client's side of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) since: Instant,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) library_version: String,
    /// `MULTI` was refused, and neither `EXEC` nor `DISCARD` has come since.
    pub(crate) refused_transaction: bool,
    /// The connection ends once the reply is sent.
    pub(crate) closing: bool,
}

impl Session {
    pub(crate) fn new(id: u64, peer: SocketAddr, authenticated: bool) -> Self {
        Self {
            id,
            peer,
            since: Instant::now(),
            protocol: Protocol::Resp2,
            authenticated,
            name: String::new(),
            library: String::new(),
            library_version: String::new(),
            refused_transaction: false,
            closing: false,
        }
    }

    pub(crate) fn sender(&self) -> Sender {
        if self.authenticated { Sender::Client } else { Sender::Stranger }
    }

    /// Forgets what the client has said, as if it had just connected.
    pub(crate) fn reset(&mut self, authenticated: bool) {
        *self = Self { since: self.since, ..Self::new(self.id, self.peer, authenticated) };
    }
}
