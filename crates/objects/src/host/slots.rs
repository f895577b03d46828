//! Operations on slots and records that several protocols use.

use tombolo_memory::Memory;

use crate::error::no_such_slot;
use crate::ids::{LostTo, SlotLine};
use crate::storage::index::Entry;
use crate::storage::records::RecordLock;
use crate::storage::space::Space;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// The space of the shard whose chunk a slot is in.
    pub(crate) fn space_of(&self, line: SlotLine) -> Result<&Space<M>, Error> {
        let table = &self.shards()[0].state().space;
        Ok(&self.shards()[usize::from(table.shard_at(line)?)].state().space)
    }

    /// Says in an object's slot that its value is in the own memory of `host`, or lost with it. No
    /// other host may write there.
    pub(crate) fn mark_away(&self, entry: &Entry, host: u8) -> Result<(), Error> {
        let space = &self.state(entry.hash).space;
        space.mark_away(&space.extent_at(entry.slot).ok_or_else(no_such_slot)?, LostTo::Host(host));
        Ok(())
    }

    /// Whether the slot of an object that is gone from the index is in quarantine.
    pub(crate) fn is_quarantined(&self, entry: &Entry) -> bool {
        entry.lost().is_some()
            && self.shard(entry.hash).paused(|_, _, _, writer| {
                writer.quarantine.slots.iter().any(|&(_, line)| line == entry.slot)
            })
    }

    /// Whether somebody views an object as it was before it came to this host's memory: nobody does
    /// from then on.
    pub(crate) fn is_viewed(&self, entry: Entry) -> bool {
        self.state(entry.hash).space.is_pinned(entry.slot)
    }

    /// Whether an object of so many bytes can be kept in its slot, too, if it is to be.
    pub(crate) fn may_be_backed(&self, bytes: u64) -> bool {
        !self.partition.is_backed() || self.intents.may_change(bytes)
    }

    /// Whether there are other places for objects than their slots.
    pub(crate) fn places_objects(&self) -> bool {
        self.partition.is_open() || self.copies.is_some()
    }

    /// Frees the record of an object that is no more, its dirty bit cleared.
    pub(crate) fn free_record(&self, held: RecordLock) {
        let (records, dirty_bits) = (&self.records, &self.dirty_bits);
        let before = self.memory().keeps(sites::DELETE_MARK);
        if before {
            dirty_bits.clear(held.record);
        }
        records.free(held);
        if !before {
            dirty_bits.clear(held.record);
        }
    }
}
