//! Removing values whose deadline has passed, so that their memory is free again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_memory::Memory;
use tombolo_sharing::{Scheme, Version};

use crate::removal::Removal;
use crate::timetable::Timetable;
use crate::{Error, Store, sites};

/// How far the walk goes in one tick.
struct Pace {
    /// Keys that are looked at, on average: a step may find more.
    keys: u64,
    /// Steps, whether they find keys or not.
    steps: u64,
}

/// While few keys have expired: a host with nothing to do should not be seen to do it.
const IDLE: Pace = Pace { keys: 8, steps: 2 };
/// While many have.
const BUSY: Pace = Pace { keys: 256, steps: 64 };

/// While there is no room.
const HURRIED: Pace = Pace { keys: 4096, steps: 4096 };

/// Values that are removed in a tick because they are due.
const DUE_AT_ONCE: usize = 256;
/// How often a write that finds no room tries again.
const TRIES: usize = 8;
/// After a search for expired values that found none, in milliseconds, writes do without.
const FRUITLESS_MS: u64 = 100;

/// How expired values are found. A host knows when the values are due that it has put itself. All
/// others are found by a walk through all keys that goes on for ever: fast while at least a quarter
/// of what it finds has expired, slowly while it hasn't. Every host does its own.
pub(crate) struct Expiry {
    due: Mutex<Timetable>,
    /// Values that were removed.
    removed: AtomicU64,
    /// Until then a search for room is in vain.
    fruitless_until_ms: AtomicU64,
    cursor: AtomicU64,
    busy: AtomicBool,
    /// By how many keys the walk is ahead of its pace.
    ahead: AtomicU64,
}

/// The keys that were found, and those that were removed.
#[derive(Default)]
struct Found {
    keys: u64,
    expired: u64,
}

impl Expiry {
    pub(crate) fn new() -> Self {
        Self {
            due: Mutex::default(),
            fruitless_until_ms: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            ahead: AtomicU64::new(0),
            removed: AtomicU64::new(0),
        }
    }
}

impl<S: Scheme> Store<S> {
    /// How many values there are that this host has put and that expire; of those that were deleted
    /// or replaced since, some count.
    pub fn expiring(&self) -> u64 {
        self.timetable(|due| due.len() as u64)
    }

    /// How many values this host has removed because they had expired.
    pub fn expired(&self) -> u64 {
        self.expiry.removed.load(Ordering::Relaxed)
    }

    /// Notes that the value that the object with `key` holds expires then.
    #[inline]
    pub(crate) fn remember(&self, key: &[u8], deadline_ms: Option<u64>) {
        if let Some(deadline_ms) = deadline_ms {
            self.timetable(|due| due.add(key, deadline_ms));
        }
    }

    /// No memory of a pod is used meanwhile, so this waits for no other host.
    fn timetable<T>(&self, change: impl FnOnce(&mut Timetable) -> T) -> T {
        let mut due = self.expiry.due.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(&mut due)
    }

    /// Repeats `attempt`, which puts a value of so many bytes, for as long as it finds no room, and
    /// expired values make some, or evicted ones.
    #[inline]
    pub(crate) fn with_room<T>(
        &self,
        bytes: usize,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.keep_limit(bytes)?;
        match attempt() {
            Err(Error::Objects(error)) if is_full(&error) => self.make_room_for(attempt, error),
            outcome => outcome,
        }
    }

