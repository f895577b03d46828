//! An object in this host's memory, and a thread's hold on it.

use smallvec::SmallVec;
use tombolo_memory::lock_api::ArcMutexGuard;
use tombolo_memory::{LINE_BYTES, Lines, Local, Memory};
use tombolo_sharing::{Counter, Header, Part, object_bytes, persist};

use crate::create::{Noting, no_such_slot};
use crate::extent::Extent;
use crate::index::{Entry, Found};
use crate::lock::TryLock;
use crate::read::Looked;
use crate::underway::{BY_HOME, Change, Place};
use crate::writer::Writer;
use crate::{Error, Objects, sites};

/// An object's bytes; shared by the host's threads under a lock.
#[derive(Default)]
pub(crate) struct Resident {
    /// The entry by which it is here; `None` before that, and once it is gone.
    pub(super) here: Option<Entry>,
    pub(super) header: Option<Header>,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// What it counts for in the memory of its host.
    pub(super) bytes: u64,
    /// Accesses since it came.
    pub(super) accesses: u64,
    /// Whether it was accessed since the last look.
    pub(super) busy: bool,
}

/// What stands between a thread and a resident.
pub(super) type Hold<M> = ArcMutexGuard<<M as Memory>::RawMutex, Resident>;

/// An object in this host's memory whose lock this thread holds.
pub(crate) struct AtHome<'a, M: Memory> {
    objects: &'a Objects<M>,
    hold: Hold<M>,
    entry: Entry,
    header: Header,
    /// Its slot, in which it is, too, once that is being changed.
    backup: Option<Backup>,
}

/// A slot that is being changed together with the object in this host's memory.
struct Backup {
    /// Where that is noted.
    place: Place,
    extent: Extent,
    dirty: SmallVec<[Lines; 2]>,
}

/// What came of looking for a resident with a key.
enum Reached<M: Memory> {
    Here(Hold<M>, Header),
    OtherKey,
    /// It is in use, or has left, or is another one.
    Changed,
}

impl<M: Memory> Objects<M> {
    fn reach(&self, entry: Entry, key: &[u8]) -> Reached<M> {
        self.memory().step();
        let hold = self.home.resident(entry.slot).and_then(|resident| resident.try_lock_arc());
        let Some(mut hold) = hold else { return Reached::Changed };
        let same = hold.here.is_some_and(|here| here.generation == entry.generation);
        let (true, Some(header)) = (self.memory().check(sites::HOME_HERE, same), hold.header)
        else {
            return Reached::Changed;
        };
        if hold.key != key {
            return Reached::OtherKey;
        }
        hold.accesses += 1;
        hold.busy = true;
        self.memory().touches(Local::Objects, false, || {
            entry.slot..entry.slot + (hold.value.len() as u64).div_ceil(LINE_BYTES)
        });
        Reached::Here(hold, header)
    }

    /// Reads part of an object in this host's memory.
    pub(crate) fn read_at_home(
        &self,
        found: &Found<'_>,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Looked<Header>, Error> {
        let looked = match self.reach(found.entry, key) {
            Reached::Here(hold, header) => {
                self.count(Counter::HomeReads);
                if let Ok((offset, bytes)) = part.of(hold.value.len() as u64) {
                    value.clear();
                    value.extend_from_slice(&hold.value[offset as usize..][..bytes as usize]);
                }
                Looked::Good(header)
            }
            Reached::OtherKey => Looked::OtherKey,
            Reached::Changed => Looked::Changed,
        };
        self.holds_home().map(|()| looked)
    }

    /// Whether what was done in this host's own memory counts: if the host has not been fenced by now.
    fn holds_home(&self) -> Result<(), Error> {
        if self.seat.holds(self.memory()) { Ok(()) } else { Err(self.is_fenced()) }
    }

    /// A note about an object in this host's memory.
    fn noting_at_home(&self) -> Result<Noting, Error> {
        persist(self.memory(), || {
            let noting = self.noting().map(|noting| Noting { home: true, ..noting });
            if noting.is_none() {
                // Threads that have found this host fenced keep theirs, for others to see.
                self.holds_home()?;
            }
            Ok(noting)
        })
    }

