//! What a host is about to do to slots in LNR: what is torn, or half done, if it dies.
//!
//! Whoever changes an object in place, puts one into a free slot, or takes one out of its slot, *notes* that in SCR first, in a
//! note of its own, and clears it when it is through. So whoever clears up after a host knows what that had under way;
//! and so does who opens a pod in which nobody is left ([`open`](crate::lifecycle::open)), and has nothing but the notes and what is in the slots.
//!
//! * *Writes*: before the first store into an object whose lock it has. Whose lock it is the record says. So an object
//!   that a dead host had locked is torn if there is such a note, and whole if there is none. Where writes can be undone
//!   ([`TornWrites::Undo`](tombolo_pod::TornWrites)), each note has some bytes in LNR, into which the object is copied first. Objects
//!   that are larger are not changed in place. In a pod for a page cache in which they are not, there is so much room that heads of
//!   files are undone all the same; larger objects are changed in place, and their notes say that there is no copy.
//! * *Took over*: the lock of a dead host, to clear up. If who does that dies, too, that host's own note still tells.
//! * *Places*: before the first store into a slot that was promised to it; what is there is no object yet. *Announces*: when
//!   the object is in memory, before the event that makes the slot its own, and, if it comes from another slot, no more that one.
//!   *Created*: a new object is there, as the log has said; noted by who applies the log, before others see its host past the event.
//! * *Deletes*: before the event by which an object is gone from its slot.
//! * *Through*: with a write, which is in memory, before its lock is released. From then on the lock may be another thread's.
//! * *Returns*: before an object from the host's own memory is written into its slot. Where objects in there are in their slots,
//!   too, that needs no note, but each write of theirs does: by a record's number that no record has ([`BY_HOME`]), since there
//!   is no lock. The write counts if the host's seat stands when it is through, and else the note stays.
//!
//! Slots into which a host that was fenced may still write are in *quarantine*. Who takes its locks over says so in words
//! of their own, one per note, before it releases them: that object goes on elsewhere, or is lost.
//!
//! Invariant: as long as a note says that an object leaves a slot, nobody promises that slot. So whoever made the note, or
//! clears up after it, can take the header out of it.
//!
//! In which words a note says so is told in `note.rs`; where a write can be undone, besides:
//!
//! ```text
//! undo     checksum of the rest (4 bytes) | bytes of the object (4) | line of its slot (8) | object
//! ```

mod note;
mod reserved;

use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_memory::{FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr};
use tombolo_pod::{AreaPlaces, Membership};
use tombolo_sharing::{Areas, Geometry, NOTE_WORDS, ObjectArea, TornWrites};

pub(crate) use note::{BY_HOME, Change, Note, Torn};
pub(crate) use reserved::{Reserved, WriteNote};

use crate::ids::SlotLine;
use crate::sites;
use crate::storage::records::Record;

/// One of a host's notes, for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u16);

impl From<Place> for u32 {
    fn from(place: Place) -> Self {
        place.0.into()
    }
}

impl TryFrom<u32> for Place {
    type Error = std::num::TryFromIntError;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        number.try_into().map(Self)
    }
}

/// A change that was cut off, and where the object is noted as it was before.
pub(crate) struct CutOff {
    undo: Option<LnrAddr>,
}

/// In a word of the quarantine.
const LOST: u64 = 1 << 63;

/// All hosts' notes.
#[derive(Clone)]
pub(crate) struct Notes<M> {
    memory: M,
    /// Of the area's roster.
    members: AreaPlaces,
    areas: Areas,
    per_host: u64,
    undo_bytes: u64,
    torn_writes: TornWrites,
}

const UNDO_PREFIX: u64 = 16;

impl<M: Memory> Notes<M> {
    pub(crate) fn new(area: &ObjectArea<M>) -> Self {
        let &Geometry { writes, undo_bytes, torn_writes, .. } = area.geometry();
        let (memory, members, areas) = (area.memory().clone(), *area.places(), area.areas());
        Self { memory, members, areas, per_host: writes, undo_bytes, torn_writes }
    }

    /// Whether what is overwritten is noted, if it is not too much.
    fn undoes(&self) -> bool {
        self.torn_writes == TornWrites::Undo
            || self.undo_bytes > 0 && self.memory.keeps(sites::UNDO_SMALL)
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<M> {
        // At most 4096, as the geometry says.
        (0..self.per_host as u16).map(Place)
    }

    /// Hosts there may be.
    pub(crate) fn hosts(&self) -> std::ops::Range<u8> {
        0..self.members.host_count
    }

    /// What `host` has noted, and where.
    pub(crate) fn of(&self, host: u8) -> impl Iterator<Item = (Place, Note)> {
        self.places().filter_map(move |place| {
            let word = |number| self.memory.load(self.word(host, place, number));
            // Who makes a note stores its kind last, and clears it first.
            let head = word(0);
            let note = (head != 0).then(|| Note::decode([head, word(1), word(2), word(3)]))??;
            Some((place, note))
        })
    }

    /// What all have noted, and where.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u8, Place, Note)> {
        self.hosts().flat_map(|host| self.of(host).map(move |(place, note)| (host, place, note)))
    }

