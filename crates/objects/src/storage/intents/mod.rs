//! Intents of hosts on slots in LNR: the slots that are torn, or half done, if a host dies.
//!
//! A host that changes an object in place, puts one into a free slot, or takes one out of its slot,
//! *records* that in SCR first, in an intent of its own, and clears it when it is through. So a
//! host that clears up after another one knows what that had under way. So does a host that opens a
//! pod in which none is left ([`open`](crate::lifecycle::open)), and has nothing but the intents
//! and what is in the slots.
//!
//! * *Writes*: before the first store into an object whose lock it has. Whose lock it is the record
//!   says. So an object that a dead host had locked is torn if there is such an intent, and whole
//!   if there is none. Where writes can be undone ([`TornWrites::Undo`](tombolo_pod::TornWrites)),
//!   each intent has some bytes in LNR, into which the object is copied first. Objects that are
//!   larger are not changed in place. In a pod for a page cache in which they are not, there is so
//!   much room that heads of files are undone all the same; larger objects are changed in place,
//!   and their intents say that there is no copy.
//! * *Took over*: the lock of a dead host, to clear up. If who does that dies, too, that host's own
//!   intent still tells.
//! * *Places*: before the first store into a slot that was reserved for it; what is there is no
//!   object yet. *Announces*: when the object is in memory, before the event that makes the slot
//!   its own, and, if it comes from another slot, no more that one. *Created*: a new object is
//!   there, as the log has said; recorded by who applies the log, before others see its host past
//!   the event.
//! * *Deletes*: before the event by which an object is gone from its slot.
//! * *Through*: with a write, which is in memory, before its lock is released. From then on the
//!   lock may be another thread's.
//! * *Moves out*: before an object from the host's own memory is written into its slot. Where
//!   objects in there are in their slots, too, that needs no intent, but each write of theirs does:
//!   by [`LockedBy::Partition`], since there is no lock. The write
//!   counts if the host's seat stands when it is through, and else the intent stays.
//!
//! Slots into which a host that was fenced may still write are in *quarantine*. A host that takes
//! its locks over says so in words of their own, one per intent, before it releases them: that
//! object goes on elsewhere, or is lost.
//!
//! Invariant: as long as an intent says that an object leaves a slot, nobody reserves that slot. So
//! the host that made the intent, or one that clears up after it, can take the header out of it.
//!
//! In which words an intent says so is told in `intent.rs`; where a write can be undone, besides:
//!
//! ```text
//! undo   checksum of the rest (4 bytes) | bytes of the object (4) | line of its slot (8) | object
//! ```

mod intent;
mod reserved;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tombolo_memory::{FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr};
use tombolo_pod::{AreaPlaces, Membership};
use tombolo_sharing::{Areas, Geometry, NOTE_WORDS, ObjectArea, TornWrites};

pub(crate) use intent::{Change, Intent, Torn};
pub(crate) use reserved::{ReservedIntent, WriteIntent};

use crate::ids::SlotLine;
use crate::storage::records::{LockedBy, RecordId};
use crate::{Error, sites};

/// One of a host's intents, for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntentSlot(u16);

impl From<IntentSlot> for u32 {
    fn from(intent_slot: IntentSlot) -> Self {
        intent_slot.0.into()
    }
}

impl TryFrom<u32> for IntentSlot {
    type Error = std::num::TryFromIntError;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        number.try_into().map(Self)
    }
}

/// A change that was cut off, and where the object is recorded as it was before.
pub(crate) struct CutOff {
    undo: Option<LnrAddr>,
}

/// In a word of the quarantine.
const LOST: u64 = 1 << 63;

/// All hosts' intents.
#[derive(Clone)]
pub(crate) struct IntentTable<M> {
    memory: M,
    /// Of the area's roster.
    members: AreaPlaces,
    areas: Areas,
    per_host: u64,
    undo_bytes: u64,
    torn_writes: TornWrites,
}

const UNDO_PREFIX: u64 = 16;

