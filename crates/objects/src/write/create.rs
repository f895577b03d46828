//! New objects.

use smallvec::SmallVec;
use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Part};

use crate::host::lookup::{Attempt, Lookup};
use crate::host::reserve::PATIENCE;
use crate::ids::{KeyHash, NOTE_PREFIX};
use crate::replica::apply::fingerprint;
use crate::replica::event::Event;
use crate::storage::index::Entry;
use crate::write::own_locks::OwnLocks;
use crate::write::relocate::Placed;
use crate::{Error, Objects, Version};

impl<M: Memory> Objects<M> {
    /// Creates an object.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::LnrFull`], [`Error::TooLarge`] or [`Error::IndexFull`] if there
    /// is no room; [`Error::KeyLength`], [`Error::Busy`], [`Error::Stalled`], [`Error::Fenced`].
    pub fn create(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        let hash = self.begin(key)?;
        if key.starts_with(NOTE_PREFIX) {
            return Err(Error::ReservedKey);
        }
        self.check_index(hash)?;
        let mut placed = None;
        let created = self.retry_with_backoff(|| {
            let Some(expected) = self.absent(hash, key)? else { return Ok(None) };
            if placed.is_none() {
                let Some(intent) = self.open_intent() else { return Ok(None) };
                placed = Some(self.place(intent, hash, key, value, PATIENCE)?);
            }
            let Some(placed) = &placed else { return Ok(None) };
            Ok(self.announce_new(hash, placed, expected)?.then_some(placed.header.version))
        });
        if let Some(placed) = placed {
            self.end_placing(hash, &placed, None, created.as_ref().map(|_| true));
        }
        if created.is_ok() {
            self.count(Counter::Creates);
        }
        created
    }

    /// Sees that the index has room for an object with this hash.
    ///
    /// # Errors
    /// [`Error::IndexFull`].
    pub(crate) fn check_index(&self, hash: KeyHash) -> Result<(), Error> {
        let index = &self.state(hash).index;
        let objects = index.len();
        if objects >= index.capacity() { Err(Error::IndexFull { objects }) } else { Ok(()) }
    }

    /// On what it is conditional that an object with `key` comes to be: the other objects with its
    /// hash. `None` if something changed meanwhile.
    ///
    /// # Errors
    /// [`Error::Exists`], and those of a read.
    pub(crate) fn absent(&self, hash: KeyHash, key: &[u8]) -> Result<Option<u32>, Error> {
        self.absent_beside(hash, key, &OwnLocks::default())
    }

    /// The same, while this thread has objects with other keys locked.
    pub(crate) fn absent_beside(
        &self,
        hash: KeyHash,
        key: &[u8],
        own: &OwnLocks,
    ) -> Result<Option<u32>, Error> {
        let mut others = SmallVec::<[Entry; 4]>::new();
        let same = self.lookup(hash, |found, tail| {
            others.push(found.entry);
            if own.has(&found.entry) {
                return Ok(Attempt::OtherKey);
            }
            self.look(found, tail, key, Part::Nothing, |_, _| ())
        })?;
        match same {
            Lookup::Found(_) => Err(Error::Exists),
            Lookup::Absent => Ok(Some(fingerprint(others.into_iter()))),
            Lookup::Retry => Ok(None),
        }
    }

    /// Has the log say that a placed object is there, unless `expected` has changed.
    pub(crate) fn announce_new(
        &self,
        hash: KeyHash,
        placed: &Placed,
        expected: u32,
    ) -> Result<bool, Error> {
        let Placed { slot, intent, .. } = *placed;
        let intent_slot = intent.intent_slot;
        let event = Event::Create { hash, slot, expected, intent_slot, record: None };
        self.announce(placed, None, event)
    }
}
