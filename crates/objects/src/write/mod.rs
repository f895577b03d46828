//! Changing objects.

mod batch;
mod create;
mod delete;
mod evict;
mod fast;
pub(crate) mod guard;
pub(crate) mod lock;
pub(crate) mod locked;
pub(crate) mod locked_object;
mod log_lock;
mod move_in;
mod move_out;
pub(crate) mod own_locks;
pub(crate) mod partition;
pub(crate) mod relocate;
pub(crate) mod reservation;

use tombolo_memory::Memory;
use tombolo_sharing::Counter;

use crate::{Change, Error, Objects, Version};

impl<M: Memory> Objects<M> {
    /// Replaces the value of an existing object; it may have another length.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::LnrFull`] or [`Error::TooLarge`] if there is no room for a
    /// longer value; [`Error::Busy`], [`Error::Stalled`], [`Error::Fenced`]. The old value stays.
    pub fn write(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        if let Some(written) = self.write_in_place(key, &[], value) {
            return written.map_err(|error| *error);
        }
        let mut locked = self.lock(key)?.ok_or(Error::NotFound)?;
        locked.set(key, value)?;
        let version = locked.header().version;
        locked.finish().map(|()| version)
    }

    /// Changes some bytes of an existing object, from `offset` on, within its length.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`], [`Error::Busy`], [`Error::Stalled`],
    /// [`Error::Fenced`].
    pub fn write_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Version, Error> {
        let mut locked = self.lock(key)?.ok_or(Error::NotFound)?;
        self.count(Counter::Writes);
        locked.write(offset, bytes)?;
        let version = locked.header().version;
        locked.finish().map(|()| version)
    }

    /// Creates the object, or replaces its value, lost or not.
    ///
    /// # Errors
    /// As of [`write`](Self::write) and [`create`](Self::create), but for the absence or presence
    /// of the object.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        or_slow_path(self.write_in_place(key, &[], value), || self.put_slow(key, value))
    }

    /// As [`put`](Self::put), of a value that is in two pieces: a caller that has them apart need
    /// not move them.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_split<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &[u8; HEAD],
        rest: &[u8],
    ) -> Result<Version, Error> {
        let written = self.write_in_place(key, head, rest);
        or_slow_path(written, || self.put_slow(key, &[head, rest].concat()))
    }

    #[inline(never)]
    fn put_slow(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        self.retry_with_backoff(|| match self.write(key, value) {
            Err(Error::NotFound) => match self.create(key, value) {
                Err(Error::Exists) => Ok(None),
                created => created.map(Some),
            },
            Err(error) if error.is_loss() => self.replace_lost(key, value),
            written => written.map(Some),
        })
    }

    /// Replaces the value if the object is at version `expected`.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is not, [`Error::NotFound`], and those of [`write`](Self::write).
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Version,
        value: &[u8],
    ) -> Result<Version, Error> {
        let mut locked = self.lock(key)?.ok_or(Error::NotFound)?;
        if locked.header().version != expected {
            return Err(Error::Changed);
        }
        locked.set(key, value)?;
        let version = locked.header().version;
        locked.finish().map(|()| version)
    }

    /// Reads an object, lets `change` decide, and does it, all in one step. `change` gets the
    /// value, or `None` if there is no such object; it may be called several times, the last call
    /// counts.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn update(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), Error> {
        self.retry_with_backoff(|| {
            let Some(mut locked) = self.lock(key)? else {
                let Change::Put(value) = change(None) else { return Ok(Some(())) };
                return match self.create(key, &value) {
                    Err(Error::Exists) => Ok(None),
                    created => created.map(|_| Some(())),
                };
            };
            let mut value = vec![0; locked.header().value_bytes as usize];
            locked.read(0, &mut value)?;
            match change(Some(&value)) {
                Change::Keep => Ok(()),
                Change::Put(value) => locked.set(key, &value).and_then(|()| locked.finish()),
                Change::Delete => locked.delete(),
            }
            .map(Some)
        })
    }
}

/// The outcome of a write in its slot; that of `put_slow` if it takes more than that. So does a
/// write of an object that turns out to be lost.
#[inline(always)]
fn or_slow_path(
    written: Option<Result<Version, Box<Error>>>,
    put_slow: impl FnOnce() -> Result<Version, Error>,
) -> Result<Version, Error> {
    match written {
        Some(Ok(version)) => Ok(version),
        Some(Err(error)) if !error.is_loss() => Err(*error),
        _ => put_slow(),
    }
}
