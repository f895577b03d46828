//! What a shard of the log drives: its part of the index, and what follows from it for slots and
//! records.

use std::sync::Arc;

use tombolo_log::State;
use tombolo_memory::{Memory, Work};

use crate::event::{Event, Generation, KeyHash, Slot, Target, generation_at};
use crate::index::{Entry, Index, IndexLimits, Writer};
use crate::logged::BY_LOG;
use crate::records::{Record, Records};
use crate::seen::{self, READ_SHARED};
use crate::sites;
use crate::space::Space;

pub(crate) struct Replicated<M: Memory> {
    pub(crate) memory: M,
    pub(crate) index: Index,
    pub(crate) space: Space<M>,
    /// Those of all shards: records are not divided among them.
    pub(crate) records: Arc<Records<M>>,
}

impl<M: Memory> Replicated<M> {
    pub(crate) fn new(
        memory: M,
        limits: IndexLimits,
        space: Space<M>,
        records: Arc<Records<M>>,
    ) -> Self {
        Self { memory, index: Index::new(limits), space, records }
    }

    /// Adds an object that was there before this replica: from LNR, or from another replica.
    pub(crate) fn restore(&self, writer: &mut Writer, entry: Entry, slot: Slot) {
        self.space.occupied(slot);
        self.index.insert(writer, entry);
        if !self.memory.keeps(sites::JOIN_UNKNOWN)
            && let Some(found) = self.index.find_slot(&self.memory, entry.hash, entry.slot)
        {
            seen::set(&self.memory, found.cell, found.seen, entry.generation, READ_SHARED);
        }
        if let Some(record) = entry.record.filter(|&record| record != BY_LOG) {
            self.records.assigned(record, entry.hash);
        }
    }

    fn create(
        &self,
        writer: &mut Writer,
        generation: Generation,
        hash: KeyHash,
        slot: Slot,
        expected: u32,
    ) -> bool {
        let same = fingerprint(self.index.with_hash(hash)) == expected;
        if !self.memory.check(sites::CREATE_CONDITION, same)
            || self.space.slot_lines(slot).is_none()
        {
            return false;
        }
        let entry = Entry { hash, generation, slot: slot.line, record: None, home: None };
        self.show(slot, || self.index.insert(writer, entry));
        true
    }

    /// Lets readers find an object in `slot`, whose size they must know by then: the chunk may have been
    /// divided otherwise.
    fn show(&self, slot: Slot, show: impl FnOnce()) {
        let known_first = self.memory.keeps(sites::SLOT_KNOWN_FIRST);
        if known_first {
            self.space.occupied(slot);
        }
        show();
        if !known_first {
            self.space.occupied(slot);
        }
    }

    fn delete(&self, target: Target) -> bool {
        let wanted = |entry: Entry| self.is_expected(entry, target);
        let Some(entry) = self.index.remove(target.hash, target.slot, wanted) else { return false };
        self.space.vacated(entry.slot);
        if let Some(record) = entry.record.filter(|&record| record != BY_LOG) {
            self.records.unassigned(record, target.hash);
        }
        true
    }

    /// Changes the target's entry, which starts a new generation, if it is the expected one.
    fn change(
        &self,
        target: Target,
        generation: Generation,
        change: impl FnOnce(Entry) -> Option<Entry>,
    ) -> bool {
        let renew = self.memory.keeps(sites::EVENT_NEW_GENERATION);
        let changed = self.index.update(target.hash, target.slot, |entry| {
            let changed = change(entry).filter(|_| self.is_expected(entry, target))?;
            Some(Entry { generation: if renew { generation } else { entry.generation }, ..changed })
        });
        changed.is_some()
    }

    fn is_expected(&self, entry: Entry, target: Target) -> bool {
        self.memory.check(sites::EVENT_GENERATION, entry.generation == target.expected)
    }

    fn move_to(&self, generation: Generation, target: Target, to: Slot) -> bool {
        let mut found = self.index.with_hash(target.hash);
        let wanted = |entry: Entry| entry.slot == target.slot && self.is_expected(entry, target);
        if self.space.slot_lines(to).is_none() || !found.any(wanted) {
            return false;
        }
        self.show(to, || {
            self.change(target, generation, |entry| {
                Some(Entry { slot: to.line, home: None, ..entry })
            });
        });
        self.space.vacated(target.slot);
        true
    }

    fn allocate(&self, generation: Generation, target: Target, record: u32) -> bool {
        (self.records.exists(record) || record == BY_LOG)
            && self.share(generation, target, |entry| Some(Entry { record: Some(record), ..entry }))
    }

    fn deallocate(&self, generation: Generation, target: Target, record: u32) -> bool {
        self.share(generation, target, |entry| {
            (entry.record == Some(record)).then_some(Entry { record: None, ..entry })
        })
    }

    fn settle(&self, generation: Generation, target: Target, host: u8) -> bool {
        self.share(generation, target, |entry| {
            Some(Entry { record: None, home: Some(host), ..entry })
        })
    }

    /// Changes how the target is shared, and with that who has which record.
    fn share(
        &self,
        generation: Generation,
        target: Target,
        change: impl FnOnce(Entry) -> Option<Entry>,
    ) -> bool {
        let (mut before, mut after) = (None, None);
        let shared = self.change(target, generation, |entry| {
            let changed = change(entry)?;
            (before, after) = (entry.record, changed.record);
            Some(changed)
        });
        if shared {
            let in_scr = |record: Option<Record>| record.filter(|&record| record != BY_LOG);
            in_scr(before).into_iter().for_each(|r| self.records.unassigned(r, target.hash));
            in_scr(after).into_iter().for_each(|r| self.records.assigned(r, target.hash));
        }
        shared
    }
}

impl<M: Memory> State for Replicated<M> {
    type Entry = Event;
    type Writer = Writer;

    fn apply(&self, writer: &mut Writer, position: u64, event: &Event) -> bool {
        self.memory.works(Work::Apply);
        self.index.touched(&self.memory, event.hash(), true);
        let generation = generation_at(position);
        match *event {
            Event::Create { hash, slot, expected } => {
                self.create(writer, generation, hash, slot, expected)
            }
            Event::Delete(target) => self.delete(target),
            Event::Move { target, to } => self.move_to(generation, target, to),
            Event::Allocate { target, record } => self.allocate(generation, target, record),
            Event::Deallocate { target, record } => self.deallocate(generation, target, record),
            Event::Wrap(target) => self.change(target, generation, Some),
            Event::Settle { target, host } => self.settle(generation, target, host),
            Event::Return(target) => {
                self.change(target, generation, |entry| Some(Entry { home: None, ..entry }))
            }
        }
    }
}

/// Sums up the objects with one hash: 0 if there is none, their generations' sum otherwise.
///
/// A create is decided on after comparing its key with these objects' keys, and has an effect only
/// if they are still the same; keys need not be compared again by the replicas, which could not do
/// it: the bytes may be another object's by the time a slow replica gets there.
pub(crate) fn fingerprint(entries: impl Iterator<Item = Entry>) -> u32 {
    entries.fold(0, |sum: u32, entry| sum.wrapping_add(entry.generation))
}
