//! The paper's `read_start` and `read_end` (section 4) as a guard.

use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Header, Part};

use crate::read::{ReadSnapshot, tells_of_its_value};
use crate::storage::index::Found;
use crate::{Error, Objects, Version};

/// A read in progress. What it reads counts only if [`read_end`](Self::read_end) says so.
///
/// Nothing is locked: a writer may change the object meanwhile, and the bytes may be torn until the
/// end proves otherwise.
#[must_use = "what was read counts only if `read_end` says so"]
pub struct ReadGuard<'a, M: Memory> {
    objects: &'a Objects<M>,
    found: Found<'a>,
    snapshot: ReadSnapshot,
    header: Header,
}

impl<M: Memory> Objects<M> {
    /// Begins to read an object.
    ///
    /// # Errors
    /// [`Error::NotFound`], and those of [`read`](Self::read).
    pub fn read_start(&self, key: &[u8]) -> Result<ReadGuard<'_, M>, Error> {
        self.count(Counter::Reads);
        let hash = self.begin(key)?;
        let keep = |snapshot: &ReadSnapshot, _: &Header| snapshot.clone();
        let guard = self.repeat(|| {
            self.lookup(hash, |&found, tail| {
                let attempt = self.look(&found, tail, key, Part::Nothing, keep)?;
                Ok(attempt.map(|(header, snapshot)| ReadGuard {
                    objects: self,
                    found,
                    snapshot,
                    header,
                }))
            })
        })?;
        guard.ok_or(Error::NotFound)
    }
}

tells_of_its_value!(ReadGuard);

impl<M: Memory> ReadGuard<'_, M> {
    fn header(&self) -> Header {
        self.header
    }

    /// Copies `into.len()` bytes of the value from `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let (bytes, length) = (into.len() as u64, self.len());
        let end = offset.saturating_add(bytes);
        if end > length {
            return Err(Error::OutOfRange { offset, end, length });
        }
        self.objects.read_bytes(&self.snapshot, self.header.value_offset() + offset, into);
        Ok(())
    }

    /// Ends the read. `Ok` means that everything read is of [`version`](Self::version).
    ///
    /// # Errors
    /// [`Error::Torn`] if the object changed meanwhile: begin again. [`Error::Poisoned`],
    /// [`Error::Stalled`], [`Error::Fenced`].
    pub fn read_end(self) -> Result<(), Error> {
        if !self.snapshot.still_holds(self.objects)? {
            self.objects.count(Counter::Retries);
            return Err(Error::Torn);
        }
        if !self.objects.has_read_all(&self.snapshot) {
            let entry = self.snapshot.entry;
            let lost = self.objects.lose_poisoned(entry.hash, entry.slot)?;
            return Err(if lost { Error::Poisoned } else { Error::Torn });
        }
        self.objects.mark_validated(&self.found, &self.snapshot);
        Ok(())
    }
}
