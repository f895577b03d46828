//! Opening a pod in which nobody is: one that was left in order, or one whose hosts have all died.
//!
//! The hosts' own knowledge is gone with them. Left are the slots, in LNR, whose headers say what
//! objects there are, and in SCR the intents of what hosts had under way
//! ([`intents`](crate::storage::intents)). An object that no intent names is as its slot says. An
//! operation that an intent names was answered to nobody: it may be done, or not, but for what
//! others may have seen.
//!
//! * *Writes* in place, cut off: the old value is put back, or the object is lost, as the pod was
//!   created. If its lock is not held any more, the write was over.
//! * *Places*: there is nothing in the slot.
//! * *Deletes*: it is gone, if it is still the same.
//! * *Announces*: if the new slot is not as it was written, the object had moved there; if it is,
//!   and the old slot is not as it was copied, it had not. Otherwise both say the same. An object
//!   that came from the host's own memory has moved, unless its old slot is empty: others may have
//!   seen it in the new one, and nobody can have changed it in the old. A new object is there,
//!   unless another one has its key: of several new ones the one that is *created*, or else the one
//!   that the log has first. (It still has what a host had not applied.)
//! * *Created*, a note of a transaction: the transaction is done, with all objects that it still
//!   has locked. *Announced* alone: no host has seen anything of it, and it is not done.
//! * *Moves out*: lost; and so is what was in a host's own memory, as its slot says, unless the pod
//!   was created to have it there, too.
//!
//! Each intent is cleared when what it says is done, and in memory; so a host that dies at this
//! leaves the rest to the next. A fact that cannot be told any more once a step is half done is
//! recorded in the intent first. For an announced move, that is which of the two slots is to be
//! empty. New objects keep their intents until the whole pod was looked at.
//!
//! Left out: pods of HCMeta's hosts, whose slots are no guide.

use std::collections::BTreeMap;

use tombolo_log::scan;
use tombolo_memory::Memory;
use tombolo_pod::PodError;
use tombolo_sharing::ObjectArea;

use crate::ids::{LostTo, Slot, SlotLine};
use crate::lifecycle::offline::{AtRest, object_at_rest, value_at_rest};
use crate::replica::event::Event;
use crate::storage::intents::{Intent, IntentSlot, IntentTable};
use crate::storage::records::{LockedBy, Records};
use crate::storage::space::Space;
use crate::storage::space::away::restore_bytes;
use crate::storage::space::chunk_table::{ChunkState, ChunkWord};
use crate::storage::space::extent::Extent;
use crate::transaction::{decode, note_key};
use crate::{Error, sites};

/// A new object. The least of several with one key is the one that is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct New {
    /// Whether nobody has recorded that it is there.
    undecided: bool,
    /// Where the log has it; at its end, if it does not.
    position: u64,
    line: SlotLine,
}

/// A pod without hosts, in the hands of the one that opens it.
pub(crate) struct Reopened<'a, M: Memory> {
    area: &'a ObjectArea<M>,
    space: &'a Space<M>,
    records: &'a Records<M>,
    intents: IntentTable<M>,
    /// New objects that are there only if no others have their keys.
    unsure: BTreeMap<Vec<u8>, New>,
    /// Where the log has new objects.
    ordered: BTreeMap<SlotLine, u64>,
}

impl<'a, M: Memory> Reopened<'a, M> {
    /// Looks at a pod that only its opener uses, through a space and records that know nothing.
    ///
    /// # Errors
    /// [`PodError::NotGone`] if a host that was fenced may still be at something.
    pub(crate) fn new(
        area: &'a ObjectArea<M>,
        space: &'a Space<M>,
        records: &'a Records<M>,
    ) -> Result<Self, Error> {
        for host in area.membership().fenced() {
            if !area.is_gone(area.stay_of(host)) {
                return Err(PodError::NotGone {
                    place: area.memory().place(),
                    host,
                    pid: area.pod().pid_at(host),
                }
                .into());
            }
        }
        let events = area.layout().shards().flat_map(|shard| scan::<M, Event>(area, shard));
        let ordered = events.filter_map(|(position, event)| match event {
            Event::Create { slot, .. } => Some((slot.line, position)),
            _ => None,
        });
        let (intents, unsure, ordered) =
            (IntentTable::new(area), BTreeMap::new(), ordered.collect());
        Ok(Self { area, space, records, intents, unsure, ordered })
    }

