//! Changing and deleting objects.

use tombolo_log::LogError;
use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Part};

use crate::compact::PATIENCE;
use crate::create::Noting;
use crate::event::{Event, Slot};
use crate::index::Entry;
use crate::lock::target;
use crate::poison::BY_POISON;
use crate::read::Looked;
use crate::underway::Note;
use crate::{Change, Error, Objects, Version, sites};

impl<M: Memory> Objects<M> {
    /// Replaces the value of an existing object; it may have another length.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::LnrFull`] or [`Error::TooLarge`] if there is no room for a longer
    /// value; [`Error::Busy`], [`Error::Log`]. The old value stays.
    pub fn write(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        if let Some(written) = self.write_in_place(key, &[], value) {
            return written.map_err(|error| *error);
        }
        let mut locked = self.lock(key)?.ok_or(Error::NotFound)?;
        locked.set(key, value)?;
        let version = locked.header().version;
        locked.finish().map(|()| version)
    }

    /// Changes some bytes of an existing object, from `offset` on, within its length.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`], [`Error::Busy`], [`Error::Log`].
    pub fn write_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Version, Error> {
        let mut locked = self.lock(key)?.ok_or(Error::NotFound)?;
        self.count(Counter::Writes);
        locked.write(offset, bytes)?;
        let version = locked.header().version;
        locked.finish().map(|()| version)
    }

