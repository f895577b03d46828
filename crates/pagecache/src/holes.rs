//! Ranges of files that become zeros below, where they may take no room any more.

use tombolo_memory::Memory;

use crate::cache::{Backing, PageCache, check_size};
use crate::head::ALL;
use crate::key::Key;
use crate::pages::Pages;
use crate::{Error, FileId, sites};

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Has `zero` make `bytes` bytes of a file zeros below, from `offset` on, in one step for all
    /// hosts. Unless it `keeps_size`, the file grows as needed.
    ///
    /// If this host dies meanwhile, the range is as it was, or zeros, or zeros in part.
    ///
    /// # Errors
    /// Those of `zero`: the file is as it was. [`Error::TooLarge`], [`Error::Backing`],
    /// [`Error::WriteBack`], [`Error::Stalled`], [`Error::Objects`].
    pub fn zero(
        &self,
        file: FileId,
        (offset, bytes): (u64, u64),
        keeps_size: bool,
        zero: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), Error> {
        check_size(offset, bytes)?;
        let end = offset + bytes;
        let alone = self.alone(file, |size| (ALL, size))?;
        let size = alone.head.size;
        let last = end.min(size).div_ceil(self.page_bytes);
        self.take_out(file, offset / self.page_bytes, last)?;
        self.memory().step();
        zero()?;
        let grown = if keeps_size { size } else { size.max(end) };
        if grown > size {
            self.resize(file, size, grown)?;
        }
        alone.release(grown)
    }

    /// Takes pages of a file that this thread has alone out of the cache. Dirty ones are written to
    /// the file first: this host may die before what is to happen there.
    fn take_out(&self, file: FileId, first: u64, last: u64) -> Result<(), Error> {
        self.wait_for_admissions(file, first, last)?;
        if !self.memory().keeps(sites::ZERO_PAGES) {
            return Ok(());
        }
        let pages = self.pages_of(file, first, last)?;
        pages.into_iter().try_for_each(|key: Key| self.wait(|| self.take_out_clean(key)))
    }
}
