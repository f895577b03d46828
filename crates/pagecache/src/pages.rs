//! The requirements of a page cache on a way of sharing, and how dirty pages are known: on MEGALON,
//! by marks of their coherence records.

use std::sync::Arc;

use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_objects::{Objects, Setup, WriteGuard};
use tombolo_pod::{Area, Stay};
use tombolo_sharing::{Error, Guarded, Scheme};

use crate::backing::{Backing, FileId};
use crate::key::Key;
use crate::page::{MARK, PageWriteBack, word};
use crate::sites;

/// The memory of hosts that share pages like this.
pub type MemoryOf<P> = <<P as Pages>::Scheme as Scheme>::Memory;

/// How such a host takes part.
pub type OptionsOf<P> = <<P as Pages>::Scheme as Scheme>::Options;

/// A page that this thread holds.
pub type Held<'a, P> = <<P as Pages>::Scheme as Guarded>::Guard<'a>;

/// Objects that are pages, and which of them are dirty: *marked*.
///
/// A mark changes only while its page is held. Nobody sees what was written to a page before its
/// mark.
///
/// # Errors
/// Those of [`Guarded`].
pub trait Pages: Sized + 'static {
    /// How they are shared.
    type Scheme: Guarded;

    /// Takes part in an area for pages. `write_back` is for schemes that have to have a page
    /// cleaned before they can take something from it.
    fn attach<B: Backing>(
        host: &Arc<Host<MemoryOf<Self>>>,
        area: Area<MemoryOf<Self>>,
        options: OptionsOf<Self>,
        write_back: PageWriteBack<B>,
    ) -> Result<Self, Error>;

    /// The pages, and heads of files.
    fn objects(&self) -> &Self::Scheme;

    /// Marks a page.
    fn set_dirty(&self, key: Key, page: &mut Held<'_, Self>) -> Result<(), Error>;

    /// Takes the mark off a page.
    fn clear_dirty(&self, key: Key, page: &mut Held<'_, Self>) -> Result<(), Error>;

    /// Holds a page if it is there and marked.
    fn write_dirty(&self, key: Key) -> Result<Option<Held<'_, Self>>, Error>;

    /// The same, unless that takes waiting for who holds it: then the outer `None`.
    fn try_write_dirty(&self, key: Key) -> Result<Option<Option<Held<'_, Self>>>, Error>;

    /// Takes a page out of the cache unless it is marked; whether it did.
    fn delete_unless_dirty(&self, key: Key) -> Result<bool, Error>;

    /// Whether there are pages, or heads, that are lost with a host that died.
    fn has_lost(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Which stay was fenced last, as far as that is known.
    fn fenced(&self) -> Option<Stay> {
        None
    }

    /// Shows pages to `visit` that are marked, and perhaps others: all of them, or, if there is no
    /// [`reach`](Self::reach), those that this host has marked.
    fn visit_dirty(&self, visit: impl FnMut(Key)) -> Result<(), Error>;

    /// The same for the pages of one file; a page of another takes next to no time.
    fn visit_dirty_of(&self, file: FileId, visit: impl FnMut(Key)) -> Result<(), Error>;

    /// How many pages [`visit_dirty`](Self::visit_dirty) shows.
    fn dirty_count(&self) -> u64;

    /// At how many places [`visit_dirty`](Self::visit_dirty) looks in order to find all marked
    /// pages; `None` if it does not.
    fn reach(&self) -> Option<u64>;
}

/// Pages on MEGALON: only a written page is dirty, and a written page has a coherence record, which
/// has a mark. A marked page keeps its record, and is written to its file before that is taken
/// back.
pub struct ByRecord<M: Memory>(Objects<M>);

impl<M: Memory> Pages for ByRecord<M> {
    type Scheme = Objects<M>;

    fn attach<B: Backing>(
        host: &Arc<Host<M>>,
        area: Area<M>,
        options: tombolo_objects::Options,
        write_back: PageWriteBack<B>,
    ) -> Result<Self, Error> {
        let objects = Objects::attach(
            host,
            area,
            Setup { options, recovery: Some(Arc::new(write_back.clone())) },
        )?;
        objects.set_write_back(Box::new(write_back));
        Ok(Self(objects))
    }

    #[inline]
    fn objects(&self) -> &Objects<M> {
        &self.0
    }

    #[inline]
    fn set_dirty(&self, key: Key, page: &mut WriteGuard<'_, M>) -> Result<(), Error> {
        page.set_dirty(key.tag());
        // When all hosts have died, that is all that tells what was written.
        let found = word(page)?;
        if found & MARK == 0 && page.memory().keeps(sites::WRITE_WRITTEN) {
            page.write(0, &(found | MARK).to_le_bytes())?;
        }
        Ok(())
    }

    fn clear_dirty(&self, _: Key, page: &mut WriteGuard<'_, M>) -> Result<(), Error> {
        page.clear_dirty();
        Ok(())
    }

    fn write_dirty(&self, key: Key) -> Result<Option<WriteGuard<'_, M>>, Error> {
        self.0.write_dirty(&key.bytes())
    }

    fn try_write_dirty(&self, key: Key) -> Result<Option<Option<WriteGuard<'_, M>>>, Error> {
        self.0.try_write_dirty(&key.bytes())
    }

    fn delete_unless_dirty(&self, key: Key) -> Result<bool, Error> {
        self.0.delete_unless_dirty(&key.bytes())
    }

    fn has_lost(&self) -> Result<bool, Error> {
        self.0.has_lost()
    }

    fn fenced(&self) -> Option<Stay> {
        self.0.last_fenced()
    }

    fn visit_dirty(&self, mut visit: impl FnMut(Key)) -> Result<(), Error> {
        self.0.visit_dirty(|key| {
            if let Some(key) = Key::decode(key) {
                visit(key);
            }
        })
    }

    fn visit_dirty_of(&self, file: FileId, mut visit: impl FnMut(Key)) -> Result<(), Error> {
        self.0.visit_tagged(Key::head(file).tag(), |key| {
            if let Some(key) = Key::decode(key).filter(|key| key.file == file) {
                visit(key);
            }
        })
    }

    fn dirty_count(&self) -> u64 {
        self.0.dirty_count()
    }

    fn reach(&self) -> Option<u64> {
        Some(self.0.area().geometry().mark_words())
    }
}
