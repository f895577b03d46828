//! A host that was fenced, in two states: it may still run, or it is dead. The two differ in what
//! others can do with an object that the host had locked.

use tombolo_memory::Memory;
use tombolo_pod::Stay;

use crate::error::changed_under_lock;
use crate::ids::LostTo;
use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::storage::records::{LockedBy, RecordId};
use crate::storage::space::away::{key_at, restore_bytes};
use crate::storage::space::extent::Extent;
use crate::transaction::Redo;
use crate::{Error, Objects, sites};

/// A host that was fenced and may still run: it may be writing into slots of its objects.
#[derive(Clone, Copy)]
pub(crate) struct Fenced(pub(crate) Stay);

/// A host that was fenced and is gone: it is at nothing any more.
#[derive(Clone, Copy)]
pub(crate) struct Dead(pub(crate) Stay);

/// An object whose lock was taken over from a host.
pub(crate) struct Rescued {
    pub(crate) record: RecordId,
    pub(crate) entry: Entry,
    pub(crate) extent: Extent,
}

/// The outcome for an object whose lock was taken over.
pub(crate) enum RescueOutcome {
    InItsSlot,
    InAnotherSlot,
    /// A transaction was to delete it, or to create it and did not.
    Gone,
    /// There is no way to tell what it was.
    Lost,
}

/// A host without which others go on.
pub(crate) trait Absent: Copy {
    fn stay(self) -> Stay;

    /// Whether there is room for what it takes to take one of its locks over.
    fn can_be_rescued_from<M: Memory>(self, objects: &Objects<M>) -> bool;

    /// Brings the object into order.
    fn restore<M: Memory>(
        self,
        objects: &Objects<M>,
        object: &Rescued,
    ) -> Result<RescueOutcome, Error>;

    /// Makes the object what the note of a transaction says.
    fn redo<M: Memory>(
        self,
        objects: &Objects<M>,
        object: &Rescued,
        redo: Redo,
    ) -> Result<RescueOutcome, Error>;

    /// Deletes the object. Whether it had not changed.
    fn remove<M: Memory>(self, objects: &Objects<M>, object: &Rescued) -> Result<bool, Error>;

    /// The object is lost. Whether it had not changed.
    fn give_up<M: Memory>(self, objects: &Objects<M>, object: &Rescued) -> Result<bool, Error>;
}

impl Absent for Dead {
    fn stay(self) -> Stay {
        self.0
    }

    fn can_be_rescued_from<M: Memory>(self, _: &Objects<M>) -> bool {
        true
    }

    fn restore<M: Memory>(
        self,
        objects: &Objects<M>,
        object: &Rescued,
    ) -> Result<RescueOutcome, Error> {
        let by = LockedBy::Record(object.record);
        let is_whole = match objects.torn_write(self.0, by, &object.entry) {
            TornWrite::None => true,
            TornWrite::Undone(old) => restore_bytes(objects.memory(), &object.extent, &old),
            TornWrite::Lost => false,
        };
        Ok(if is_whole { RescueOutcome::InItsSlot } else { RescueOutcome::Lost })
    }

    fn redo<M: Memory>(
        self,
        objects: &Objects<M>,
        object: &Rescued,
        redo: Redo,
    ) -> Result<RescueOutcome, Error> {
        let Some(image) = redo.image else { return Ok(RescueOutcome::Gone) };
        let is_whole = restore_bytes(objects.memory(), &object.extent, &image);
        Ok(if is_whole { RescueOutcome::InItsSlot } else { RescueOutcome::Lost })
    }

    fn remove<M: Memory>(self, objects: &Objects<M>, object: &Rescued) -> Result<bool, Error> {
        let intent = objects.open_intent().ok_or_else(changed_under_lock)?;
        objects.delete_with_intent(intent, object.entry, None)
    }

    /// It is just deleted, if it can be read again.
    fn give_up<M: Memory>(self, objects: &Objects<M>, object: &Rescued) -> Result<bool, Error> {
        if objects.can_be_reread(object.record, &object.extent) {
            return self.remove(objects, object);
        }
        let space = &objects.state(object.entry.hash).space;
        space.mark_away(&object.extent, LostTo::Host(self.0.host));
        objects.lose(object.entry, self.0)
    }
}

