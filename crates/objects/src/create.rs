//! New objects, and new places for old ones.

use std::time::Duration;

use tombolo_memory::{Lines, Memory};
use tombolo_sharing::{Counter, HEADER_BYTES, Header, PREFIX_BYTES, Part, object_bytes};

use crate::compact::PATIENCE;
use crate::event::{Event, KeyHash, Slot};
use crate::extent::Extent;
use crate::index::Entry;
use crate::lock::{changed_under_lock, target};
use crate::read::Looked;
use crate::replicated::fingerprint;
use crate::{Error, Objects, Version, sites};

/// An object's bytes in a slot that is promised to it, not announced yet.
pub(crate) struct Placed {
    pub(crate) slot: Slot,
    pub(crate) extent: Extent,
    pub(crate) header: Header,
}

impl<M: Memory> Objects<M> {
    /// Creates an object.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::LnrFull`], [`Error::TooLarge`] or [`Error::IndexFull`] if there is
    /// no room; [`Error::KeyLength`], [`Error::Busy`], [`Error::Log`].
    pub fn create(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        let hash = self.begin(key)?;
        let index = &self.state(hash).index;
        let objects = index.len();
        if objects >= index.capacity() {
            return Err(Error::IndexFull { objects });
        }
        let mut placed = None;
        let created = self.persist(|| {
            let tail = self.sync(hash)?;
            let found = self.state(hash).index.find(self.memory(), hash);
            for found in found.iter() {
                match self.look(found, tail, key, Part::Nothing, |_, _| ())? {
                    Looked::Good(_) => return Err(Error::Exists),
                    Looked::OtherKey => {}
                    Looked::Changed => return Ok(None),
                }
            }
            let expected = fingerprint(found.iter().map(|found| found.entry));
            if placed.is_none() {
                placed = Some(self.place(hash, key, value, PATIENCE)?);
            }
            let Some(placed) = &placed else { return Ok(None) };
            let event = Event::Create { hash, slot: placed.slot, expected };
            Ok(self.announce(placed, event)?.then_some(placed.header.version))
        });
        if let Some(placed) = placed {
            self.state(hash).space.settle(placed.slot, created.is_ok());
        }
        if created.is_ok() {
            self.count(Counter::Creates);
        }
        created
    }

    /// Writes an object into a free slot, through this host's caches.
    pub(crate) fn place(
        &self,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        patience: Duration,
    ) -> Result<Placed, Error> {
        let bytes = object_bytes(key, value)?;
        let slot = self.reserve(hash, bytes, patience)?;
        let header = Header::new(self.next_version(), key, value.len() as u32);
        self.write_new(slot, header, key, value)
    }

    /// Writes an object into a slot that is promised to it.
    pub(crate) fn write_new(
        &self,
        slot: Slot,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<Placed, Error> {
        let extent = self.shards()[0].state().space.extent(slot).ok_or_else(no_such_slot)?;
        self.write_whole(&extent, header, key, value);
        Ok(Placed { slot, extent, header })
    }

    /// Writes an object over whatever is in its slot.
    #[track_caller]
    pub(crate) fn write_whole(&self, extent: &Extent, header: Header, key: &[u8], value: &[u8]) {
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..HEADER_BYTES].copy_from_slice(&header.encode());
        prefix[HEADER_BYTES..][..key.len()].copy_from_slice(key);
        let memory = self.memory();
        extent.take_blank(memory);
        extent.write(memory, 0, &prefix[..HEADER_BYTES + key.len()]);
        extent.write(memory, header.value_offset(), value);
        let cleaned = extent.covering(0, header.total_bytes()).map(Lines::count).sum();
        self.counters.add(Counter::CleanedLines, cleaned);
    }

    /// Brings a placed object into memory and commits the event that names its slot.
    pub(crate) fn announce(&self, placed: &Placed, event: Event) -> Result<bool, Error> {
        let Placed { extent, header, .. } = placed;
        let lines = extent.covering(0, header.total_bytes());
        self.memory().publish(sites::CREATE_CLEAN, lines, |memory| {
            extent.give(memory, header.total_bytes());
            self.commit(event)
        })
    }

    /// Gives an object that nobody else can change another value in another slot; `slot` was its own.
    pub(crate) fn relocate(
        &self,
        entry: Entry,
        slot: Slot,
        key: &[u8],
        value: &[u8],
    ) -> Result<Placed, Error> {
        // Its caller keeps others off an object.
        let to = self.place(entry.hash, key, value, Duration::ZERO)?;
        self.announce_move(entry, slot, to)?.ok_or_else(changed_under_lock)
    }

    /// Commits the move of an object out of its `slot`; `None` if the object has changed meanwhile.
    pub(crate) fn announce_move(
        &self,
        entry: Entry,
        slot: Slot,
        to: Placed,
    ) -> Result<Option<Placed>, Error> {
        let space = &self.state(entry.hash).space;
        let moved = self.announce(&to, Event::Move { target: target(entry), to: to.slot });
        space.settle(to.slot, matches!(moved, Ok(true)));
        if !moved? {
            return Ok(None);
        }
        self.count(Counter::Moves);
        space.free_span(slot);
        Ok(Some(to))
    }
}

pub(crate) fn no_such_slot() -> Error {
    Error::Damaged("an object's slot is nowhere".to_owned())
}
