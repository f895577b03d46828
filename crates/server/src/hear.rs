//! Messages from servers of other hosts, and the thread that looks for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::bus::{Bus, Heard, Topic};
use crate::events::Event;
use crate::shared::Shared;
use crate::store::StoreError;
use crate::subscriptions::Kind;

/// Between two looks, while messages come.
const BUSY: Duration = Duration::from_micros(200);
/// For so long after the last message.
const AWAKE: Duration = Duration::from_millis(100);
/// Between two looks, while a client listens.
const IDLE: Duration = Duration::from_millis(1);
/// Between two looks at hosts that may have died.
const TICK: Duration = Duration::from_millis(100);

/// Which topics this host listens to, and the thread that does.
#[derive(Default)]
pub(crate) struct Hearing {
    listens: Mutex<[bool; 3]>,
    thread: Mutex<Option<Thread>>,
}

impl Hearing {
    /// Has the host listen to `topic`, or not, as `wanted` says. To be called after each change of
    /// what that depends on.
    pub(crate) fn set(&self, bus: &dyn Bus, topic: Topic, wanted: impl FnOnce() -> bool) {
        let mut listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = wanted();
        if listens[topic as usize] == wanted {
            return;
        }
        listens[topic as usize] = wanted;
        if wanted {
            bus.listen(topic);
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            thread.iter().for_each(Thread::unpark);
        } else {
            bus.ignore(topic);
        }
    }

    fn listens(&self) -> bool {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner).contains(&true)
    }
}

/// Delivers what has come; whether anything has.
pub(crate) fn hear(shared: &Shared, bus: &dyn Bus) -> bool {
    let mut has_come = false;
    bus.receive(&mut |heard| {
        has_come = true;
        match heard {
            Heard::Message(Topic::Published, message) => {
                if let Some((kind, channel, payload)) = decode(message) {
                    shared.subscriptions.deliver(kind, channel, payload);
                }
            }
            Heard::Message(Topic::Changed, key) if !key.is_empty() => {
                shared.tracking.changed(key, None);
            }
            Heard::Message(Topic::Event, message) => {
                if let Some(event) = Event::decode(message) {
                    event.tell(shared.events.chosen(), &shared.subscriptions);
                }
            }
            Heard::Missed => {
                shared.subscriptions.cut_all();
                shared.tracking.all_changed(true);
            }
            // A host may have died between a change and its message.
            Heard::Message(Topic::Changed, _) | Heard::Turnover => {
                shared.tracking.all_changed(true);
            }
        }
    });
    has_come
}

/// Publishes to clients of all hosts; how many clients of this host got the message.
///
/// # Errors
/// [`StoreError::Refused`] if the message is too long for other hosts, which listen, or if the
/// store's hosts cannot reach each other.
pub(crate) fn publish(
    shared: &Shared,
    kind: Kind,
    channel: &[u8],
    payload: &[u8],
) -> Result<i64, StoreError> {
    if let Some(bus) = shared.store.bus()?
        && bus.is_heard(Topic::Published)
    {
        bus.send(Topic::Published, &encode(kind, channel, payload))?;
    }
    Ok(shared.subscriptions.deliver(kind, channel, payload))
}

/// Whether other hosts could get such a message, if they listen.
///
/// # Errors
/// As of [`publish`].
pub(crate) fn check_length(
    shared: &Shared,
    channel: &[u8],
    payload: &[u8],
) -> Result<(), StoreError> {
    match shared.store.bus()? {
        Some(bus) => bus.check_length(HEAD_BYTES + channel.len() + payload.len()),
        None => Ok(()),
    }
}

/// Bytes of a message in front of its channel.
const HEAD_BYTES: usize = 5;

fn encode(kind: Kind, channel: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = (channel.len() as u32).to_le_bytes();
    [&[kind as u8], &length[..], channel, payload].concat()
}

fn decode(message: &[u8]) -> Option<(Kind, &[u8], &[u8])> {
    let (kind, rest) = message.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (channel, payload) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let kind = if *kind == Kind::Shard as u8 { Kind::Shard } else { Kind::Channel };
    Some((kind, channel, payload))
}

/// The thread that listens, until it is dropped.
pub(crate) struct Listener {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Listener {
    /// Starts the thread, if there may be other hosts.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Option<Self>> {
        if !matches!(shared.store.bus(), Ok(Some(_))) {
            return Ok(None);
        }
        let (stopping, own) = (Arc::new(AtomicBool::new(false)), shared.clone());
        let told = stopping.clone();
        let thread = thread::Builder::new().name("tombolo-messages".to_owned());
        let thread = thread.spawn(move || {
            if let Ok(Some(bus)) = own.store.bus() {
                listen(&own, bus, &told);
            }
        })?;
        let handle = thread.thread().clone();
        *shared.hearing.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(Some(Self { stopping, thread }))
    }

    /// Ends the thread; nothing is heard from here on.
    pub(crate) fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // If it panicked, that was printed.
        let _ = self.thread.join();
    }
}

fn listen(shared: &Shared, bus: &dyn Bus, stopping: &AtomicBool) {
    let (mut ticked, mut came) = (Instant::now(), Instant::now());
    while !stopping.load(Ordering::Acquire) {
        if ticked.elapsed() >= TICK {
            bus.tick();
            ticked = Instant::now();
        }
        let listens = shared.hearing.listens();
        if listens && hear(shared, bus) {
            came = Instant::now();
        }
        let pause = match listens {
            true if came.elapsed() < AWAKE => BUSY,
            true => IDLE,
            false => TICK,
        };
        thread::park_timeout(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let message = encode(Kind::Shard, b"news", b"text");
        assert_eq!(decode(&message), Some((Kind::Shard, &b"news"[..], &b"text"[..])));
        assert_eq!(decode(&message[..8]), None);
        assert_eq!(decode(b""), None);
    }
}
