//! Memory errors in objects: whether this host has met one, and the event by which the object is
//! lost then ([`poison`](crate::storage::poison)).

use tombolo_memory::Memory;
use tombolo_sharing::{Counter, PREFIX_BYTES};

use crate::ids::{KeyHash, LostTo, SlotLine};
use crate::replica::event::{Event, target};
use crate::storage::space::extent::Extent;
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Whether this host has met an error where an object lies.
    #[inline]
    pub(crate) fn is_poisoned(&self, extent: &Extent) -> bool {
        extent.is_poisoned(self.memory(), u64::MAX)
    }

    /// Whether an object's key cannot be told.
    pub(crate) fn is_key_poisoned(&self, extent: &Extent) -> bool {
        extent.is_poisoned(self.memory(), PREFIX_BYTES as u64)
    }

    /// This host has met an error in the slot of an object: its value is lost for all, and whether
    /// that is so now. If not, somebody changes the object, or it has changed.
    #[cold]
    pub(crate) fn lose_poisoned(&self, hash: KeyHash, slot: SlotLine) -> Result<bool, Error> {
        let state = self.state(hash);
        let Some(found) = state.index.find_slot(self.memory(), hash, slot) else {
            return Ok(false);
        };
        let entry = found.entry;
        if !entry.is_plain() {
            return Ok(false);
        }
        state.space.extent_at(slot).iter().for_each(|extent| state.space.set_poisoned(extent));
        let held = match entry.record() {
            None => None,
            Some(record) => {
                let counter = self.records.load(record).readable();
                let held = counter.and_then(|counter| self.records.lock(record, counter));
                if held.is_none() {
                    return Ok(false);
                }
                held
            }
        };
        let lost = self.sync(hash).and_then(|_| match self.entry_stands(entry) {
            true => self.commit(Event::Lose { target: target(entry), to: LostTo::MemoryError }),
            false => Ok(false),
        });
        if matches!(lost, Ok(true)) {
            self.count(Counter::Poisoned);
            held.into_iter().for_each(|held| self.free_record(held));
        } else if let Some(held) = held {
            let _ = self.records.unlock(held, false);
        }
        lost
    }
}
