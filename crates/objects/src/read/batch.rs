//! Reading several objects together: while the lines of one are on their way, others' are asked
//! for.
//!
//! Each is read as by [`Objects::read`]. Before that, all entries are [found](crate::host::lookup),
//! and all objects asked for.

use tombolo_memory::Memory;
use tombolo_sharing::{Header, Item, Part};

use crate::host::lookup::{BATCH, Candidates};
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Reads the values of all `keys`, each into the item at its place. Several together take less
    /// time than one after the other; they are not read at one instant.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), of the first object that has one.
    ///
    /// # Panics
    /// If there are fewer items than keys.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        self.read_parts(keys, Part::Whole, items)
    }

    /// As [`multi_get`](Self::multi_get), but of values longer than `most_bytes` only their length.
    ///
    /// # Errors
    /// Those of [`multi_get`](Self::multi_get).
    ///
    /// # Panics
    /// If there are fewer items than keys.
    pub fn multi_get_within<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        most_bytes: u64,
        items: &mut [Item],
    ) -> Result<(), Error> {
        self.read_parts(keys, Part::AtMost(most_bytes), items)
    }

    #[inline(always)]
    fn read_parts<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        part: Part,
        items: &mut [Item],
    ) -> Result<(), Error> {
        assert!(items.len() >= keys.len(), "{} keys, {} items", keys.len(), items.len());
        if let ([key], [item, ..]) = (keys, &mut *items) {
            let header = self.read_part(key.as_ref(), part, &mut item.value)?;
            keep_header(item, header);
            return Ok(());
        }
        let mut batches = keys.chunks(BATCH).zip(items.chunks_mut(BATCH));
        batches.try_for_each(|(keys, items)| self.read_together(keys, part, items))
    }

    #[inline(always)]
    fn read_together<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        part: Part,
        items: &mut [Item],
    ) -> Result<(), Error> {
        let mut hashes = [0; BATCH];
        let hashes = &mut hashes[..keys.len()];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.begin(key.as_ref())?;
        }
        let mut candidates = self.candidates(hashes.iter().copied().map(Some));
        // Of others, some have copies.
        if !self.places_objects() {
            self.fetch_to_read(&candidates);
        }
        let found = hashes.iter().zip(&mut candidates);
        for ((key, item), (&hash, candidate)) in keys.iter().zip(items).zip(found) {
            self.renew(candidate, hash);
            let (key, value) = (key.as_ref(), &mut item.value);
            let read = self.read_candidate(hash, candidate.as_ref(), key, part, &mut [], value)?;
            keep_header(item, read);
        }
        Ok(())
    }

    /// Has objects fetched; first their records, which would come late behind so many lines.
    #[inline(always)]
    fn fetch_to_read(&self, candidates: &Candidates<'_, M>) {
        let found = candidates.iter().flatten();
        let records = found.clone().filter_map(|candidate| candidate.found.entry.record());
        records.for_each(|record| self.records.prefetch(record));
        found.for_each(|candidate| self.fetch(candidate.lines, Part::Whole));
    }
}

#[inline(always)]
fn keep_header(item: &mut Item, header: Option<Header>) {
    item.version = header.map(|header| header.version);
    item.value_bytes = header.map_or(0, |header| u64::from(header.value_bytes));
}
