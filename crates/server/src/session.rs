//! What a server knows of one client.

use std::sync::Arc;

use crate::clients::{Client, Said};
use crate::decode::Sender;
use crate::reply::Protocol;

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// All but that to the request that is being executed, and the next one.
    SkipThisAndNext,
    /// All but that to the request that is being executed.
    SkipThis,
}

/// A client's side of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// The part that other sessions see, too.
    pub(crate) client: Arc<Client>,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    pub(crate) replies: Replies,
    /// `MULTI` was refused, and neither `EXEC` nor `DISCARD` has come since.
    pub(crate) refused_transaction: bool,
    /// The connection ends once the reply is sent.
    pub(crate) closing: bool,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, authenticated: bool) -> Self {
        Self {
            client,
            protocol: Protocol::Resp2,
            authenticated,
            replies: Replies::On,
            refused_transaction: false,
            closing: false,
        }
    }

    pub(crate) fn sender(&self) -> Sender {
        if self.authenticated { Sender::Client } else { Sender::Stranger }
    }

    /// Whether the client wants the reply to the request that has been executed.
    pub(crate) fn wants_reply(&mut self) -> bool {
        match self.replies {
            Replies::On => return true,
            Replies::Off => {}
            Replies::SkipThisAndNext => self.replies = Replies::SkipThis,
            Replies::SkipThis => self.replies = Replies::On,
        }
        false
    }

    /// Speaks a version of the protocol from here on.
    pub(crate) fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.said().protocol = protocol.number();
    }

    /// Forgets what the client has said, as if it had just connected.
    pub(crate) fn reset(&mut self, authenticated: bool) {
        *self = Self::new(self.client.clone(), authenticated);
        *self.client.said() = Said { protocol: self.protocol.number(), ..Said::default() };
    }
}
