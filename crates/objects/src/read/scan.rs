//! Walks of all keys, some at a time.

use tombolo_memory::Memory;
use tombolo_sharing::Part;

use crate::ids::{KeyHash, NOTE_PREFIX};
use crate::read::damaged_object;
use crate::storage::index::Entry;
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Shows some keys to `visit` and returns the next cursor. A walk starts with cursor 0 and is
    /// over when 0 comes back. It meets every object that is there all the time, one whose value is
    /// lost included, and others perhaps; no key is met twice.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), but for [`Error::Lost`] and [`Error::Poisoned`]: a key that
    /// cannot be read is left out.
    pub fn scan(&self, cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error> {
        self.scan_wanted(cursor, |_| true, visit)
    }

    /// As [`scan`](Self::scan), but for objects in other hosts' own memory: those hosts meet them.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn scan_within_reach(&self, cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error> {
        let me = self.enrolment.host();
        self.scan_wanted(cursor, |entry| entry.partition().is_none_or(|host| host == me), visit)
    }

    fn scan_wanted(
        &self,
        cursor: u64,
        wanted: impl Fn(Entry) -> bool,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<u64, Error> {
        // One shard after the other.
        let number = cursor >> KeyHash::BITS;
        let Some(shard) = self.shards().get(number as usize) else { return Ok(0) };
        self.sync_shard(shard)?;
        let within = cursor & u64::from(KeyHash::MAX);
        let (hashes, next) = shard.state().index.scan(self.memory(), within);
        for hash in hashes {
            self.visit_keys(hash, &wanted, &mut visit)?;
        }
        Ok(match next {
            0 if number + 1 < self.shards().len() as u64 => (number + 1) << KeyHash::BITS,
            0 => 0,
            next => number << KeyHash::BITS | next,
        })
    }

    /// Shows the keys of the `wanted` objects with `hash` to `visit`.
    fn visit_keys(
        &self,
        hash: KeyHash,
        wanted: impl Fn(Entry) -> bool,
        visit: &mut impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut keys = Vec::new();
        self.retry_with_backoff(|| {
            keys.clear();
            let tail = self.sync(hash)?;
            let found = self.state(hash).index.find(self.memory(), hash);
            for found in found.into_iter().filter(|found| wanted(found.entry)) {
                let Some(snapshot) = self.start(&found, tail, Part::Nothing) else {
                    return Ok(None);
                };
                let key = self.read_key(&snapshot);
                if !snapshot.still_holds(self)? {
                    return Ok(None);
                }
                if self.is_key_poisoned(&snapshot.extent) {
                    // A reader that knows the key finds that it is lost.
                    continue;
                }
                snapshot.rely_on(self.memory());
                keys.push(key.ok_or_else(|| damaged_object(&snapshot))?);
            }
            Ok(Some(()))
        })?;
        keys.iter().filter(|key| !key.starts_with(NOTE_PREFIX)).for_each(|key| visit(key));
        Ok(())
    }
}
