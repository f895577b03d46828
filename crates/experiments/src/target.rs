//! Objects, under whatever scheme, as what is driven.

use std::ops::Deref;
use std::time::Duration;

use anyhow::Result;
use tombolo_memory::Memory;
use tombolo_sharing::Scheme;

use crate::drive::Target;

/// A host's objects.
pub struct Objects<S>(pub S);

impl<S: Deref<Target: Scheme>> Target for Objects<S> {
    fn uptime(&self) -> Duration {
        self.0.memory().uptime()
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.0.read(key, value)?.is_some())
    }

    fn prefetch(&self, key: &[u8]) {
        self.0.prefetch(key);
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
