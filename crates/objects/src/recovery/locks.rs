//! Locks of hosts that were fenced, and the objects that they had locked.

use std::time::Duration;

use tombolo_memory::Memory;
use tombolo_pod::Stay;
use tombolo_sharing::{Counter, HEADER_BYTES, Header};

use crate::error::{changed_under_lock, loss, may_be_committed, no_such_slot};
use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::storage::intents::{Intent, IntentSlot};
use crate::storage::records::{Record, RecordLock};
use crate::storage::space::away::{key_at, restore_bytes};
use crate::storage::space::extent::Extent;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    pub(crate) fn rescue_all(&self, stay: Stay, gone: bool) -> Result<(), Error> {
        let locked: Vec<Record> = self.records.locked_by(stay.host).collect();
        locked.into_iter().try_for_each(|record| self.rescue(stay, record, gone))
    }

    /// Takes over the lock of `record` from a fenced host, and releases it with its object in
    /// order.
    pub(crate) fn rescue(&self, stay: Stay, record: Record, gone: bool) -> Result<(), Error> {
        let found = self.records.load(record);
        if found.holder() != Some(stay.host) {
            return Ok(());
        }
        if !gone && self.intents.table.room_in_quarantine(stay.host).is_none() {
            return Ok(());
        }
        let Some(intent_slot) = self.intents.reserve() else { return Ok(()) };
        self.intents.set(intent_slot, Intent::TookOver { record, from: stay.host });
        let outcome = match self.records.take_over(record, found) {
            None => Ok(()),
            Some(held) => self.mend(stay, held, intent_slot, gone).inspect_err(|_| {
                self.records.hand_back(held, stay.host);
            }),
        };
        // Who is fenced itself leaves its intent: the lock is still its own.
        if !matches!(outcome, Err(Error::Fenced { .. })) {
            self.intents.end(intent_slot, true);
        }
        outcome
    }

    /// Releases the lock of a record that was taken over, with its object in order. On an error
    /// nothing is released.
    fn mend(
        &self,
        stay: Stay,
        held: RecordLock,
        intent_slot: IntentSlot,
        gone: bool,
    ) -> Result<(), Error> {
        // Once the lock is released, another thread of this host may take it, and the host die:
        // then that intent would be taken for one about that thread's lock.
        let ends = || self.intents.clear(intent_slot);
        let Some(entry) = self.owner_of(held.record)? else {
            ends();
            self.free_record(held);
            return Ok(());
        };
        let state = self.state(entry.hash);
        let extent = state.space.extent_at(entry.slot).ok_or_else(no_such_slot)?;
        let before = match self.recovered_object(stay, held.record, &entry, &extent, gone)? {
            Recovered::InPlace => None,
            Recovered::Bytes(object) if !gone => Some(object),
            Recovered::Bytes(object) if restore_bytes(self.memory(), &extent, &object) => None,
            Recovered::Bytes(_) | Recovered::Lost => {
                self.give_up(stay, held.record, entry, &extent, gone)?;
                ends();
                self.free_record(held);
                return Ok(());
            }
        };
        match before {
            Some(object) => self.go_on_elsewhere(stay, entry, &object)?,
            None => {
                let renewed = !self.memory().keeps(sites::RESCUE_GENERATION)
                    || self.commit(Event::Wrap(target(entry)))?;
                if !renewed {
                    return Err(changed_under_lock());
                }
                // Who has died was perhaps about to delete it, which would be done to what others
                // write from here on.
                if self.memory().keeps(sites::RESCUE_STAYS) {
                    let intents = &self.intents.table;
                    let holders = intents.holders(self.enrolment.host(), held.record).skip(1);
                    holders.for_each(|host| intents.stays(host, entry.slot));
                }
            }
        }
        self.count(Counter::Rescues);
        ends();
        let _ = self.records.unlock(held, true);
        Ok(())
    }

    /// The object whose lock was taken over is lost; or just gone, if it can be read again.
    fn give_up(
        &self,
        stay: Stay,
        record: Record,
        entry: Entry,
        extent: &Extent,
        gone: bool,
    ) -> Result<(), Error> {
        let space = &self.state(entry.hash).space;
        space.set_poisoned(extent);
        let is_lost = if gone && self.can_be_reread(record, extent) {
            let intent = self.open_intent().ok_or_else(changed_under_lock)?;
            self.delete_with_intent(intent, entry, None)?
        } else {
            if gone {
                space.mark_away(extent, stay.host);
            }
            let lost = self.lose(entry, stay)?;
            if lost && !gone {
                self.intents.table.to_quarantine(stay.host, entry.slot, true);
            }
            lost
        };
        if is_lost { Ok(()) } else { Err(changed_under_lock()) }
    }

    /// Whether nothing is lost with the object in this slot.
    fn can_be_reread(&self, record: Record, extent: &Extent) -> bool {
        let not_dirty = self.memory().check(sites::LOST_UNMARKED, !self.dirty_bits.is_set(record));
        not_dirty
            && self.dirty_objects.get().is_some_and(|dirty| {
                key_at(self.memory(), extent).is_some_and(|key| dirty.can_be_reread(&key))
            })
    }

    /// The entry of the object that has `record`, which changes hands no more.
    fn owner_of(&self, record: Record) -> Result<Option<Entry>, Error> {
        self.sync_all()?;
        let Some(hash) = self.owner(record) else { return Ok(None) };
        let found = self.state(hash).index.find(self.memory(), hash);
        let mut entries = found.into_iter().map(|found| found.entry);
        let owner = entries.find(|entry| entry.record() == Some(record));
        owner.map(Some).ok_or_else(changed_under_lock)
    }

    /// The object with this entry as it was before a fenced host began to change it.
    pub(crate) fn recovered_object(
        &self,
        stay: Stay,
        record: Record,
        entry: &Entry,
        extent: &Extent,
        gone: bool,
    ) -> Result<Recovered, Error> {
        let intents = &self.intents.table;
        loop {
            let through = intents.through(stay.host, record);
            if let Some(cut_off) = intents.torn(stay.host, record, entry.slot) {
                return Ok(intents
                    .undone(&cut_off, entry.slot)
                    .map_or(Recovered::Lost, Recovered::Bytes));
            }
            if gone {
                return Ok(Recovered::InPlace);
            }
            let object = self.read_locked(extent);
            // A host that is alive may have begun to write since, and even be through with it; but
            // only once.
            let same = intents.torn(stay.host, record, entry.slot).is_none()
                && intents.through(stay.host, record) == through;
            if self.memory().check(sites::RESCUE_AGAIN, same) {
                return match object {
                    Err(error) if error.is_loss() => Ok(Recovered::Lost),
                    object => object.map(Recovered::Bytes),
                };
            }
        }
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
        if let Some((host, _)) = away {
            return Err(loss(host));
        }
        let none = || Error::Damaged(format!("the slot at {:?} holds no object", extent.start()));
        header.map(|_| object).ok_or_else(none)
    }

    /// Moves an object out of the slot into which a fenced host may still write.
    pub(crate) fn go_on_elsewhere(
        &self,
        stay: Stay,
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

/// An object whose lock was taken over, or that was in a dead host's memory.
pub(crate) enum Recovered {
    /// It is whole as it lies there.
    InPlace,
    /// These are its bytes.
    Bytes(Vec<u8>),
    /// There is no way to tell what it was.
    Lost,
}
