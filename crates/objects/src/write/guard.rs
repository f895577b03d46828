//! The paper's `write_start` and `write_end` (section 4) as a guard.

use tombolo_memory::Memory;
use tombolo_sharing::Counter;

use crate::storage::records::Record;
use crate::write::writer::Writer;
use crate::{Error, Objects, Version};

/// A write in progress: this thread holds the object's lock. Dropping the guard ends it, too. It stays with its thread, which alone
/// knows how it has stored what is to be cleaned.
///
/// ```compile_fail,E0277
/// fn is_sent<T: Send>() {}
/// is_sent::<tombolo_objects::WriteGuard<'static, tombolo_memory::Mapped>>();
/// ```
pub struct WriteGuard<'a, M: Memory> {
    locked: Writer<'a, M>,
}

impl<M: Memory> Objects<M> {
    /// Begins to write an existing object: takes its lock, and gives it a record if it has none.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::KeyLength`], [`Error::Busy`], [`Error::Log`].
    pub fn write_start(&self, key: &[u8]) -> Result<WriteGuard<'_, M>, Error> {
        let locked = self.lock(key)?.ok_or(Error::NotFound)?;
        self.count(Counter::Writes);
        Ok(WriteGuard::new(locked))
    }
}

impl<'a, M: Memory> WriteGuard<'a, M> {
    pub(crate) fn new(locked: Writer<'a, M>) -> Self {
        Self { locked }
    }

    /// The value's length in bytes.
    pub fn len(&self) -> u64 {
        u64::from(self.locked.header().value_bytes)
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version of the value as it is now.
    pub fn version(&self) -> Version {
        self.locked.header().version
    }

    /// Copies `into.len()` bytes of the value from `offset` on; others cannot change it meanwhile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.locked.read(offset, into)
    }

    /// Changes some bytes of the value, from `offset` on, within its length. Nobody reads the object
    /// before the guard ends.
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

    /// Puts the object's mark on: see [`Cleaner`](crate::Cleaner). Others see it before they see what
    /// is written.
    ///
    /// # Panics
    /// If the pod has no marks.
    pub fn mark(&self) {
        self.locked.objects().marks.set(self.marked_record());
    }

    /// Takes the object's mark off.
    ///
    /// # Panics
    /// If the pod has no marks.
    pub fn unmark(&self) {
        self.locked.objects().marks.clear(self.marked_record());
    }

    /// Whether the object is marked.
    pub fn is_marked(&self) -> bool {
        self.locked.objects().marks.is_set(self.marked_record())
    }

    fn marked_record(&self) -> Record {
        self.locked
            .record()
            .expect("objects of a pod with marks have records when they are written")
    }

    /// Deletes the object.
    ///
    /// # Errors
    /// [`Error::Log`]: it is still there.
    pub fn delete(self) -> Result<(), Error> {
        self.locked.delete()
    }

    /// Ends the write: all hosts see it now. The version of the value.
    ///
    /// # Errors
    /// [`Error::Log`] if this host was fenced meanwhile: the write may be done or not.
    pub fn write_end(self) -> Result<Version, Error> {
        let version = self.version();
        self.locked.finish().map(|()| version)
    }
}
