//! Moving out: back into LNR, where all can reach it.

use tombolo_memory::{HostMutex, Memory};
use tombolo_sharing::{Counter, persist};

use crate::error::no_such_slot;
use crate::ids::SlotLine;
use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::storage::intents::{Note, Place};
use crate::storage::partition::Hold;
use crate::storage::space::extent::Extent;
use crate::write::relocate::Noting;
use crate::{Error, Objects, sites};

/// Residents that leave in one tick, at most, because they have not been used and others want to come.
const LEAVE_BATCH: usize = 16;

impl<M: Memory> Objects<M> {
    /// Sends a resident back, if it is here; whether it is not here any more. On an error it stays, and where there is no room while it is viewed
    /// in its slot.
    pub(crate) fn send_back(&self, slot: SlotLine, hold: &mut Hold<M>) -> Result<bool, Error> {
        let (Some(entry), Some(header)) = (hold.here, hold.header) else { return Ok(true) };
        self.may_store()?;
        let extent = self.state(entry.hash).space.extent_at(slot).ok_or_else(no_such_slot)?;
        if self.home.is_backed() {
            return self.send_back_to_backup(entry, &extent, hold).map(|()| true);
        }
        let place = self.noting_patiently()?.place;
        if !self.memory().check(sites::PIN_RETURN, !self.is_viewed(entry)) {
            return match self.return_elsewhere(place, entry, &extent, hold) {
                Err(Error::LnrFull { .. }) => Ok(false),
                returned => returned.map(|()| true),
            };
        }
        self.underway.note(place, Note::Returns { slot });
        self.write_whole(&extent, header, &hold.key, &hold.value);
        let lines = extent.covering(0, header.total_bytes());
        if !self.memory().check(sites::POISON_RETURN, !self.is_poisoned(&extent)) {
            self.memory().publish(sites::HOME_CLEAN, lines, |memory| extent.give(memory, 0));
            return self.return_elsewhere(place, entry, &extent, hold).map(|()| true);
        }
        let back = self.memory().publish(sites::HOME_CLEAN, lines, |memory| {
            extent.give(memory, header.total_bytes());
            self.underway.end(place, true);
            self.commit(Event::Return(target(entry)))
        });
        if back.is_err() && self.may_store().is_ok() {
            self.mark_away(&entry, self.home.host)?;
        }
        if !back? {
            return Err(changed_at_home());
        }
        self.count(Counter::MovedOut);
        self.home.leave(slot, hold);
        Ok(true)
    }

    /// Sends a resident back that is in its slot, too: all it takes is the event.
    fn send_back_to_backup(
        &self,
        entry: Entry,
        extent: &Extent,
        hold: &mut Hold<M>,
    ) -> Result<(), Error> {
        if !self.memory().check(sites::POISON_RETURN, !self.is_poisoned(extent)) {
            let place = self.noting_patiently()?.place;
            return self.return_elsewhere(place, entry, extent, hold);
        }
        if !self.commit(Event::Return(target(entry)))? {
            return Err(changed_at_home());
        }
        self.count(Counter::MovedOut);
        self.home.leave(entry.slot, hold);
        Ok(())
    }

    /// Sends a resident to another slot than its own, where there is a memory error, or which somebody views.
    pub(crate) fn return_elsewhere(
        &self,
        place: Place,
        entry: Entry,
        extent: &Extent,
        hold: &mut Hold<M>,
    ) -> Result<(), Error> {
        let space = &self.state(entry.hash).space;
        let slot = space.slot_at(entry.slot).ok_or_else(no_such_slot)?;
        space.set_poisoned(extent);
        let noting = Noting { place, torn: None, alone: true, home: true };
        self.relocate(noting, entry, slot, &hold.key, &hold.value)?;
        self.count(Counter::MovedOut);
        self.home.leave(entry.slot, hold);
        Ok(())
    }

    /// Sends the object with this entry back, which is in this host's memory, unless it is in use.
    pub(crate) fn give_up_home(&self, entry: Entry) -> Result<(), Error> {
        match self.home.resident(entry.slot).and_then(|resident| resident.try_lock_arc()) {
            Some(mut hold) => self.send_back(entry.slot, &mut hold).map(drop),
            None => Ok(()),
        }
    }

    /// Sends the objects in this host's own memory back to where all hosts can reach them: because it
    /// leaves, or will not be able to answer for a while.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Damaged`]. The other objects are where they were.
    pub fn return_all(&self) -> Result<(), Error> {
        for slot in self.home.slots() {
            if let Some(resident) = self.home.resident(slot) {
                persist(self.memory(), || {
                    let mut hold = HostMutex::<M, _>::lock_arc(&resident);
                    Ok(self.send_back(slot, &mut hold)?.then_some(()))
                })?;
            }
        }
        Ok(())
    }

    /// Makes room when there is little: residents that were not used since the last look leave.
    pub(crate) fn make_room_at_home(&self) -> Result<(), Error> {
        let home = &self.home;
        if !home.is_open() || home.bytes() <= home.budget / 10 * 9 {
            return Ok(());
        }
        let mut left = LEAVE_BATCH;
        for slot in home.slots() {
            let Some(mut hold) = home.resident(slot).and_then(|it| it.try_lock_arc()) else {
                continue;
            };
            if !std::mem::take(&mut hold.busy) {
                left -= usize::from(self.send_back(slot, &mut hold)?);
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn changed_at_home() -> Error {
    Error::Damaged("an object at home changed elsewhere".to_owned())
}