    /// Creates the object, or replaces its value, lost or not.
    ///
    /// # Errors
    /// As of [`write`](Self::write) and [`create`](Self::create), but for the absence or presence of
    /// the object.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        or_anyhow(self.write_in_place(key, &[], value), || self.put_anyhow(key, value))
    }

    /// As [`put`](Self::put), of a value that is in two pieces: who has them apart need not move them.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_split<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &[u8; HEAD],
        rest: &[u8],
    ) -> Result<Version, Error> {
        let written = self.write_in_place(key, head, rest);
        or_anyhow(written, || self.put_anyhow(key, &[head, rest].concat()))
    }

    #[inline(never)]
    fn put_anyhow(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        self.persist(|| match self.write(key, value) {
            Err(Error::NotFound) => match self.create(key, value) {
                Err(Error::Exists) => Ok(None),
                created => created.map(Some),
            },
            Err(error) if error.is_loss() => self.replace_lost(key, value),
            written => written.map(Some),
        })
    }

    /// Puts a value in the place of one that is lost; `None` if it is not there any more.
    fn replace_lost(&self, key: &[u8], value: &[u8]) -> Result<Option<Version>, Error> {
        let Some(entry) = self.find_lost(key)?.filter(|entry| !self.is_cleared_up(entry)) else {
            return Ok(None);
        };
        if self.may_be_another(key, &entry)? {
            return self.forget_lost(key).map(|_| None);
        }
        let Some(noting) = self.noting() else { return Ok(None) };
        let placed = self.place(noting, entry.hash, key, value, PATIENCE)?;
        let version = placed.header.version;
        let event = Event::Move { target: target(entry), to: placed.slot };
        let moved = self.announce(&placed, Some(entry.slot), event);
        let left = self.left_by(&entry);
        self.end_placing(entry.hash, &placed, left, moved.as_ref().copied());
        Ok(moved?.then_some(version))
    }

    /// Whether the object with `key` may be another one than that with this entry, whose key perhaps cannot be read. None can come
    /// to be as long as that is there.
    fn may_be_another(&self, key: &[u8], entry: &Entry) -> Result<bool, Error> {
        let tail = self.sync(entry.hash)?;
        let found = self.state(entry.hash).index.find(self.memory(), entry.hash);
        Ok(found.iter().filter(|found| found.entry.slot != entry.slot).any(|found| {
            let looked = self.look(found, tail, key, Part::Nothing, |_, _| ());
            !matches!(looked, Ok(Looked::OtherKey))
        }))
    }

    /// The slot that an object has left, as is noted, unless a host may still write there: then who clears up after that
    /// one finds the slot in quarantine.
    fn left_by(&self, entry: &Entry) -> Option<Slot> {
        if self.is_quarantined(entry) {
            self.underway.notes.lost_no_more(entry.slot);
            return None;
        }
        self.state(entry.hash).space.slot_at(entry.slot)
    }

    /// Whether an object is lost with a host that others are clearing up after, and so are at its slot.
    fn is_cleared_up(&self, entry: &Entry) -> bool {
        entry
            .lost()
            .filter(|&host| host != BY_POISON)
            .map(|host| self.pod().stay_of(host))
            .is_some_and(|stay| {
                let alone = !(self.pod().is_fenced(stay) && self.pod().is_gone(stay));
                !self.memory().check(sites::LOST_ALONE, alone)
            })
    }

    /// The entry of the object with `key`, if its value is lost.
    fn find_lost(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let hash = self.hash(key)?;
        let tail = self.sync(hash)?;
        for found in self.state(hash).index.find(self.memory(), hash) {
            if found.entry.lost().is_some()
                && let Err(error) = self.look(&found, tail, key, Part::Nothing, |_, _| ())
                && error.is_loss()
            {
                return Ok(Some(found.entry));
            }
        }
        Ok(None)
    }

    /// Deletes an object whose value is lost; whether it was.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Log`].
    pub fn forget_lost(&self, key: &[u8]) -> Result<bool, Error> {
        self.persist(|| {
            let Some(entry) = self.find_lost(key)? else { return Ok(Some(false)) };
            let noting = if self.is_cleared_up(&entry) { None } else { self.noting() };
            noting.map(|noting| self.delete_noted(noting, entry, None)).transpose()
        })
    }

    /// Deletes an object of this version, if it has not changed since it had this entry.
    pub(crate) fn delete_noted(
        &self,
        noting: Noting,
        entry: Entry,
        version: Option<Version>,
    ) -> Result<bool, Error> {
        if self.memory().keeps(sites::LEAVE_NOTED) {
            let Noting { place, torn, .. } = noting;
            self.underway.note(place, Note::Deletes { slot: entry.slot, version, torn });
        }
        let deleted = self.commit(Event::Delete(target(entry)));
        match &deleted {
            // Others clear up, by the note.
            Err(Error::Log(LogError::Fenced { .. } | LogError::Damaged { .. })) => {}
            Ok(true) => {
                let noting = Noting { torn: None, ..noting };
                match self.left_by(&entry) {
                    Some(left) => self.leave_slot(&self.state(entry.hash).space, left, noting),
                    None => self.end_note(noting),
                }
            }
            _ => self.end_note(noting),
        }
        deleted
    }

    /// Replaces the value if the object is at version `expected`.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is not, [`Error::NotFound`], and those of [`write`](Self::write).
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Version,
        value: &[u8],
    ) -> Result<Version, Error> {
        let mut locked = self.lock(key)?.ok_or(Error::NotFound)?;
        if locked.header().version != expected {
            return Err(Error::Changed);
        }
        locked.set(key, value)?;
        let version = locked.header().version;
        locked.finish().map(|()| version)
    }

    /// Reads an object, lets `change` decide, and does it, all in one step. `change` gets the value,
    /// or `None` if there is no such object; it may be called several times, the last call counts.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn update(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), Error> {
        self.persist(|| {
            let Some(mut locked) = self.lock(key)? else {
                let Change::Put(value) = change(None) else { return Ok(Some(())) };
                return match self.create(key, &value) {
                    Err(Error::Exists) => Ok(None),
                    created => created.map(|_| Some(())),
                };
            };
            let mut value = vec![0; locked.header().value_bytes as usize];
            locked.read(0, &mut value)?;
            match change(Some(&value)) {
                Change::Keep => Ok(()),
                Change::Put(value) => locked.set(key, &value).and_then(|()| locked.finish()),
                Change::Delete => locked.delete(),
            }
            .map(Some)
        })
    }

    /// Deletes an object; whether there was one.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Busy`], [`Error::Log`].
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
        unmarked_only: bool,
    ) -> Result<bool, Error> {
        let hash = self.begin(key)?;
        self.persist(|| {
            let tail = self.sync(hash)?;
            for found in self.state(hash).index.find(self.memory(), hash) {
                if found.entry.home() == Some(self.seat.host()) {
                    // This one, or another with its hash: the lock tells.
                    return Ok(Some(
                        self.delete_locked(key, expected, unmarked_only)?.unwrap_or(false),
                    ));
                }
                let looked = self.look(&found, tail, key, Part::Nothing, |_, _| ());
                if let (Err(error), None) = (&looked, expected)
                    && error.is_loss()
                {
                    if unmarked_only && self.memory().keeps(sites::DELETE_FOUND) {
                        return Ok(Some(false));
                    }
                    return Ok(self.forget_lost(key)?.then_some(true));
                }
                let header = match looked? {
                    Looked::Good((header, ())) => header,
                    Looked::OtherKey => continue,
                    Looked::Changed => return Ok(None),
                };
                if expected.is_some_and(|expected| expected != header.version) {
                    return Err(Error::Changed);
                }
                let locked = self.memory().keeps(sites::DELETE_LOCK);
                if found.entry.record().is_some() && locked {
                    return self.delete_locked(key, expected, unmarked_only);
                }
                // Read-shared: nobody can write it without an event that makes this one void.
                let Some(noting) = self.noting() else { return Ok(None) };
                if !self.delete_noted(noting, found.entry, Some(header.version))? {
                    return Ok(None);
                }
                self.count(Counter::Deletes);
                return Ok(Some(true));
            }
            Ok(Some(false))
        })
    }

    fn delete_locked(
        &self,
        key: &[u8],
        expected: Option<Version>,
        unmarked_only: bool,
    ) -> Result<Option<bool>, Error> {
        let Some(locked) = self.lock(key)? else { return Ok(None) };
        if expected.is_some_and(|expected| expected != locked.header().version) {
            return Err(Error::Changed);
        }
        let marked =
            unmarked_only && locked.record().is_some_and(|record| self.marks.is_set(record));
        if !self.memory().check(sites::DELETE_UNMARKED, !marked) {
            return Ok(Some(false));
        }
        locked.delete()?;
        Ok(Some(true))
    }
}

/// What came of a write in its slot, unless it takes more than that; so does one of an object that turns out to be lost.
#[inline(always)]
fn or_anyhow(
    written: Option<Result<Version, Box<Error>>>,
    put_anyhow: impl FnOnce() -> Result<Version, Error>,
) -> Result<Version, Error> {
    match written {
        Some(Ok(version)) => Ok(version),
        Some(Err(error)) if !error.is_loss() => Err(*error),
        _ => put_anyhow(),
    }
}
