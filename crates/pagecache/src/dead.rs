//! The remains of a host that died: dirty pages of files that it alone had at hand, and files that
//! it had alone.
//!
//! The host that uses such a file next ends what the dead one was at. But there may be none before
//! all leave and the cache is gone. So each of the others looks for it once, in the background, and
//! the last of them does so before it leaves.
//!
//! Files that have no name any more, and that nobody uses, leave the cache: [`gone`](crate::gone).

use std::collections::BTreeSet;

use tombolo_memory::Memory;
use tombolo_sharing::Scheme;

use crate::cache::{Backing, PageCache};
use crate::head::Head;
use crate::key::Key;
use crate::pages::Pages;
use crate::{Error, FileId, sites};

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Looks after files of a host that has died since this was done last, once it is cleared up
    /// after.
    pub(crate) fn look_after_the_dead(&self) -> Result<(), Error> {
        let dead = self.pages.fenced();
        let cleared_up = self.objects().area().membership().fenced().next().is_none();
        let keeps = self.memory().keeps(sites::DEAD_FILES);
        if dead == self.upkeep.lock().dead || !cleared_up || !keeps {
            return Ok(());
        }
        let heads = self.heads()?;
        // Also files of which no page is dirty: nobody would look for them again.
        let unused = heads.iter().copied().filter(|&file| !self.backing.knows(file)).collect();
        self.drop_gone(&unused)?;
        let dirty = self.dirty_pages()?;
        let held = self.held_by_the_dead(&heads)?;
        let files: BTreeSet<FileId> = dirty.iter().map(|key| key.file).chain(held).collect();
        let (known, unknown): (BTreeSet<_>, BTreeSet<_>) =
            files.into_iter().partition(|&file| self.backing.knows(file));
        let found = self.backing.find(&self.drop_gone(&unknown)?)?;
        let mut through = Ok(());
        for &file in known.union(&found) {
            let mut outcome = match self.head(file) {
                // The host that uses the file next makes it anew.
                Err(Error::Objects(error)) if error.is_loss() => Ok(()),
                head => head.map(drop),
            };
            if found.contains(&file) {
                let pages = dirty.iter().copied().filter(|key| key.file == file);
                outcome = outcome.and_then(|()| self.write_back_pages(pages));
                outcome = outcome.and(self.end_use(file));
            }
            match outcome {
                // It is tried again in the background, and in nobody's way.
                Err(Error::WriteBack(..) | Error::Backing(_)) => {}
                outcome => through = through.and(outcome),
            }
        }
        through?;
        self.upkeep.lock().dead = dead;
        Ok(())
    }

    /// The files whose heads are in the cache.
    fn heads(&self) -> Result<Vec<FileId>, Error> {
        let (mut heads, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = self.objects().scan(cursor, |key| {
                let head = Key::decode(key).filter(|key| key.block().is_none());
                heads.extend(head.map(|key| key.file));
            })?;
            if cursor == 0 {
                return Ok(heads);
            }
        }
    }

    /// Those of them that a dead host had alone, or may not have written to where it made them
    /// longer.
    fn held_by_the_dead(&self, heads: &[FileId]) -> Result<Vec<FileId>, Error> {
        let mut held = Vec::new();
        for &file in heads {
            let head = self.peek(file)?.map(|(head, _)| head);
            let left =
                |head: Head| head.is_held() && self.is_left(&head) || self.is_doubtful(&head);
            held.extend(head.is_some_and(left).then_some(file));
        }
        Ok(held)
    }
}
