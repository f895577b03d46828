//! Moving in.

use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Header};

use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::write::lock::{HeldLock, Locked, Phase};
use crate::{Error, Objects};

/// Objects of up to this many bytes move: a host that asks for one waits while it is written back.
const LARGEST: u64 = 64 << 10;

impl<M: Memory> Objects<M> {
    /// Moves an object, as it was when it had this entry, into this host's memory; whether it did.
    /// The caller makes sure that it has not been written since, or that the entry would have
    /// changed.
    pub(crate) fn move_in(
        &self,
        entry: Entry,
        header: Header,
        key: &[u8],
        value: Vec<u8>,
    ) -> Result<bool, Error> {
        // It would have to leave again before it is written.
        if !self.may_move_in(header) || self.partition.is_backed() && self.is_viewed(entry) {
            return Ok(false);
        }
        let Some(mut hold) = self.partition.expect(entry.slot) else { return Ok(false) };
        let moved = self.commit(Event::MoveIn { target: target(entry), host: self.partition.host });
        let found = self.state(entry.hash).index.find_slot(self.memory(), entry.hash, entry.slot);
        match found {
            Some(found) if matches!(moved, Ok(true)) => {
                self.count(Counter::MovedIn);
                // Else its slot is as this host has just read it, and so are the lines in its
                // caches.
                if !self.partition.is_backed() {
                    self.mark_away(&found.entry, self.partition.host)?;
                }
                self.partition.arrive(&mut hold, found.entry, header, key, value);
            }
            _ => self.partition.forget(entry.slot),
        }
        moved
    }

    /// Whether there is room for an object with this header, and for an event.
    pub(crate) fn may_move_in(&self, header: Header) -> bool {
        let bytes = header.total_bytes();
        bytes <= LARGEST
            && self.may_be_backed(bytes)
            && self.partition.has_room(bytes)
            && self.logs_have_room()
    }
}

impl<M: Memory> Locked<'_, M> {
    /// Moves the object into this host's memory, and frees its record; `None` then, and itself if
    /// the object stays.
    pub(crate) fn move_in(mut self, key: &[u8]) -> Result<Option<Self>, Error> {
        let objects = self.objects;
        let HeldLock::Record(held) = self.held else { return Ok(Some(self)) };
        if !objects.may_move_in(self.header) {
            return Ok(Some(self));
        }
        let mut value = vec![0; self.header.value_bytes as usize];
        self.read(0, &mut value)?;
        self.give();
        let moved = objects.move_in(self.entry, self.header, key, value);
        if matches!(moved, Ok(true)) {
            // Before the record can be another object's.
            objects.intents.clear(self.intent_slot);
            objects.records.free(held);
            self.phase = Phase::Released;
            objects.intents.end(self.intent_slot, false);
            return Ok(None);
        }
        if objects.may_store().is_ok() {
            self.extent.take(objects.memory());
        }
        moved.map(|_| Some(self))
    }
}
