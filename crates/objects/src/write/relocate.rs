//! New places for objects.

use std::time::Duration;

use tombolo_memory::{Lines, Memory};
use tombolo_sharing::{
    Counter, HEADER_BYTES, Header, PREFIX_BYTES, object_bytes, retry_with_backoff,
};

use crate::error::{changed_under_lock, may_be_committed, no_such_slot};
use crate::ids::{KeyHash, Slot, SlotLine};
use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::storage::intents::{Intent, IntentSlot, Torn};
use crate::storage::space::Space;
use crate::storage::space::extent::Extent;
use crate::{Error, Objects, sites};

/// An object's bytes in a slot that is reserved for it, not announced yet.
pub(crate) struct Placed {
    pub(crate) slot: Slot,
    pub(crate) extent: Extent,
    pub(crate) header: Header,
    pub(crate) intent: OpenIntent,
    pub(crate) filled: Filled,
}

/// How an object came into its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Through this host's caches, or past them: it has to be cleaned.
    Here,
    /// The same, and it is in memory.
    Cleaned,
    /// Perhaps by another agent, of whose stores this host's caches may know nothing.
    ByAny,
}

impl Placed {
    /// The lines of the object that have to be cleaned before it is announced.
    pub(crate) fn uncleaned(&self) -> impl Iterator<Item = Lines> {
        let bytes = if self.filled == Filled::Cleaned { 0 } else { self.header.total_bytes() };
        self.extent.covering(0, bytes)
    }
}

/// Where a thread records what it is about to do to slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenIntent {
    pub(crate) intent_slot: IntentSlot,
    /// The record there of an object that the thread has locked, and changed.
    pub(crate) torn: Torn,
    /// It records nothing else there: nothing that it has locked.
    pub(crate) alone: bool,
    /// The object that it is about is in this host's own memory.
    pub(crate) in_partition: bool,
}

impl<M: Memory> Objects<M> {
    /// An intent for a thread that has locked nothing; `None` while all are in use.
    pub(crate) fn open_intent(&self) -> Option<OpenIntent> {
        Some(OpenIntent {
            intent_slot: self.intents.reserve()?,
            torn: None,
            alone: true,
            in_partition: false,
        })
    }

    /// The same, for who holds no other: others will be through with theirs.
    pub(crate) fn open_intent_waiting(&self) -> Result<OpenIntent, Error> {
        retry_with_backoff(self.memory(), || Ok(self.open_intent()))
    }

    /// The intent on these slots is over.
    pub(crate) fn close_intent(&self, OpenIntent { intent_slot, torn, alone, .. }: OpenIntent) {
        match torn {
            Some(change) => self.intents.set(intent_slot, Intent::Writes(change)),
            None if alone => self.intents.end(intent_slot, true),
            None => self.intents.clear(intent_slot),
        }
    }

    /// Writes an object into a free slot, through this host's caches.
    pub(crate) fn place(
        &self,
        intent: OpenIntent,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        patience: Duration,
    ) -> Result<Placed, Error> {
        let header = Header::new(self.next_version(), key, value.len() as u32);
        let bytes = object_bytes(key, value).inspect_err(|_| self.close_intent(intent))?;
        self.place_within(intent, hash, bytes, header, key, value, patience)
    }

    /// The same, with this header, into a slot that has room for so many bytes.
    #[allow(clippy::too_many_arguments, reason = "what an object is, and where it goes")]
    pub(crate) fn place_within(
        &self,
        intent: OpenIntent,
        hash: KeyHash,
        bytes: u64,
        header: Header,
        key: &[u8],
        value: &[u8],
        patience: Duration,
    ) -> Result<Placed, Error> {
        loop {
            let slot =
                self.reserve(hash, bytes, patience).inspect_err(|_| self.close_intent(intent))?;
            match self.write_new(intent, slot, header, key, value) {
                // Each time there is a chunk less to choose from.
                Err(Error::Poisoned) => {}
                placed => return placed,
            }
        }
    }

