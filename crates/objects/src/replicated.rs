//! What the log drives: the index, and what follows from it for slots and records.

use tombolo_log::State;
use tombolo_memory::Memory;

use crate::event::{Event, Generation, KeyHash, Slot, Target, generation_at};
use crate::index::{Entry, Index, IndexLimits, Writer};
use crate::marks::Marks;
use crate::records::Records;
use crate::seen::{self, READ_SHARED};
use crate::sites;
use crate::space::Space;

pub(crate) struct Replicated<M: Memory> {
    pub(crate) memory: M,
    pub(crate) index: Index,
    pub(crate) space: Space<M>,
    pub(crate) records: Records<M>,
    pub(crate) marks: Marks<M>,
}

impl<M: Memory> Replicated<M> {
    pub(crate) fn new(
        memory: M,
        limits: IndexLimits,
        space: Space<M>,
        records: Records<M>,
        marks: Marks<M>,
    ) -> Self {
        Self { memory, index: Index::new(limits), space, records, marks }
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
        if let Some(record) = entry.record {
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
        if !self.memory.check(sites::CREATE_CONDITION, same) || self.space.lines(slot).is_none() {
            return false;
        }
        let entry = Entry { hash, generation, slot: slot.line, record: None };
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
        if let Some(record) = entry.record {
            self.records.unassigned(record);
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
        if self.space.lines(to).is_none() || !found.any(wanted) {
            return false;
        }
        self.show(to, || {
            self.change(target, generation, |entry| Some(Entry { slot: to.line, ..entry }));
        });
        self.space.vacated(target.slot);
        true
    }

    fn allocate(&self, generation: Generation, target: Target, record: u32) -> bool {
        let allocated = self.records.exists(record)
            && self.change(target, generation, |entry| {
                entry.record.is_none().then_some(Entry { record: Some(record), ..entry })
            });
        if allocated {
            self.records.assigned(record, target.hash);
        }
        allocated
    }

    fn deallocate(&self, generation: Generation, target: Target, record: u32) -> bool {
        let deallocated = self.change(target, generation, |entry| {
            (entry.record == Some(record)).then_some(Entry { record: None, ..entry })
        });
        if deallocated {
            self.records.unassigned(record);
        }
        deallocated
    }
}

impl<M: Memory> State for Replicated<M> {
    type Entry = Event;
    type Writer = Writer;

    fn apply(&self, writer: &mut Writer, position: u64, event: &Event) -> bool {
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
