//! Going on without hosts that have died, or are taken for dead.
//!
//! Whoever notices that a host's process has ended, or waits for a host that gives no sign of life, *fences* it: its seat is
//! taken, and a fence in each shard of the log makes void what it orders from there on. It may be alive all the same.
//!
//! * **Its locks.** Records say whose they are while they are locked. A lock is taken over by compare-and-swap, so a
//!   host that wakes up fails to release it, and reports that its write may not have been done. If the host had not
//!   begun to change the object ([`underway`](crate::underway)), the object is whole. If it had, the object has its old value, or is lost, as the pod was created.
//! * **Slots it may still write into.** As long as the host is not known to be gone, an object that it had locked
//!   goes on in another slot, and the old one is in quarantine: nobody's.
//! * **Its own memory.** Objects in there are lost, unless the pod was created to have them in their slots, too
//!   ([`home::rescue`](crate::home)).
//! * **When it is gone**, one of the others [clears up](crate::clear): what else it had locked or claimed, chunks of LNR, slots in
//!   quarantine. Then its seat is free.
//!
//! All of this is done by one host at a time for each that is fenced ([`Pod::take_over`]), and each step of it can be done
//! again by another, if that one dies, too.
//!
//! In a pod with marks, a lock is taken over only from a host that is gone: who has a marked object locked may be writing it to a file,
//! and takes its mark off, which nothing can stop. What is torn there and not marked can be had anew, if the [`Cleaner`](crate::Cleaner)
//! says so; then it is gone, not lost.
//!
//! Left out: locks by the log. There a dead host stays in the way.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tombolo_log::LogError;
use tombolo_memory::Memory;
use tombolo_pod::{Stay, fence_ended};
use tombolo_sharing::{Counter, HEADER_BYTES, Header, PREFIX_BYTES};

use crate::create::no_such_slot;
use crate::event::{Event, SlotLine};
use crate::extent::Extent;
use crate::index::Entry;
use crate::lock::{changed_under_lock, target};
use crate::logged::Locks;
use crate::poison::loss;
use crate::records::{Held, Record};
use crate::space::Space;
use crate::underway::{Note, Place};
use crate::{Error, Objects, sites};

/// What somebody needs that a fenced host, which may still be at something, had locked, or in its own memory.
#[derive(Clone, Copy)]
enum Need {
    Nothing,
    Record(Record),
    AnyRecord,
    AtHome(Entry),
}

/// How long a thread waits at least between two looks at who is in its way.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

impl<M: Memory> Objects<M> {
    /// This host was fenced.
    #[cold]
    pub(crate) fn is_fenced(&self) -> Error {
        let host = self.seat.host();
        Error::Log(if self.memory().is_forked() {
            LogError::Forked { host }
        } else {
            LogError::Fenced { host }
        })
    }

    /// Before this host stores into a slot once more: it may not, if a commit has told it that it was fenced,
    /// since the object may have left the slot, or come to it.
    pub(crate) fn may_store(&self) -> Result<(), Error> {
        if self.records.is_abandoned() { Err(self.is_fenced()) } else { Ok(()) }
    }

    /// This host's stay.
    pub(crate) fn stay(&self) -> Stay {
        Stay { host: self.seat.host(), number: self.seat.incarnation() }
    }

    /// Host `by` is in the way, because it has the object with this entry locked, or in its own memory: goes on without it
    /// if it is dead.
    #[cold]
    pub(crate) fn obstructed(&self, by: u8, entry: Entry) {
        self.upkeep.obstructed_by(by);
        if let Some(stay) = self.fence_if_dead(by) {
            let need = entry.record().map_or(Need::AtHome(entry), Need::Record);
            // What cannot be done now is tried again, by whoever is in need of it.
            let _ = self.recover(stay, need);
        }
    }

    /// Host `by` is in the way: takes its seat if it is dead. Which stay, if it has none now.
    pub(crate) fn fence_if_dead(&self, by: u8) -> Option<Stay> {
        if by == self.seat.host() || !self.is_time_to_look() {
            return None;
        }
        let stay = self.pod().stay_of(by);
        let dead = || self.pod().has_ended(stay) || self.watch.is_silent(self.pod(), stay);
        if self.pod().is_seated(stay) && dead() {
            self.pod().fence(stay);
        }
        self.pod().is_fenced(stay).then_some(stay)
    }

