//! Pages leave the cache: because there is no room, because the file is cut, or because it is gone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_memory::Memory;
use tombolo_sharing::Error::{Busy, LnrFull};
use tombolo_sharing::Scheme;

use crate::cache::{Backing, PageCache};
use crate::clock::MOST;
use crate::counts::Counted;
use crate::key::Key;
use crate::pages::Pages;
use crate::{Error, FileId, sites};

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Pages evicted at once.
    pub(crate) fn batch(&self) -> u64 {
        (self.objects().area().geometry().lnr.bytes / self.page_bytes / 256).clamp(1, 64)
    }

    /// Creates an object, for which others are evicted if need be.
    pub(crate) fn create(&self, key: Key, value: &[u8]) -> Result<(), Error> {
        self.wait(|| Ok(Ok(self.objects().create(&key.bytes(), value).map(drop)?)))
    }

    /// Evicts some objects because there is no room, as `full` says, unless there are none at all.
    pub(crate) fn after_making_room(&self, full: Error) -> Result<(), Error> {
        // Other hosts may be using, or writing back, pages that cannot be evicted here and now.
        let evicted = self.make_room(self.batch())?;
        // One of them says what is below.
        let fixed = u64::from(self.backing.below().is_some());
        let hopeless = evicted == 0 && self.objects().object_count()? <= fixed;
        if hopeless { Err(full) } else { Ok(()) }
    }

    /// Evicts some pages that this host does not use, or uses little; how many.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Objects`].
    pub fn shrink(&self, pages: u64) -> Result<u64, Error> {
        self.make_room(pages)
    }

    /// Evicts some pages or heads that this host does not use, or uses little; how many. Those that
    /// it can evict by itself come first.
    pub(crate) fn make_room(&self, wanted: u64) -> Result<u64, Error> {
        let [near, all] = &self.clock.hands;
        match self.turn(near, wanted, |objects, at, visit| objects.scan_within_reach(at, visit))? {
            0 => self.turn(all, wanted, |objects, at, visit| objects.scan(at, visit)),
            evicted => Ok(evicted),
        }
    }

    /// Turns a hand of the clock until so many pages are evicted, or no count is left.
    fn turn(
        &self,
        hand: &AtomicU64,
        wanted: u64,
        scan: impl Fn(&P::Scheme, u64, &mut dyn FnMut(&[u8])) -> Result<u64, tombolo_sharing::Error>,
    ) -> Result<u64, Error> {
        let mut evicted = 0;
        let mut rounds = 0;
        // After this many rounds every count has been down to nothing.
        while rounds <= MOST + 1 && evicted < wanted {
            let mut keys = BTreeSet::new();
            let at = hand.load(Ordering::Relaxed);
            let next = match scan(self.objects(), at, &mut |key| keys.extend(Key::decode(key))) {
                // Asking for keys may take room, too.
                Err(LnrFull { .. }) => return Ok(evicted),
                next => next?,
            };
            hand.store(next, Ordering::Relaxed);
            for key in keys {
                if self.clock.passes(key) {
                    continue;
                }
                match self.evict(key) {
                    Ok(gone) => evicted += u64::from(gone),
                    // It stays; if it could not be written, who synchronises its file is told why.
                    // Others may do.
                    Err(
                        Error::WriteBack(..)
                        | Error::Backing(_)
                        | Error::Objects(Busy { .. } | LnrFull { .. }),
                    ) => {}
                    // The client that synchronises its file is told.
                    Err(Error::Objects(error)) if error.is_loss() => {}
                    Err(error) => return Err(error),
                }
            }
            rounds += u8::from(next == 0);
        }
        Ok(evicted)
    }

    /// Evicts a page, which is written back first if it is dirty, or a head; whether it did.
    fn evict(&self, key: Key) -> Result<bool, Error> {
        if key.block().is_none() {
            return self.evict_head(key.file);
        }
        if self.memory().keeps(sites::EVICT_CLEAN) && !self.clean_now(key)? {
            return Ok(false);
        }
        let evicted = self.pages.delete_unless_dirty(key)?;
        if evicted {
            Counted::add(&self.counted.evicted, 1);
        }
        Ok(evicted)
    }

    /// Takes all pages from `size` on, where the file is to end, out of the cache of a file that
    /// ended at `end` and that this thread has alone.
    pub(crate) fn cut(&self, file: FileId, size: u64, end: u64) -> Result<(), Error> {
        let (first, last) = (size / self.page_bytes, end.div_ceil(self.page_bytes));
        self.wait_for_admissions(file, first, last)?;
        if !self.memory().keeps(sites::CUT_PAGES) {
            return Ok(());
        }
        let mut first = first;
        if !size.is_multiple_of(self.page_bytes) {
            // Part of this page stays, and goes to the file before that is cut.
            self.wait(|| self.take_out_clean(Key::page(file, first)))?;
            first += 1;
        }
        for key in self.pages_of(file, first, last)? {
            self.patiently(|| self.objects().delete(&key.bytes()))?;
        }
        Ok(())
    }

    /// Writes a page to its file and takes it out of the cache. A writer that had it before this
    /// thread had the file may mark it in between: then it is clean no more.
    pub(crate) fn take_out_clean(&self, key: Key) -> Result<Result<(), u64>, Error> {
        if !self.ensure_clean(key)? {
            let error = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::WriteBack(key.file, error));
        }
        let bytes = key.bytes();
        let out = if self.memory().keeps(sites::CUT_UNMARKED) {
            self.pages.delete_unless_dirty(key)? || self.objects().stat(&bytes)?.is_none()
        } else {
            self.objects().delete(&bytes).map(|_| true)?
        };
        Ok(if out { Ok(()) } else { Err(self.seat()) })
    }

    /// Threads that are admitting one of these pages, as of before this one had the file alone, are
    /// through when this returns.
    pub(crate) fn wait_for_admissions(
        &self,
        file: FileId,
        first: u64,
        last: u64,
    ) -> Result<(), Error> {
        if !self.memory().keeps(sites::CUT_BARRIER) {
            return Ok(());
        }
        let latches = self.objects().area().geometry().latches;
        let some: BTreeSet<u64> = if last - first.min(last) < latches {
            (first..last).map(|block| self.latch_of(Key::page(file, block))).collect()
        } else {
            (0..latches).collect()
        };
        some.into_iter().try_for_each(|latch| self.latch(latch).map(drop))
    }

    /// The pages of a file that may be in the cache, from `first` on and before `last`.
    pub(crate) fn pages_of(&self, file: FileId, first: u64, last: u64) -> Result<Vec<Key>, Error> {
        let wanted = first..last.max(first);
        // The way that takes fewer looks: at each page there may be, or at all that are in the
        // cache.
        if last.saturating_sub(first) <= self.objects().object_count()? {
            return Ok(wanted.map(|block| Key::page(file, block)).collect());
        }
        let mut keys = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = self.objects().scan(cursor, |key| {
                let key = Key::decode(key).filter(|key| key.file == file);
                keys.extend(key.filter(|key| key.block().is_some_and(|b| wanted.contains(&b))));
            })?;
            if cursor == 0 {
                return Ok(keys);
            }
        }
    }

    /// Takes everything of a file out of the cache; what is dirty is written back first. For files
    /// that have no name any more, before the last host that has them open closes them: a file that
    /// gets the inode number next has no page under it.
    ///
    /// # Errors
    /// [`Error::WriteBack`], [`Error::Backing`], [`Error::Stalled`], [`Error::Objects`].
    pub fn forget(&self, file: FileId) -> Result<(), Error> {
        let size = match self.peek(file)? {
            Some((head, _)) => head.size,
            None => self.backing.attributes(file)?.size,
        };
        self.forget_pages(file, size.div_ceil(self.page_bytes))?;
        self.wait(|| {
            if self.peek(file)?.is_some_and(|(head, _)| self.is_doubtful(&head)) {
                let _ = self.head(file)?;
            }
            let gone = self.evict_head(file)? || self.peek(file)?.is_none();
            Ok(if gone { Ok(()) } else { Err(self.seat()) })
        })
    }

    fn forget_pages(&self, file: FileId, pages: u64) -> Result<(), Error> {
        self.forget_lost(file)?;
        for key in self.pages_of(file, 0, pages)? {
            self.wait(|| {
                let gone = self.evict(key)? || self.objects().stat(&key.bytes())?.is_none();
                Ok(if gone { Ok(()) } else { Err(self.seat()) })
            })?;
        }
        Ok(())
    }
}