    /// Writes an object into a slot that is reserved for it.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the slot is of no use: it is given up.
    pub(crate) fn write_new(
        &self,
        intent: OpenIntent,
        slot: Slot,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<Placed, Error> {
        let space = &self.shards()[0].state().space;
        let extent = space.extent(slot).ok_or_else(no_such_slot)?;
        if self.memory().keeps(sites::PLACE_NOTED) {
            let OpenIntent { intent_slot, torn, .. } = intent;
            self.intents.set(intent_slot, Intent::Places { to: slot.line, torn });
        }
        self.write_whole(&extent, header, key, value);
        if self.memory().check(sites::POISON_PLACE, !self.is_poisoned(&extent)) {
            return Ok(Placed { slot, extent, header, intent, filled: Filled::Here });
        }
        let lines = extent.covering(0, header.total_bytes());
        self.memory().publish(sites::CREATE_CLEAN, lines, |memory| extent.give(memory, 0));
        let space = self.space_of(slot.line)?;
        space.set_poisoned(&extent);
        space.scrub(sites::SLOT_SCRUB, [slot.line]);
        space.resolve(slot, false);
        Err(Error::Poisoned)
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
        extent.write_to_end(memory, header.value_offset(), value);
        let cleaned = extent.covering(0, header.total_bytes()).map(Lines::count).sum();
        self.counters.add(Counter::CleanedLines, cleaned);
    }

    /// Brings a placed object into memory and commits the event that names its slot, and perhaps
    /// takes it out of another one.
    pub(crate) fn announce(
        &self,
        placed: &Placed,
        from: Option<SlotLine>,
        event: Event,
    ) -> Result<bool, Error> {
        self.announce_after(placed, from, event, || ())
    }

    /// The same, where `then` is done just before the event.
    pub(crate) fn announce_after(
        &self,
        placed: &Placed,
        from: Option<SlotLine>,
        event: Event,
        then: impl FnOnce(),
    ) -> Result<bool, Error> {
        let Placed { slot, extent, header, intent, .. } = placed;
        self.memory().publish(sites::CREATE_CLEAN, placed.uncleaned(), |memory| {
            extent.give(memory, header.total_bytes());
            if memory.keeps(sites::LEAVE_NOTED) {
                let (to, version, torn) = (slot.line, header.version, intent.torn);
                let from_partition = memory.keeps(sites::PARTITION_MOVES) && intent.in_partition;
                self.intents.set(
                    intent.intent_slot,
                    Intent::Announces { from, to, version, torn, from_partition },
                );
            }
            then();
            self.commit(event)
        })
    }

    /// Leaves the slots in order between which an object was to move, after the event.
    pub(crate) fn end_placing(
        &self,
        hash: KeyHash,
        placed: &Placed,
        from: Option<Slot>,
        outcome: Result<bool, &Error>,
    ) {
        let Placed { slot, intent, .. } = placed;
        let space = &self.state(hash).space;
        let moved = match outcome {
            // A host that was fenced leaves everything as it is, and its intent, to others.
            Err(error) if may_be_committed(error) => return,
            outcome => matches!(outcome, Ok(true)),
        };
        if moved {
            if let Some(from) = from {
                // It is certain from here on which of the two slots is the object's.
                let deletes = Intent::Deletes { slot: from.line, version: None, torn: None };
                self.intents.set(intent.intent_slot, deletes);
                self.leave_slot(space, from, OpenIntent { torn: None, ..*intent });
            } else {
                self.close_intent(*intent);
            }
        } else {
            let OpenIntent { intent_slot, torn, .. } = *intent;
            self.intents.set(intent_slot, Intent::Places { to: slot.line, torn });
            space.scrub(sites::SLOT_SCRUB, [slot.line]);
            self.close_intent(*intent);
        }
        space.resolve(*slot, moved);
    }

    /// Takes the header out of a slot that an object has left, as is recorded, and frees it.
    pub(crate) fn leave_slot(&self, space: &Space<M>, slot: Slot, intent: OpenIntent) {
        space.scrub(sites::SLOT_SCRUB, [slot.line]);
        space.free_chain(slot);
        self.close_intent(intent);
    }

    /// Gives an object that nobody else can change another value in another slot; `slot` was its
    /// own.
    pub(crate) fn relocate(
        &self,
        intent: OpenIntent,
        entry: Entry,
        slot: Slot,
        key: &[u8],
        value: &[u8],
    ) -> Result<Placed, Error> {
        // Its caller keeps others off an object.
        let to = self.place(intent, entry.hash, key, value, Duration::ZERO)?;
        self.announce_move(entry, slot, to)?.ok_or_else(changed_under_lock)
    }

    /// Commits the move of an object out of its `slot`; `None` if the object has changed meanwhile.
    pub(crate) fn announce_move(
        &self,
        entry: Entry,
        slot: Slot,
        to: Placed,
    ) -> Result<Option<Placed>, Error> {
        let event = Event::Move { target: target(entry), to: to.slot };
        let moved = self.announce(&to, Some(slot.line), event);
        self.end_placing(entry.hash, &to, Some(slot), moved.as_ref().copied());
        if !moved? {
            return Ok(None);
        }
        self.count(Counter::Moves);
        Ok(Some(to))
    }

    /// Writes an object as it is into a slot of the size of its own.
    pub(crate) fn place_copy(
        &self,
        intent: OpenIntent,
        hash: KeyHash,
        from: Slot,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Placed>, Error> {
        let sync = || self.sync(hash).map(drop);
        match self.state(hash).space.reserve_among_others(from.class, sync) {
            Ok(Some(slot)) => {
                let placed = self.write_new(intent, slot, header, key, value);
                placed.map(Some).inspect_err(|_| self.close_intent(intent))
            }
            none => {
                self.close_intent(intent);
                none.map(|_| None)
            }
        }
    }
}
