//! Holding an object while it is changed.
//!
//! One that has an entry is held by the lock of its record. One that has none is lent by its owner
//! to one of its own threads: nobody else gets at it meanwhile, and no mutex is held.

use tombolo_memory::Memory;
use tombolo_sharing::{Error, Guard, Version};

use super::HcMeta;
use super::body::{Body, Opened};
use super::entry::Held;
use super::partition::{Key, Place, Private};
use super::value::Value;

/// An object that nobody else uses until this is dropped.
pub struct WriteGuard<'a, M: Memory>(pub(crate) Hold<'a, M>);

pub(crate) enum Hold<'a, M: Memory> {
    Shared(Held<'a, M>),
    Lent(Lent<'a, M>),
}

/// An object without an entry.
pub(crate) struct Lent<'a, M: Memory> {
    pub(crate) scheme: &'a HcMeta<M>,
    pub(crate) hash: u64,
    pub(crate) key: Key,
    pub(crate) object: LentObject<'a, M>,
}

pub(crate) enum LentObject<'a, M: Memory> {
    Slot { before: Private, body: Body<'a, M> },
    Local { value: Value, version: Version },
}

impl<M: Memory> Lent<'_, M> {
    /// Does something to it.
    fn open<T>(&mut self, act: impl FnOnce(&mut Opened<'_, '_, M>) -> T) -> T {
        match &mut self.object {
            LentObject::Slot { body, .. } => act(&mut Opened::Slot(body)),
            LentObject::Local { value, version } => {
                act(&mut Opened::Local { value, version, means: self.scheme.means() })
            }
        }
    }
}

impl<M: Memory> Guard for WriteGuard<'_, M> {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        match &mut self.0 {
            Hold::Shared(held) => held.body.read(offset, into),
            Hold::Lent(lent) => lent.open(|object| object.read(offset, into)),
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.0 {
            Hold::Shared(held) => held.body.write(offset, bytes),
            Hold::Lent(lent) => lent.open(|object| object.write(offset, bytes)),
        }
    }

    fn version(&self) -> Version {
        match &self.0 {
            Hold::Shared(held) => held.body.header.version,
            Hold::Lent(lent) => match &lent.object {
                LentObject::Slot { body, .. } => body.header.version,
                LentObject::Local { version, .. } => *version,
            },
        }
    }
}

impl<M: Memory> Drop for Lent<'_, M> {
    fn drop(&mut self) {
        let place = match &mut self.object {
            LentObject::Slot { before, body } => Place::Private(before.after(body)),
            LentObject::Local { value, version } => {
                Place::Local { value: std::mem::take(value), version: *version }
            }
        };
        let mut shard = self.scheme.partition.shard(self.hash).lock();
        if let Some(owned) = shard.find(self.hash, &self.key) {
            owned.place = place;
        }
    }
}
