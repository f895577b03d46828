//! Holding an object, to change it: in its slot, or in this host's memory.

use tombolo_memory::Memory;
use tombolo_sharing::Header;

use crate::storage::records::RecordId;
use crate::write::lock::Locked;
use crate::write::partition::LockedEntry;
use crate::{Error, Objects};

/// An object that nobody else changes until this is dropped.
pub(crate) enum LockedObject<'a, M: Memory> {
    /// It is in its slot.
    Shared(Locked<'a, M>),
    /// It is in this host's memory.
    Entry(LockedEntry<'a, M>),
}

impl<M: Memory> LockedObject<'_, M> {
    pub(crate) fn header(&self) -> Header {
        match self {
            Self::Shared(locked) => locked.header(),
            Self::Entry(entry) => entry.header(),
        }
    }

    pub(crate) fn objects(&self) -> &Objects<M> {
        match self {
            Self::Shared(locked) => locked.objects(),
            Self::Entry(entry) => entry.objects(),
        }
    }

    /// The object's record; none, if it is in this host's memory, or locked by the log.
    pub(crate) fn record(&self) -> Option<RecordId> {
        match self {
            Self::Shared(locked) => locked.record(),
            Self::Entry(_) => None,
        }
    }

    /// Reads part of the value.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Shared(locked) => locked.read(offset, into),
            Self::Entry(entry) => entry.read(offset, into),
        }
    }

    /// Changes part of the value.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::Shared(locked) => locked.write(offset, bytes),
            Self::Entry(entry) => entry.write(offset, bytes),
        }
    }

    /// Replaces the value. On an error nothing is changed.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        match self {
            Self::Shared(locked) => locked.set(key, value),
            Self::Entry(entry) => entry.set(key, value),
        }
    }

    /// Ends the write. On an error it may be done or not.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self {
            Self::Shared(locked) => locked.finish(),
            Self::Entry(entry) => entry.finish(),
        }
    }

    /// Deletes the object.
    pub(crate) fn delete(self) -> Result<(), Error> {
        match self {
            Self::Shared(locked) => locked.delete(),
            Self::Entry(entry) => entry.delete(),
        }
    }
}
