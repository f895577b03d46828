//! Pages: how they come into the cache, are read, written, and brought back to their file.
//!
//! ```text
//! page   length: how many bytes belong to the file, as far as this page knows (8 bytes) | bytes
//! ```
//!
//! Bytes beyond the length are zeros, and nobody reads beyond the file's size. So a page says itself
//! what of it has to be in its file: writing it back takes its lock, and nothing else.

use std::io;
use std::sync::Arc;

use tombolo_memory::Memory;
use tombolo_objects::{Cleaner, WriteGuard};

use crate::cache::{Backing, Counted, PageCache};
use crate::head::Told;
use crate::key::Key;
use crate::{Error, FileId, sites};

const LENGTH_BYTES: u64 = 8;

/// What came of writing a piece of a file.
pub(crate) enum Stored {
    /// It is written.
    Yes,
    /// Something has changed: begin again.
    Changed,
    /// It takes having the file alone.
    TakesAlone,
}

/// A piece of a file that lies within a page.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) block: u64,
    pub(crate) within: u64,
    pub(crate) bytes: u64,
}

/// The pieces of `bytes` bytes of a file from `offset` on.
pub(crate) fn pieces(page_bytes: u64, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> {
    let end = offset + bytes;
    std::iter::successors(Some(offset), move |at| Some((at / page_bytes + 1) * page_bytes))
        .take_while(move |&at| at < end)
        .map(move |at| {
            let next = ((at / page_bytes + 1) * page_bytes).min(end);
            Piece { block: at / page_bytes, within: at % page_bytes, bytes: next - at }
        })
}

/// Brings dirty pages to their files.
pub(crate) struct Washer<B> {
    pub(crate) backing: Arc<B>,
    pub(crate) page_bytes: u64,
    pub(crate) counted: Arc<Counted>,
}

impl<B: Backing> Washer<B> {
    /// Writes a locked page that is marked to its file; whether it could.
    pub(crate) fn wash<M: Memory>(&self, key: Key, guard: WriteGuard<'_, M>) -> io::Result<bool> {
        let Some(block) = key.block() else { return Ok(false) };
        if !self.backing.knows(key.file) {
            return Ok(false);
        }
        let memory = guard.memory().clone();
        let first = memory.keeps(sites::CLEAN_WRITE_FIRST);
        if !first {
            guard.unmark();
        }
        let bytes = page_of_file(&guard, self.page_bytes).map_err(io::Error::other)?;
        memory.step();
        self.backing.write(key.file, block * self.page_bytes, &bytes)?;
        self.counted.written_back();
        if first {
            guard.unmark();
        }
        Ok(true)
    }
}

/// The bytes of a page that belong to its file.
fn page_of_file<M: Memory>(guard: &WriteGuard<'_, M>, page_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; length(guard)?.min(page_bytes) as usize];
    guard.read(LENGTH_BYTES, &mut bytes)?;
    Ok(bytes)
}

fn length<M: Memory>(guard: &WriteGuard<'_, M>) -> Result<u64, Error> {
    let mut length = [0; LENGTH_BYTES as usize];
    guard.read(0, &mut length)?;
    Ok(u64::from_le_bytes(length))
}

impl<M: Memory, B: Backing> Cleaner<M> for Washer<B> {
    fn clean(&self, key: &[u8], guard: WriteGuard<'_, M>) {
        if let Some(key) = Key::decode(key) {
            // If it fails, the page stays dirty and keeps its record; who synchronises the file is told
            // why.
            let _ = self.wash(key, guard);
        }
    }
}

impl<M: Memory, B: Backing> PageCache<M, B> {
    /// Reads a piece of a file whose epoch is `epoch`; whether it did, or something has changed.
    pub(crate) fn load(
        &self,
        file: FileId,
        epoch: u64,
        piece: Piece,
        into: &mut [u8],
    ) -> Result<bool, Error> {
        let key = Key::page(file, piece.block);
        self.clock.touch(key);
        if self.read_bytes(key, LENGTH_BYTES + piece.within, into)?.is_some() {
            return Ok(true);
        }
        self.admit(file, epoch, piece.block)?;
        Ok(false)
    }

    /// Writes a piece of a file whose epoch is `epoch`. With `tell` the file learns of it; otherwise this
    /// thread has it alone.
    pub(crate) fn store(
        &self,
        file: FileId,
        epoch: u64,
        piece: Piece,
        bytes: &[u8],
        tell: bool,
    ) -> Result<Stored, Error> {
        let key = Key::page(file, piece.block);
        self.clock.touch(key);
        let mut guard = match self.objects.write_start(&key.bytes()) {
            Err(tombolo_objects::Error::NotFound) => {
                self.admit(file, epoch, piece.block)?;
                return Ok(Stored::Changed);
            }
            guard => guard?,
        };
        let end = piece.within + piece.bytes;
        if tell {
            match self.tell(file, epoch, piece.block * self.page_bytes + end)? {
                Told::Yes => {}
                Told::Changed => return Ok(Stored::Changed),
                Told::NotNow => return Ok(Stored::TakesAlone),
            }
        }
        let memory = self.memory();
        guard.write(LENGTH_BYTES + piece.within, bytes)?;
        if end > length(&guard)? && memory.keeps(sites::WRITE_LENGTH) {
            guard.write(0, &end.to_le_bytes())?;
        }
        if memory.keeps(sites::WRITE_MARK_FIRST) {
            if memory.keeps(sites::WRITE_MARK) {
                guard.mark();
            }
            return Ok(Stored::Yes);
        }
        drop(guard);
        self.objects.write_start(&key.bytes())?.mark();
        Ok(Stored::Yes)
    }

    /// Brings a page of a file into the cache, if it is not there and the file's epoch is still `epoch`.
    ///
    /// The page is looked for, read from the file and created under a latch. If two could do so at
    /// once, one of them might create what it has read before the other's page was written, written
    /// back and evicted.
    fn admit(&self, file: FileId, epoch: u64, block: u64) -> Result<(), Error> {
        let (key, memory) = (Key::page(file, block), self.memory());
        let _latch = self.latch(self.latch_of(key))?;
        let there = self.objects.stat(&key.bytes())?.is_some();
        if !memory.check(sites::ADMIT_ABSENT, !there) {
            return Ok(());
        }
        let now = self.peek(file)?.map(|(head, _)| head.epoch);
        if !memory.check(sites::ADMIT_EPOCH, now == Some(epoch)) {
            return Ok(());
        }
        let mut page = vec![0; (LENGTH_BYTES + self.page_bytes) as usize];
        memory.step();
        let (length, bytes) = page.split_at_mut(LENGTH_BYTES as usize);
        let read = self.backing.read(file, block * self.page_bytes, bytes)?;
        length.copy_from_slice(&(read as u64).to_le_bytes());
        self.counted.admitted();
        match self.create(key, &page) {
            Err(Error::Objects(tombolo_objects::Error::Exists)) => Ok(()),
            created => created,
        }
    }

    /// The same, unless that takes waiting.
    pub(crate) fn clean_now(&self, key: Key) -> Result<bool, Error> {
        match self.objects.try_write_marked(&key.bytes())? {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(guard)) => {
                self.washer.wash(key, guard).map_err(|error| Error::WriteBack(key.file, error))
            }
        }
    }

    /// Writes a page to its file if it is dirty; whether it is clean now.
    pub(crate) fn clean(&self, key: Key) -> Result<bool, Error> {
        let guard = self.patiently(|| self.objects.write_marked(&key.bytes()))?;
        let Some(guard) = guard else { return Ok(true) };
        self.washer.wash(key, guard).map_err(|error| Error::WriteBack(key.file, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range_page_by_page() {
        let all: Vec<_> =
            pieces(100, 250, 200).map(|piece| (piece.block, piece.within, piece.bytes)).collect();
        assert_eq!(all, [(2, 50, 50), (3, 0, 100), (4, 0, 50)]);
        assert_eq!(pieces(100, 250, 0).count(), 0);
        assert_eq!(pieces(100, 300, 100).count(), 1);
    }
}
