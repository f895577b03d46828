//! Replicas for hosts that join.

use tombolo_memory::Memory;

use crate::replica::snapshot::{add_fences, add_objects};
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Answers hosts that want a replica.
    pub(crate) fn help_joining(&self) -> Result<(), Error> {
        self.host.help_joining(&self.area, || self.snapshot())
    }

    /// This replica, for a joining host.
    pub(crate) fn snapshot(&self) -> Result<Vec<u8>, Error> {
        // At least as new as the request: what the joining host announced is not past it.
        self.sync_all()?;
        let mut bytes = Vec::new();
        for shard in self.shards() {
            shard.paused(|position, fences, state, writer| {
                bytes.extend(position.to_le_bytes());
                add_fences(&mut bytes, fences, &writer.quarantine, &state.space);
                add_objects(&mut bytes, state);
            });
        }
        Ok(bytes)
    }
}
