//! Pages: how they come into the cache, are read, written, and brought back to their file.
//!
//! ```text
//! page   word (8 bytes) | bytes
//! word   how many bytes belong to the file, as far as this page knows (62 bits) | blank | mark
//! ```
//!
//! Bytes beyond that length are zeros, and nobody reads beyond the file's size. So a page says
//! itself what of it has to be in its file: writing it back takes its lock, and nothing else. The
//! mark says that the page was written since it was admitted; or, where marks are in pages, that it
//! is dirty.
//!
//! A *blank* page holds zeros in place of what the file has. A writer admits one that is about to
//! write all of it, so the file is not read. Until that write, any other host that finds the page
//! takes it out of the cache again, and so does one that finds it after the writer's death.

use std::io;
use std::sync::Arc;

use tombolo_memory::Memory;
use tombolo_objects::{WriteBack, WriteGuard};
use tombolo_sharing::{Guard, Guarded, Scheme};

use crate::cache::{Backing, PageCache};
use crate::counts::Counted;
use crate::head::Told;
use crate::key::Key;
use crate::pages::{Held, Pages};
use crate::{Error, FileId, sites};

pub(crate) const WORD_BYTES: u64 = 8;

/// The bits of a page's word that are the length.
pub(crate) const LENGTH: u64 = (1 << 62) - 1;
const BLANK: u64 = 1 << 62;
pub(crate) const MARK: u64 = 1 << 63;

/// The content of a page that is admitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admit {
    /// The bytes of the file.
    Read,
    /// Nothing: its writer is about to write all of it.
    Blank,
}

/// The outcome of writing a piece of a file.
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
pub struct PageWriteBack<B> {
    pub(crate) backing: Arc<B>,
    pub(crate) page_bytes: u64,
    pub(crate) counted: Arc<Counted>,
}

// Without asking that `B` is `Clone`.
impl<B> Clone for PageWriteBack<B> {
    fn clone(&self) -> Self {
        let Self { backing, page_bytes, counted } = self;
        Self { backing: Arc::clone(backing), page_bytes: *page_bytes, counted: Arc::clone(counted) }
    }
}

impl<B: Backing> PageWriteBack<B> {
    /// Writes a page that is held and marked to its file, and has its mark taken off; whether it
    /// could.
    pub(crate) fn write_page_back<G: Guard>(
        &self,
        memory: &impl Memory,
        key: Key,
        page: &mut G,
        clear_dirty: impl Fn(&mut G) -> Result<(), tombolo_sharing::Error>,
    ) -> io::Result<bool> {
        let Some(block) = key.block() else { return Ok(false) };
        if !self.backing.knows(key.file) {
            return Ok(false);
        }
        let first = memory.keeps(sites::CLEAN_WRITE_FIRST);
        if !first {
            clear_dirty(page).map_err(io::Error::other)?;
        }
        let bytes = page_of_file(page, self.page_bytes).map_err(io::Error::other)?;
        memory.step();
        // The bytes that a dead host had added may have been undone, and the mark still be there.
        if !bytes.is_empty() {
            self.backing.write(key.file, block * self.page_bytes, &bytes)?;
        }
        Counted::add(&self.counted.written_back, 1);
        if first {
            clear_dirty(page).map_err(io::Error::other)?;
        }
        Ok(true)
    }
}

/// The bytes of a page that belong to its file.
fn page_of_file(page: &mut impl Guard, page_bytes: u64) -> Result<Vec<u8>, tombolo_sharing::Error> {
    let length = word(page)? & LENGTH;
    let mut bytes = vec![0; length.min(page_bytes) as usize];
    page.read(WORD_BYTES, &mut bytes)?;
    Ok(bytes)
}

/// The first word of a page.
pub(crate) fn word(page: &mut impl Guard) -> Result<u64, tombolo_sharing::Error> {
    let mut word = [0; WORD_BYTES as usize];
    page.read(0, &mut word)?;
    Ok(decode_word(&word))
}

fn decode_word(page: &[u8]) -> u64 {
    page.iter().take(WORD_BYTES as usize).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

impl<M: Memory, B: Backing> WriteBack<M> for PageWriteBack<B> {
    /// A page that is not dirty is as it is in its file.
    fn can_be_reread(&self, key: &[u8]) -> bool {
        Key::decode(key).is_some_and(|key| key.block().is_some())
    }

    fn write_back(&self, key: &[u8], mut page: WriteGuard<'_, M>) {
        if let Some(key) = Key::decode(key) {
            let memory = page.memory().clone();
            let clear_dirty = |page: &mut WriteGuard<'_, M>| {
                page.clear_dirty();
                Ok(())
            };
            // If it fails, the page stays dirty and keeps its record; the client that synchronises
            // the file is told why.
            let _ = self.write_page_back(&memory, key, &mut page, clear_dirty);
        }
    }
}

