//! Requests of one kind that come one behind the other: they are done together.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tombolo_kv::Found;

use crate::commands::{Kind, set_each, tell};
use crate::connection::{WRITE_BYTES, answer};
use crate::database::{Database, Notes};
use crate::reply::encode_value;
use crate::room::FREE_BYTES;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::add;
use crate::store::Store;

/// Requests that are done together.
const TOGETHER: usize = 32;

/// Requests of one kind that have not been answered yet.
#[derive(Default)]
pub(crate) struct Pipeline {
    kind: Option<Kind>,
    requests: Vec<Vec<Bytes>>,
    /// Bytes of what is to be written.
    bytes: usize,
    /// The first one is to be done by itself.
    alone: bool,
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
        self.requests.len() < TOGETHER && self.bytes < WRITE_BYTES
    }

    /// Does what was asked for, and answers; at least the first request, unless that
    /// [is to be done alone](Self::next_alone).
    pub(crate) fn answer(&mut self, session: &mut Session, shared: &Shared, output: &mut BytesMut) {
        let (start, waiting) = (Instant::now(), self.requests.len());
        let Some(kind) = self.kind else { return };
        if shared.monitors.are_there() {
            let from = session.client.peer.to_string();
            self.requests.iter().for_each(|request| shared.monitors.show(request, 0, &from));
        }
        match kind {
            Kind::Get => self.read(session, shared, output),
            Kind::Set => {
                let pair = |request: Vec<Bytes>| {
                    let [_, key, value] = request.try_into().ok()?;
                    Some((key, value))
                };
                let pairs: Vec<_> = self.requests.drain(..).filter_map(pair).collect();
                let wanted = shared.wants_changes() || shared.wants_events();
                let notes = wanted.then(Notes::default);
                let store = Database { store: &*shared.store, number: 0, notes: notes.as_ref() };
                let replies = set_each(&store, &pairs);
                for reply in replies {
                    answer(&reply, session, shared, output);
                }
                let notes = notes.as_ref().map_or_else(Vec::new, |notes| notes.split_off(0));
                tell("set", &notes, session.client.id, shared);
            }
        }
        self.bytes = 0;
        let answered = waiting - self.requests.len();
        if answered > 0 {
            shared.tallies.of(kind.place()).add(answered, 0, start.elapsed());
        }
    }

    /// Whether what was asked for changes something.
    pub(crate) fn writes(&self) -> bool {
        self.kind == Some(Kind::Set)
    }

    /// Takes out the first request, if that is to be done by itself.
    pub(crate) fn next_alone(&mut self) -> Option<Vec<Bytes>> {
        std::mem::take(&mut self.alone).then(|| self.requests.remove(0))
    }

    /// Reads values, and answers with as many as may be sent together. Of those that are left, the
    /// first one may be a value that there is no room for yet.
    fn read(&mut self, session: &mut Session, shared: &Shared, output: &mut BytesMut) {
        let (before, protocol) = (output.len(), session.protocol);
        let store = Database { store: &*shared.store, number: 0, notes: None };
        let keys: Vec<Bytes> = self.requests.iter().map(|request| request[1].clone()).collect();
        let (mut answered, mut hits, mut ended, mut longer) = (0, 0, false, false);
        let read = store.get_each(&keys, FREE_BYTES, &mut |found| {
            let value = match found {
                _ if ended => return,
                Found::Longer => {
                    (ended, longer) = (true, true);
                    return;
                }
                Found::Absent => None,
                Found::Value(value) => Some(value),
            };
            encode_value(value, protocol, output);
            answered += 1;
            hits += usize::from(value.is_some());
            ended = output.len() >= WRITE_BYTES;
        });
        if read.is_err() {
            // Each one gets the answer that is its own.
            output.truncate(before);
            (answered, hits, longer) = (0, 0, true);
        }
        add(&shared.counters.hits, hits);
        if hits < answered {
            add(&shared.counters.misses, answered - hits);
        }
        add(&shared.counters.commands, answered);
        self.requests.drain(..answered);
        self.alone = longer;
    }
}
