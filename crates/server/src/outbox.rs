//! Data for a client that it has not asked for just now: messages and invalidations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use crate::reply::{Protocol, Reply};

/// A client that has so many bytes waiting is cut off.
pub(crate) const MOST_BYTES: usize = 32 << 20;
/// A client that has more than this waiting all the time is cut off, too.
pub(crate) const SOFT_BYTES: usize = 8 << 20;
/// For so long.
pub(crate) const SOFT_TIME: Duration = Duration::from_secs(60);

/// A push, as clients of either protocol get it.
pub(crate) struct Push {
    resp2: Bytes,
    resp3: Bytes,
}

impl Push {
    pub(crate) fn new(items: Vec<Reply>) -> Self {
        Self::of_each(items.clone(), items)
    }

    /// A line, as a reply that is one is sent.
    pub(crate) fn line(text: &str) -> Self {
        let bytes = Bytes::from(format!("+{text}\r\n"));
        Self { resp2: bytes.clone(), resp3: bytes }
    }

    /// A message whose form differs in the two protocols.
    pub(crate) fn of_each(resp2: Vec<Reply>, resp3: Vec<Reply>) -> Self {
        let encoded = |items, protocol| {
            let mut bytes = BytesMut::new();
            Reply::Push(items).encode(protocol, &mut bytes);
            bytes.freeze()
        };
        Self { resp2: encoded(resp2, Protocol::Resp2), resp3: encoded(resp3, Protocol::Resp3) }
    }
}

/// Whether a client takes what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// It is too slow, and is to be cut off.
    TooSlow,
}

/// The pushes that wait for a client. Any thread adds to it, and the client's own task empties it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    is_filled: AtomicBool,
    /// Pushes are in the form of RESP3.
    resp3: AtomicBool,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: BytesMut,
    /// Since when there has been too much.
    much_since: Option<Instant>,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn speak(&self, protocol: Protocol) {
        self.resp3.store(protocol == Protocol::Resp3, Ordering::Relaxed);
    }

    pub(crate) fn is_resp3(&self) -> bool {
        self.resp3.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, push: &Push) -> Taken {
        let mut waiting = self.lock();
        waiting.bytes.extend_from_slice(if self.is_resp3() { &push.resp3 } else { &push.resp2 });
        let taken = waiting.judge();
        drop(waiting);
        self.is_filled.store(true, Ordering::Release);
        self.filled.notify_one();
        taken
    }

    /// Moves what waits to `output`, for a client to which that is sent now.
    pub(crate) fn take(&self, output: &mut BytesMut) {
        if !self.is_filled.swap(false, Ordering::Acquire) {
            return;
        }
        let mut waiting = self.lock();
        waiting.much_since = None;
        if output.is_empty() {
            *output = std::mem::take(&mut waiting.bytes);
        } else {
            output.extend_from_slice(&waiting.bytes);
            waiting.bytes = BytesMut::new();
        }
    }

    /// Waits until there may be something to take.
    pub(crate) async fn filled(&self) {
        if !self.is_filled.load(Ordering::Acquire) {
            self.filled.notified().await;
        }
    }
}

impl Waiting {
    fn judge(&mut self) -> Taken {
        let bytes = self.bytes.len();
        if bytes <= SOFT_BYTES {
            self.much_since = None;
            return Taken::Yes;
        }
        let since = *self.much_since.get_or_insert_with(Instant::now);
        let is_slow = bytes > MOST_BYTES || since.elapsed() > SOFT_TIME;
        if is_slow { Taken::TooSlow } else { Taken::Yes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_takes_nothing_is_cut_off() {
        let outbox = Outbox::default();
        let push = Push::new(vec![Reply::bulk(vec![0; 1 << 20])]);
        let added = (0..40).take_while(|_| outbox.add(&push) == Taken::Yes).count();
        assert_eq!(added, 31);
        let mut output = BytesMut::new();
        outbox.take(&mut output);
        assert!(output.len() > 31 << 20);
        assert_eq!(outbox.add(&push), Taken::Yes);
    }
}
