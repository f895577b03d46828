//! A server's state of one client.

use std::sync::Arc;

use bytes::Bytes;
use tombolo_kv::Watch;

use crate::clients::{Client, Said};
use crate::commands::Tracked;
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

/// Bytes that the requests of a transaction may have.
const QUEUE_BYTES: usize = 64 << 20;
/// Bytes that a request takes besides its arguments, and an argument besides its own, about.
const OVERHEAD_BYTES: usize = 64;

/// The requests of a transaction that has begun.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) requests: Vec<Vec<Bytes>>,
    bytes: usize,
    /// One of them was refused: none is to be executed.
    pub(crate) spoilt: bool,
}

impl Queue {
    /// Adds a request; whether there was room for it.
    pub(crate) fn add(&mut self, request: &[Bytes]) -> bool {
        let argument_bytes = |argument: &Bytes| argument.len() + OVERHEAD_BYTES;
        self.bytes += OVERHEAD_BYTES + request.iter().map(argument_bytes).sum::<usize>();
        self.spoilt |= self.bytes > QUEUE_BYTES;
        if self.spoilt {
            self.requests = Vec::new();
        } else {
            self.requests.push(request.to_vec());
        }
        self.bytes <= QUEUE_BYTES
    }
}

/// A client's side of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// The part that other sessions see, too.
    pub(crate) client: Arc<Client>,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    pub(crate) replies: Replies,
    /// The requests since `MULTI`, if that has come.
    pub(crate) queue: Option<Queue>,
    /// The states of watched keys.
    pub(crate) watched: Vec<Watch>,
    /// The client keeps values, and is told when those change.
    pub(crate) tracked: Option<Tracked>,
    /// The database that it has chosen.
    pub(crate) database: u8,
    /// The client subscribes to something.
    pub(crate) is_subscriber: bool,
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
            queue: None,
            watched: Vec::new(),
            tracked: None,
            database: 0,
            is_subscriber: false,
            closing: false,
        }
    }

    /// Executes commands on this database from here on.
    pub(crate) fn choose(&mut self, database: u8) {
        self.database = database;
        self.client.chooses(database);
    }

    /// Whether the client takes messages for replies, so that it can ask for little else.
    pub(crate) fn awaits_messages(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.is_subscriber
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
        self.client.outbox.speak(protocol);
    }

    /// Forgets what the client has said, as if it had just connected.
    pub(crate) fn reset(&mut self, authenticated: bool) {
        *self = Self::new(self.client.clone(), authenticated);
        self.client.chooses(0);
        self.client.outbox.speak(self.protocol);
        *self.client.said() = Said { protocol: self.protocol.number(), ..Said::default() };
    }
}
