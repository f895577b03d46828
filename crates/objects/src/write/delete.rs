//! Deleting objects, and putting an end to those whose values are lost.

use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Part};

use crate::error::may_be_committed;
use crate::host::lookup::Attempt;
use crate::host::reserve::PATIENCE;
use crate::ids::{LostTo, Slot};
use crate::replica::event::{Event, target};
use crate::storage::index::{Entry, Found};
use crate::storage::intents::Intent;
use crate::write::relocate::{OpenIntent, Placed};
use crate::{Error, Objects, Version, sites};

impl<M: Memory> Objects<M> {
    /// Puts a value in the place of one that is lost; `None` if it is not there any more.
    pub(crate) fn replace_lost(&self, key: &[u8], value: &[u8]) -> Result<Option<Version>, Error> {
        let Some(entry) = self.lost_to_replace(key)? else { return Ok(None) };
        let Some(intent) = self.open_intent() else { return Ok(None) };
        let placed = self.place(intent, entry.hash, key, value, PATIENCE)?;
        let version = placed.header.version;
        let (moved, left) = self.announce_instead(&entry, &placed);
        self.end_placing(entry.hash, &placed, left, moved.as_ref().copied());
        Ok(moved?.then_some(version))
    }

    /// The entry of the object with `key` whose value is lost, and in whose place another may be
    /// put; `None` if there is none, or none any more.
    pub(crate) fn lost_to_replace(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let Some(entry) = self.find_lost(key)?.filter(|entry| !self.is_cleared_up(entry)) else {
            return Ok(None);
        };
        if self.may_be_another(key, &entry)? {
            return self.forget_lost(key).map(|_| None);
        }
        Ok(Some(entry))
    }

    /// Has the log say that a placed object takes the place of a lost one: whether it does, and the
    /// slot that is free then.
    pub(crate) fn announce_instead(
        &self,
        entry: &Entry,
        placed: &Placed,
    ) -> (Result<bool, Error>, Option<Slot>) {
        let event = Event::Move { target: target(*entry), to: placed.slot };
        let moved = self.announce(placed, Some(entry.slot), event);
        (moved, self.left_by(entry))
    }

    /// Whether the object with `key` may be another one than that with this entry, whose key
    /// perhaps cannot be read. None can come to be as long as that is there.
    fn may_be_another(&self, key: &[u8], entry: &Entry) -> Result<bool, Error> {
        let another = self.lookup(entry.hash, |found, tail| {
            if found.entry.slot == entry.slot {
                return Ok(Attempt::OtherKey);
            }
            let attempt = self.look(found, tail, key, Part::Nothing, |_, _| ());
            Ok(if matches!(attempt, Ok(Attempt::OtherKey)) {
                Attempt::OtherKey
            } else {
                Attempt::Good(())
            })
        })?;
        Ok(another.found().is_some())
    }

    /// The slot that an object has left, as is recorded, unless a host may still write there: then
    /// who clears up after that one finds the slot in quarantine.
    fn left_by(&self, entry: &Entry) -> Option<Slot> {
        if self.is_quarantined(entry) {
            self.intents.table.lost_no_more(entry.slot);
            return None;
        }
        self.state(entry.hash).space.slot_at(entry.slot)
    }

    /// Whether an object is lost with a host that others are clearing up after, and so are at its
    /// slot.
    fn is_cleared_up(&self, entry: &Entry) -> bool {
        entry.lost().and_then(LostTo::host).map(|host| self.area().stay_of(host)).is_some_and(
            |stay| {
                let alone = !(self.area().is_fenced(stay) && self.area().is_gone(stay));
                !self.memory().check(sites::LOST_ALONE, alone)
            },
        )
    }

    /// The entry of the object with `key`, if its value is lost.
    fn find_lost(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let lost = self.lookup(self.hash(key)?, |found, tail| {
            let is_it = found.entry.lost().is_some()
                && self
                    .look(found, tail, key, Part::Nothing, |_, _| ())
                    .is_err_and(|e| e.is_loss());
            Ok(if is_it { Attempt::Good(found.entry) } else { Attempt::OtherKey })
        })?;
        Ok(lost.found())
    }

    /// Deletes an object whose value is lost; whether it was.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Stalled`], [`Error::Fenced`].
    pub fn forget_lost(&self, key: &[u8]) -> Result<bool, Error> {
        self.retry_with_backoff(|| {
            let Some(entry) = self.find_lost(key)? else { return Ok(Some(false)) };
            let intent = if self.is_cleared_up(&entry) { None } else { self.open_intent() };
            intent.map(|intent| self.delete_with_intent(intent, entry, None)).transpose()
        })
    }

