//! Requests of one kind that come one behind the other: they are done together.

use std::time::Instant;

use bytes::{Bytes, BytesMut};

use crate::commands::{Kind, set_each};
use crate::connection::{WRITE_BYTES, answer, execute};
use crate::reply::encode_value;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::add;

/// Requests that are done together.
const TOGETHER: usize = 32;

/// Requests of one kind that have not been answered yet.
#[derive(Default)]
pub(crate) struct Pipeline {
    kind: Option<Kind>,
    requests: Vec<Vec<Bytes>>,
    /// Bytes of what is to be written.
    bytes: usize,
    /// The last values that were read were large, so the next ones are not all held at once.
    large: bool,
}

impl Pipeline {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a request can be done together with those that are waiting.
    pub(crate) fn takes(&self, request: &[Bytes], session: &Session) -> bool {
        let kind = Kind::of(request, session);
        kind.is_some() && (self.is_empty() || kind == self.kind)
    }

    /// Adds a request that it [`takes`](Self::takes); whether more may follow before they are
    /// answered.
    pub(crate) fn add(&mut self, request: Vec<Bytes>) -> bool {
        let written = request.get(2).map(Bytes::len);
        self.kind = Some(if written.is_some() { Kind::Set } else { Kind::Get });
        self.bytes += written.unwrap_or(0);
        self.requests.push(request);
        let most = if self.large && written.is_none() { 1 } else { TOGETHER };
        self.requests.len() < most && self.bytes < WRITE_BYTES
    }

    /// Does what was asked for, and answers.
    pub(crate) fn answer(&mut self, session: &mut Session, shared: &Shared, output: &mut BytesMut) {
        let (kind, started) = (self.kind.take(), Instant::now());
        let count = self.requests.len();
        let together = match kind {
            None => false,
            Some(Kind::Get) => self.read(session, shared, output),
            Some(Kind::Set) => {
                let pair = |request: Vec<Bytes>| {
                    let [_, key, value] = request.try_into().ok()?;
                    Some((key, value))
                };
                let pairs: Vec<_> = self.requests.drain(..).filter_map(pair).collect();
                let replies = set_each(&*shared.store, &pairs);
                replies.for_each(|reply| answer(&reply, session, shared, output));
                true
            }
        };
        if let Some(kind) = kind.filter(|_| together) {
            shared.latencies.note(kind.command(), count, started.elapsed());
        }
        self.requests.clear();
        self.bytes = 0;
    }

    /// Whether they were read together: else each was executed by itself, and counted there.
    fn read(&mut self, session: &mut Session, shared: &Shared, output: &mut BytesMut) -> bool {
        let (before, protocol) = (output.len(), session.protocol);
        let keys: Vec<Bytes> = self.requests.iter().map(|request| request[1].clone()).collect();
        let read = shared.store.get_each(&keys, &mut |value| encode_value(value, protocol, output));
        match &read {
            Ok(()) => add(&shared.counters.commands, keys.len()),
            // Each one gets the answer that is its own.
            Err(_) => {
                output.truncate(before);
                self.requests.iter().for_each(|request| execute(request, session, shared, output));
            }
        }
        self.large = output.len() - before > WRITE_BYTES;
        read.is_ok()
    }
}