    /// Slots that objects may be leaving.
    pub(crate) fn left(&self) -> impl Iterator<Item = SlotLine> {
        // A host that neither takes part nor was fenced has no notes.
        let members = Membership::load(&self.memory, &self.members);
        let notes = members.hosts().chain(members.fenced()).flat_map(|host| self.of(host));
        notes.filter_map(|(_, note)| note.left())
    }

    /// Slots that objects may be leaving as others than `host` say.
    pub(crate) fn left_by_others(&self, host: u8) -> impl Iterator<Item = SlotLine> {
        let others = self.all().filter(move |&(of, ..)| of != host);
        others.filter_map(|(_, _, note)| note.left())
    }

    /// Makes, or changes, a note of `host`.
    #[inline(always)]
    pub(crate) fn set(&self, host: u8, place: Place, note: Note) {
        self.set_at(self.word(host, place, 0), note);
    }

    #[inline(always)]
    fn set_at(&self, first: ScrAddr<u64>, note: Note) {
        let [head, slot, to, version] = note.encode();
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

    /// Clears a note of `host`.
    pub(crate) fn clear(&self, host: u8, place: Place) {
        self.memory.store(self.word(host, place, 0), 0);
    }

    /// Clears all of them, and its quarantine.
    pub(crate) fn clear_all(&self, host: u8) {
        self.places().for_each(|place| self.clear(host, place));
        self.end_quarantine(host);
    }

    /// Clears what all have noted.
    pub(crate) fn clear_everything(&self) {
        self.hosts().for_each(|host| self.clear_all(host));
    }

    /// Where `host` has noted to be through with this record.
    pub(crate) fn through(&self, host: u8, record: Record) -> Vec<Place> {
        let of = |&(_, note): &(Place, Note)| note == Note::Through { record };
        self.of(host).filter(of).map(|(place, _)| place).collect()
    }

    /// Slots into which `host` may still write that was fenced, and whether their objects are lost.
    pub(crate) fn quarantine(&self, host: u8) -> impl Iterator<Item = (SlotLine, bool)> {
        let words = self.places().map(move |place| self.memory.load(self.quarantined(host, place)));
        words.filter(|&word| word != 0).map(|word| (word & !LOST, word & LOST != 0))
    }

    /// Where the next one is noted; `None` if there are as many as there can be.
    pub(crate) fn room_in_quarantine(&self, host: u8) -> Option<Place> {
        self.places().find(|&place| self.memory.load(self.quarantined(host, place)) == 0)
    }

    /// Where this one is noted, already or then.
    pub(crate) fn room_in_quarantine_for(&self, host: u8, slot: SlotLine) -> Option<Place> {
        let word = |&place: &Place| self.memory.load(self.quarantined(host, place)) & !LOST;
        self.places().find(|place| word(place) == slot).or_else(|| self.room_in_quarantine(host))
    }

    /// Says what has become of the object in a slot into which `host` may still write, before anybody goes on with it.
    /// By who alone clears up after that host.
    pub(crate) fn to_quarantine(&self, host: u8, slot: SlotLine, lost: bool) {
        if !self.memory.keeps(sites::QUARANTINE_NOTED) {
            return;
        }
        if let Some(place) = self.room_in_quarantine_for(host, slot) {
            let word = slot | if lost { LOST } else { 0 };
            self.memory.store(self.quarantined(host, place), word);
        }
    }

    /// The object that was lost in a slot in quarantine is gone. Nobody ends its quarantine while a note says that
    /// it is leaving the slot.
    pub(crate) fn lost_no_more(&self, slot: SlotLine) {
        for host in self.hosts() {
            let words = self.places().map(|place| self.quarantined(host, place));
            let lost = words.filter(|&word| self.memory.load(word) == slot | LOST);
            lost.for_each(|word| self.memory.store(word, slot));
        }
    }

    /// Nothing that `host` has noted of the object in this slot counts any more: it had the object locked, or in its own memory, and
    /// others go on with it in its slot.
    pub(crate) fn stays(&self, host: u8, slot: SlotLine) {
        for (place, note) in self.of(host) {
            match note {
                Note::Writes(Change { record: BY_HOME, slot: of, .. })
                | Note::Deletes { slot: of, .. }
                    if of == slot =>
                {
                    self.clear(host, place);
                }
                Note::Announces { from: Some(from), to, .. } if from == slot => {
                    self.set(host, place, Note::Places { to, torn: None });
                }
                _ => {}
            }
        }
        self.not_in_quarantine(host, slot);
    }

    /// Slots of objects that are in the memory of `host`, about which something is noted.
    pub(crate) fn named(&self, host: u8) -> Vec<SlotLine> {
        let by_notes = self.of(host).filter_map(|(_, note)| match note {
            Note::Writes(Change { record: BY_HOME, slot, .. }) => Some(slot),
            note => note.left(),
        });
        by_notes.chain(self.quarantine(host).map(|(slot, _)| slot)).collect()
    }

    /// An object is in this slot after all.
    pub(crate) fn not_in_quarantine(&self, host: u8, slot: SlotLine) {
        let words = self.places().map(|place| self.quarantined(host, place));
        let of = words.filter(|&word| self.memory.load(word) & !LOST == slot);
        of.for_each(|word| self.memory.store(word, 0));
    }

    /// No slot is `host`'s any more.
    pub(crate) fn end_quarantine(&self, host: u8) {
        self.places().for_each(|place| self.memory.store(self.quarantined(host, place), 0));
    }

    /// Who has had the lock of this record that `holder` has, as far as it was taken over: the last one first.
    pub(crate) fn holders(&self, holder: u8, record: Record) -> impl Iterator<Item = u8> {
        let before = move |&host: &u8| {
            self.of(host).find_map(|(_, note)| match note {
                Note::TookOver { record: of, from } if of == record => Some(from),
                _ => None,
            })
        };
        std::iter::successors(Some(holder), before).take(self.hosts().len())
    }

    /// The change that has torn the object with `record` in `slot`, whose lock `holder` has: if it was torn.
    pub(crate) fn torn(&self, holder: u8, record: Record, slot: SlotLine) -> Option<CutOff> {
        // One about another slot is over: the record was another object's then.
        let is_this = |change: &Change| (change.record, change.slot) == (record, slot);
        let by = |host| {
            self.of(host).find_map(|(place, note)| {
                let change = note.torn().filter(is_this)?;
                let undone = self.memory.check(sites::UNDO_OWN, change.undone);
                Some(CutOff { undo: undone.then(|| self.undo_of(host, place)) })
            })
        };
        self.holders(holder, record).find_map(by)
    }

    /// Records whose locks others have noted to have taken over from `host`, and who.
    pub(crate) fn taken_over(&self, host: u8) -> impl Iterator<Item = (Record, u8)> {
        let from_host = move |by: u8| {
            self.of(by).filter_map(move |(_, note)| match note {
                Note::TookOver { record, from } if from == host => Some((record, by)),
                _ => None,
            })
        };
        self.hosts().filter(move |&by| by != host).flat_map(from_host)
    }

    /// The object as it was in `slot` before it was torn, if that was noted.
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

    /// What has become of a new object of `host` that was announced: there, or nothing.
    pub(crate) fn decide(&self, host: u8, place: Place, to: SlotLine, created: bool) {
        let torn = None;
        let note = if created { Note::Created { to } } else { Note::Places { to, torn } };
        self.set(host, place, note);
    }

    fn number_of(&self, host: u8, place: Place) -> u64 {
        u64::from(host) * self.per_host + u64::from(place.0)
    }

    fn word(&self, host: u8, place: Place, number: u64) -> ScrAddr<u64> {
        self.areas.writes.element(self.number_of(host, place) * NOTE_WORDS + number)
    }

    fn quarantined(&self, host: u8, place: Place) -> ScrAddr<u64> {
        self.areas.quarantine.element(self.number_of(host, place))
    }

    fn undo_of(&self, host: u8, place: Place) -> LnrAddr {
        self.areas
            .undo
            .plus(self.number_of(host, place) * self.undo_bytes.next_multiple_of(LINE_BYTES))
    }
}

/// This host's notes, and all others'.
pub(crate) struct Underway<M> {
    pub(crate) notes: Notes<M>,
    host: u8,
    /// Its own first note.
    first: ScrAddr<u64>,
    /// Objects of at least so many bytes are changed in place with nothing noted but that.
    overwritten: u64,
    /// Which notes of this host some thread uses.
    used: Box<[AtomicBool]>,
}

impl<M: Memory> Underway<M> {
    pub(crate) fn new(area: &ObjectArea<M>, host: u8) -> Self {
        let notes = Notes::new(area);
        let used = notes.places().map(|_| AtomicBool::new(false)).collect();
        let first = notes.word(host, Place(0), 0);
        let undone =
            if notes.undoes() { notes.undo_bytes.saturating_sub(UNDO_PREFIX) + 1 } else { 0 };
        let overwritten = match notes.torn_writes {
            TornWrites::Lost => undone,
            TornWrites::Undo => u64::MAX,
        };
        Self { notes, host, first, overwritten, used }
    }

