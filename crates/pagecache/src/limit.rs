//! How much may be dirty.
//!
//! A dirty page cannot leave the cache before it is in its file, and a file may take none: its disk
//! is full, or fails. So that other files find room all the same,
//!
//! * a file of which more than half of what may be dirty is dirty is written back by those that
//!   write to it, who are told if that fails;
//! * while more is dirty than may be, and in files that took no page lately, a page is written only
//!   once the file system below has room for it.
//!
//! Each host counts what all hosts have made dirty, and again after it has written to some pages.
//! So the limit may be exceeded by [`SHARE`] of it for each host.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_memory::HostMutex;
use tombolo_sharing::Scheme;

use crate::cache::{Backing, PageCache};
use crate::page::Piece;
use crate::pages::{MemoryOf, Pages};
use crate::{Error, FileId};

/// A host counts again when it has written to this part of the pages that may be dirty.
const SHARE: u64 = 16;

/// A host's knowledge of how much is dirty.
pub(crate) struct Limit<P: Pages> {
    /// Pages that may be dirty.
    most: u64,
    /// Pages that this host may write to before it counts again.
    credit: AtomicU64,
    /// Whether more are dirty than may be.
    is_over: AtomicBool,
    /// Files that took no page when this host tried last.
    refused: HostMutex<MemoryOf<P>, BTreeSet<FileId>>,
    /// Whether there are any.
    any_refused: AtomicBool,
}

impl<P: Pages> Limit<P> {
    pub(crate) fn new(most: u64) -> Self {
        Self {
            most: most.max(2),
            credit: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            refused: HostMutex::<MemoryOf<P>, _>::new(BTreeSet::new()),
            any_refused: AtomicBool::new(false),
        }
    }

    fn takes_credit(&self) -> bool {
        let less = |credit: u64| credit.checked_sub(1);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Whether a page is to have room below before it is written.
    fn wants_room(&self, file: FileId) -> bool {
        let refused = || self.any_refused.load(Ordering::Relaxed);
        self.is_over.load(Ordering::Relaxed) || refused() && self.refused.lock().contains(&file)
    }

    /// These files took no page when this host tried.
    pub(crate) fn set_refused(&self, files: BTreeSet<FileId>) {
        self.any_refused.store(!files.is_empty(), Ordering::Relaxed);
        *self.refused.lock() = files;
    }
}

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Makes sure that a piece of a file may be written.
    ///
    /// # Errors
    /// [`Error::WriteBack`]: the file takes no pages, and too many of it are dirty.
    /// [`Error::Backing`]: there is no room for it below. [`Error::Objects`].
    pub(crate) fn may_write(&self, file: FileId, piece: Piece) -> Result<(), Error> {
        if !self.limit.takes_credit() {
            self.count_dirty(file)?;
        }
        if self.limit.wants_room(file) {
            let offset = piece.block * self.page_bytes;
            self.backing.reserve(file, offset + piece.within, piece.bytes)?;
        }
        Ok(())
    }

    fn count_dirty(&self, file: FileId) -> Result<(), Error> {
        let limit = &self.limit;
        let mut all = self.pages.dirty_count();
        // How many of them are this file's is a longer look, for when it may be too many.
        if all >= limit.most || all >= limit.most / 2 && self.dirty_of(file)? >= limit.most / 2 {
            self.write_back_dirty(file)?;
            all = self.pages.dirty_count();
        }
        limit.is_over.store(all >= limit.most, Ordering::Relaxed);
        limit.credit.store((limit.most / SHARE).max(1), Ordering::Relaxed);
        Ok(())
    }

    fn dirty_of(&self, file: FileId) -> Result<u64, Error> {
        Ok(self.dirty_pages_of(file)?.len() as u64)
    }

    /// Writes back what is dirty of a file, wherever in it.
    fn write_back_dirty(&self, file: FileId) -> Result<(), Error> {
        self.write_back_pages(self.dirty_pages_of(file)?)
    }

    /// How many pages may be dirty in this pod, of which `percent` percent may.
    pub(crate) fn most_dirty(pages: &P, page_bytes: u64, percent: u64) -> u64 {
        let geometry = pages.objects().area().geometry();
        let room = geometry.lnr.bytes / page_bytes;
        // Where marks are of records, each dirty page has one.
        let records = pages.reach().map_or(u64::MAX, |_| geometry.records);
        room.min(records).saturating_mul(percent) / 100
    }
}
