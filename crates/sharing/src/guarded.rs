//! Holding an object while it is changed.

use tombolo_pod::Seat;

use crate::{Error, Scheme, Version};

/// An object whose lock this thread holds. No other thread reads or changes it before this is
/// dropped. A later reader finds the written bytes.
pub trait Guard {
    /// Copies `into.len()` bytes of the value from `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error>;

    /// Changes some bytes of the value, from `offset` on, within its length.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// The version of the value as it is now.
    fn version(&self) -> Version;

    /// Ends the write: all hosts see it now.
    ///
    /// # Errors
    /// [`Error::Fenced`] if this host was fenced meanwhile: the write may be done or not.
    fn end(self) -> Result<(), Error>
    where
        Self: Sized,
    {
        drop(self);
        Ok(())
    }
}

/// A way of sharing whose objects can be held.
///
/// # Errors
/// Those of [`Scheme`].
pub trait Guarded: Scheme {
    /// A held object.
    type Guard<'a>: Guard
    where
        Self: 'a;

    /// This host's place in the pod.
    fn seat(&self) -> &Seat;

    /// Begins to write an existing object.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn write_start(&self, key: &[u8]) -> Result<Self::Guard<'_>, Error>;

    /// The same, for who holds another object and must not wait for this one: `None` if that takes
    /// waiting for somebody, or more than its lock, or if there is no such object.
    fn try_write_start(&self, key: &[u8]) -> Result<Option<Self::Guard<'_>>, Error>;

    /// Reads `into.len()` bytes of the value of `key` from `offset` on; `None` if there is no such
    /// object.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn read_bytes(
        &self,
        key: &[u8],
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<Version>, Error> {
        match self.read_range(key, offset, into) {
            Err(Error::NotFound) => Ok(None),
            read => read.map(Some),
        }
    }

    /// The same, for who holds another object: the outer `None` if only another host can tell.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn try_read_bytes(
        &self,
        key: &[u8],
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<Option<Version>>, Error> {
        self.read_bytes(key, offset, into).map(Some)
    }

    /// Bytes of LNR that objects take up, as far as this host knows, and that there are for them:
    /// as of [`usage`](Scheme::usage), and cheap enough to be asked for all the time.
    fn lnr_usage(&self) -> (u64, u64) {
        let usage = self.usage();
        (usage.lnr_used_bytes, usage.lnr_bytes)
    }

    /// Does what other hosts may be waiting for: to be called again and again by who waits for one
    /// of them, for something else than an object.
    #[inline]
    fn meanwhile(&self) -> Result<(), Error> {
        Ok(())
    }
}
