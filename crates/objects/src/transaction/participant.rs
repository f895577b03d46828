//! An object that a transaction changes, from its lock to its release.

use std::time::Duration;

use smallvec::SmallVec;
use tombolo_memory::{Lines, Memory};
use tombolo_sharing::{Counter, Header, object_bytes};

use crate::error::{changed_under_lock, may_be_committed};
use crate::host::blocked::Why;
use crate::host::lookup::{Attempt, Lookup};
use crate::replica::event::Event;
use crate::transaction::note::Redo;
use crate::write::lock::{HeldLock, Locked, Phase};
use crate::write::locked_object::LockedObject;
use crate::write::own_locks::OwnLocks;
use crate::write::relocate::OpenIntent;
use crate::{Error, Objects, Version};

/// The version of an object that is new, and of which no transaction has said yet what it is. No
/// write has it.
pub(crate) const UNWRITTEN: Version = Version(0);

/// An object that is locked.
pub(crate) struct Participant<'a, 'w, M: Memory> {
    pub(crate) locked: Locked<'a, M>,
    key: &'w [u8],
    /// The value that it is to have; `None` if it is to be gone.
    value: Option<&'w [u8]>,
    /// There was none before.
    is_new: bool,
    /// The header that it is to have, and the whole object.
    header: Header,
    image: Vec<u8>,
}

impl<'a, 'w, M: Memory> Participant<'a, 'w, M> {
    pub(crate) fn new(
        locked: Locked<'a, M>,
        key: &'w [u8],
        value: Option<&'w [u8]>,
        is_new: bool,
    ) -> Self {
        let version = locked.objects().next_version();
        let header = Header::new(version, key, value.map_or(0, <[u8]>::len) as u32);
        Self { locked, key, value, is_new, header, image: Vec::new() }
    }

    /// Sees that the object can be changed in its slot, whatever happens.
    pub(crate) fn make_room(&mut self) -> Result<(), Error> {
        let Some(value) = self.value else { return Ok(()) };
        let bytes = object_bytes(self.key, value)?;
        self.locked.make_room(self.key, bytes)?;
        self.image = [&self.header.encode()[..], self.key, value].concat();
        Ok(())
    }

    /// Its fate. `None` if its lock is no record.
    pub(crate) fn redo(&self) -> Option<Redo> {
        Some(Redo {
            record: self.locked.record()?,
            slot: self.locked.slot.line,
            before: self.locked.header().version,
            image: self.value.map(|_| self.image.clone()),
        })
    }

    /// Stores what it is to be, and returns the lines that are dirty then.
    pub(crate) fn store(&mut self) -> SmallVec<[Lines; 2]> {
        if self.value.is_none() {
            return SmallVec::new();
        }
        let counter = if self.is_new { Counter::Creates } else { Counter::Writes };
        self.locked.objects().count(counter);
        self.locked.store_image(self.header, &self.image)
    }

    /// Deletes it, if it is to be gone; its record stays locked.
    pub(crate) fn delete(&self) -> Result<(), Error> {
        if self.value.is_some() {
            return Ok(());
        }
        self.locked.objects().count(Counter::Deletes);
        self.take_out()
    }

    fn take_out(&self) -> Result<(), Error> {
        let Locked { objects, entry, .. } = &self.locked;
        self.locked.give();
        let deleted = objects.delete_with_intent(self.locked.open_intent(), *entry, None)?;
        if deleted { Ok(()) } else { Err(changed_under_lock()) }
    }

    /// Releases the lock of an object that is as it was to be.
    pub(crate) fn release(mut self) {
        if self.value.is_some() {
            // If the lock was taken over, the object is in order.
            let _ = self.locked.unlock(true);
        } else {
            self.free();
        }
    }

    /// Releases the lock of an object that stays, or is not there, as before.
    pub(crate) fn give_up(mut self) -> Result<(), Error> {
        if !self.is_new {
            return self.locked.unlock(false);
        }
        let taken_out = self.locked.objects().insist(|| self.take_out());
        if let Err(error) = taken_out {
            self.leave();
            return Err(error);
        }
        self.free();
        Ok(())
    }