impl Absent for Fenced {
    fn stay(self) -> Stay {
        self.0
    }

    fn can_be_rescued_from<M: Memory>(self, objects: &Objects<M>) -> bool {
        objects.intents.table.room_in_quarantine(self.0.host).is_some()
    }

    fn restore<M: Memory>(
        self,
        objects: &Objects<M>,
        object: &Rescued,
    ) -> Result<RescueOutcome, Error> {
        let &Rescued { record, entry, ref extent } = object;
        let by = LockedBy::Record(record);
        let Some(old) = self.object_before(objects, by, &entry, extent)? else {
            return Ok(RescueOutcome::Lost);
        };
        objects.go_on_elsewhere(self, entry, &old)?;
        Ok(RescueOutcome::InAnotherSlot)
    }

    fn redo<M: Memory>(
        self,
        objects: &Objects<M>,
        object: &Rescued,
        redo: Redo,
    ) -> Result<RescueOutcome, Error> {
        let Some(image) = redo.image else { return Ok(RescueOutcome::Gone) };
        objects.go_on_elsewhere(self, object.entry, &image)?;
        Ok(RescueOutcome::InAnotherSlot)
    }

    /// Its slot is in quarantine first: nothing is there, whatever becomes of this host.
    fn remove<M: Memory>(self, objects: &Objects<M>, object: &Rescued) -> Result<bool, Error> {
        let (host, entry) = (self.0.host, object.entry);
        objects.intents.table.to_quarantine(host, entry.slot, false);
        objects.commit(Event::Remove { target: target(entry), host })
    }

    fn give_up<M: Memory>(self, objects: &Objects<M>, object: &Rescued) -> Result<bool, Error> {
        let lost = objects.lose(object.entry, self.0)?;
        if lost {
            objects.intents.table.to_quarantine(self.0.host, object.entry.slot, true);
        }
        Ok(lost)
    }
}

impl Fenced {
    /// The bytes of an object as it was before this host began to change it; `None` if they are
    /// lost.
    pub(crate) fn object_before<M: Memory>(
        self,
        objects: &Objects<M>,
        by: LockedBy,
        entry: &Entry,
        extent: &Extent,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (intents, host) = (&objects.intents.table, self.0.host);
        loop {
            let through = intents.through(host, by);
            match objects.torn_write(self.0, by, entry) {
                TornWrite::None => {}
                TornWrite::Undone(object) => return Ok(Some(object)),
                TornWrite::Lost => return Ok(None),
            }
            let object = objects.read_locked(extent);
            // A host that is alive may have begun to write since, and even be through with it; but
            // only once.
            let same = intents.torn(host, by, entry.slot).is_none()
                && intents.through(host, by) == through;
            if objects.memory().check(sites::RESCUE_AGAIN, same) {
                return match object {
                    Err(error) if error.is_loss() => Ok(None),
                    object => object.map(Some),
                };
            }
        }
    }
}

/// The state of an object that a fenced host was changing, as the host's intent tells it.
pub(crate) enum TornWrite {
    /// Nothing: the host had not begun.
    None,
    /// The object had these bytes before.
    Undone(Vec<u8>),
    /// The host was changing it, and its bytes of before are nowhere.
    Lost,
}

impl<M: Memory> Objects<M> {
    pub(crate) fn torn_write(&self, stay: Stay, by: LockedBy, entry: &Entry) -> TornWrite {
        let intents = &self.intents.table;
        let Some(cut_off) = intents.torn(stay.host, by, entry.slot) else {
            return TornWrite::None;
        };
        intents.undone(&cut_off, entry.slot).map_or(TornWrite::Lost, TornWrite::Undone)
    }

    /// Whether nothing is lost with the object in this slot.
    fn can_be_reread(&self, record: RecordId, extent: &Extent) -> bool {
        let not_dirty = self.memory().check(sites::LOST_UNMARKED, !self.dirty_bits.is_set(record));
        not_dirty
            && self.dirty_objects.get().is_some_and(|dirty| {
                key_at(self.memory(), extent).is_some_and(|key| dirty.can_be_reread(&key))
            })
    }
}
