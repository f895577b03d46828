//! Applying a shard of the log: its part of the index, and the consequences for slots and
//! records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_log::State;
use tombolo_memory::{Memory, Work};
use tombolo_pod::Stay;

use crate::ids::LostTo;
use crate::ids::{Generation, KeyHash, Slot, SlotLine, generation_at};
use crate::replica::event::{Event, Target};
use crate::sites;
use crate::storage::index;
use crate::storage::index::validated;
use crate::storage::index::validated::READ_SHARED;
use crate::storage::index::{Entry, Index, IndexLimits, Sharing};
use crate::storage::records::{LockedBy, RecordId, Records};
use crate::storage::space::Space;

pub(crate) struct Replicated<M: Memory> {
    pub(crate) memory: M,
    pub(crate) index: Index,
    pub(crate) space: Space<M>,
    /// Those of all shards: records are not divided among them.
    pub(crate) records: Arc<Records<M>>,
    /// How many objects are in the own memory of each host.
    in_partition: Box<[AtomicU64]>,
    /// How many objects are lost.
    lost: AtomicU64,
    /// How many objects were removed, by their hashes' last bits.
    removals: Box<[AtomicU64]>,
}

/// Hashes whose removals are counted apart.
const COUNTED_APART: usize = 1024;

/// The right to change a replica: the thread that applies the log has it.
#[derive(Default)]
pub(crate) struct ReplicaWriter {
    index: index::IndexWriter,
    pub(crate) quarantine: Quarantine,
}

/// Slots that no object has, and into which hosts may still write that were fenced and are not
/// known to be gone.
#[derive(Default)]
pub(crate) struct Quarantine {
    /// A bit per such host.
    pub(crate) unclean: u64,
    pub(crate) slots: Vec<(u8, SlotLine)>,
}

impl Quarantine {
    /// Lines of the slots of `host`.
    pub(crate) fn slots_of(&self, host: u8) -> Vec<SlotLine> {
        self.slots.iter().filter(|(of, _)| *of == host).map(|&(_, line)| line).collect()
    }
}

impl<M: Memory> Replicated<M> {
    pub(crate) fn new(
        memory: M,
        limits: IndexLimits,
        space: Space<M>,
        records: Arc<Records<M>>,
    ) -> Self {
        let in_partition = (0..=u8::MAX).map(|_| AtomicU64::new(0)).collect();
        let lost = AtomicU64::new(0);
        Self {
            memory,
            index: Index::new(limits, records.sets()),
            space,
            records,
            in_partition,
            removals: (0..COUNTED_APART).map(|_| AtomicU64::new(0)).collect(),
            lost,
        }
    }

    /// How many objects are in the own memory of `host`.
    pub(crate) fn in_partition(&self, host: u8) -> u64 {
        self.in_partition[usize::from(host)].load(Ordering::Relaxed)
    }

    /// How many objects are lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// A count that grows whenever an object with this hash is removed, and now and then besides.
    pub(crate) fn removals(&self, hash: KeyHash) -> u64 {
        self.removals_of(hash).load(Ordering::Acquire)
    }

    fn removals_of(&self, hash: KeyHash) -> &AtomicU64 {
        &self.removals[hash as usize % COUNTED_APART]
    }

