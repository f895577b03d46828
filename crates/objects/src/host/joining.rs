//! Replicas for hosts that join.

use tombolo_memory::Memory;
use tombolo_pod::Giver;

use crate::replica::snapshot::{add_fences, add_objects};
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Answers hosts that want a replica.
    pub(crate) fn help_joining(&self) -> Result<(), Error> {
        if !self.pod().has_joining() {
            return Ok(());
        }
        let members = self.pod().membership();
        for host in members.hosts().filter(|&host| !members.is_ready(host)) {
            if let Some(giver) = Giver::answer(self.pod(), &self.seat, host) {
                giver.give(self.snapshot()?);
            }
        }
        Ok(())
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