    /// Does everything that intents say, and frees what chunks nothing is in.
    pub(crate) fn put_in_order(&mut self) -> Result<(), Error> {
        for number in self.space.chunk_numbers() {
            self.release_chunk(number)?;
        }
        let intents: Vec<(u8, IntentSlot, Intent)> = self.intents.all().collect();
        for &(host, _, intent) in &intents {
            intent.left().into_iter().try_for_each(|line| self.withhold_chunk(line))?;
            self.mend_torn(host, intent)?;
        }
        for &(host, intent_slot, intent) in &intents {
            self.redo_transaction(host, intent_slot, intent)?;
        }
        self.intents.hosts().try_for_each(|host| self.end_quarantine(host))?;
        // A deleted object might have been moving.
        let (moves, others): (Vec<_>, Vec<_>) = intents
            .into_iter()
            .partition(|(_, _, intent)| matches!(intent, Intent::Announces { .. }));
        for (host, intent_slot, intent) in others.into_iter().chain(moves) {
            if self.end(host, intent_slot, intent)? {
                self.intents.clear(host, intent_slot);
            }
        }
        self.free_broken_chains()
    }

    /// Nobody has taken this chunk any more.
    fn release_chunk(&self, number: u32) -> Result<(), Error> {
        let word = self.space.word(number)?;
        if word.is_taken() {
            let slots = self.space.slots_of(number)?;
            self.space.set(number, if slots.is_empty() { word.freed() } else { word.shared() });
        }
        Ok(())
    }

    /// An object may be in this slot: its chunk is not free yet, though the log said so.
    fn withhold_chunk(&self, line: SlotLine) -> Result<(), Error> {
        let number = self.space.chunk_at(line)?;
        let word = self.space.word(number)?;
        if word.state == ChunkState::Free && word.is_carved() {
            self.space.set(number, word.shared());
        }
        Ok(())
    }

    /// If a write in place was cut off: puts the old value back, or says that the object is lost.
    fn mend_torn(&self, host: u8, intent: Intent) -> Result<(), Error> {
        let Some(change) = intent.torn() else { return Ok(()) };
        let (by, line) = (change.by(), change.slot);
        let torn = self.area.memory().keeps(sites::OPEN_TORN) && self.is_locked(host, by);
        if !torn {
            return Ok(());
        }
        let Some(extent) = self.extent_of(line)? else { return Ok(()) };
        let old = self.intents.torn(host, by, line).and_then(|cut| self.intents.undone(&cut, line));
        match old {
            Some(object) if restore_bytes(self.area.memory(), &extent, &object) => {}
            Some(_) => self.space.mark_away(&extent, LostTo::MemoryError),
            None => self.space.mark_away(&extent, LostTo::Host(host)),
        }
        Ok(())
    }

