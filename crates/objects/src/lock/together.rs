//! Writing several objects together: all are locked, then all are written, then all lines are cleaned, and then all locks are released. So
//! what one of them would wait for memory does for all.
//!
//! Nobody waits for another with several locks in hand: an object that is not there, has no record, is locked, is in some host's own
//! memory, or would have to go to another slot, is written by itself, once those before it are through.

use smallvec::SmallVec;
use tombolo_memory::{Lines, Memory, Work};
use tombolo_sharing::Counter;

use super::guard::Fit;
use super::{Locked, TryLock};
use crate::logged::BY_LOG;
use crate::writer::Writer;
use crate::{Error, Objects, Version, sites};

/// Objects that are locked together.
const BATCH: usize = 16;

/// An object that is locked, and what is to be written there.
struct Write<'a, 'v, M: Memory> {
    locked: Locked<'a, M>,
    key: &'v [u8],
    value: &'v [u8],
}

impl<M: Memory> Objects<M> {
    /// Creates the objects with these keys, or replaces their values, each as [`put`](Self::put) does, in their order; what became of
    /// each. Several together take less time than one after the other. They are not written at one instant.
    pub fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<Version, Error>> {
        let mut outcomes = Vec::with_capacity(pairs.len());
        // Not on the stack: what is locked takes kilobytes, which should not be moved about.
        let mut batch = Vec::with_capacity(BATCH);
        for pairs in pairs.chunks(BATCH) {
            self.answer_at_once();
            let together = !self.home.is_open();
            if together {
                self.fetch_all_to_write(pairs);
            }
            for (key, value) in pairs {
                let (key, value) = (key.as_ref(), value.as_ref());
                let locked = if together { self.lock_at_once(key, value) } else { Ok(None) };
                if let Ok(Some(locked)) = locked {
                    batch.push(Write { locked, key, value });
                    continue;
                }
                // If something is wrong, who writes it by itself says what.
                self.write_together(&mut batch, &mut outcomes);
                outcomes.push(self.put(key, value));
            }
            self.write_together(&mut batch, &mut outcomes);
        }
        outcomes
    }

    /// Has everything fetched that it takes to write objects.
    fn fetch_all_to_write<K: AsRef<[u8]>, V>(&self, pairs: &[(K, V)]) {
        let hashes = pairs.iter().filter_map(|(key, _)| self.hash(key.as_ref()).ok());
        let hashes: SmallVec<[_; BATCH]> = hashes.collect();
        hashes.iter().for_each(|&hash| self.state(hash).index.prefetch(hash));
        for &hash in &hashes {
            let found = self.state(hash).index.find_at_once(self.memory(), hash);
            found.iter().for_each(|found| self.fetch_to_write(found));
        }
    }

    /// Locks the object with `key`, if the value can be written into its slot, and nobody has to be waited for.
    fn lock_at_once(&self, key: &[u8], value: &[u8]) -> Result<Option<Locked<'_, M>>, Error> {
        let memory = self.memory();
        memory.works(Work::Operation);
        let hash = self.hash(key)?;
        self.sync(hash)?;
        let (Some(found), true) = self.state(hash).index.find_one(memory, hash) else {
            return Ok(None);
        };
        let Some(record) = found.entry.record.filter(|&record| record != BY_LOG) else {
            return Ok(None);
        };
        let readable = self.records.load(record).readable();
        let Some(held) = readable.and_then(|counter| self.records.lock(record, counter)) else {
            return Ok(None);
        };
        let TryLock::Locked(Writer::Shared(locked)) =
            self.enter_or_let_go(held, found.entry, key)?
        else {
            return Ok(None);
        };
        Ok((locked.fit(key, value)? == Fit::Well).then_some(locked))
    }

    /// Writes objects that are locked, and says what became of each. None is left in the batch.
    fn write_together<'a>(
        &'a self,
        batch: &mut Vec<Write<'a, '_, M>>,
        outcomes: &mut Vec<Result<Version, Error>>,
    ) {
        let first = outcomes.len();
        let set = |write: &mut Write<'_, '_, M>| write.locked.set(write.key, write.value);
        let set: SmallVec<[Result<(), Error>; BATCH]> = batch.iter_mut().map(set).collect();
        let mut dirty = SmallVec::<[Lines; BATCH]>::new();
        for write in batch.iter_mut().filter(|write| !write.locked.extent_is_poisoned()) {
            dirty.append(&mut write.locked.dirty);
        }
        self.counters.add(Counter::CleanedLines, dirty.iter().map(|lines| lines.count()).sum());
        let pairs: SmallVec<[_; BATCH]> =
            batch.iter().map(|write| (write.key, write.value)).collect();
        self.memory().publish(sites::BATCH_CLEAN, dirty, |_| {
            for (Write { mut locked, .. }, set) in batch.drain(..).zip(set) {
                let version = locked.header().version;
                let released = if locked.dirty.is_empty() {
                    locked.unlock(set.is_ok())
                } else {
                    locked.finish()
                };
                outcomes.push(set.and(released).map(|()| version));
            }
        });
        for ((key, value), outcome) in pairs.into_iter().zip(&mut outcomes[first..]) {
            if outcome.as_ref().is_err_and(Error::is_loss) {
                *outcome = self.put(key, value);
            }
        }
    }
}
