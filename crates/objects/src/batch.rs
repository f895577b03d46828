//! Reading several objects together: while the lines of one are on their way, others' are asked for.
//!
//! Each is read as by [`Objects::read`], step by step, but each step for all of them: first all are looked
//! up, then all are copied, then all are looked at again. What does not come out at once is read by itself.

use smallvec::SmallVec;
use tombolo_memory::{Memory, Work};
use tombolo_sharing::{Counter, Item, Part};

use crate::event::KeyHash;
use crate::index::Found;
use crate::logged::BY_LOG;
use crate::read::{Looked, Prefix, Started};
use crate::{Error, Objects, Version, sites};

/// Objects that are read together.
const BATCH: usize = 16;

/// How far the read of one object has come.
struct Reading<'a> {
    /// The object that may have the key, if there is one.
    found: Option<Found<'a>>,
    /// No other object has the hash.
    alone: bool,
    tail: u64,
    /// It has been copied, if it has the key.
    copied: Option<(Started, Prefix<()>)>,
}

impl<M: Memory> Objects<M> {
    /// Reads the values of all `keys`, each into the item at its place. Several together take less time
    /// than one after the other; they are not read at one instant.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), of the first object that has one.
    ///
    /// # Panics
    /// If there are fewer items than keys.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        assert!(items.len() >= keys.len(), "{} keys, {} items", keys.len(), items.len());
        let mut batches = keys.chunks(BATCH).zip(items.chunks_mut(BATCH));
        if self.places_objects() {
            // Some have copies, or are to get one.
            return batches.try_for_each(|(keys, items)| self.read_in_turn(keys, items));
        }
        batches.try_for_each(|(keys, items)| self.read_together(keys, items))
    }

    fn read_in_turn<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        self.fetch_entries(keys)?;
        for (key, item) in keys.iter().zip(items) {
            item.version = self.read(key.as_ref(), &mut item.value)?;
        }
        Ok(())
    }

    fn read_together<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        let memory = self.memory();
        self.answer_at_once();
        let hashes = self.fetch_entries(keys)?;
        let mut readings: SmallVec<[Reading<'_>; BATCH]> = SmallVec::new();
        for &hash in &hashes {
            memory.works(Work::Operation);
            let tail = self.sync(hash)?;
            let (found, alone) = self.state(hash).index.find_one(memory, hash);
            if let Some(found) = &found
                && let Some(extent) = self.state(hash).space.extent_at(found.entry.slot)
            {
                let record = found.entry.record.filter(|&record| record != BY_LOG);
                record.into_iter().for_each(|record| self.records.prefetch(record));
                self.fetch(extent.first(), Part::Whole);
            }
            readings.push(Reading { found, alone, tail, copied: None });
        }
        for ((reading, key), item) in readings.iter_mut().zip(keys).zip(&mut *items) {
            self.copy_one(reading, key.as_ref(), &mut item.value);
        }
        // All counters come first, then the log, as of one object.
        for reading in &mut readings {
            let same = |(started, _): &(Started, _)| {
                memory.check(
                    sites::BATCH_COUNTER_AGAIN,
                    self.counter_holds(started.entry.record, started.counter),
                )
            };
            reading.copied = reading.copied.take().filter(same);
        }
        for ((reading, key), item) in readings.into_iter().zip(keys).zip(items) {
            item.version = match self.end_one(reading)? {
                Some(version) => {
                    self.count(Counter::Reads);
                    version
                }
                // Something is as it seldom is, or changed meanwhile.
                None => self.read(key.as_ref(), &mut item.value)?,
            };
        }
        Ok(())
    }

    /// The hashes of keys, whose entries are asked for.
    fn fetch_entries<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Result<SmallVec<[KeyHash; BATCH]>, Error> {
        let fetch = |key: &K| {
            let hash = self.hash(key.as_ref())?;
            self.state(hash).index.prefetch(hash);
            Ok(hash)
        };
        keys.iter().map(fetch).collect()
    }

    #[inline(always)]
    fn copy_one(&self, reading: &mut Reading<'_>, key: &[u8], value: &mut Vec<u8>) {
        let Some(found) = reading.found.as_ref().filter(|found| found.entry.is_in_its_slot())
        else {
            return;
        };
        let Some(started) = self.start(found, reading.tail, Part::Whole) else { return };
        let prefix = self.read_prefix(&started, key);
        if let Prefix::Match(header, ()) = &prefix {
            // A whole value is within bounds, whatever they are.
            let _ = self.copy_value(&started, header, Part::Whole, value);
        }
        reading.copied = Some((started, prefix));
    }

    /// The version of the object with the key, `Some(None)` if there is none; `None` if that is not known.
    #[inline(always)]
    fn end_one(&self, reading: Reading<'_>) -> Result<Option<Option<Version>>, Error> {
        let memory = self.memory();
        let Reading { found: Some(found), alone, copied, .. } = reading else {
            return Ok(Some(None));
        };
        let Some((started, prefix)) = copied else { return Ok(None) };
        if memory.keeps(sites::BATCH_TAIL_AGAIN)
            && !self.entry_holds(|| self.entry_is_still(&started.entry, started.tail))?
        {
            return Ok(None);
        }
        Ok(match self.conclude(&found, &started, prefix)? {
            Looked::Good((header, ())) => Some(Some(header.version)),
            Looked::OtherKey if alone => Some(None),
            Looked::OtherKey | Looked::Changed => None,
        })
    }
}
