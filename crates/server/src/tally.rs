//! Counts of the commands that have been executed, how long they took, and which took long.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::clients::Client;
use crate::commands;
use crate::latency::{CommandLatency, Histogram};

/// Kinds of errors that are counted one by one.
const MOST_ERRORS: usize = 128;
/// The log of slow commands keeps so many words of a request, and so many bytes of each.
const KEPT_WORDS: usize = 32;
const KEPT_BYTES: usize = 128;

/// The outcomes of requests for one command.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Calls, and how long they took.
    pub(crate) calls: Histogram,
    /// Refused before they were executed.
    pub(crate) rejected: AtomicU64,
    /// Answered by an error.
    pub(crate) failed: AtomicU64,
}

impl Tally {
    pub(crate) fn add(&self, calls: usize, failed: usize, time: Duration) {
        self.calls.note(calls, time);
        if failed > 0 {
            self.failed.fetch_add(failed as u64, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        self.calls.reset();
        self.rejected.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }
}

/// A command that took long.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    pub(crate) id: u64,
    pub(crate) at_s: u64,
    pub(crate) us: u64,
    pub(crate) words: Vec<Bytes>,
    pub(crate) peer: String,
    pub(crate) name: String,
}

/// Counts for all connections: commands, errors by kind, and the commands that took long.
#[derive(Debug)]
pub(crate) struct Tallies {
    commands: Box<[Tally]>,
    errors: Mutex<BTreeMap<String, u64>>,
    slow: Mutex<VecDeque<Slow>>,
    next_slow: AtomicU64,
    /// Commands that take as many microseconds are kept; none, if negative.
    pub(crate) slow_us: AtomicI64,
    /// How many are kept.
    pub(crate) slow_most: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tallies {
    pub(crate) fn new(commands: usize) -> Self {
        Self {
            commands: (0..commands).map(|_| Tally::default()).collect(),
            errors: Mutex::default(),
            slow: Mutex::default(),
            next_slow: AtomicU64::new(0),
            slow_us: AtomicI64::new(10_000),
            slow_most: AtomicU64::new(128),
        }
    }

    /// That of the command at a place in the table.
    pub(crate) fn of(&self, command: usize) -> &Tally {
        &self.commands[command]
    }

    /// How long commands took, of those that were executed.
    pub(crate) fn latencies(&self) -> Vec<CommandLatency> {
        let all = self.commands.iter().enumerate();
        let executed = all.filter(|(_, tally)| tally.calls.count() > 0);
        executed.map(|(place, tally)| tally.calls.latency(commands::name(place))).collect()
    }

    /// Counts an error by its code.
    pub(crate) fn error(&self, text: &str) {
        let code = text.split_whitespace().next().unwrap_or("ERR");
        let mut errors = lock(&self.errors);
        if errors.len() < MOST_ERRORS || errors.contains_key(code) {
            *errors.entry(code.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        lock(&self.errors).clone()
    }

    /// Whether a command that took so long is kept.
    pub(crate) fn is_slow(&self, time: Duration) -> bool {
        let least = self.slow_us.load(Ordering::Relaxed);
        u64::try_from(least).is_ok_and(|least| time.as_micros() as u64 >= least)
    }

    pub(crate) fn keep_slow(&self, request: &[Bytes], time: Duration, client: &Client) {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut words: Vec<Bytes> = request.iter().take(KEPT_WORDS).map(kept).collect();
        if request.len() > KEPT_WORDS {
            let more = request.len() - KEPT_WORDS + 1;
            words[KEPT_WORDS - 1] = Bytes::from(format!("... ({more} more arguments)"));
        }
        let slow = Slow {
            id: self.next_slow.fetch_add(1, Ordering::Relaxed),
            at_s: since_epoch.map_or(0, |time| time.as_secs()),
            us: time.as_micros() as u64,
            words,
            peer: client.peer.to_string(),
            name: client.said().name.clone(),
        };
        let mut kept = lock(&self.slow);
        kept.push_front(slow);
        kept.truncate(self.slow_most.load(Ordering::Relaxed) as usize);
    }

    /// The slow commands, the last one first.
    pub(crate) fn slow(&self) -> Vec<Slow> {
        lock(&self.slow).iter().cloned().collect()
    }

    pub(crate) fn forget_slow(&self) {
        lock(&self.slow).clear();
    }

    pub(crate) fn reset(&self) {
        self.commands.iter().for_each(Tally::reset);
        lock(&self.errors).clear();
    }
}

/// A copy of a word, cut to the bytes that are kept: no part of the buffer that it came in.
fn kept(word: &Bytes) -> Bytes {
    if word.len() <= KEPT_BYTES {
        return Bytes::copy_from_slice(word);
    }
    let more = format!("... ({} more bytes)", word.len() - KEPT_BYTES);
    Bytes::from([&word[..KEPT_BYTES], more.as_bytes()].concat())
}