    /// Whether it is some time since this host last looked whether others are alive.
    fn is_time_to_look(&self) -> bool {
        let now = self.memory().uptime();
        let last = Duration::from_nanos(self.upkeep.looked.load(Ordering::Relaxed));
        let is_time = now.saturating_sub(last) >= BETWEEN_LOOKS;
        if is_time {
            self.upkeep.looked.store(now.as_nanos() as u64, Ordering::Relaxed);
            self.seat.beat(self.memory());
        }
        is_time
    }

    /// Something is in the way: goes on without hosts that have died, if there are such.
    #[cold]
    pub(crate) fn look_around(&self) -> Result<(), Error> {
        if self.is_time_to_look() { self.recover_all() } else { Ok(()) }
    }

    /// No record is free: takes those over that fenced hosts have locked.
    #[cold]
    pub(crate) fn take_records_over(&self) -> Result<(), Error> {
        for host in self.pod().membership().fenced() {
            self.recover(self.pod().stay_of(host), Need::AnyRecord)?;
        }
        Ok(())
    }

    /// Goes on without hosts that have died.
    pub(crate) fn recover_all(&self) -> Result<(), Error> {
        fence_ended(self.pod(), self.pod().membership());
        for host in self.pod().membership().fenced() {
            self.recover(self.pod().stay_of(host), Need::Nothing)?;
        }
        Ok(())
    }

    /// The stay that was fenced last, as far as the log is applied here, or those who came from it say.
    pub fn last_fenced(&self) -> Option<Stay> {
        self.shards()[0].paused(|_, fences, _, _| fences.stays().last())
    }

