//! Changing an object in this host's own memory.

use smallvec::SmallVec;
use tombolo_memory::{LINE_BYTES, Lines, Memory};
use tombolo_sharing::{Counter, Header, object_bytes, retry_with_backoff};

use crate::error::no_such_slot;
use crate::host::lookup::Attempt;
use crate::storage::index::Entry;
use crate::storage::intents::{Change, IntentSlot};
use crate::storage::partition::Hold;
use crate::storage::records::LockedBy;
use crate::storage::space::extent::Extent;
use crate::write::locked_object::LockedObject;
use crate::write::relocate::OpenIntent;
use crate::{Error, Objects, sites};

/// An object in this host's memory whose lock this thread holds.
pub(crate) struct LockedEntry<'a, M: Memory> {
    objects: &'a Objects<M>,
    hold: Hold<M>,
    entry: Entry,
    header: Header,
    /// Its slot, in which it is, too, once that is being changed.
    backup: Option<Backup>,
}

/// A slot that is being changed together with the object in this host's memory.
struct Backup {
    /// Where that is recorded.
    intent_slot: IntentSlot,
    extent: Extent,
    dirty: SmallVec<[Lines; 2]>,
}

impl<M: Memory> Objects<M> {
    /// An intent about an object in this host's memory.
    fn open_intent_in_partition(&self) -> Result<OpenIntent, Error> {
        retry_with_backoff(self.memory(), || {
            let intent =
                self.open_intent().map(|intent| OpenIntent { in_partition: true, ..intent });
            if intent.is_none() {
                // Threads that have found this host fenced keep theirs, for others to see.
                self.holds_seat()?;
            }
            Ok(intent)
        })
    }

    /// Takes hold of an object in this host's memory, to change it.
    ///
    /// # Errors
    /// Those of a commit.
    pub(crate) fn lock_in_partition(
        &self,
        entry: Entry,
        key: &[u8],
    ) -> Result<Attempt<LockedObject<'_, M>>, Error> {
        Ok(match self.reach(entry, key) {
            Attempt::Good((mut hold, header)) => {
                let viewed = self.partition.is_backed() && self.is_viewed(entry);
                if !self.memory().check(sites::PIN_BACKUP, !viewed) {
                    // In its slot it is changed elsewhere.
                    self.move_out(entry.slot, &mut hold)?;
                    return Ok(Attempt::Changed);
                }
                let backup = None;
                Attempt::Good(LockedObject::Entry(LockedEntry {
                    objects: self,
                    hold,
                    entry,
                    header,
                    backup,
                }))
            }
            Attempt::OtherKey => Attempt::OtherKey,
            Attempt::Changed => Attempt::Changed,
        })
    }
}

