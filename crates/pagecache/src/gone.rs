//! Files that are gone: they have neither a name nor a user on any host, and pages of them are
//! left.
//!
//! A host that is killed takes its unlinked files with it, and a full disk may keep pages from
//! being written to one. Nobody can write such pages any more, so they would stay dirty for ever.
//! The file system below says for certain that a file is gone, by the handle in its head.
//!
//! Left out: file systems without handles, and hosts that may not use them. There a host that ends
//! its use of such a file drops the pages itself, and those of a killed host stay until all hosts
//! leave.

use std::collections::BTreeSet;

use tombolo_memory::Memory;
use tombolo_sharing::Scheme;

use crate::backing::Fate;
use crate::cache::{Backing, PageCache};
use crate::head::ALL;
use crate::key::Key;
use crate::pages::Pages;
use crate::{Error, FileId, sites};

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Drops the pages of those files that are gone; the others.
    pub(crate) fn drop_gone(&self, files: &BTreeSet<FileId>) -> Result<BTreeSet<FileId>, Error> {
        let mut others = BTreeSet::new();
        for &file in files {
            if self.fate_of(file)? == Fate::Gone && self.memory().keeps(sites::GONE_FILES) {
                self.discard(file)?;
            } else {
                others.insert(file);
            }
        }
        Ok(others)
    }

    /// The fate of a file, as far as its head in the cache shows.
    pub(crate) fn fate_of(&self, file: FileId) -> Result<Fate, Error> {
        let handle = self.handle_of(file)?;
        Ok(handle.map_or(Fate::Unknown, |handle| self.backing.fate(&handle)))
    }

    /// Takes everything of a file out of the cache, whether it is in the file or not.
    pub(crate) fn discard(&self, file: FileId) -> Result<(), Error> {
        self.forget_lost(file)?;
        // The head goes last: if this host dies meanwhile, another one finds the file by it.
        let head = Key::head(file);
        for key in self.pages_of(file, 0, ALL)?.into_iter().chain([head]) {
            self.patiently(|| self.objects().delete(&key.bytes()))?;
        }
        Ok(())
    }
}