    /// Leaves the lock to the hosts that go on without this one.
    pub(crate) fn leave(mut self) {
        self.locked.phase = Phase::Released;
    }

    fn free(&mut self) {
        self.locked.phase = Phase::Released;
        if let HeldLock::Record(held) = self.locked.held {
            self.locked.objects().free_record(held);
        }
    }
}

impl<M: Memory> Objects<M> {
    /// Locks the object with `key` where all hosts can reach it, unless something is in the way.
    pub(crate) fn lock_to_commit(
        &self,
        key: &[u8],
        intent: OpenIntent,
        own: &OwnLocks,
    ) -> Result<Lookup<Locked<'_, M>>, Error> {
        let hash = self.hash(key)?;
        let shared = Some(intent.intent_slot);
        self.lookup(hash, |found, tail| {
            if own.has(&found.entry) {
                return Ok(Attempt::OtherKey);
            }
            if let Some(host) = found.entry.partition() {
                if host == self.enrolment.host() {
                    self.move_out_if_idle(found.entry)?;
                } else {
                    self.blocked(Why::InPartition { host, entry: found.entry })?;
                }
                return Ok(Attempt::Changed);
            }
            Ok(match self.try_lock_with(found, tail, key, shared)? {
                Attempt::Good(LockedObject::Shared(locked)) => Attempt::Good(locked),
                Attempt::Good(LockedObject::Entry(_)) | Attempt::Changed => Attempt::Changed,
                Attempt::OtherKey => Attempt::OtherKey,
            })
        })
    }

    /// Creates an object that no host reads before its lock is released; `None` if something
    /// changed meanwhile, or there is such an object.
    pub(crate) fn insert_locked(
        &self,
        key: &[u8],
        value: &[u8],
        intent: OpenIntent,
        own: &OwnLocks,
    ) -> Result<Option<Locked<'_, M>>, Error> {
        let hash = self.hash(key)?;
        self.check_index(hash)?;
        let expected = match self.absent_beside(hash, key, own) {
            Ok(Some(expected)) => expected,
            Ok(None) | Err(Error::Exists) => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = object_bytes(key, value)?;
        let header = Header::new(UNWRITTEN, key, 0);
        // The record first: a slot that was written to, and is no object's, is not to be given
        // back.
        let Some(held) = self.try_claim_record(hash)? else { return Ok(None) };
        let placed = self
            .place_within(intent, hash, bytes, header, key, &[], Duration::ZERO)
            .inspect_err(|_| self.records.free(held))?;
        let (slot, intent_slot) = (placed.slot, intent.intent_slot);
        let record = Some(held.record);
        let event = Event::Create { hash, slot, expected, intent_slot, record };
        let created = self.announce(&placed, None, event);
        self.end_placing(hash, &placed, None, created.as_ref().copied());
        match created {
            Ok(true) => {}
            Ok(false) => {
                self.records.free(held);
                return Ok(None);
            }
            Err(error) => {
                if !may_be_committed(&error) {
                    self.records.free(held);
                }
                return Err(error);
            }
        }
        let index = &self.state(hash).index;
        let found = index.find_slot(self.memory(), hash, placed.slot.line);
        let entry = found.ok_or_else(changed_under_lock)?.entry;
        let mut lock = HeldLock::Record(held);
        match self.enter(&mut lock, entry, key, intent.intent_slot) {
            Ok(Attempt::Good(LockedObject::Shared(mut locked))) => {
                locked.shares_intent = true;
                Ok(Some(locked))
            }
            outcome => {
                // Nobody may find it as it is.
                self.insist(|| self.delete_with_intent(intent, entry, None).map(drop))?;
                if let HeldLock::Record(held) = lock {
                    self.free_record(held);
                }
                outcome.map(|_| None)
            }
        }
    }
}