    /// Takes a host out of the pod that is dead or taken for dead; the others go on without it.
    /// Its process may still run. Whether it was in the pod.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub fn fence(&self, host: u8) -> Result<bool, Error> {
        let stay = self.pod().stay_of(host);
        let fenced = self.pod().fence(stay);
        self.recover(stay, Need::Nothing)?;
        Ok(fenced)
    }

    /// Does what can be done about a fenced host, unless another thread or host is at it: everything if it is
    /// gone, and else what there is `need` for.
    fn recover(&self, stay: Stay, need: Need) -> Result<(), Error> {
        if self.locks == Locks::Log || !self.pod().is_fenced(stay) {
            return Ok(());
        }
        let Some(_alone) = self.upkeep.recovering.try_lock() else { return Ok(()) };
        for shard in self.shards() {
            shard.fence(stay, &|| self.meanwhile_committing(shard))?;
        }
        if !self.seat.holds(self.memory()) {
            return Ok(());
        }
        if !self.pod().take_over(stay, &self.seat) {
            // Who is at it may have died at it.
            fence_ended(self.pod(), self.pod().membership());
            return Ok(());
        }
        let done = self.recover_alone(stay, need);
        self.pod().leave_over(stay, &self.seat);
        done
    }

    fn recover_alone(&self, stay: Stay, need: Need) -> Result<(), Error> {
        self.sync_all()?;
        if !self.home.is_backed() {
            self.lose_at_home(stay)?;
        }
        if self.pod().is_gone(stay) {
            self.pod().note_gone(stay);
            return self.clear_up(stay);
        }
        match need {
            Need::AtHome(entry) if self.home.is_backed() => self.rescue_from_home(stay, entry),
            _ if !self.records.may_take_over_early() || self.marks.exist() => Ok(()),
            Need::Nothing | Need::AtHome(_) => Ok(()),
            Need::Record(record) => self.rescue(stay, record, false),
            Need::AnyRecord => self.rescue_all(stay, false),
        }
    }

    pub(crate) fn rescue_all(&self, stay: Stay, gone: bool) -> Result<(), Error> {
        let locked: Vec<Record> = self.records.locked_by(stay.host).collect();
        locked.into_iter().try_for_each(|record| self.rescue(stay, record, gone))
    }

    /// The space of the shard whose chunk a slot is in.
    pub(crate) fn space_of(&self, line: SlotLine) -> Result<&Space<M>, Error> {
        let table = &self.shards()[0].state().space;
        Ok(&self.shards()[usize::from(table.shard_at(line)?)].state().space)
    }

    /// Says in an object's slot that its value is with `host`. Nobody else may write there.
    pub(crate) fn mark_away(&self, entry: &Entry, host: u8) -> Result<(), Error> {
        let space = &self.state(entry.hash).space;
        space.mark_away(&space.extent_at(entry.slot).ok_or_else(no_such_slot)?, host);
        Ok(())
    }

    /// Objects in a fenced host's own memory are lost.
    fn lose_at_home(&self, stay: Stay) -> Result<(), Error> {
        self.at_home_with(stay).try_for_each(|entry| self.lose(entry, stay).map(drop))
    }

    /// Objects in a host's own memory, as far as this replica knows.
    pub(crate) fn at_home_with(&self, stay: Stay) -> impl Iterator<Item = Entry> {
        self.shards().iter().flat_map(move |shard| {
            shard.paused(|_, _, state, _| -> Vec<Entry> {
                if state.homes(stay.host) == 0 {
                    return Vec::new();
                }
                state.index.entries().filter(|entry| entry.home() == Some(stay.host)).collect()
            })
        })
    }

    pub(crate) fn lose(&self, entry: Entry, stay: Stay) -> Result<bool, Error> {
        let lost = self.commit(Event::Lose { target: target(entry), host: stay.host })?;
        if lost {
            self.count(Counter::Lost);
        }
        Ok(lost)
    }

    /// Takes over the lock of `record` from a fenced host, and releases it with its object in order.
    fn rescue(&self, stay: Stay, record: Record, gone: bool) -> Result<(), Error> {
        let found = self.records.load(record);
        if found.holder() != Some(stay.host) {
            return Ok(());
        }
        if !gone && self.underway.notes.room_in_quarantine(stay.host).is_none() {
            return Ok(());
        }
        let Some(place) = self.underway.reserve() else { return Ok(()) };
        self.underway.note(place, Note::TookOver { record, from: stay.host });
        let outcome = match self.records.take_over(record, found) {
            None => Ok(()),
            Some(held) => self.mend(stay, held, place, gone).inspect_err(|_| {
                self.records.hand_back(held, stay.host);
            }),
        };
        // Who is fenced itself leaves its note: the lock is still its own.
        if !matches!(outcome, Err(Error::Log(LogError::Fenced { .. }))) {
            self.underway.end(place, true);
        }
        outcome
    }

    /// Releases the lock of a record that was taken over, with its object in order. On an error nothing is
    /// released.
    fn mend(&self, stay: Stay, held: Held, place: Place, gone: bool) -> Result<(), Error> {
        // Once the lock is released, another thread of this host may take it, and the host die: then that note would be
        // taken for one about that thread's lock.
        let ends = || self.underway.clear(place);
        let Some(entry) = self.owner_of(held.record)? else {
            ends();
            self.free_unmarked(held);
            return Ok(());
        };
        let state = self.state(entry.hash);
        let extent = state.space.extent_at(entry.slot).ok_or_else(no_such_slot)?;
        let before = match self.whole_object(stay, held.record, &entry, &extent, gone)? {
            Whole::InPlace => None,
            Whole::Bytes(object) if !gone => Some(object),
            Whole::Bytes(object) if write_back(self.memory(), &extent, &object) => None,
            Whole::Bytes(_) | Whole::Lost => {
                self.give_up(stay, held.record, entry, &extent, gone)?;
                ends();
                self.free_unmarked(held);
                return Ok(());
            }
        };
        match before {
            Some(object) => self.go_on_elsewhere(stay, entry, &object)?,
            None => {
                let renewed = !self.memory().keeps(sites::RESCUE_GENERATION)
                    || self.commit(Event::Wrap(target(entry)))?;
                if !renewed {
                    return Err(changed_under_lock());
                }
                // Who has died was perhaps about to delete it, which would be done to what others write from here on.
                if self.memory().keeps(sites::RESCUE_STAYS) {
                    let notes = &self.underway.notes;
                    let holders = notes.holders(self.seat.host(), held.record).skip(1);
                    holders.for_each(|host| notes.stays(host, entry.slot));
                }
            }
        }
        self.count(Counter::Rescues);
        ends();
        let _ = self.records.unlock(held, true);
        Ok(())
    }

    /// The object whose lock was taken over is lost; or just gone, if it can be had anew.
    fn give_up(
        &self,
        stay: Stay,
        record: Record,
        entry: Entry,
        extent: &Extent,
        gone: bool,
    ) -> Result<(), Error> {
        let space = &self.state(entry.hash).space;
        space.set_poisoned(extent);
        let is_lost = if gone && self.can_be_had_anew(record, extent) {
            let noting = self.noting().ok_or_else(changed_under_lock)?;
            self.delete_noted(noting, entry, None)?
        } else {
            if gone {
                space.mark_away(extent, stay.host);
            }
            let lost = self.lose(entry, stay)?;
            if lost && !gone {
                self.underway.notes.to_quarantine(stay.host, entry.slot, true);
            }
            lost
        };
        if is_lost { Ok(()) } else { Err(changed_under_lock()) }
    }

    /// Whether nothing is lost with the object in this slot.
    fn can_be_had_anew(&self, record: Record, extent: &Extent) -> bool {
        let unmarked = self.memory().check(sites::LOST_UNMARKED, !self.marks.is_set(record));
        unmarked
            && self.cleaner.get().is_some_and(|cleaner| {
                key_at(self.memory(), extent).is_some_and(|key| cleaner.can_be_had_anew(&key))
            })
    }

    /// The entry of the object that has `record`, which changes hands no more.
    fn owner_of(&self, record: Record) -> Result<Option<Entry>, Error> {
        self.sync_all()?;
        let Some(hash) = self.owner(record) else { return Ok(None) };
        let found = self.state(hash).index.find(self.memory(), hash);
        let mut entries = found.into_iter().map(|found| found.entry);
        let owner = entries.find(|entry| entry.record() == Some(record));
        owner.map(Some).ok_or_else(changed_under_lock)
    }

    /// The object with this entry as it was before a fenced host began to change it.
    pub(crate) fn whole_object(
        &self,
        stay: Stay,
        record: Record,
        entry: &Entry,
        extent: &Extent,
        gone: bool,
    ) -> Result<Whole, Error> {
        let notes = &self.underway.notes;
        loop {
            let through = notes.through(stay.host, record);
            if let Some(cut_off) = notes.torn(stay.host, record, entry.slot) {
                return Ok(notes.undone(&cut_off, entry.slot).map_or(Whole::Lost, Whole::Bytes));
            }
            if gone {
                return Ok(Whole::InPlace);
            }
            let object = self.read_locked(extent);
            // A host that is alive may have begun to write since, and even be through with it; but only once.
            let same = notes.torn(stay.host, record, entry.slot).is_none()
                && notes.through(stay.host, record) == through;
            if self.memory().check(sites::RESCUE_AGAIN, same) {
                return match object {
                    Err(error) if error.is_loss() => Ok(Whole::Lost),
                    object => object.map(Whole::Bytes),
                };
            }
        }
    }

    /// The whole object in a slot whose lock a fenced host has, or had; or of an object in that host's own memory.
    pub(crate) fn read_locked(&self, extent: &Extent) -> Result<Vec<u8>, Error> {
        let memory = self.memory();
        memory.consume(sites::READ_INVALIDATE, |_| ((), extent.lines()));
        let mut header = [0; HEADER_BYTES];
        extent.read(memory, 0, &mut header);
        let away = Header::decode_away(&header, extent.bytes());
        let header = Header::decode(&header, extent.bytes());
        let mut object = vec![0; header.map_or(0, |header| header.total_bytes() as usize)];
        extent.read(memory, 0, &mut object);
        if !memory.check(sites::POISON_RESCUE, !self.is_poisoned(extent)) {
            return Err(Error::Poisoned);
        }
        if let Some((host, _)) = away {
            return Err(loss(host));
        }
        let none = || Error::Damaged(format!("the slot at {:?} holds no object", extent.start()));
        header.map(|_| object).ok_or_else(none)
    }

    /// Moves an object out of the slot into which a fenced host may still write.
    pub(crate) fn go_on_elsewhere(
        &self,
        stay: Stay,
        entry: Entry,
        object: &[u8],
    ) -> Result<(), Error> {
        let header = Header::decode(object, object.len() as u64).ok_or_else(changed_under_lock)?;
        let (key, value) = object[HEADER_BYTES..].split_at(header.key_bytes.into());
        let noting = self.noting().ok_or_else(changed_under_lock)?;
        let to = self
            .reserve(entry.hash, object.len() as u64, Duration::ZERO)
            .inspect_err(|_| self.end_note(noting))?;
        let placed = self
            .write_new(noting, to, header, key, value)
            .inspect_err(|_| self.end_note(noting))?;
        let event = Event::Rescue { target: target(entry), to, host: stay.host };
        // Without a record, others may use it as soon as the event is in the log.
        let notes = &self.underway.notes;
        let first = entry.record().is_none();
        let moved = self.announce_after(&placed, None, event, || {
            if first {
                notes.to_quarantine(stay.host, entry.slot, false);
            }
        });
        match &moved {
            Ok(true) if !first => notes.to_quarantine(stay.host, entry.slot, false),
            // Who is fenced leaves everything as it is.
            Ok(true) | Err(Error::Log(LogError::Fenced { .. } | LogError::Damaged { .. })) => {}
            Ok(false) | Err(_) if first => notes.not_in_quarantine(stay.host, entry.slot),
            Ok(false) | Err(_) => {}
        }
        self.end_placing(entry.hash, &placed, None, moved.as_ref().copied());
        if moved? { Ok(()) } else { Err(changed_under_lock()) }
    }

    /// Whether the slot of an object that is gone from the index is in quarantine.
    pub(crate) fn is_quarantined(&self, entry: &Entry) -> bool {
        entry.lost().is_some()
            && self.shard(entry.hash).paused(|_, _, _, writer| {
                writer.quarantine.slots.iter().any(|&(_, line)| line == entry.slot)
            })
    }
}

