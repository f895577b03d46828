//! How an owner gets to what it is asked for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_memory::{HostMutex, Memory};
use tombolo_pod::Request;

/// How fast owners answer. With zeros, as fast as they can: then each of an owner's threads serves
/// all requests that it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// An answer takes at least so long, however many are asked for at once.
    pub delay: Duration,
    /// An owner serves one request after the other, and takes so long for each before it does what
    /// it is asked for.
    pub service: Duration,
    /// An owner that has served all requests there were looks for others after so long.
    pub sleep: Duration,
}

/// Serves requests one after the other: no thread of its own, but whichever of its host's threads
/// looks when it is its time.
pub(crate) struct RequestServer<M: Memory> {
    delay_ns: AtomicU64,
    service_ns: AtomicU64,
    sleep_ns: AtomicU64,
    /// Until then it serves a request, or sleeps.
    until_ns: AtomicU64,
    pub(crate) serving: HostMutex<M, Option<Request>>,
}

impl<M: Memory> RequestServer<M> {
    pub(crate) fn new(pace: Pace) -> Self {
        let request_server = Self {
            delay_ns: AtomicU64::default(),
            service_ns: AtomicU64::default(),
            sleep_ns: AtomicU64::default(),
            until_ns: AtomicU64::default(),
            serving: HostMutex::<M, _>::new(None),
        };
        request_server.set(pace);
        request_server
    }

    pub(crate) fn set(&self, Pace { delay, service, sleep }: Pace) {
        let set = |word: &AtomicU64, time: Duration| {
            word.store(time.as_nanos() as u64, Ordering::Relaxed);
        };
        set(&self.delay_ns, delay);
        set(&self.service_ns, service);
        set(&self.sleep_ns, sleep);
        set(&self.until_ns, Duration::ZERO);
    }

    pub(crate) fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_ns.load(Ordering::Relaxed))
    }

    /// Whether requests are served one after the other.
    pub(crate) fn takes_time(&self) -> bool {
        self.service_ns.load(Ordering::Relaxed) | self.sleep_ns.load(Ordering::Relaxed) != 0
    }

    /// Whether it is done with what it was at.
    pub(crate) fn is_done(&self, now: Duration) -> bool {
        now.as_nanos() as u64 >= self.until_ns.load(Ordering::Relaxed)
    }

    /// From now on it serves a request, or sleeps.
    pub(crate) fn begins(&self, now: Duration, serves: bool) {
        let takes = if serves { &self.service_ns } else { &self.sleep_ns };
        let until = now.as_nanos() as u64 + takes.load(Ordering::Relaxed);
        self.until_ns.store(until, Ordering::Relaxed);
    }
}