    #[cold]
    fn make_room_for<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Error>,
        mut full: tombolo_sharing::Error,
    ) -> Result<T, Error> {
        for _ in 0..TRIES {
            if !self.make_room()? {
                break;
            }
            match attempt() {
                Err(Error::Objects(error)) if is_full(&error) => full = error,
                outcome => return outcome,
            }
        }
        self.evict_for(full, attempt)
    }

    /// Removes expired values in a hurry; whether there were any.
    fn make_room(&self) -> Result<bool, Error> {
        let now_ms = self.now_ms();
        if now_ms < self.expiry.fruitless_until_ms.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mut found = Found { keys: 0, expired: self.remove_due(now_ms)? };
        for _ in 0..HURRIED.steps {
            if found.expired > 0 && found.keys >= BUSY.keys || found.keys >= HURRIED.keys {
                break;
            }
            self.remove_expired_of_one_step(&mut found)?;
        }
        if found.expired == 0 {
            let until_ms = now_ms + FRUITLESS_MS;
            self.expiry.fruitless_until_ms.store(until_ms, Ordering::Relaxed);
        }
        Ok(found.expired > 0)
    }

    /// Removes values that this host has put and that are due; how many.
    fn remove_due(&self, now_ms: u64) -> Result<u64, Error> {
        let mut removed = 0;
        for _ in 0..DUE_AT_ONCE {
            let Some(key) = self.timetable(|due| due.next(now_ms)) else { break };
            let (deadline_ms, version) = match self.stored_deadline(&key) {
                Ok(Some(found)) => found,
                Ok(None) | Err(Error::NotAValue) => continue,
                Err(error) => return Err(error),
            };
            if self.has_passed(deadline_ms) {
                self.remove_expired(&key, version)?;
                removed += 1;
            } else {
                self.remember(&key, deadline_ms);
            }
        }
        Ok(removed)
    }

    pub(crate) fn remove_some_expired(&self) -> Result<(), Error> {
        if !self.timetable(|due| due.is_empty()) {
            self.remove_due(self.now_ms())?;
        }
        let busy = self.expiry.busy.load(Ordering::Relaxed);
        let pace = if busy { BUSY } else { IDLE };
        let ahead = self.expiry.ahead.load(Ordering::Relaxed);
        if ahead >= pace.keys {
            self.expiry.ahead.store(ahead - pace.keys, Ordering::Relaxed);
            return Ok(());
        }
        let mut found = Found::default();
        for _ in 0..pace.steps {
            if ahead + found.keys >= pace.keys || self.remove_expired_of_one_step(&mut found)? == 0
            {
                break;
            }
        }
        let ahead = (ahead + found.keys).saturating_sub(pace.keys);
        self.expiry.ahead.store(ahead, Ordering::Relaxed);
        self.expiry.busy.store(found.expired * 4 > found.keys, Ordering::Relaxed);
        Ok(())
    }

    /// Goes one step, and returns the cursor: 0 at the end of the walk.
    fn remove_expired_of_one_step(&self, found: &mut Found) -> Result<u64, Error> {
        let mut keys = Vec::new();
        let cursor = self.expiry.cursor.load(Ordering::Relaxed);
        let next = self.objects.scan_within_reach(cursor, |key| keys.push(key.to_vec()))?;
        self.expiry.cursor.store(next, Ordering::Relaxed);
        // Others' objects, too, which are no values: looking at them takes as long.
        found.keys += keys.len() as u64;
        for key in keys {
            let (deadline, version) = match self.stored_deadline(&key) {
                Ok(Some(found)) => found,
                Ok(None) | Err(Error::NotAValue) => continue,
                Err(error) => return Err(error),
            };
            if self.has_passed(deadline) {
                self.remove_expired(&key, version)?;
                found.expired += 1;
            }
        }
        Ok(next)
    }

    /// Removes the value that was found expired, unless it has been replaced or removed since.
    pub(crate) fn remove_expired(&self, key: &[u8], version: Version) -> Result<(), Error> {
        let removed = if self.objects.memory().keeps(sites::EXPIRE_VERSION) {
            self.objects.delete_version(key, version)
        } else {
            self.objects.delete(key)
        };
        if matches!(removed, Ok(true)) {
            self.expiry.removed.fetch_add(1, Ordering::Relaxed);
            self.removal_hook.tell(Removal::Expired, key);
        }
        match removed {
            Ok(_) | Err(tombolo_sharing::Error::Changed) => Ok(()),
            Err(error) if error.is_loss() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a write found no room.
pub(crate) fn is_full(error: &tombolo_sharing::Error) -> bool {
    use tombolo_sharing::Error;
    matches!(error, Error::LnrFull { .. } | Error::IndexFull { .. })
}