impl<M: Memory> IntentTable<M> {
    pub(crate) fn new(area: &ObjectArea<M>) -> Self {
        let &Geometry { writes, undo_bytes, torn_writes, .. } = area.geometry();
        let (memory, members, areas) = (area.memory().clone(), *area.places(), area.areas());
        Self { memory, members, areas, per_host: writes, undo_bytes, torn_writes }
    }

    /// Whether what is overwritten is recorded, if it is not too much.
    fn undoes(&self) -> bool {
        self.torn_writes == TornWrites::Undo
            || self.undo_bytes > 0 && self.memory.keeps(sites::UNDO_SMALL)
    }

    /// The intents that each host has.
    pub(crate) fn slots(&self) -> impl Iterator<Item = IntentSlot> + use<M> {
        // At most 4096, as the geometry says.
        (0..self.per_host as u16).map(IntentSlot)
    }

    /// Hosts there may be.
    pub(crate) fn hosts(&self) -> std::ops::Range<u8> {
        0..self.members.host_count
    }

    /// The intents of `host`, and their places.
    pub(crate) fn of(&self, host: u8) -> impl Iterator<Item = (IntentSlot, Intent)> {
        self.slots().filter_map(move |intent_slot| {
            let word = |number| self.memory.load(self.word(host, intent_slot, number));
            // The host that makes an intent stores its kind last, and clears it first.
            let head = word(0);
            let intent =
                (head != 0).then(|| Intent::decode([head, word(1), word(2), word(3)]))??;
            Some((intent_slot, intent))
        })
    }

