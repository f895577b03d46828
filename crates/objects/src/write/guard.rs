//! The paper's `write_start` and `write_end` (section 4) as a guard.

use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Header};

use crate::read::tells_of_its_value;
use crate::storage::records::RecordId;
use crate::write::locked_object::LockedObject;
use crate::{Error, Objects, Version};

/// A write in progress: this thread holds the object's lock. Dropping the guard ends it, too. It
/// stays with its thread, which alone knows how it has stored what is to be cleaned.
///
/// ```compile_fail,E0277
/// fn is_sent<T: Send>() {}
/// is_sent::<tombolo_objects::WriteGuard<'static, tombolo_memory::Mapped>>();
/// ```
pub struct WriteGuard<'a, M: Memory> {
    locked: LockedObject<'a, M>,
}

impl<M: Memory> Objects<M> {
    /// Begins to write an existing object: takes its lock, and gives it a record if it has none.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::KeyLength`], [`Error::Busy`], [`Error::Stalled`],
    /// [`Error::Fenced`].
    pub fn write_start(&self, key: &[u8]) -> Result<WriteGuard<'_, M>, Error> {
        let locked = self.lock(key)?.ok_or(Error::NotFound)?;
        self.count(Counter::Writes);
        Ok(WriteGuard::new(locked))
    }
}

tells_of_its_value!(WriteGuard);

impl<'a, M: Memory> WriteGuard<'a, M> {
    pub(crate) fn new(locked: LockedObject<'a, M>) -> Self {
        Self { locked }
    }

    fn header(&self) -> Header {
        self.locked.header()
    }

    /// Copies `into.len()` bytes of the value from `offset` on; others cannot change it meanwhile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.locked.read(offset, into)
    }

    /// Changes some bytes of the value, from `offset` on, within its length. Nobody reads the
    /// object before the guard ends.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.locked.write(offset, bytes)
    }

    /// The memory this host sees.
    pub fn memory(&self) -> &M {
        self.locked.objects().memory()
    }

    /// Sets the object's dirty bit: see [`WriteBack`](crate::WriteBack). Others see it before they
    /// see what is written. The tag is the same for each write to an object, and lets
    /// [`visit_tagged`](crate::Objects::visit_tagged) pass over others.
    ///
    /// # Panics
    /// If the pod has no dirty bits.
    pub fn set_dirty(&self, tag: u8) {
        self.locked.objects().dirty_bits.set(self.record(), tag);
    }

    /// Clears the object's dirty bit.
    ///
    /// # Panics
    /// If the pod has no dirty bits.
    pub fn clear_dirty(&self) {
        self.locked.objects().dirty_bits.clear(self.record());
    }

    /// Whether the object is dirty.
    pub fn is_dirty(&self) -> bool {
        self.locked.objects().dirty_bits.is_set(self.record())
    }

    fn record(&self) -> RecordId {
        self.locked
            .record()
            .expect("objects of a pod with dirty bits have records when they are written")
    }

    /// Deletes the object.
    ///
    /// # Errors
    /// [`Error::Stalled`]: it is still there. [`Error::Fenced`]: it may be.
    pub fn delete(self) -> Result<(), Error> {
        self.locked.delete()
    }

    /// Ends the write: all hosts see it now. The version of the value.
    ///
    /// # Errors
    /// [`Error::Fenced`] if this host was fenced meanwhile: the write may be done or not.
    pub fn write_end(self) -> Result<Version, Error> {
        let version = self.version();
        self.locked.finish().map(|()| version)
    }
}
