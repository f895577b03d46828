//! Removing values whose deadline has passed, so that their memory is free again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_memory::Memory;
use tombolo_sharing::{Scheme, Version};

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

/// A walk through all keys that goes on for ever: fast while at least a quarter of what it finds
/// has expired, slowly while it hasn't. Every host does its own.
pub(crate) struct Expiry {
    cursor: AtomicU64,
    busy: AtomicBool,
    /// By how many keys the walk is ahead of its pace.
    ahead: AtomicU64,
    /// Values that this host has removed.
    removed: AtomicU64,
}

/// What was found, and what was removed.
#[derive(Default)]
struct Found {
    keys: u64,
    expired: u64,
}

impl Expiry {
    pub(crate) fn new() -> Self {
        let (cursor, ahead, removed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { cursor, busy: AtomicBool::new(false), ahead, removed }
    }
}

impl<S: Scheme> Store<S> {
    /// Values that this host has removed because their deadlines had passed.
    pub fn expired_count(&self) -> u64 {
        self.expiry.removed.load(Ordering::Relaxed)
    }

    pub(crate) fn remove_some_expired(&self) -> Result<(), Error> {
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
            let (deadline, version) = match self.deadline(&key) {
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
        }
        match removed {
            Ok(_) | Err(tombolo_sharing::Error::Changed) => Ok(()),
            Err(error) if error.is_loss() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