    /// The intents of all hosts, and their places.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u8, IntentSlot, Intent)> {
        self.hosts().flat_map(|host| {
            self.of(host).map(move |(intent_slot, intent)| (host, intent_slot, intent))
        })
    }

    /// Slots that objects may be leaving.
    pub(crate) fn left(&self) -> impl Iterator<Item = SlotLine> {
        // A host that neither takes part nor was fenced has no intents.
        let members = Membership::load(&self.memory, &self.members);
        let table = members.hosts().chain(members.fenced()).flat_map(|host| self.of(host));
        table.filter_map(|(_, intent)| intent.left())
    }

    /// Slots that objects may be leaving as others than `host` say.
    pub(crate) fn left_by_others(&self, host: u8) -> impl Iterator<Item = SlotLine> {
        let others = self.all().filter(move |&(of, ..)| of != host);
        others.filter_map(|(_, _, intent)| intent.left())
    }

    /// Makes, or changes, an intent of `host`.
    #[inline(always)]
    pub(crate) fn set(&self, host: u8, intent_slot: IntentSlot, intent: Intent) {
        self.set_at(self.word(host, intent_slot, 0), intent);
    }

    #[inline(always)]
    fn set_at(&self, first: ScrAddr<u64>, intent: Intent) {
        let [head, slot, to, version] = intent.encode();
        let store = |number, word: Option<u64>| {
            if let Some(word) = word {
                self.memory.store(first.element(number), word);
            }
        };
        store(1, slot);
        store(2, to);
        store(3, version);
        store(0, head);
    }

    /// Clears an intent of `host`.
    pub(crate) fn clear(&self, host: u8, intent_slot: IntentSlot) {
        self.memory.store(self.word(host, intent_slot, 0), 0);
    }

    /// Clears all of them, and its quarantine.
    pub(crate) fn clear_all(&self, host: u8) {
        self.slots().for_each(|intent_slot| self.clear(host, intent_slot));
        self.end_quarantine(host);
    }

    /// Clears what all have recorded.
    pub(crate) fn clear_everything(&self) {
        self.hosts().for_each(|host| self.clear_all(host));
    }

    /// Where `host` has recorded to be through with an object that is locked by this.
    pub(crate) fn through(&self, host: u8, by: LockedBy) -> Vec<IntentSlot> {
        let of = |&(_, intent): &(IntentSlot, Intent)| intent == Intent::Through { by };
        self.of(host).filter(of).map(|(intent_slot, _)| intent_slot).collect()
    }

    /// Slots into which `host` may still write that was fenced, and whether their objects are lost.
    pub(crate) fn quarantine(&self, host: u8) -> impl Iterator<Item = (SlotLine, bool)> {
        let words = self
            .slots()
            .map(move |intent_slot| self.memory.load(self.quarantined(host, intent_slot)));
        words.filter(|&word| word != 0).map(|word| (word & !LOST, word & LOST != 0))
    }

    /// Where the next one is recorded; `None` if there are as many as there can be.
    pub(crate) fn room_in_quarantine(&self, host: u8) -> Option<IntentSlot> {
        self.slots().find(|&intent_slot| self.memory.load(self.quarantined(host, intent_slot)) == 0)
    }

    /// Where this one is recorded, already or then.
    pub(crate) fn room_in_quarantine_for(&self, host: u8, slot: SlotLine) -> Option<IntentSlot> {
        let word = |&intent_slot: &IntentSlot| {
            self.memory.load(self.quarantined(host, intent_slot)) & !LOST
        };
        self.slots()
            .find(|intent_slot| word(intent_slot) == slot)
            .or_else(|| self.room_in_quarantine(host))
    }

    /// Says what has become of the object in a slot into which `host` may still write, before
    /// anybody goes on with it. By who alone clears up after that host.
    pub(crate) fn to_quarantine(&self, host: u8, slot: SlotLine, lost: bool) {
        if !self.memory.keeps(sites::QUARANTINE_NOTED) {
            return;
        }
        if let Some(intent_slot) = self.room_in_quarantine_for(host, slot) {
            let word = slot | if lost { LOST } else { 0 };
            self.memory.store(self.quarantined(host, intent_slot), word);
        }
    }

    /// The object that was lost in a slot in quarantine is gone. Nobody ends its quarantine while
    /// an intent says that it is leaving the slot.
    pub(crate) fn lost_no_more(&self, slot: SlotLine) {
        for host in self.hosts() {
            let words = self.slots().map(|intent_slot| self.quarantined(host, intent_slot));
            let lost = words.filter(|&word| self.memory.load(word) == slot | LOST);
            lost.for_each(|word| self.memory.store(word, slot));
        }
    }

    /// Nothing that `host` has recorded of the object in this slot counts any more: it had the
    /// object locked, or in its own memory, and others go on with it in its slot.
    pub(crate) fn stays(&self, host: u8, slot: SlotLine) {
        for (intent_slot, intent) in self.of(host) {
            match intent {
                Intent::Writes(change) if change.is_in_partition() && change.slot == slot => {
                    self.clear(host, intent_slot);
                }
                Intent::Deletes { slot: of, .. } if of == slot => self.clear(host, intent_slot),
                Intent::Announces { from: Some(from), to, .. } if from == slot => {
                    self.set(host, intent_slot, Intent::Places { to, torn: None });
                }
                _ => {}
            }
        }
        self.not_in_quarantine(host, slot);
    }

    /// Slots of objects that are in the memory of `host`, about which something is recorded.
    pub(crate) fn named(&self, host: u8) -> Vec<SlotLine> {
        let by_notes = self.of(host).filter_map(|(_, intent)| match intent {
            Intent::Writes(change) if change.is_in_partition() => Some(change.slot),
            intent => intent.left(),
        });
        by_notes.chain(self.quarantine(host).map(|(slot, _)| slot)).collect()
    }

    /// An object is in this slot after all.
    pub(crate) fn not_in_quarantine(&self, host: u8, slot: SlotLine) {
        let words = self.slots().map(|intent_slot| self.quarantined(host, intent_slot));
        let of = words.filter(|&word| self.memory.load(word) & !LOST == slot);
        of.for_each(|word| self.memory.store(word, 0));
    }

    /// No slot is `host`'s any more.
    pub(crate) fn end_quarantine(&self, host: u8) {
        self.slots()
            .for_each(|intent_slot| self.memory.store(self.quarantined(host, intent_slot), 0));
    }

    /// Hosts that have had the lock of this record that `holder` has, as far as it was taken over:
    /// the last one first.
    pub(crate) fn holders(&self, holder: u8, record: RecordId) -> impl Iterator<Item = u8> {
        let before = move |&host: &u8| {
            self.of(host).find_map(|(_, intent)| match intent {
                Intent::TookOver { record: of, from } if of == record => Some(from),
                _ => None,
            })
        };
        std::iter::successors(Some(holder), before).take(self.hosts().len())
    }

    /// The change that has torn the object in `slot`, which is locked by `by`, and the lock is that
    /// of `holder`: if it was torn.
    pub(crate) fn torn(&self, holder: u8, by: LockedBy, slot: SlotLine) -> Option<CutOff> {
        // One about another slot is over: the record was another object's then.
        let is_this = |change: &Change| (change.by(), change.slot) == (by, slot);
        let cut_off = |host| {
            self.of(host).find_map(|(intent_slot, intent)| {
                let change = intent.torn().filter(is_this)?;
                let undone = self.memory.check(sites::UNDO_OWN, change.undone);
                Some(CutOff { undo: undone.then(|| self.undo_of(host, intent_slot)) })
            })
        };
        match by {
            LockedBy::Record(record) => self.holders(holder, record).find_map(cut_off),
            LockedBy::Log | LockedBy::Partition => cut_off(holder),
        }
    }

    /// Records whose locks others have recorded to have taken over from `host`, and who.
    pub(crate) fn taken_over(&self, host: u8) -> impl Iterator<Item = (RecordId, u8)> {
        let from_host = move |by: u8| {
            self.of(by).filter_map(move |(_, intent)| match intent {
                Intent::TookOver { record, from } if from == host => Some((record, by)),
                _ => None,
            })
        };
        self.hosts().filter(move |&by| by != host).flat_map(from_host)
    }

    /// The object as it was in `slot` before it was torn, if that was recorded.
    pub(crate) fn undone(&self, cut_off: &CutOff, slot: SlotLine) -> Option<Vec<u8>> {
        let (memory, undo) = (&self.memory, cut_off.undo?);
        let since = memory.moment();
        let lines = Lines::covering(undo, self.undo_bytes);
        memory.consume(sites::UNDO_INVALIDATE, |_| ((), [lines]));
        let mut prefix = [0; UNDO_PREFIX as usize];
        memory.read(undo, &mut prefix);
        let (_, rest) = prefix.split_first_chunk::<4>()?;
        let (bytes, of) = rest.split_first_chunk()?;
        let bytes = UNDO_PREFIX + u64::from(u32::from_le_bytes(*bytes));
        if u64::from_le_bytes(*of.first_chunk()?) != slot || bytes > self.undo_bytes {
            return None;
        }
        let mut all = vec![0; bytes as usize];
        memory.read(undo, &mut all);
        memory.relies_on(undo, bytes, since);
        let whole = crc32c::crc32c(&all[4..]).to_le_bytes() == all[..4];
        whole.then(|| all.split_off(UNDO_PREFIX as usize))
    }

    /// The fate of a new object of `host` that was announced: there, or not.
    pub(crate) fn decide(&self, host: u8, intent_slot: IntentSlot, to: SlotLine, created: bool) {
        let torn = None;
        let intent = if created { Intent::Created { to } } else { Intent::Places { to, torn } };
        self.set(host, intent_slot, intent);
    }

    fn number_of(&self, host: u8, intent_slot: IntentSlot) -> u64 {
        u64::from(host) * self.per_host + u64::from(intent_slot.0)
    }

    fn word(&self, host: u8, intent_slot: IntentSlot, number: u64) -> ScrAddr<u64> {
        self.areas.writes.element(self.number_of(host, intent_slot) * NOTE_WORDS + number)
    }

    fn quarantined(&self, host: u8, intent_slot: IntentSlot) -> ScrAddr<u64> {
        self.areas.quarantine.element(self.number_of(host, intent_slot))
    }

    fn undo_of(&self, host: u8, intent_slot: IntentSlot) -> LnrAddr {
        self.areas
            .undo
            .plus(self.number_of(host, intent_slot) * self.undo_bytes.next_multiple_of(LINE_BYTES))
    }
}