    /// Takes hold of an object in this host's memory, to change it.
    ///
    /// # Errors
    /// Those of a commit.
    pub(crate) fn lock_at_home(&self, entry: Entry, key: &[u8]) -> Result<TryLock<'_, M>, Error> {
        Ok(match self.reach(entry, key) {
            Reached::Here(mut hold, header) => {
                let viewed = self.home.is_backed() && self.is_viewed(entry);
                if !self.memory().check(sites::PIN_BACKUP, !viewed) {
                    // In its slot it is changed elsewhere.
                    self.send_back(entry.slot, &mut hold)?;
                    return Ok(TryLock::Busy);
                }
                let backup = None;
                TryLock::Locked(Writer::Home(AtHome { objects: self, hold, entry, header, backup }))
            }
            Reached::OtherKey => TryLock::OtherKey,
            Reached::Changed => TryLock::Busy,
        })
    }
}

impl<M: Memory> AtHome<'_, M> {
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

    /// Replaces the value: here, if its slot has room for it to return to; else in a larger slot, and the
    /// object leaves. On an error nothing is changed.
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
            let noting = objects.noting_at_home()?;
            self.header = objects.relocate(noting, self.entry, slot, key, value)?.header;
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
        let noting = objects.noting_at_home()?;
        if !objects.delete_noted(noting, self.entry, None)? {
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
        objects.holds_home()
    }

    /// Before the slot is changed for the first time, others can tell that it is.
    fn note(&mut self) -> Result<(), Error> {
        let (objects, slot) = (self.objects, self.entry.slot);
        objects.may_store()?;
        let extent = objects.state(self.entry.hash).space.extent_at(slot);
        let extent = extent.ok_or_else(no_such_slot)?;
        let place = objects.noting_at_home()?.place;
        if objects.memory().keeps(sites::HOME_NOTED) {
            let undone = objects.underway.is_undone(self.header.total_bytes());
            let change = Change { record: BY_HOME, slot, undone };
            if undone {
                let object = [&self.header.encode()[..], &self.hold.key, &self.hold.value].concat();
                objects.underway.note_undo(place, change, &object);
            } else {
                objects.underway.note_write(place, change);
            }
        }
        extent.take(objects.memory());
        self.backup = Some(Backup { place, extent, dirty: SmallVec::new() });
        Ok(())
    }

    /// Changes part of the slot, if the object is there, too.
    fn store(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        if !self.objects.home.is_backed() {
            return Ok(());
        }
        if self.backup.is_none() {
            self.note()?;
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
    /// [`LogError::Fenced`](tombolo_log::LogError::Fenced): it does not count, or may not. The note stays, for others to see.
    fn back_up(&mut self) -> Result<(), Error> {
        let Some(Backup { place, extent, dirty }) = self.backup.take() else { return Ok(()) };
        let objects = self.objects;
        let cleaned = dirty.iter().map(|lines| lines.count()).sum();
        objects.counters.add(Counter::CleanedLines, cleaned);
        let whole = objects.memory().check(sites::POISON_BACKUP, !objects.is_poisoned(&extent));
        let given = if whole { self.header.total_bytes() } else { 0 };
        objects.memory().publish(sites::HOME_BACKUP, dirty, |memory| {
            extent.give(memory, given);
            if whole {
                objects.underway.through_at_home(place);
            }
        });
        if !whole {
            return self.leave_backup(place, &extent);
        }
        if objects.memory().keeps(sites::HOME_HOLDS) {
            objects.holds_home()?;
        }
        objects.underway.end(place, true);
        Ok(())
    }

    /// There is a memory error in the slot: the object moves to another one. If there is none, it stays, and is nowhere else.
    #[cold]
    fn leave_backup(&mut self, place: Place, extent: &Extent) -> Result<(), Error> {
        let (objects, entry) = (self.objects, self.entry);
        objects.mark_away(&entry, objects.home.host)?;
        objects.holds_home()?;
        objects.underway.clear(place);
        let _ = objects.return_elsewhere(place, entry, extent, &mut self.hold);
        objects.holds_home()
    }

    fn gone(&mut self) {
        self.objects.home.leave(self.entry.slot, &mut self.hold);
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
        self.objects.home.keep(&mut self.hold, self.header);
        self.store(0, &self.header.encode())
    }
}

impl<M: Memory> Drop for AtHome<'_, M> {
    fn drop(&mut self) {
        // Whoever drops it does not ask.
        let _ = self.back_up();
    }
}
