//! Moving out: back into LNR, where all can reach it.

use tombolo_memory::Memory;
use tombolo_sharing::Counter;

use crate::error::no_such_slot;
use crate::ids::SlotLine;
use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::storage::intents::{Intent, IntentSlot};
use crate::storage::partition::Hold;
use crate::storage::space::extent::Extent;
use crate::write::relocate::OpenIntent;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Sends an entry of the partition back, if it is here; whether it is not here any more. On an
    /// error it stays, and where there is no room while it is viewed in its slot.
    pub(crate) fn move_out(&self, slot: SlotLine, hold: &mut Hold<M>) -> Result<bool, Error> {
        let (Some(entry), Some(header)) = (hold.here, hold.header) else { return Ok(true) };
        self.may_store()?;
        let extent = self.state(entry.hash).space.extent_at(slot).ok_or_else(no_such_slot)?;
        if self.partition.is_backed() {
            return self.move_out_to_backup(entry, &extent, hold).map(|()| true);
        }
        let intent_slot = self.open_intent_waiting()?.intent_slot;
        if !self.memory().check(sites::PIN_MOVE_OUT, !self.is_viewed(entry)) {
            return match self.move_out_elsewhere(intent_slot, entry, &extent, hold) {
                Err(Error::LnrFull { .. }) => Ok(false),
                returned => returned.map(|()| true),
            };
        }
        self.intents.set(intent_slot, Intent::MovesOut { slot });
        self.write_whole(&extent, header, &hold.key, &hold.value);
        let lines = extent.covering(0, header.total_bytes());
        if !self.memory().check(sites::POISON_MOVE_OUT, !self.is_poisoned(&extent)) {
            self.memory().publish(sites::PARTITION_CLEAN, lines, |memory| extent.give(memory, 0));
            return self.move_out_elsewhere(intent_slot, entry, &extent, hold).map(|()| true);
        }
        let back = self.memory().publish(sites::PARTITION_CLEAN, lines, |memory| {
            extent.give(memory, header.total_bytes());
            self.intents.end(intent_slot, true);
            self.commit(Event::MoveOut(target(entry)))
        });
        if back.is_err() && self.may_store().is_ok() {
            self.mark_away(&entry, self.partition.host)?;
        }
        if !back? {
            return Err(changed_in_partition());
        }
        self.count(Counter::MovedOut);
        self.partition.leave(slot, hold);
        Ok(true)
    }

    /// Sends an entry of the partition back that is in its slot, too: all it takes is the event.
    fn move_out_to_backup(
        &self,
        entry: Entry,
        extent: &Extent,
        hold: &mut Hold<M>,
    ) -> Result<(), Error> {
        if !self.memory().check(sites::POISON_MOVE_OUT, !self.is_poisoned(extent)) {
            let intent_slot = self.open_intent_waiting()?.intent_slot;
            return self.move_out_elsewhere(intent_slot, entry, extent, hold);
        }
        if !self.commit(Event::MoveOut(target(entry)))? {
            return Err(changed_in_partition());
        }
        self.count(Counter::MovedOut);
        self.partition.leave(entry.slot, hold);
        Ok(())
    }

    /// Sends an entry of the partition to another slot than its own, where there is a memory error,
    /// or which somebody views.
    pub(crate) fn move_out_elsewhere(
        &self,
        intent_slot: IntentSlot,
        entry: Entry,
        extent: &Extent,
        hold: &mut Hold<M>,
    ) -> Result<(), Error> {
        let space = &self.state(entry.hash).space;
        let slot = space.slot_at(entry.slot).ok_or_else(no_such_slot)?;
        space.set_poisoned(extent);
        let intent = OpenIntent { intent_slot, torn: None, alone: true, in_partition: true };
        self.relocate(intent, entry, slot, &hold.key, &hold.value)?;
        self.count(Counter::MovedOut);
        self.partition.leave(entry.slot, hold);
        Ok(())
    }

    /// Sends the object with this entry back, which is in this host's memory, unless it is in use.
    pub(crate) fn move_out_if_idle(&self, entry: Entry) -> Result<(), Error> {
        match self.partition.entry(entry.slot).and_then(|entry| entry.try_lock_arc()) {
            Some(mut hold) => self.move_out(entry.slot, &mut hold).map(drop),
            None => Ok(()),
        }
    }
}

fn changed_in_partition() -> Error {
    Error::Damaged("an object in a partition changed elsewhere".to_owned())
}
