//! How uses of a file end: the last one on a host brings what is dirty to the file.

use tombolo_sharing::Scheme;

use crate::backing::Fate;
use crate::cache::{Backing, PageCache};
use crate::counts::Counted;
use crate::head::ALL;
use crate::pages::Pages;
use crate::{Error, FileId};

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Ends a use of a file that this host has at hand. The last one writes its pages back, or has
    /// them dropped if the file has no name and no other user.
    ///
    /// # Errors
    /// [`Error::WriteBack`], [`Error::Backing`]: the use has ended all the same. A file that has a
    /// name stays at hand, and its pages are tried again in the background. [`Error::Stalled`],
    /// [`Error::Objects`].
    pub fn end_use(&self, file: FileId) -> Result<(), Error> {
        while !self.backing.put_back(file) {
            if let Err(error) = self.end_last_use(file) {
                self.backing.put_off(file);
                return Err(error);
            }
        }
        Ok(())
    }

    fn end_last_use(&self, file: FileId) -> Result<(), Error> {
        if self.backing.has_name(file)? {
            return self.write_back(file);
        }
        // Without a time of birth, its number may soon stand for another file.
        if file.born != 0 && self.fate_of(file)? != Fate::Unknown {
            return self.leave_dirty(file);
        }
        match self.forget(file) {
            // Nobody will be able to tell later that nobody uses it.
            Err(Error::WriteBack(..) | Error::Backing(_)) => self.discard(file),
            forgotten => forgotten,
        }
    }

    /// Takes a file without a name out of the cache but for its dirty pages. Another host that has
    /// it open writes them back; if there is none, they are dropped once the file is gone.
    fn leave_dirty(&self, file: FileId) -> Result<(), Error> {
        self.forget_lost(file)?;
        let mut dirty = false;
        for key in self.pages_of(file, 0, ALL)? {
            let clean = self.patiently(|| self.pages.delete_unless_dirty(key))?;
            if clean {
                Counted::add(&self.counted.evicted, 1);
            }
            dirty |= !clean && self.objects().stat(&key.bytes())?.is_some();
        }
        if !dirty {
            self.evict_head(file)?;
        }
        Ok(())
    }

    /// Tries again to end what was put off.
    pub(crate) fn end_put_off(&self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for file in self.backing.take_put_off() {
            outcome = self.end_use(file).and(outcome);
        }
        outcome
    }
}
