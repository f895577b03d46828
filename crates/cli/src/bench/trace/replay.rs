//! The replay itself: threads that are hosts take requests in turn.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use tombolo::{Entry, StoreError};
use tombolo_objects::Error as ObjectsError;
use tombolo_workloads::cache::{Access, CacheOperation, Rates};

/// Bytes at the start of a value that name its key.
const STAMP: usize = size_of::<u64>();

/// A longer time counts as this one.
const LONGEST_NS: u64 = 60_000_000_000;

/// A replay by several hosts.
pub(super) struct Replay<'a> {
    accesses: &'a [Access],
    /// The accesses of each request.
    requests: Vec<Range<usize>>,
    hosts: Vec<&'a tombolo_kv::Store<tombolo_objects::Objects<tombolo::Mapped>>>,
    next: AtomicUsize,
    stopped: AtomicBool,
    started: Instant,
}

/// The counters of hosts.
pub(super) struct Replayed {
    /// Accesses, the first ones of the trace.
    pub(super) accesses: usize,
    pub(super) rates: Rates,
    /// Nanoseconds that reads took, and writes.
    pub(super) gets: Histogram<u64>,
    pub(super) puts: Histogram<u64>,
    /// Writes for which there was no room.
    pub(super) refused: u64,
    pub(super) seconds: f64,
}

impl Replayed {
    fn new() -> Self {
        let bounds = || Histogram::new_with_bounds(1, LONGEST_NS, 3);
        let histogram = || bounds().expect("the bounds are sound");
        Self {
            accesses: 0,
            rates: Rates::default(),
            gets: histogram(),
            puts: histogram(),
            refused: 0,
            seconds: 0.0,
        }
    }
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        accesses: &'a [Access],
        hosts: Vec<&'a tombolo_kv::Store<tombolo_objects::Objects<tombolo::Mapped>>>,
    ) -> Self {
        let mut requests: Vec<Range<usize>> = Vec::new();
        for (at, access) in accesses.iter().enumerate() {
            match requests.last_mut() {
                Some(last) if accesses[last.start].request == access.request => last.end = at + 1,
                _ => requests.push(at..at + 1),
            }
        }
        Self {
            accesses,
            requests,
            hosts,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Requests that a host has begun.
    pub(super) fn begun(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(self.requests.len())
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The counters of all hosts together.
    pub(super) fn sum(&self, parts: Vec<Replayed>) -> Replayed {
        let mut all = Replayed { seconds: self.started.elapsed().as_secs_f64(), ..Replayed::new() };
        for part in parts {
            all.accesses += part.accesses;
            all.rates = all.rates.plus(part.rates);
            all.refused += part.refused;
            all.gets += part.gets;
            all.puts += part.puts;
        }
        all
    }

    /// Replays requests as one of the hosts, until there are none left.
    pub(super) fn work(&self, host: usize) -> Result<Replayed> {
        let mut client = Client {
            store: self.hosts[host],
            done: Replayed::new(),
            entry: Entry::default(),
            value: Vec::new(),
        };
        while !self.stopped.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = self.requests.get(number) else { break };
            for access in &self.accesses[request.clone()] {
                client.access(access)?;
            }
        }
        Ok(client.done)
    }
}

/// The only thread of a host that uses the store.
struct Client<'a> {
    store: &'a tombolo_kv::Store<tombolo_objects::Objects<tombolo::Mapped>>,
    done: Replayed,
    entry: Entry,
    value: Vec<u8>,
}

impl Client<'_> {
    fn access(&mut self, access: &Access) -> Result<()> {
        let key = key(access);
        self.done.accesses += 1;
        match access.operation {
            CacheOperation::Delete => drop(self.store.delete(&key)?),
            CacheOperation::Put => self.put(&key, access)?,
            CacheOperation::Get => {
                let began = Instant::now();
                let hit = self.store.get_into(&key, &mut self.entry)?;
                self.done.gets.saturating_record(began.elapsed().as_nanos() as u64);
                self.done.rates.count(access.value_bytes.into(), hit);
                if hit {
                    let stamp = stamp(access, self.entry.value.len());
                    let same = self.entry.value.starts_with(&stamp);
                    ensure!(same, "the value of key {:x} is another one's", access.key);
                } else {
                    self.put(&key, access)?;
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], access: &Access) -> Result<()> {
        let bytes = access.value_bytes as usize;
        if self.value.len() < bytes {
            self.value.resize(bytes, b'v');
        }
        let stamp = stamp(access, bytes);
        self.value[..stamp.len()].copy_from_slice(&stamp);
        let began = Instant::now();
        let put = if access.ttl_s == 0 {
            self.store.put_each(&[(key, &self.value[..bytes])]).pop().unwrap_or(Ok(()))
        } else {
            let deadline_ms = Some(self.store.now_ms() + u64::from(access.ttl_s) * 1000);
            self.store.put(key, &Entry { value: self.value[..bytes].to_vec(), deadline_ms })
        };
        self.done.puts.saturating_record(began.elapsed().as_nanos() as u64);
        match put {
            Err(StoreError::Objects(
                ObjectsError::LnrFull { .. } | ObjectsError::TooLarge { .. },
            )) => {
                self.done.refused += 1;
                Ok(())
            }
            put => Ok(put?),
        }
    }
}

/// The key of an access, as long as the trace says.
fn key(access: &Access) -> Vec<u8> {
    let mut key = format!("{:016x}", access.key).into_bytes();
    key.resize(access.key_bytes as usize, b'.');
    key
}

/// The bytes with which a value of this access begins.
fn stamp(access: &Access, value_bytes: usize) -> Vec<u8> {
    access.key.to_le_bytes()[..STAMP.min(value_bytes)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_accesses() {
        let access = |request| Access {
            request,
            key: 7,
            key_bytes: 20,
            value_bytes: 3,
            operation: CacheOperation::Get,
            ttl_s: 0,
        };
        let accesses = [1, 1, 2, 5, 5, 5].map(access);
        let replay = Replay::new(&accesses, Vec::new());
        assert_eq!(replay.requests, [0..2, 2..3, 3..6]);
        assert_eq!(key(&accesses[0]), b"0000000000000007....");
        assert_eq!(stamp(&accesses[0], 3), [7, 0, 0]);
    }
}