impl<M: Memory> LockedEntry<'_, M> {
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    pub(crate) fn objects(&self) -> &Objects<M> {
        self.objects
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        into.copy_from_slice(&self.hold.value[self.range(offset, into.len())?]);
        Ok(())
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let range = self.range(offset, bytes.len())?;
        self.store(self.header.value_offset() + offset, bytes)?;
        self.hold.value[range].copy_from_slice(bytes);
        self.renew_header()
    }

    /// Replaces the value: here, if its slot has room for it to return to; else in a larger slot,
    /// and the object leaves. On an error nothing is changed.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let objects = self.objects;
        self.back_up()?;
        objects.count(Counter::Writes);
        let space = &objects.state(self.entry.hash).space;
        let Some(slot) = space.slot_at(self.entry.slot) else {
            return Err(Error::Damaged("an object has left while its lock was held".to_owned()));
        };
        let lines = space.slot_lines(slot).ok_or_else(no_such_slot)?;
        let bytes = object_bytes(key, value)?;
        if bytes > lines * LINE_BYTES || !objects.may_be_backed(bytes) {
            let intent = objects.open_intent_in_partition()?;
            self.header = objects.relocate(intent, self.entry, slot, key, value)?.header;
            self.gone();
            return Ok(());
        }
        self.store(self.header.value_offset(), value)?;
        self.hold.value.clear();
        self.hold.value.extend_from_slice(value);
        self.renew_header()
    }

    /// Deletes the object.
    pub(crate) fn delete(mut self) -> Result<(), Error> {
        let objects = self.objects;
        self.back_up()?;
        let intent = objects.open_intent_in_partition()?;
        if !objects.delete_with_intent(intent, self.entry, None)? {
            return Err(Error::Damaged("an object changed while its lock was held".to_owned()));
        }
        objects.count(Counter::Deletes);
        self.gone();
        Ok(())
    }

    /// Ends the write.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let objects = self.objects;
        self.back_up()?;
        drop(self);
        objects.holds_seat()
    }

    /// Before the slot is changed for the first time, others can tell that it is.
    fn set_intent(&mut self) -> Result<(), Error> {
        let (objects, slot) = (self.objects, self.entry.slot);
        objects.may_store()?;
        let extent = objects.state(self.entry.hash).space.extent_at(slot);
        let extent = extent.ok_or_else(no_such_slot)?;
        let intent_slot = objects.open_intent_in_partition()?.intent_slot;
        if objects.memory().keeps(sites::PARTITION_NOTED) {
            let undone = objects.intents.is_undone(self.header.total_bytes());
            let change = Change::new(LockedBy::Partition, slot, undone);
            if undone {
                let object = [&self.header.encode()[..], &self.hold.key, &self.hold.value].concat();
                objects.intents.set_undo(intent_slot, change, &object);
            } else {
                objects.intents.set_write(intent_slot, change);
            }
        }
        extent.take(objects.memory());
        self.backup = Some(Backup { intent_slot, extent, dirty: SmallVec::new() });
        Ok(())
    }

    /// Changes part of the slot, if the object is there, too.
    fn store(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        if !self.objects.partition.is_backed() {
            return Ok(());
        }
        if self.backup.is_none() {
            self.set_intent()?;
        }
        if let Some(Backup { extent, dirty, .. }) = &mut self.backup {
            extent.write(self.objects.memory(), to, bytes);
            for lines in extent.covering(to, bytes.len() as u64) {
                if !dirty.contains(&lines) {
                    dirty.push(lines);
                }
            }
        }
        Ok(())
    }

    /// Ends what was changed in the slot: it is in memory then.
    ///
    /// # Errors
    /// [`LogError::Fenced`](tombolo_log::LogError::Fenced): it does not count, or may not. The
    /// intent stays, for others to see.
    fn back_up(&mut self) -> Result<(), Error> {
        let Some(Backup { intent_slot, extent, dirty }) = self.backup.take() else { return Ok(()) };
        let objects = self.objects;
        let cleaned = dirty.iter().map(|lines| lines.count()).sum();
        objects.counters.add(Counter::CleanedLines, cleaned);
        let whole = objects.memory().check(sites::POISON_BACKUP, !objects.is_poisoned(&extent));
        let given = if whole { self.header.total_bytes() } else { 0 };
        objects.memory().publish(sites::PARTITION_BACKUP, dirty, |memory| {
            extent.give(memory, given);
            if whole {
                objects.intents.through_in_partition(intent_slot);
            }
        });
        if !whole {
            return self.leave_backup(intent_slot, &extent);
        }
        if objects.memory().keeps(sites::PARTITION_HOLDS) {
            objects.holds_seat()?;
        }
        objects.intents.end(intent_slot, true);
        Ok(())
    }

    /// There is a memory error in the slot: the object moves to another one. If there is none, it
    /// stays, and is nowhere else.
    #[cold]
    fn leave_backup(&mut self, intent_slot: IntentSlot, extent: &Extent) -> Result<(), Error> {
        let (objects, entry) = (self.objects, self.entry);
        objects.mark_away(&entry, objects.partition.host)?;
        objects.holds_seat()?;
        objects.intents.clear(intent_slot);
        let _ = objects.move_out_elsewhere(intent_slot, entry, extent, &mut self.hold);
        objects.holds_seat()
    }

    fn gone(&mut self) {
        self.objects.partition.leave(self.entry.slot, &mut self.hold);
    }

    fn range(&self, offset: u64, bytes: usize) -> Result<std::ops::Range<usize>, Error> {
        let length = self.hold.value.len() as u64;
        let end = offset.saturating_add(bytes as u64);
        if end > length {
            return Err(Error::OutOfRange { offset, end, length });
        }
        Ok(offset as usize..end as usize)
    }

    fn renew_header(&mut self) -> Result<(), Error> {
        let version = self.objects.next_version();
        self.header = Header { version, value_bytes: self.hold.value.len() as u32, ..self.header };
        self.objects.partition.keep(&mut self.hold, self.header);
        self.store(0, &self.header.encode())
    }
}

impl<M: Memory> Drop for LockedEntry<'_, M> {
    fn drop(&mut self) {
        // A caller that drops it does not ask for the outcome.
        let _ = self.back_up();
    }
}
