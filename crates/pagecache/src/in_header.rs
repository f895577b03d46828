//! Marks of pages in the pages themselves, for ways of sharing that have no other place for them:
//! the highest bit of the word that says how many bytes belong to the file.
//!
//! That suffices where nothing is ever taken from a page that would have to be clean for it. But
//! who wants all marked pages of a file has to look at all its pages. For what is done in the
//! background, each host notes in its own memory which pages it has marked.
//!
//! Invariant: a marked page is noted by the host that has marked it, until it is clean. A thread
//! that takes a note away holds the page, or looks at it afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use tombolo_host::Host;
use tombolo_memory::{HostMutex, Memory};
use tombolo_pod::Area;
use tombolo_sharing::{Error, Guard, Guarded, Version};

use crate::backing::{Backing, FileId};
use crate::key::Key;
use crate::page::{MARK, PageWriteBack, WORD_BYTES, word};
use crate::pages::Pages;
use crate::sites;

/// Pages on a scheme that knows nothing of marks.
pub struct InHeader<S: Guarded> {
    objects: S,
    noted: HostMutex<S::Memory, BTreeSet<Key>>,
}

impl<S: Guarded> InHeader<S> {
    fn memory(&self) -> &S::Memory {
        self.objects.memory()
    }

    /// The version of a page, and whether it is marked, if it is there.
    fn look(&self, key: Key) -> Result<Option<(Version, bool)>, Error> {
        let mut bytes = [0; WORD_BYTES as usize];
        let version = self.objects.read_bytes(&key.bytes(), 0, &mut bytes)?;
        Ok(version.map(|version| (version, u64::from_le_bytes(bytes) & MARK != 0)))
    }

    /// Whether a page is marked; if it is not, it is not noted any more, either.
    fn is_dirty(&self, key: Key) -> Result<bool, Error> {
        // A thread that marks it after the look notes it again.
        let first = self.memory().keeps(sites::HEADER_FORGET_FIRST);
        let noted = first && self.noted.lock().remove(&key);
        let marked = self.look(key).map(|found| found.is_some_and(|(_, marked)| marked));
        if !matches!(marked, Ok(false)) {
            if noted {
                self.noted.lock().insert(key);
            }
        } else if !first {
            self.noted.lock().remove(&key);
        }
        marked
    }

    /// A page that is held, if it is marked.
    fn if_marked<'a>(&self, mut page: S::Guard<'a>) -> Result<Option<S::Guard<'a>>, Error> {
        Ok((word(&mut page)? & MARK != 0).then_some(page))
    }
}

impl<S: Guarded + 'static> Pages for InHeader<S> {
    type Scheme = S;

    fn attach<B: Backing>(
        host: &Arc<Host<S::Memory>>,
        area: Area<S::Memory>,
        options: S::Options,
        _: PageWriteBack<B>,
    ) -> Result<Self, Error> {
        let noted = HostMutex::<S::Memory, _>::new(BTreeSet::new());
        Ok(Self { objects: S::attach(host, area, options)?, noted })
    }

    #[inline]
    fn objects(&self) -> &S {
        &self.objects
    }

    fn set_dirty(&self, key: Key, page: &mut S::Guard<'_>) -> Result<(), Error> {
        let found = word(page)?;
        if found & MARK == 0 {
            page.write(0, &(found | MARK).to_le_bytes())?;
            if self.memory().keeps(sites::HEADER_NOTE) {
                self.noted.lock().insert(key);
            }
        }
        Ok(())
    }

    fn clear_dirty(&self, key: Key, page: &mut S::Guard<'_>) -> Result<(), Error> {
        let found = word(page)?;
        self.noted.lock().remove(&key);
        page.write(0, &(found & !MARK).to_le_bytes())
    }

    fn write_dirty(&self, key: Key) -> Result<Option<S::Guard<'_>>, Error> {
        if !self.is_dirty(key)? {
            return Ok(None);
        }
        match self.objects.write_start(&key.bytes()) {
            Err(Error::NotFound) => Ok(None),
            page => self.if_marked(page?),
        }
    }

    fn try_write_dirty(&self, key: Key) -> Result<Option<Option<S::Guard<'_>>>, Error> {
        if !self.is_dirty(key)? {
            return Ok(Some(None));
        }
        let page = self.objects.try_write_start(&key.bytes())?;
        page.map(|page| self.if_marked(page)).transpose()
    }

    fn delete_unless_dirty(&self, key: Key) -> Result<bool, Error> {
        let Some((version, marked)) = self.look(key)? else { return Ok(false) };
        if !self.memory().check(sites::HEADER_UNMARKED, !marked) {
            return Ok(false);
        }
        if !self.memory().keeps(sites::HEADER_VERSION) {
            return self.objects.delete(&key.bytes());
        }
        match self.objects.delete_version(&key.bytes(), version) {
            Err(Error::Changed) => Ok(false),
            deleted => deleted,
        }
    }

    fn visit_dirty(&self, visit: impl FnMut(Key)) -> Result<(), Error> {
        let noted = self.noted.lock().clone();
        noted.into_iter().for_each(visit);
        Ok(())
    }

    fn visit_dirty_of(&self, file: FileId, mut visit: impl FnMut(Key)) -> Result<(), Error> {
        self.visit_dirty(|key| {
            if key.file == file {
                visit(key)
            }
        })
    }

    fn dirty_count(&self) -> u64 {
        self.noted.lock().len() as u64
    }

    fn reach(&self) -> Option<u64> {
        None
    }
}
