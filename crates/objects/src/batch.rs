//! Reading several objects together: while the lines of one are on their way, others' are asked for.
//!
//! Each is read as by [`Objects::read`]. Before that, all entries are asked for, and then all objects.

use smallvec::SmallVec;
use tombolo_memory::Memory;
use tombolo_sharing::{Item, Part};

use crate::event::KeyHash;
use crate::{Error, Objects};

/// Objects that are asked for together.
const BATCH: usize = 16;

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
        batches.try_for_each(|(keys, items)| self.read_together(keys, items))
    }

    fn read_together<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        let fetch_entry = |key: &K| {
            let hash = self.begin(key.as_ref())?;
            self.state(hash).index.prefetch(hash);
            Ok(hash)
        };
        let hashes: SmallVec<[KeyHash; BATCH]> =
            keys.iter().map(fetch_entry).collect::<Result<_, Error>>()?;
        // Of others, some have copies.
        if !self.places_objects() {
            hashes.iter().for_each(|&hash| self.fetch_object(hash));
        }
        for ((&hash, key), item) in hashes.iter().zip(keys).zip(items) {
            let read = self.read_hashed(hash, key.as_ref(), Part::Whole, &mut item.value)?;
            item.version = read.map(|header| header.version);
        }
        Ok(())
    }

    /// Has an object and its record fetched, if its entry is found at once.
    #[inline(always)]
    fn fetch_object(&self, hash: KeyHash) {
        let state = self.state(hash);
        let Some(found) = state.index.find_at_once(self.memory(), hash) else { return };
        let record = found.entry.own_record();
        record.into_iter().for_each(|record| self.records.prefetch(record));
        if let Some(lines) = state.space.lines_at(found.entry.slot) {
            self.fetch(lines, Part::Whole);
        }
    }
}