/// This host's intents, and all others'.
pub(crate) struct HostIntents<M> {
    pub(crate) table: IntentTable<M>,
    host: u8,
    /// Its own first intent.
    first: ScrAddr<u64>,
    /// Objects of at least so many bytes are changed in place with nothing recorded but that.
    overwritten: u64,
    /// Which intents of this host some thread uses.
    used: Box<[AtomicBool]>,
    /// How many of those are of room that was given out.
    given_out: AtomicU32,
}

impl<M: Memory> HostIntents<M> {
    pub(crate) fn new(area: &ObjectArea<M>, host: u8) -> Self {
        let table = IntentTable::new(area);
        let used = table.slots().map(|_| AtomicBool::new(false)).collect();
        let first = table.word(host, IntentSlot(0), 0);
        let undone =
            if table.undoes() { table.undo_bytes.saturating_sub(UNDO_PREFIX) + 1 } else { 0 };
        let overwritten = match table.torn_writes {
            TornWrites::Lost => undone,
            TornWrites::Undo => u64::MAX,
        };
        Self { table, host, first, overwritten, used, given_out: AtomicU32::new(0) }
    }

    /// An intent of room that is given out for an unknown time; until it is
    /// [taken back](Self::taken_back). The other half of all intents stays for other threads.
    ///
    /// # Errors
    /// [`Error::TooManyReservations`].
    pub(crate) fn give_out(&self) -> Result<IntentSlot, Error> {
        let most = (self.used.len() as u32 / 2).max(1);
        if self.given_out.fetch_add(1, Ordering::Relaxed) < most
            && let Some(intent_slot) = self.reserve()
        {
            return Ok(intent_slot);
        }
        self.taken_back();
        Err(Error::TooManyReservations { most })
    }

