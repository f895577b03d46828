//! Locks of hosts that were fenced, and the objects that they had locked.

use std::time::Duration;

use tombolo_memory::Memory;
use tombolo_sharing::{HEADER_BYTES, Header};

use crate::error::{changed_under_lock, loss, may_be_committed, no_such_slot};
use crate::ids::LostTo;
use crate::recovery::absent::{Absent, Fenced, RescueOutcome, Rescued};
use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::storage::intents::{Intent, IntentSlot};
use crate::storage::records::{RecordId, RecordLock};
use crate::storage::space::extent::Extent;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    pub(crate) fn rescue_all(&self, absent: impl Absent) -> Result<(), Error> {
        let locked: Vec<RecordId> = self.records.locked_by(absent.stay().host).collect();
        let locks = locked.len() as u64;
        self.upkeep.cleanups.note(absent.stay(), |cleanup| cleanup.locks += locks);
        locked.into_iter().try_for_each(|record| self.rescue(absent, record))
    }

    /// Takes over the lock of `record` from a host that was fenced, and releases it with its object
    /// in order.
    pub(crate) fn rescue(&self, absent: impl Absent, record: RecordId) -> Result<(), Error> {
        let from = absent.stay().host;
        let found = self.records.load(record);
        if found.holder() != Some(from) || !absent.can_be_rescued_from(self) {
            return Ok(());
        }
        let Some(intent_slot) = self.intents.reserve() else { return Ok(()) };
        self.intents.set(intent_slot, Intent::TookOver { record, from });
        let outcome = match self.records.take_over(record, found) {
            None => Ok(()),
            Some(held) => self.mend(absent, held, intent_slot).inspect_err(|_| {
                self.records.hand_back(held, from);
            }),
        };
        // A host that is fenced itself leaves its intent: the lock is still its own.
        if !matches!(outcome, Err(Error::Fenced { .. })) {
            self.intents.end(intent_slot, true);
        }
        outcome
    }

    /// Releases the lock of a record that was taken over, with its object in order. On an error
    /// nothing is released.
    fn mend(
        &self,
        absent: impl Absent,
        held: RecordLock,
        intent_slot: IntentSlot,
    ) -> Result<(), Error> {
        // Once the lock is released, another thread of this host may take it, and the host die:
        // then that intent would be taken for one about that thread's lock.
        let ends = || self.intents.clear(intent_slot);
        let Some(entry) = self.owner_of(held.record)? else {
            ends();
            self.free_record(held);
            return Ok(());
        };
        let space = &self.state(entry.hash).space;
        let extent = space.extent_at(entry.slot).ok_or_else(no_such_slot)?;
        let object = Rescued { record: held.record, entry, extent };
        let outcome = match self.redo_of(held.record)? {
            Some(redo) => absent.redo(self, &object, redo)?,
            None if self.is_unwritten(&object.extent) => RescueOutcome::Gone,
            None => absent.restore(self, &object)?,
        };
        match outcome {
            RescueOutcome::InItsSlot => self.go_on_there(held.record, entry)?,
            RescueOutcome::InAnotherSlot => {}
            RescueOutcome::Gone => {
                if !absent.remove(self, &object)? {
                    return Err(changed_under_lock());
                }
                self.rescued_from(absent.stay());
                ends();
                self.free_record(held);
                return Ok(());
            }
            RescueOutcome::Lost => {
                space.set_poisoned(&object.extent);
                if !absent.give_up(self, &object)? {
                    return Err(changed_under_lock());
                }
                ends();
                self.free_record(held);
                return Ok(());
            }
        }
        self.rescued_from(absent.stay());
        ends();
        let _ = self.records.unlock(held, true);
        Ok(())
    }

    /// The object, whose lock was taken over from a host that is gone, is whole in its slot.
    fn go_on_there(&self, record: RecordId, entry: Entry) -> Result<(), Error> {
        let renewed = !self.memory().keeps(sites::RESCUE_GENERATION)
            || self.commit(Event::Wrap(target(entry)))?;
        if !renewed {
            return Err(changed_under_lock());
        }
        // The dead host was perhaps about to delete it, which would be done to what others write
        // from here on.
        if self.memory().keeps(sites::RESCUE_STAYS) {
            let intents = &self.intents.table;
            let holders = intents.holders(self.enrolment.host(), record).skip(1);
            holders.for_each(|host| intents.stays(host, entry.slot));
        }
        Ok(())
    }

    /// The entry of the object that has `record`, which changes hands no more.
    fn owner_of(&self, record: RecordId) -> Result<Option<Entry>, Error> {
        self.sync_all()?;
        let Some(hash) = self.owner(record) else { return Ok(None) };
        let found = self.state(hash).index.find(self.memory(), hash);
        let mut entries = found.into_iter().map(|found| found.entry);
        let owner = entries.find(|entry| entry.record() == Some(record));
        owner.map(Some).ok_or_else(changed_under_lock)
    }

    /// The whole object in a slot whose lock a fenced host has, or had; or of an object in that
    /// host's own memory.
    pub(crate) fn read_locked(&self, extent: &Extent) -> Result<Vec<u8>, Error> {
        let memory = self.memory();
        memory.consume(sites::READ_INVALIDATE, |_| ((), extent.lines()));
        let mut header = [0; HEADER_BYTES];
        extent.read(memory, 0, &mut header);
        let away = Header::decode_away(&header, extent.bytes());
        let header = Header::decode(&header, extent.bytes());
        let mut object = vec![0; header.map_or(0, |header| header.total_bytes() as usize)];
        extent.read(memory, 0, &mut object);
        if !memory.check(sites::POISON_RESCUE, !self.is_poisoned(extent)) {
            return Err(Error::Poisoned);
        }
        if let Some((code, _)) = away {
            return Err(loss(LostTo::of_code(code)));
        }
        let none = || Error::Damaged(format!("the slot at {:?} holds no object", extent.start()));
        header.map(|_| object).ok_or_else(none)
    }

    /// Moves an object out of the slot into which a fenced host may still write.
    pub(crate) fn go_on_elsewhere(
        &self,
        Fenced(stay): Fenced,
        entry: Entry,
        object: &[u8],
    ) -> Result<(), Error> {
        let header = Header::decode(object, object.len() as u64).ok_or_else(changed_under_lock)?;
        let (key, value) = object[HEADER_BYTES..].split_at(header.key_bytes.into());
        let intent = self.open_intent().ok_or_else(changed_under_lock)?;
        let to = self
            .reserve(entry.hash, object.len() as u64, Duration::ZERO)
            .inspect_err(|_| self.close_intent(intent))?;
        let placed = self
            .write_new(intent, to, header, key, value)
            .inspect_err(|_| self.close_intent(intent))?;
        let event = Event::Rescue { target: target(entry), to, host: stay.host };
        // Without a record, others may use it as soon as the event is in the log.
        let intents = &self.intents.table;
        let first = entry.record().is_none();
        let moved = self.announce_after(&placed, None, event, || {
            if first {
                intents.to_quarantine(stay.host, entry.slot, false);
            }
        });
        match &moved {
            Ok(true) if !first => intents.to_quarantine(stay.host, entry.slot, false),
            // A host that is fenced leaves everything as it is.
            Ok(true) => {}
            Err(error) if may_be_committed(error) => {}
            Ok(false) | Err(_) if first => intents.not_in_quarantine(stay.host, entry.slot),
            Ok(false) | Err(_) => {}
        }
        self.end_placing(entry.hash, &placed, None, moved.as_ref().copied());
        if moved? { Ok(()) } else { Err(changed_under_lock()) }
    }
}