impl<P: Pages, B: Backing> PageCache<P, B> {
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
        let offset = WORD_BYTES + piece.within;
        if self.objects().read_bytes(&key.bytes(), offset, into)?.is_none() {
            self.admit(file, epoch, piece.block, Admit::Read)?;
            return Ok(false);
        }
        // A blank page reads as zeros, so nothing else needs a look at its word.
        if into.iter().any(|&byte| byte != 0) || !self.memory().keeps(sites::READ_BLANK) {
            return Ok(true);
        }
        self.load_zeros(key, offset, into)
    }

    /// Reads a piece of a page that may be blank, together with the page's word; whether it did. A
    /// blank page is taken out of the cache.
    #[cold]
    fn load_zeros(&self, key: Key, offset: u64, into: &mut [u8]) -> Result<bool, Error> {
        let mut page = vec![0; offset as usize + into.len()];
        let Some(version) = self.objects().read_bytes(&key.bytes(), 0, &mut page)? else {
            return Ok(false);
        };
        if decode_word(&page) & BLANK != 0 {
            self.evict_as_of(&key.bytes(), version)?;
            return Ok(false);
        }
        into.copy_from_slice(&page[offset as usize..]);
        Ok(true)
    }

    /// Writes a piece of a file whose epoch is `epoch`. With `tell` the file learns of it;
    /// otherwise this thread has it alone.
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
        let mut guard = match self.objects().write_start(&key.bytes()) {
            Err(tombolo_sharing::Error::NotFound) => {
                let is_whole = piece.bytes == self.page_bytes;
                let admit = if is_whole { Admit::Blank } else { Admit::Read };
                self.admit(file, epoch, piece.block, admit)?;
                return Ok(Stored::Changed);
            }
            guard => guard?,
        };
        let memory = self.memory();
        let found = word(&mut guard)?;
        let fills = piece.bytes == self.page_bytes || found & BLANK == 0;
        if !memory.check(sites::WRITE_BLANK, fills) {
            drop(guard);
            // The page's content does not matter: it leaves the cache.
            self.load_zeros(key, WORD_BYTES, &mut [])?;
            return Ok(Stored::Changed);
        }
        let end = piece.within + piece.bytes;
        if tell {
            match self.tell(file, epoch, piece.block * self.page_bytes + end)? {
                Told::Yes => {}
                Told::Changed => return Ok(Stored::Changed),
                Told::NotNow => return Ok(Stored::TakesAlone),
            }
        }
        guard.write(WORD_BYTES + piece.within, bytes)?;
        if end > found & LENGTH && memory.keeps(sites::WRITE_LENGTH) {
            guard.write(0, &(end | found & MARK).to_le_bytes())?;
        }
        if memory.keeps(sites::WRITE_MARK_FIRST) {
            if memory.keeps(sites::WRITE_MARK) {
                self.pages.set_dirty(key, &mut guard)?;
            }
            return Ok(Stored::Yes);
        }
        drop(guard);
        self.pages.set_dirty(key, &mut self.objects().write_start(&key.bytes())?)?;
        Ok(Stored::Yes)
    }

    /// How many bytes a page knows to belong to its file, if it is in the cache; all, if what it
    /// held is lost.
    pub(crate) fn length_of(&self, key: Key) -> Result<Option<u64>, Error> {
        let mut word = [0; WORD_BYTES as usize];
        let read = self.wait(|| match self.objects().read_bytes(&key.bytes(), 0, &mut word) {
            Err(error) if error.is_loss() => Ok(Ok(Err(self.page_bytes))),
            read => Ok(Ok(Ok(read?))),
        })?;
        Ok(match read {
            Ok(version) => version.map(|_| u64::from_le_bytes(word) & LENGTH),
            Err(lost) => Some(lost),
        })
    }

    /// Brings a page of a file into the cache, if it is not there and the file's epoch is still
    /// `epoch`.
    ///
    /// The page is looked for, read from the file and created under a latch. If two could do so at
    /// once, one of them might create what it has read before the other's page was written, written
    /// back and evicted.
    fn admit(&self, file: FileId, epoch: u64, block: u64, how: Admit) -> Result<(), Error> {
        let (key, memory) = (Key::page(file, block), self.memory());
        let _latch = self.latch(self.latch_of(key))?;
        let there = self.objects().stat(&key.bytes())?.is_some();
        if !memory.check(sites::ADMIT_ABSENT, !there) {
            return Ok(());
        }
        let now = self.peek(file)?.map(|(head, _)| head);
        let same = now.is_some_and(|head| head.epoch == epoch);
        if !memory.check(sites::ADMIT_EPOCH, same) {
            return Ok(());
        }
        let mut page = vec![0; (WORD_BYTES + self.page_bytes) as usize];
        memory.step();
        let (length, bytes) = page.split_at_mut(WORD_BYTES as usize);
        let offset = block * self.page_bytes;
        // While the epoch is the same, the file below is no longer than its head says.
        let is_new = same && now.is_some_and(|head| offset >= head.size);
        let word = if is_new {
            0
        } else if how == Admit::Blank {
            BLANK
        } else {
            Counted::add(&self.counted.admitted, 1);
            self.backing.read(file, offset, bytes)? as u64
        };
        length.copy_from_slice(&word.to_le_bytes());
        Counted::add(&self.counted.missed, 1);
        match self.create(key, &page) {
            Err(Error::Objects(tombolo_sharing::Error::Exists)) => Ok(()),
            created => created,
        }
    }

    /// Writes a page to its file if it is dirty; whether it is clean now.
    pub(crate) fn ensure_clean(&self, key: Key) -> Result<bool, Error> {
        match self.patiently(|| self.pages.write_dirty(key)) {
            // There is nothing to be written any more. The client that synchronises the file is
            // told.
            Err(Error::Objects(error)) if error.is_loss() => Ok(true),
            page => page?.map_or(Ok(true), |page| self.write_page_back(key, page)),
        }
    }

    /// The same, unless that takes waiting.
    pub(crate) fn clean_now(&self, key: Key) -> Result<bool, Error> {
        match self.pages.try_write_dirty(key)? {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(page)) => self.write_page_back(key, page),
        }
    }

    fn write_page_back(&self, key: Key, mut page: Held<'_, P>) -> Result<bool, Error> {
        let clear_dirty = |page: &mut Held<'_, P>| self.pages.clear_dirty(key, page);
        self.write_back
            .write_page_back(self.memory(), key, &mut page, clear_dirty)
            .map_err(|error| Error::WriteBack(key.file, error))
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