    /// Nothing is under way in this seat: what there is was its last holder's.
    pub(crate) fn clear_all(&self) {
        self.notes.clear_all(self.host);
    }

    /// A note for one thread; `None` while all are in use.
    pub(crate) fn reserve(&self) -> Option<Place> {
        let free = |used: &AtomicBool| {
            !used.load(Ordering::Relaxed) && !used.swap(true, Ordering::Acquire)
        };
        self.used.iter().position(free).map(|number| Place(number as u16))
    }

    /// The same, which is free again unless it is [kept](Reserved::keep).
    #[inline(always)]
    pub(crate) fn reserve_for_now(&self) -> Option<Reserved<'_, M>> {
        self.reserve().map(|place| Reserved { underway: self, place })
    }

    /// Whether objects of so many bytes may be changed in place.
    pub(crate) fn may_change(&self, bytes: u64) -> bool {
        self.notes.torn_writes == TornWrites::Lost || self.is_undone(bytes)
    }

    /// Whether what a write to an object of so many bytes overwrites is noted, too.
    pub(crate) fn is_undone(&self, bytes: u64) -> bool {
        self.notes.undoes() && UNDO_PREFIX + bytes <= self.notes.undo_bytes
    }

    /// Whether objects of so many bytes are changed in place with nothing noted but that.
    #[inline(always)]
    pub(crate) fn overwrites(&self, bytes: u64) -> bool {
        bytes >= self.overwritten
    }