/// Puts an object's old bytes back where a host that is gone has changed them; whether they are there for all.
pub(crate) fn write_back<M: Memory>(memory: &M, extent: &Extent, object: &[u8]) -> bool {
    memory.consume(sites::WRITE_INVALIDATE, |_| ((), extent.lines()));
    extent.take_blank(memory);
    extent.write(memory, 0, object);
    let lines = extent.covering(0, object.len() as u64);
    memory.publish(sites::RESCUE_CLEAN, lines, |memory| {
        extent.give(memory, object.len() as u64);
    });
    memory.check(sites::POISON_RESCUE, !extent.is_poisoned(memory, u64::MAX))
}

/// The key of the object in a slot, which nobody changes any more, as long as it can be told.
fn key_at<M: Memory>(memory: &M, extent: &Extent) -> Option<Vec<u8>> {
    let mut prefix = [0; PREFIX_BYTES];
    let bytes = (PREFIX_BYTES as u64).min(extent.bytes());
    let prefix = &mut prefix[..bytes as usize];
    memory.consume(sites::READ_INVALIDATE, |_| ((), extent.covering(0, bytes)));
    extent.read(memory, 0, prefix);
    let key_bytes = Header::decode_key_bytes(prefix, extent.bytes())?;
    prefix.get(HEADER_BYTES..HEADER_BYTES + key_bytes).map(<[u8]>::to_vec)
}

/// Says in an object's slot that its value is with `host`, as long as the key can be told; in how many bytes.
pub(crate) fn mark_away<M: Memory>(memory: &M, extent: &Extent, host: u8) -> Option<u64> {
    let key = key_at(memory, extent)?;
    let marked = (HEADER_BYTES + key.len()) as u64;
    let mut prefix = Header::encode_away(key.len() as u16, host).to_vec();
    prefix.extend(key);
    extent.take_blank(memory);
    extent.write(memory, 0, &prefix);
    memory.publish(sites::AWAY_CLEAN, extent.covering(0, marked), |memory| {
        extent.give(memory, marked);
    });
    Some(marked)
}

/// An object whose lock was taken over, or that was in a dead host's memory.
pub(crate) enum Whole {
    /// It is whole as it lies there.
    InPlace,
    /// These are its bytes.
    Bytes(Vec<u8>),
    /// There is no way to tell what it was.
    Lost,
}