    /// An object was lost, or not, and is now.
    fn was_lost(&self, before: Option<LostTo>, after: Option<LostTo>) {
        match (before, after) {
            (None, Some(_)) => _ = self.lost.fetch_add(1, Ordering::Relaxed),
            (Some(_), None) => _ = self.lost.fetch_sub(1, Ordering::Relaxed),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    /// An object has moved from one host's own memory to another's, or to or from its slot.
    fn moved_between_partitions(&self, from: Option<u8>, to: Option<u8>) {
        if let Some(host) = from {
            self.in_partition[usize::from(host)].fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(host) = to {
            self.in_partition[usize::from(host)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes room in the index for so many objects, at once rather than as they come.
    pub(crate) fn make_room(&self, writer: &mut ReplicaWriter, objects: u64) {
        self.index.make_room(&mut writer.index, objects);
    }

    /// Adds an object that was there before this replica: from LNR, or from another replica.
    pub(crate) fn restore(&self, writer: &mut ReplicaWriter, entry: Entry, slot: Slot) {
        self.space.occupied(slot);
        self.index.insert(&mut writer.index, entry);
        self.moved_between_partitions(None, entry.partition());
        self.was_lost(None, entry.lost());
        if !self.memory.keeps(sites::JOIN_UNKNOWN)
            && let Some(found) = self.index.find_slot(&self.memory, entry.hash, entry.slot)
        {
            validated::set(
                &self.memory,
                found.cell,
                entry.generation,
                found.cell.validated_at,
                READ_SHARED,
            );
        }
        if let Some(record) = entry.record() {
            self.records.assigned(record, entry.hash);
        }
    }

    fn create(
        &self,
        writer: &mut ReplicaWriter,
        generation: Generation,
        hash: KeyHash,
        slot: Slot,
        expected: u32,
        record: Option<RecordId>,
    ) -> bool {
        let same = fingerprint(self.index.with_hash(hash)) == expected;
        if !self.memory.check(sites::CREATE_CONDITION, same)
            || self.space.slot_lines(slot).is_none()
            || record.is_some_and(|record| !self.records.may_be_of(hash, record))
        {
            return false;
        }
        let sharing = record.map_or(Sharing::READ, Sharing::record);
        let entry = Entry::read_shared(hash, generation, slot.line).shared(sharing);
        self.show(slot, || self.index.insert(&mut writer.index, entry));
        record.into_iter().for_each(|record| self.records.assigned(record, hash));
        true
    }

    /// Lets readers find an object in `slot`, whose size they must know by then: the chunk may have
    /// been divided otherwise.
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

    /// Adds a slot that was in quarantine before this replica.
    pub(crate) fn restore_quarantined(&self, writer: &mut ReplicaWriter, host: u8, slot: Slot) {
        self.space.occupied(slot);
        writer.quarantine.slots.push((host, slot.line));
    }

    /// An object has left its slot, into which `host` may still write.
    fn vacate(&self, writer: &mut ReplicaWriter, slot: SlotLine, host: Option<u8>) {
        let unclean = |host: &u8| writer.quarantine.unclean >> host & 1 == 1;
        match host.filter(unclean) {
            Some(host) => writer.quarantine.slots.push((host, slot)),
            None => self.space.vacated(slot),
        }
    }

    fn forget(&self, writer: &mut ReplicaWriter, host: u8) -> bool {
        let Quarantine { unclean, slots } = &mut writer.quarantine;
        *unclean &= !(1 << host);
        slots.retain(|&(of, slot)| {
            if of == host {
                self.space.vacated(slot);
            }
            of != host
        });
        true
    }

    /// The object is gone. If `owner` is told, that host may still write into its slot.
    fn delete(&self, writer: &mut ReplicaWriter, target: Target, owner: Option<u8>) -> bool {
        let wanted = |entry: Entry| self.is_expected(entry, target);
        // Before: a thread that finds no object there any more finds this.
        self.removals_of(target.hash).fetch_add(1, Ordering::Release);
        let Some(entry) = self.index.remove(target.hash, target.slot, wanted) else { return false };
        self.moved_between_partitions(entry.partition(), None);
        self.was_lost(entry.lost(), None);
        self.vacate(writer, entry.slot, owner.or_else(|| entry.lost()?.host()));
        if let Some(record) = entry.record() {
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
        let (mut in_partition, mut lost) = ((None, None), (None, None));
        let changed = self.index.update(&self.memory, target.hash, target.slot, |entry| {
            let changed = change(entry).filter(|_| self.is_expected(entry, target))?;
            in_partition = (entry.partition(), changed.partition());
            lost = (entry.lost(), changed.lost());
            Some(Entry { generation: if renew { generation } else { entry.generation }, ..changed })
        });
        self.moved_between_partitions(in_partition.0, in_partition.1);
        self.was_lost(lost.0, lost.1);
        changed.is_some()
    }

    fn is_expected(&self, entry: Entry, target: Target) -> bool {
        self.memory.check(sites::EVENT_GENERATION, entry.generation == target.expected)
    }

    /// Moves an object out of a slot into which its owner still writes: if it was lost, or `owner`
    /// is told.
    fn move_to(
        &self,
        writer: &mut ReplicaWriter,
        generation: Generation,
        target: Target,
        to: Slot,
        owner: Option<u8>,
    ) -> bool {
        let mut found = self.index.with_hash(target.hash);
        let wanted = |entry: &Entry| entry.slot == target.slot && self.is_expected(*entry, target);
        let Some(entry) = found.find(wanted).filter(|_| self.space.slot_lines(to).is_some()) else {
            return false;
        };
        self.show(to, || {
            self.change(target, generation, |entry| {
                let there = Entry { slot: to.line, ..entry };
                Some(if entry.is_in_its_slot() { there } else { there.shared(Sharing::READ) })
            });
        });
        self.vacate(writer, target.slot, owner.or_else(|| entry.lost()?.host()));
        true
    }

    fn lose(&self, generation: Generation, target: Target, to: LostTo) -> bool {
        self.share(generation, target, |entry| Some(entry.shared(Sharing::lost(to))))
    }

    fn allocate(&self, generation: Generation, target: Target, by: LockedBy) -> bool {
        let sharing = match by {
            LockedBy::Record(record) if self.records.may_be_of(target.hash, record) => {
                Sharing::record(record)
            }
            LockedBy::Log => Sharing::BY_LOG,
            LockedBy::Record(_) | LockedBy::Partition => return false,
        };
        self.share(generation, target, |entry| Some(entry.shared(sharing)))
    }

    fn deallocate(&self, generation: Generation, target: Target, by: LockedBy) -> bool {
        self.share(generation, target, |entry| {
            (entry.locked_by() == Some(by)).then_some(entry.shared(Sharing::READ))
        })
    }

    fn move_in(&self, generation: Generation, target: Target, host: u8) -> bool {
        self.share(generation, target, |entry| Some(entry.shared(Sharing::in_partition(host))))
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
            (before, after) = (entry.record(), changed.record());
            Some(changed)
        });
        if shared {
            before.into_iter().for_each(|r| self.records.unassigned(r, target.hash));
            after.into_iter().for_each(|r| self.records.assigned(r, target.hash));
        }
        shared
    }
}

impl<M: Memory> State for Replicated<M> {
    type Entry = Event;
    type Writer = ReplicaWriter;

    fn prefetch(&self, event: &Event) {
        self.index.prefetch(event.hash());
    }

    fn apply(&self, writer: &mut ReplicaWriter, position: u64, event: &Event, own: bool) -> bool {
        self.memory.works(Work::Apply);
        self.index.touched(&self.memory, event.hash(), true);
        let generation = generation_at(position);
        match *event {
            Event::Create { hash, slot, expected, intent_slot, record } => {
                let created = self.create(writer, generation, hash, slot, expected, record);
                if own {
                    self.space.decide(intent_slot, slot, created);
                }
                created
            }
            Event::Delete(target) => self.delete(writer, target, None),
            Event::Remove { target, host } => self.delete(writer, target, Some(host)),
            Event::Move { target, to } => self.move_to(writer, generation, target, to, None),
            Event::Allocate { target, by } => self.allocate(generation, target, by),
            Event::Deallocate { target, by } => self.deallocate(generation, target, by),
            Event::Wrap(target) => self.change(target, generation, Some),
            Event::MoveIn { target, host } => self.move_in(generation, target, host),
            Event::MoveOut(target) => {
                self.change(target, generation, |entry| Some(entry.shared(Sharing::READ)))
            }
            Event::Lose { target, to } => self.lose(generation, target, to),
            Event::Rescue { target, to, host } => {
                self.move_to(writer, generation, target, to, Some(host))
            }
            Event::Forget { host, .. } => self.forget(writer, host),
        }
    }

    fn fence(&self, writer: &mut ReplicaWriter, stay: Stay) {
        writer.quarantine.unclean |= 1 << stay.host;
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