    /// If an intent says that there is the note of a transaction: does what that says of objects
    /// that are still locked. All are, unless hosts went on without that one.
    fn redo_transaction(
        &self,
        host: u8,
        intent_slot: IntentSlot,
        intent: Intent,
    ) -> Result<(), Error> {
        let Intent::Created { to } = intent else { return Ok(()) };
        let (slot, object) = (self.slot_at(to)?, self.object_at(to)?);
        let own = note_key(self.area.stay_of(host), intent_slot);
        let (Some(slot), Some(object)) = (slot, object.filter(|object| object.key == own)) else {
            return Ok(());
        };
        let note = value_at_rest(self.area, self.space, slot, &object);
        let redo =
            note.as_deref().and_then(decode).filter(|_| self.area.memory().keeps(sites::OPEN_REDO));
        for redo in redo.into_iter().flatten() {
            if !self.is_locked(host, LockedBy::Record(redo.record)) {
                continue;
            }
            match redo.image {
                Some(image) => self.restore_image(redo.slot, &image)?,
                None => {
                    if self.object_at(redo.slot)?.is_some_and(|it| it.is(redo.before)) {
                        self.scrub(redo.slot)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn restore_image(&self, line: SlotLine, image: &[u8]) -> Result<(), Error> {
        if let Some(extent) = self.extent_of(line)?
            && !restore_bytes(self.area.memory(), &extent, image)
        {
            self.space.mark_away(&extent, LostTo::MemoryError);
        }
        Ok(())
    }

    /// Whether this is the note of a transaction, which is no object of anybody's.
    fn is_note(&self, line: SlotLine) -> Result<bool, Error> {
        Ok(self.object_at(line)?.is_some_and(|object| object.is_note()))
    }

    /// Whether an object is locked as `host` had it locked, or a host that took its lock over.
    fn is_locked(&self, host: u8, by: LockedBy) -> bool {
        // Without a record, the intent was cleared when the write was over.
        let LockedBy::Record(record) = by else { return true };
        let Some(holder) = self.records.load(record).holder() else { return false };
        self.intents.holders(holder, record).any(|of| of == host)
    }

    /// Does what this intent of `host` says, whose torn object is in order; whether it is through
    /// with that.
    fn end(&mut self, host: u8, intent_slot: IntentSlot, intent: Intent) -> Result<bool, Error> {
        match intent {
            Intent::Writes { .. } | Intent::TookOver { .. } | Intent::Through { .. } => {}
            Intent::Places { to, .. } => self.scrub(to)?,
            Intent::Announces { from: None, to, .. } | Intent::Created { to }
                if self.is_note(to)? =>
            {
                self.scrub(to)?;
            }
            Intent::Announces { from: None, to, .. } => {
                self.consider_new(to, true)?;
                return Ok(false);
            }
            Intent::Created { to } => {
                self.consider_new(to, false)?;
                return Ok(false);
            }
            Intent::Announces { from: Some(from), to, version, from_partition, .. } => {
                let as_written = self.object_at(to)?.is_some_and(|there| there.is(version));
                let stays = match self.object_at(from)? {
                    Some(left) => {
                        as_written && !from_partition && !left.is_away() && !left.is(version)
                    }
                    None => as_written,
                };
                let (empty, decided) = match stays {
                    true => (to, Intent::Places { to, torn: None }),
                    false => (from, Intent::Deletes { slot: from, version: None, torn: None }),
                };
                self.intents.set(host, intent_slot, decided);
                self.scrub(empty)?;
            }
            Intent::Deletes { slot, version, .. } => {
                if version.is_none()
                    || self.object_at(slot)?.is_some_and(|it| version.is_some_and(|of| it.is(of)))
                {
                    self.scrub(slot)?;
                }
            }
            Intent::MovesOut { slot } => self.lose(slot, host)?,
        }
        Ok(true)
    }

    /// The value of the object in this slot is lost with `host`.
    fn lose(&self, slot: SlotLine, host: u8) -> Result<(), Error> {
        if let Some(extent) = self.extent_of(slot)? {
            self.space.mark_away(&extent, LostTo::Host(host));
        }
        Ok(())
    }

    /// In slots into which `host` might still write is no object, but such as are lost.
    fn end_quarantine(&self, host: u8) -> Result<(), Error> {
        for (slot, lost) in self.intents.quarantine(host) {
            if lost { self.lose(slot, host)? } else { self.scrub(slot)? }
        }
        self.intents.end_quarantine(host);
        Ok(())
    }

    /// A new object is there, unless another one with its key is.
    fn consider_new(&mut self, line: SlotLine, undecided: bool) -> Result<(), Error> {
        let Some(object) = self.object_at(line)? else { return Ok(()) };
        let position = self.ordered.get(&line).copied().unwrap_or(u64::MAX);
        let new = New { undecided, position, line };
        let known = *self.unsure.get(&object.key).unwrap_or(&new);
        if known != new {
            self.scrub(known.max(new).line)?;
        }
        self.unsure.insert(object.key, known.min(new));
        Ok(())
    }

    /// Takes the header out of a slot, which has to be somewhere.
    fn scrub(&self, line: SlotLine) -> Result<(), Error> {
        self.space.chunk_at(line)?;
        self.space.scrub(sites::SLOT_SCRUB, [line]);
        Ok(())
    }

    /// The slot that begins at this line, as its chunk's word says.
    fn slot_at(&self, line: SlotLine) -> Result<Option<Slot>, Error> {
        let slots = self.space.slots_of(self.space.chunk_at(line)?)?;
        Ok(slots.into_iter().find(|slot| slot.line == line))
    }

    fn extent_of(&self, line: SlotLine) -> Result<Option<Extent>, Error> {
        Ok(self.slot_at(line)?.and_then(|slot| self.space.extent(slot)))
    }

    fn object_at(&self, line: SlotLine) -> Result<Option<AtRest>, Error> {
        let untrue = self.space.word(self.space.chunk_at(line)?)?.untrue;
        match self.slot_at(line)?.filter(|_| !untrue) {
            Some(slot) => object_at_rest(self.area, self.space, slot),
            None => Ok(None),
        }
    }

    /// Frees the chunks of large objects that are not, or are no more.
    fn free_broken_chains(&self) -> Result<(), Error> {
        let mut whole = Vec::new();
        for number in self.space.chunk_numbers() {
            let word = self.space.word(number)?;
            if word.state != ChunkState::ChainHead {
                continue;
            }
            let chain: Result<Vec<u32>, Error> = self.space.chain(number).collect();
            let line = self.space.first_line_of(number);
            match chain {
                Ok(chain) if self.object_at(line)?.is_some() => whole.extend(chain),
                _ => self.space.set(number, ChunkWord::EMPTIED),
            }
        }
        for number in self.space.chunk_numbers() {
            let is_link = self.space.word(number)?.state == ChunkState::ChainLink;
            if is_link && !whole.contains(&number) {
                self.space.set(number, ChunkWord::EMPTIED);
            }
        }
        Ok(())
    }

    /// Whether an object that is in `line` is the one that has this key: of two, the one that was
    /// not being created.
    pub(crate) fn is_the_one(&mut self, key: &[u8], line: SlotLine) -> Result<bool, Error> {
        match self.unsure.get(key) {
            Some(unsure) if unsure.line != line => {
                self.scrub(unsure.line)?;
                self.unsure.remove(key);
                Ok(true)
            }
            unsure => Ok(unsure.is_none()),
        }
    }

    /// Whether a new object is in this chunk, whose key others may have.
    pub(crate) fn has_new_in(&self, number: u32) -> bool {
        self.unsure.values().any(|new| self.space.chunk_at(new.line).is_ok_and(|of| of == number))
    }

    /// Nothing is under way any more.
    pub(crate) fn clear_intents(&self) {
        self.intents.clear_everything();
    }

    /// Slots of new objects whose keys no others have: they are there.
    pub(crate) fn new_ones(&mut self) -> Result<Vec<(Slot, AtRest)>, Error> {
        let lines: Vec<SlotLine> =
            std::mem::take(&mut self.unsure).into_values().map(|new| new.line).collect();
        let mut found = Vec::with_capacity(lines.len());
        for line in lines {
            if let (Some(slot), Some(object)) = (self.slot_at(line)?, self.object_at(line)?) {
                found.push((slot, object));
            }
        }
        Ok(found)
    }
}