    /// Deletes an object of this version, if it has not changed since it had this entry.
    pub(crate) fn delete_with_intent(
        &self,
        intent: OpenIntent,
        entry: Entry,
        version: Option<Version>,
    ) -> Result<bool, Error> {
        if self.memory().keeps(sites::LEAVE_NOTED) {
            let OpenIntent { intent_slot, torn, .. } = intent;
            self.intents.set(intent_slot, Intent::Deletes { slot: entry.slot, version, torn });
        }
        let deleted = self.commit(Event::Delete(target(entry)));
        match &deleted {
            // Others clear up, by the intent.
            Err(error) if may_be_committed(error) => {}
            Ok(true) => {
                let intent = OpenIntent { torn: None, ..intent };
                match self.left_by(&entry) {
                    Some(left) => self.leave_slot(&self.state(entry.hash).space, left, intent),
                    None => self.close_intent(intent),
                }
            }
            _ => self.close_intent(intent),
        }
        deleted
    }

    /// Deletes an object; whether there was one.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Busy`], [`Error::Stalled`], [`Error::Fenced`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.delete_if(key, None, false)
    }

    /// Deletes an object if it is at version `expected`; whether there was one.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is at another, and those of [`delete`](Self::delete).
    pub fn delete_version(&self, key: &[u8], expected: Version) -> Result<bool, Error> {
        self.delete_if(key, Some(expected), false)
    }

    pub(crate) fn delete_if(
        &self,
        key: &[u8],
        expected: Option<Version>,
        unless_dirty: bool,
    ) -> Result<bool, Error> {
        let hash = self.begin(key)?;
        let deleted = self.repeat(|| {
            self.lookup(hash, |found, tail| {
                self.delete_found(found, tail, key, expected, unless_dirty)
            })
        })?;
        Ok(deleted.unwrap_or(false))
    }

    /// Deletes an object that may have `key`; whether it did.
    fn delete_found(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        expected: Option<Version>,
        unless_dirty: bool,
    ) -> Result<Attempt<bool>, Error> {
        let again = |deleted: Option<bool>| deleted.map_or(Attempt::Changed, Attempt::Good);
        if found.entry.partition() == Some(self.enrolment.host()) {
            // This one, or another with its hash: the lock tells.
            let deleted = self.delete_locked(key, expected, unless_dirty)?;
            return Ok(Attempt::Good(deleted.unwrap_or(false)));
        }
        let attempt = self.look(found, tail, key, Part::Nothing, |_, _| ());
        if let (Err(error), None) = (&attempt, expected)
            && error.is_loss()
        {
            if unless_dirty && self.memory().keeps(sites::DELETE_FOUND) {
                return Ok(Attempt::Good(false));
            }
            return Ok(again(self.forget_lost(key)?.then_some(true)));
        }
        let header = match attempt? {
            Attempt::Good((header, ())) => header,
            Attempt::OtherKey => return Ok(Attempt::OtherKey),
            Attempt::Changed => return Ok(Attempt::Changed),
        };
        if expected.is_some_and(|expected| expected != header.version) {
            return Err(Error::Changed);
        }
        let locked = self.memory().keeps(sites::DELETE_LOCK);
        if found.entry.locked_by().is_some() && locked {
            return self.delete_locked(key, expected, unless_dirty).map(again);
        }
        // Read-shared: nobody can write it without an event that makes this one void.
        let Some(intent) = self.open_intent() else { return Ok(Attempt::Changed) };
        if !self.delete_with_intent(intent, found.entry, Some(header.version))? {
            return Ok(Attempt::Changed);
        }
        self.count(Counter::Deletes);
        Ok(Attempt::Good(true))
    }

    fn delete_locked(
        &self,
        key: &[u8],
        expected: Option<Version>,
        unless_dirty: bool,
    ) -> Result<Option<bool>, Error> {
        let Some(locked) = self.lock(key)? else { return Ok(None) };
        if expected.is_some_and(|expected| expected != locked.header().version) {
            return Err(Error::Changed);
        }
        let dirty =
            unless_dirty && locked.record().is_some_and(|record| self.dirty_bits.is_set(record));
        if !self.memory().check(sites::DELETE_UNMARKED, !dirty) {
            return Ok(Some(false));
        }
        locked.delete()?;
        Ok(Some(true))
    }
}
