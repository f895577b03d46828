//! Moving objects into a host's own memory, and out of it, for what is known of who uses them.

mod recall;

use tombolo_memory::{HostMutex, Memory};
use tombolo_sharing::{Header, retry_with_backoff};

use crate::host::lookup::Attempt;
use crate::storage::index::Found;
use crate::write::locked_object::LockedObject;
use crate::{Error, Objects};

/// Entries that leave in one tick, at most, because they have not been used and others want to
/// come.
const LEAVE_BATCH: usize = 16;

impl<M: Memory> Objects<M> {
    /// Moves an object into this host's memory, as it was read when it had this entry.
    pub(crate) fn move_in_after_read(
        &self,
        found: &Found<'_>,
        tail: u64,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        if found.entry.locked_by().is_none() {
            self.move_in(found.entry, header, key, value.to_vec())?;
        } else if let Attempt::Good(LockedObject::Shared(locked)) =
            self.try_lock(found, tail, key)?
        {
            locked.move_in(key)?;
        }
        Ok(())
    }

    /// Sends the objects in this host's own memory back to where all hosts can reach them: because
    /// it leaves, or will not be able to answer for a while.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Fenced`], [`Error::Damaged`]. The other objects are where they
    /// were.
    pub fn move_out_all(&self) -> Result<(), Error> {
        for slot in self.partition.slots() {
            if let Some(entry) = self.partition.entry(slot) {
                retry_with_backoff(self.memory(), || {
                    let mut hold = HostMutex::<M, _>::lock_arc(&entry);
                    Ok(self.move_out(slot, &mut hold)?.then_some(()))
                })?;
            }
        }
        Ok(())
    }

    /// Makes room when there is little: entries of the partition that were not used since the last
    /// look leave.
    pub(crate) fn make_room_in_partition(&self) -> Result<(), Error> {
        let partition = &self.partition;
        if !partition.is_open() || partition.bytes() <= partition.budget / 10 * 9 {
            return Ok(());
        }
        let mut left = LEAVE_BATCH;
        for slot in partition.slots() {
            let Some(mut hold) = partition.entry(slot).and_then(|it| it.try_lock_arc()) else {
                continue;
            };
            if !std::mem::take(&mut hold.busy) {
                left -= usize::from(self.move_out(slot, &mut hold)?);
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}
