//! Objects as a host that is measured shares them, under whatever scheme.

use std::time::Duration;

use anyhow::Result;
use tombolo::{Error, Handle, Mapped, Member, Stats, Usage};
use tombolo_memory::Memory;
use tombolo_pod::Pod;
use tombolo_sharing::Scheme;

use crate::drive::Target;

/// A scheme, as a handle whose background work is done.
pub(crate) struct Shared<S>(S);

impl<S: Scheme<Memory = Mapped> + Send + Sync + 'static> Handle for Shared<S> {
    type Error = Error;
    type Options = S::Options;

    fn join(pod: Pod<Mapped>, options: S::Options) -> Result<Self, Error> {
        S::join(pod, options).map(Self)
    }

    fn tick(&self) -> Result<(), Error> {
        self.0.tick()
    }

    fn leave(&self) -> Result<(), Error> {
        self.0.leave()
    }
}

impl<S: Scheme> Shared<S> {
    pub(crate) fn stats(&self) -> Stats {
        self.0.stats()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.0.usage()
    }
}

impl<S: Scheme<Memory = Mapped> + Send + Sync + 'static> Target for Member<Shared<S>> {
    fn uptime(&self) -> Duration {
        self.0.memory().uptime()
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.0.read(key, value)?.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value)?;
        Ok(())
    }

    fn put_part(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<bool> {
        self.0.write_range(key, offset, bytes)?;
        Ok(true)
    }
}