    /// Room that was given out is not any more.
    pub(crate) fn taken_back(&self) {
        self.given_out.fetch_sub(1, Ordering::Relaxed);
    }

    /// Rooms that are given out.
    pub(crate) fn given_out(&self) -> u32 {
        self.given_out.load(Ordering::Relaxed)
    }

    /// Nothing is under way in this seat: what there is was its last holder's.
    pub(crate) fn clear_all(&self) {
        self.table.clear_all(self.host);
    }

    /// An intent for one thread; `None` while all are in use.
    pub(crate) fn reserve(&self) -> Option<IntentSlot> {
        let free = |used: &AtomicBool| {
            !used.load(Ordering::Relaxed) && !used.swap(true, Ordering::Acquire)
        };
        self.used.iter().position(free).map(|number| IntentSlot(number as u16))
    }

    /// The same, which is free again unless it is [kept](ReservedIntent::keep).
    #[inline(always)]
    pub(crate) fn reserve_for_now(&self) -> Option<ReservedIntent<'_, M>> {
        self.reserve().map(|intent_slot| ReservedIntent { intents: self, intent_slot })
    }

    /// Whether objects of so many bytes may be changed in place.
    pub(crate) fn may_change(&self, bytes: u64) -> bool {
        self.table.torn_writes == TornWrites::Lost || self.is_undone(bytes)
    }

    /// Whether what a write to an object of so many bytes overwrites is recorded, too.
    pub(crate) fn is_undone(&self, bytes: u64) -> bool {
        self.table.undoes() && UNDO_PREFIX + bytes <= self.table.undo_bytes
    }

    /// Whether objects of so many bytes are changed in place with nothing recorded but that.
    #[inline(always)]
    pub(crate) fn overwrites(&self, bytes: u64) -> bool {
        bytes >= self.overwritten
    }

    #[inline(always)]
    pub(crate) fn set(&self, intent_slot: IntentSlot, intent: Intent) {
        self.table.set_at(self.at(intent_slot), intent);
    }

    /// One of this host's own intents.
    #[inline(always)]
    fn at(&self, intent_slot: IntentSlot) -> ScrAddr<u64> {
        self.first.element(u64::from(intent_slot.0) * NOTE_WORDS)
    }

    /// Records that the object with `record` is about to be changed, before anything of it is.
    #[inline(always)]
    pub(crate) fn set_write(&self, intent_slot: IntentSlot, change: Change) {
        self.write_intent(intent_slot, change).begin();
    }

    /// Records first what will be overwritten.
    pub(crate) fn set_undo(&self, intent_slot: IntentSlot, change: Change, object: &[u8]) {
        let mut bytes = vec![0; UNDO_PREFIX as usize];
        bytes[4..8].copy_from_slice(&(object.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&change.slot.to_le_bytes());
        bytes.extend_from_slice(object);
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        let memory = &self.table.memory;
        let at = self.table.undo_of(self.host, intent_slot);
        let lines = Lines::covering(at, bytes.len() as u64);
        memory.takes_blank(lines);
        memory.write(at, &bytes);
        memory.publish(sites::UNDO_CLEAN, [lines], |memory| {
            memory.gives(lines, bytes.len() as u64);
            self.set_write(intent_slot, change);
        });
    }

    /// The same of an object in this host's own memory. Others can tell before this host looks
    /// whether it has its seat still: pairs with who fences it first, and looks at its intents
    /// then.
    pub(crate) fn through_in_partition(&self, intent_slot: IntentSlot) {
        let [Some(word), ..] = (Intent::Through { by: LockedBy::Partition }).encode() else {
            return;
        };
        let (memory, at) = (&self.table.memory, self.at(intent_slot));
        if memory.keeps(sites::PARTITION_THROUGH) {
            memory.fetch(sites::PARTITION_THROUGH, at, FetchOp::Swap, word);
        } else {
            memory.store(at, word);
        }
    }

    /// The write that was recorded there is in memory. As long as this host has the lock, a host
    /// that wants to take it over can tell.
    #[inline(always)]
    pub(crate) fn through(&self, intent_slot: IntentSlot, by: LockedBy) {
        if self.table.memory.keeps(sites::WRITE_THROUGH) {
            self.set(intent_slot, Intent::Through { by });
        }
    }

    /// Nothing is recorded there any more.
    #[inline(always)]
    pub(crate) fn clear(&self, intent_slot: IntentSlot) {
        self.table.memory.store(self.at(intent_slot), 0);
    }

    /// The change is over, and the intent any thread's.
    #[inline(always)]
    pub(crate) fn end(&self, intent_slot: IntentSlot, noted: bool) {
        if noted {
            self.clear(intent_slot);
        }
        self.used[usize::from(intent_slot.0)].store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use tombolo_pod::Pod;
    use tombolo_sharing::{Options, plan_layout};
    use tombolo_simulator::{Config, Simulation, Trial};

    use super::*;

    #[test]
    fn a_note_is_one_threads_at_a_time() {
        let config = Config { scr_bytes: 128 << 10, lnr_bytes: 4 << 20, ..Config::default() };
        let options = Options { ring_entries: Some(8), writes: Some(128), ..Options::default() };
        let layout = plan_layout(config.scr_bytes, config.lnr_bytes, options).unwrap();
        let memory = Simulation::new(config, &Trial::new(1)).memory(0);
        let pod = Pod::format(memory, &layout).unwrap();
        let intents = HostIntents::new(&ObjectArea::first(&pod).unwrap(), 0);
        let places: Vec<IntentSlot> = std::iter::from_fn(|| intents.reserve()).collect();
        assert_eq!(places, (0..128).map(IntentSlot).collect::<Vec<_>>());
        intents.end(IntentSlot(67), true);
        assert_eq!((intents.reserve(), intents.reserve()), (Some(IntentSlot(67)), None));
    }
}
