//! Moving in.

use std::sync::atomic::Ordering;

use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Header};

use super::Home;
use super::resident::Hold;
use crate::event::{Event, SlotLine};
use crate::index::Entry;
use crate::lock::target;
use crate::{Error, Objects};

/// Objects of up to this many bytes move: who asks for one waits while it is written back.
const LARGEST: u64 = 64 << 10;

impl<M: Memory> Objects<M> {
    /// Moves an object, as it was when it had this entry, into this host's memory; whether it did. The
    /// caller makes sure that it has not been written since, or that the entry would have changed.
    pub(crate) fn settle(
        &self,
        entry: Entry,
        header: Header,
        key: &[u8],
        value: Vec<u8>,
    ) -> Result<bool, Error> {
        // It would have to leave again before it is written.
        if !self.may_settle(header) || self.home.is_backed() && self.is_viewed(entry) {
            return Ok(false);
        }
        let Some(mut hold) = self.home.expect(entry.slot) else { return Ok(false) };
        let settled = self.commit(Event::Settle { target: target(entry), host: self.home.host });
        let found = self.state(entry.hash).index.find_slot(self.memory(), entry.hash, entry.slot);
        match found {
            Some(found) if matches!(settled, Ok(true)) => {
                self.count(Counter::MovedIn);
                // Else its slot is as this host has just read it, and so are the lines in its caches.
                if !self.home.is_backed() {
                    self.mark_away(&found.entry, self.home.host)?;
                }
                self.home.arrive(&mut hold, found.entry, header, key, value);
            }
            _ => self.home.forget(entry.slot),
        }
        settled
    }
}

impl<M: Memory> Objects<M> {
    /// Whether there is room for an object with this header, and for an event.
    pub(crate) fn may_settle(&self, header: Header) -> bool {
        let bytes = header.total_bytes();
        bytes <= LARGEST
            && self.may_be_backed(bytes)
            && self.home.has_room(bytes)
            && self.logs_have_room()
    }

    /// Whether an object of so many bytes can be kept in its slot, too, if it is to be.
    pub(super) fn may_be_backed(&self, bytes: u64) -> bool {
        !self.home.is_backed() || self.underway.may_change(bytes)
    }
}

impl<M: Memory> Home<M> {
    fn arrive(&self, hold: &mut Hold<M>, entry: Entry, header: Header, key: &[u8], value: Vec<u8>) {
        hold.here = Some(entry);
        hold.key = key.to_vec();
        hold.value = value;
        self.keep(hold, header);
    }

    /// The resident has this header now.
    pub(super) fn keep(&self, hold: &mut Hold<M>, header: Header) {
        hold.header = Some(header);
        let before = std::mem::replace(&mut hold.bytes, header.total_bytes());
        self.bytes.fetch_add(hold.bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// The resident is gone: who still comes for it looks at the index again.
    pub(super) fn leave(&self, slot: SlotLine, hold: &mut Hold<M>) {
        hold.here = None;
        hold.header = None;
        self.bytes.fetch_sub(std::mem::take(&mut hold.bytes), Ordering::Relaxed);
        self.forget(slot);
    }
}
