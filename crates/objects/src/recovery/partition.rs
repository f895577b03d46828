//! Objects that were in the own memory of a host that was fenced, in a pod in which they are in
//! their slots, too.
//!
//! Such an object is as its slot says; unless a write was cut off, as an intent says: then it has
//! its old value, or is lost, as the pod was created.
//!
//! * When the host is gone, all of them go on in their slots.
//! * Before, it may still be writing there. So an object that somebody wants goes on in another
//!   slot, and the old one is in quarantine, of which SCR says so *before* the event: from then on
//!   the object has no lock that others would have to wait for. There is room in quarantine for as
//!   many as the host has intents; the others wait until it is gone.

use tombolo_memory::Memory;
use tombolo_pod::Stay;

use crate::error::changed_under_lock;
use crate::error::no_such_slot;
use crate::ids::LostTo;
use crate::recovery::absent::{Absent, Dead, Fenced, TornWrite};
use crate::replica::event::Event;
use crate::replica::event::target;
use crate::storage::index::Entry;
use crate::storage::records::LockedBy;
use crate::storage::space::away::restore_bytes;
use crate::storage::space::extent::Extent;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Objects in the own memory of a host that is gone go on in their slots.
    pub(crate) fn restore_partition(&self, dead: Dead) -> Result<(), Error> {
        let noted = self.intents.table.named(dead.0.host);
        for entry in self.in_partition_of(dead.0) {
            self.restore(dead, entry, noted.contains(&entry.slot))?;
        }
        Ok(())
    }

    fn restore(&self, Dead(stay): Dead, entry: Entry, noted: bool) -> Result<(), Error> {
        let extent = self.extent_of(&entry)?;
        let torn = match noted {
            true => self.torn_write(stay, LockedBy::Partition, &entry),
            false => TornWrite::None,
        };
        let is_whole = match torn {
            TornWrite::None => match self.read_locked(&extent) {
                Err(error) if error.is_loss() => false,
                read => read.map(|_| true)?,
            },
            TornWrite::Undone(object) => restore_bytes(self.memory(), &extent, &object),
            TornWrite::Lost => false,
        };
        if !is_whole {
            let space = &self.state(entry.hash).space;
            space.set_poisoned(&extent);
            space.mark_away(&extent, LostTo::Host(stay.host));
            return self.lose_backup(stay, entry);
        }
        if noted && self.memory().keeps(sites::PARTITION_STAYS) {
            self.intents.table.stays(stay.host, entry.slot);
        }
        if !self.commit(Event::MoveOut(target(entry)))? {
            return Err(changed_under_lock());
        }
        self.rescued_from(stay);
        Ok(())
    }

    /// The object with this entry, which somebody wants, goes on without a host that has it in its
    /// own memory, and may still be writing.
    pub(crate) fn rescue_from_partition(&self, fenced: Fenced, entry: Entry) -> Result<(), Error> {
        let stay = fenced.stay();
        let is_there = self.entry_stands(entry) && entry.partition() == Some(stay.host);
        let intents = &self.intents.table;
        if !is_there || intents.room_in_quarantine_for(stay.host, entry.slot).is_none() {
            return Ok(());
        }
        let extent = self.extent_of(&entry)?;
        let Some(object) = fenced.object_before(self, LockedBy::Partition, &entry, &extent)? else {
            self.state(entry.hash).space.set_poisoned(&extent);
            intents.to_quarantine(stay.host, entry.slot, true);
            return self.lose_backup(stay, entry);
        };
        self.go_on_elsewhere(fenced, entry, &object)?;
        self.rescued_from(stay);
        Ok(())
    }

    /// An object that was in a host's own memory is lost with it, since its slot is of no use.
    fn lose_backup(&self, stay: Stay, entry: Entry) -> Result<(), Error> {
        if self.lose(entry, stay)? { Ok(()) } else { Err(changed_under_lock()) }
    }

    fn extent_of(&self, entry: &Entry) -> Result<Extent, Error> {
        self.state(entry.hash).space.extent_at(entry.slot).ok_or_else(no_such_slot)
    }
}