    #[inline(always)]
    pub(crate) fn note(&self, place: Place, note: Note) {
        self.notes.set_at(self.at(place), note);
    }

    /// One of this host's own notes.
    #[inline(always)]
    fn at(&self, place: Place) -> ScrAddr<u64> {
        self.first.element(u64::from(place.0) * NOTE_WORDS)
    }

    /// Notes that the object with `record` is about to be changed, before anything of it is.
    #[inline(always)]
    pub(crate) fn note_write(&self, place: Place, change: Change) {
        self.write_note(place, change).begin();
    }

    /// Notes first what will be overwritten.
    pub(crate) fn note_undo(&self, place: Place, change: Change, object: &[u8]) {
        let mut bytes = vec![0; UNDO_PREFIX as usize];
        bytes[4..8].copy_from_slice(&(object.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&change.slot.to_le_bytes());
        bytes.extend_from_slice(object);
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        let memory = &self.notes.memory;
        let at = self.notes.undo_of(self.host, place);
        let lines = Lines::covering(at, bytes.len() as u64);
        memory.takes_blank(lines);
        memory.write(at, &bytes);
        memory.publish(sites::UNDO_CLEAN, [lines], |memory| {
            memory.gives(lines, bytes.len() as u64);
            self.note_write(place, change);
        });
    }

    /// The same of an object in this host's own memory. Others can tell before this host looks whether it has its seat still:
    /// pairs with who fences it first, and looks at its notes then.
    pub(crate) fn through_at_home(&self, place: Place) {
        let [Some(word), ..] = (Note::Through { record: BY_HOME }).encode() else { return };
        let (memory, at) = (&self.notes.memory, self.at(place));
        if memory.keeps(sites::HOME_THROUGH) {
            memory.fetch(sites::HOME_THROUGH, at, FetchOp::Swap, word);
        } else {
            memory.store(at, word);
        }
    }

    /// What was noted there as a write is in memory. As long as this host has the lock, who wants to take it over can tell.
    #[inline(always)]
    pub(crate) fn through(&self, place: Place, record: Record) {
        if self.notes.memory.keeps(sites::WRITE_THROUGH) {
            self.note(place, Note::Through { record });
        }
    }

    /// Nothing is noted there any more.
    #[inline(always)]
    pub(crate) fn clear(&self, place: Place) {
        self.notes.memory.store(self.at(place), 0);
    }

    /// What was noted is over, and the note any thread's.
    #[inline(always)]
    pub(crate) fn end(&self, place: Place, noted: bool) {
        if noted {
            self.clear(place);
        }
        self.used[usize::from(place.0)].store(false, Ordering::Release);
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
        let underway = Underway::new(&ObjectArea::first(&pod).unwrap(), 0);
        let places: Vec<Place> = std::iter::from_fn(|| underway.reserve()).collect();
        assert_eq!(places, (0..128).map(Place).collect::<Vec<_>>());
        underway.end(Place(67), true);
        assert_eq!((underway.reserve(), underway.reserve()), (Some(Place(67)), None));
    }
}
