//! Removing values whose deadline has passed, so that their memory is free again.

use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_memory::Memory;
use tombolo_objects::Version;

use crate::{Error, Store, sites};

/// Ticks between two steps of the walk while it finds nothing.
const IDLE_TICKS: u64 = 16;
/// Steps of the walk in one tick while it finds something.
const BUSY_STEPS: usize = 16;

/// A walk through all keys that goes on for ever: fast while it finds expired values, slowly while it
/// doesn't. Every host does its own.
pub(crate) struct Expiry {
    cursor: AtomicU64,
    idle: AtomicU64,
}

impl Expiry {
    pub(crate) fn new() -> Self {
        Self { cursor: AtomicU64::new(0), idle: AtomicU64::new(0) }
    }
}

impl<M: Memory> Store<M> {
    pub(crate) fn remove_some_expired(&self) -> Result<(), Error> {
        let idle = self.expiry.idle.fetch_add(1, Ordering::Relaxed);
        if idle > 0 && idle % IDLE_TICKS != 0 {
            return Ok(());
        }
        for _ in 0..BUSY_STEPS {
            if self.remove_expired_of_one_step()? == 0 {
                break;
            }
            self.expiry.idle.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How many values one step of the walk removed.
    fn remove_expired_of_one_step(&self) -> Result<usize, Error> {
        let mut keys = Vec::new();
        let cursor = self.expiry.cursor.load(Ordering::Relaxed);
        let next = self.objects.scan(cursor, |key| keys.push(key.to_vec()))?;
        self.expiry.cursor.store(next, Ordering::Relaxed);
        let mut removed = 0;
        for key in keys {
            let (deadline, version) = match self.deadline(&key) {
                Ok(Some(found)) => found,
                Ok(None) | Err(Error::NotAValue) => continue,
                Err(error) => return Err(error),
            };
            if self.has_passed(deadline) {
                self.remove_expired(&key, version)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes the value that was found expired, unless it has been replaced or removed since.
    pub(crate) fn remove_expired(&self, key: &[u8], version: Version) -> Result<(), Error> {
        let removed = if self.objects.memory().keeps(sites::EXPIRE_VERSION) {
            self.objects.delete_version(key, version)
        } else {
            self.objects.delete(key)
        };
        match removed {
            Ok(_) | Err(tombolo_objects::Error::Changed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
