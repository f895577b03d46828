//! The content of a cell besides hash and slot: an object's entry, and this host's note of it.
//!
//! ```text
//! state   generation (32 bits) | sharing (9) | validated (19) | highest bits of its line (4)
//!         0 if the cell is empty
//! note    generation (32 bits) | what this host has seen of it (32), see `validated.rs`
//!
//! sharing   which of the records that it may have, see `records/sets.rs` (4 bits); or 15, and how
//!           else (5 bits)
//! validated 0 | counter, without its lowest bit (18 bits)
//!           1 | nothing, or that it was read-shared, or that there is a note
//! ```
//!
//! Each is one word, so what is seen of one generation is never said of another. A note is needed
//! only by what does not fit in a state, such as where a host has a copy; from then on there is one
//! until the entry changes. Notes lie in arrays of their own, which take no memory until there is
//! one.

use tombolo_memory::{Memory, Table};

use super::entry::{Entry, LAST, Sharing};
use crate::ids::{Generation, KeyHash};
use crate::sites;
use crate::storage::index::validated::{COUNTER_BITS, NEVER_VALIDATED, READ_SHARED, ValidatedAt};
use crate::storage::records::{NOWHERE, Sets};
use crate::sync::{AtomicU64, OnceLock, Ordering};

/// How an object is shared that has no record. If it is not in its slot, how is said where others
/// say what is seen.
const READ: u32 = NOWHERE;
const OTHERWISE: u32 = NOWHERE + 1;

/// Bits of a slot's line that are elsewhere in a cell.
const LOW_BITS: u32 = 32;

const VALIDATED_SHIFT: u32 = 4;
const VALIDATED_BITS: u32 = COUNTER_BITS;
const SHARING_SHIFT: u32 = VALIDATED_SHIFT + VALIDATED_BITS;
const HIGH_MASK: u64 = (1 << VALIDATED_SHIFT) - 1;
const VALIDATED_MASK: u64 = (1 << VALIDATED_BITS) - 1;

/// The bit of a state that is no counter.
const NO_COUNTER: u32 = 1 << (VALIDATED_BITS - 1);
const SAYS_NEVER: u32 = NO_COUNTER;
const SAYS_READ: u32 = NO_COUNTER | 1;
const NOTED: u32 = NO_COUNTER | 2;
const OTHERS: u32 = NO_COUNTER | 3;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    pub(super) const EMPTY: Self = Self(0);

    /// The state of an entry of which so much is seen.
    fn of(sets: &Sets, entry: &Entry, validated_at: ValidatedAt) -> Self {
        let validated_at = said(validated_at).unwrap_or(NOTED);
        let place = |record| sets.place(entry.hash, record);
        let (sharing, validated_at) = match entry.record() {
            Some(record) => {
                (place(record).expect("an object has a record that it may have"), validated_at)
            }
            None if entry.sharing == Sharing::READ => (READ, validated_at),
            None => (OTHERWISE, OTHERS + LAST - entry.sharing.code()),
        };
        let sharing =
            u64::from(sharing) << SHARING_SHIFT | u64::from(validated_at) << VALIDATED_SHIFT;
        Self(u64::from(entry.generation) << 32 | sharing | entry.slot >> LOW_BITS)
    }

    fn generation(self) -> Generation {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    fn sharing(self) -> u32 {
        self.0 as u32 >> SHARING_SHIFT
    }

    #[inline(always)]
    fn says(self) -> u32 {
        (self.0 >> VALIDATED_SHIFT & VALIDATED_MASK) as u32
    }

    /// The counter that was seen, unless that is in a note.
    #[inline(always)]
    fn validated_at(self) -> Option<ValidatedAt> {
        match self.says() {
            counter @ ..NO_COUNTER => Some(counter << 1),
            SAYS_READ => Some(READ_SHARED),
            SAYS_NEVER => Some(NEVER_VALIDATED),
            _ => None,
        }
    }

    #[inline(always)]
    fn saying(self, validated_at: u32) -> Self {
        Self(
            self.0 & !(VALIDATED_MASK << VALIDATED_SHIFT)
                | u64::from(validated_at) << VALIDATED_SHIFT,
        )
    }

    /// Whether it is one of this entry's.
    fn is_of(self, sets: &Sets, entry: &Entry) -> bool {
        self != Self::EMPTY && self.entry(sets, entry.hash, entry.slot as u32) == *entry
    }

    #[inline(always)]
    pub(super) fn entry(self, sets: &Sets, hash: KeyHash, slot: u32) -> Entry {
        let slot = (self.0 & HIGH_MASK) << LOW_BITS | u64::from(slot);
        let sharing = match self.sharing() {
            place @ ..NOWHERE => Sharing::record(sets.record(hash, place)),
            READ => Sharing::READ,
            _ => Sharing::of_code(OTHERS + LAST - self.says()),
        };
        Entry { hash, generation: self.generation(), slot, sharing }
    }
}

/// The state for a counter that was seen, if that takes no note.
#[inline(always)]
fn said(validated_at: ValidatedAt) -> Option<u32> {
    match validated_at {
        NEVER_VALIDATED => Some(SAYS_NEVER),
        READ_SHARED => Some(SAYS_READ),
        counter => Some(counter >> 1).filter(|says| counter % 2 == 0 && *says < NO_COUNTER),
    }
}

fn note(generation: Generation, validated_at: ValidatedAt) -> u64 {
    u64::from(generation) << 32 | u64::from(validated_at)
}

/// The meaning of a note for a generation.
#[inline(always)]
fn told_by_note(note: u64, generation: Generation) -> ValidatedAt {
    if (note >> 32) as u32 == generation { note as ValidatedAt } else { NEVER_VALIDATED }
}

/// As many notes as a bucket has, at most, so that those of one are in one line.
#[derive(Default)]
#[repr(align(64))]
struct NoteLine([AtomicU64; NOTES_PER_LINE]);

const NOTES_PER_LINE: usize = if cfg!(loom) { 1 } else { 8 };

/// The notes of some cells, by number.
pub(super) struct NoteTable {
    cells: usize,
    lines: OnceLock<Table<NoteLine>>,
}

impl NoteTable {
    pub(super) fn new(cells: usize) -> Self {
        Self { cells, lines: OnceLock::new() }
    }

    #[inline(always)]
    fn get(&self, cell: u32) -> Option<&AtomicU64> {
        self.lines.get().map(|lines| word(lines, cell))
    }

    fn make(&self, cell: u32) -> &AtomicU64 {
        let lines = self.cells.div_ceil(NOTES_PER_LINE);
        word(self.lines.get_or_init(|| Table::new(lines)), cell)
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, cell: usize) {
        if let Some(word) = self.get(cell as u32) {
            tombolo_memory::prefetch(word);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lines.get().map_or(0, |lines| size_of_val(&**lines) as u64)
    }
}

#[inline(always)]
fn word(lines: &Table<NoteLine>, cell: u32) -> &AtomicU64 {
    &lines.at(cell as usize / NOTES_PER_LINE).0[cell as usize % NOTES_PER_LINE]
}

/// The counter to be noted for a generation, and its place.
#[derive(Clone, Copy)]
pub(crate) enum ToNote<'a> {
    State { word: &'a AtomicU64, stands: u64, new: u64 },
    Note { word: &'a AtomicU64, new: u64 },
}

impl ToNote<'_> {
    /// Says it, whatever is noted; but not if the state has changed meanwhile: if it is another
    /// entry's, that would be lost. If it is not said, it costs an invalidation.
    #[inline(always)]
    pub(crate) fn set(self) {
        match self {
            Self::State { word, stands, new } => {
                let _ = word.compare_exchange(stands, new, Ordering::Relaxed, Ordering::Relaxed);
            }
            Self::Note { word, new } => word.store(new, Ordering::Relaxed),
        }
    }
}

/// Where an entry is, or was when it was found.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    word: &'a AtomicU64,
    sets: &'a Sets,
    notes: &'a NoteTable,
    /// That of its note.
    number: u32,
    /// The counter at which this host had validated the entry by then.
    pub(crate) validated_at: ValidatedAt,
}

impl<'a> Cell<'a> {
    /// A cell that is not looked at yet.
    #[inline(always)]
    pub(super) fn new(
        word: &'a AtomicU64,
        sets: &'a Sets,
        notes: &'a NoteTable,
        number: usize,
    ) -> Self {
        Self { word, sets, notes, number: number as u32, validated_at: NEVER_VALIDATED }
    }

    #[inline(always)]
    pub(super) fn state(self, order: Ordering) -> State {
        State(self.word.load(order))
    }

    #[inline(always)]
    pub(super) fn validated_in(self, state: State, order: Ordering) -> ValidatedAt {
        if let Some(validated_at) = state.validated_at() {
            return validated_at;
        }
        let note = self.notes.get(self.number).map_or(0, |note| note.load(order));
        told_by_note(note, state.generation())
    }

    /// The counter at which this entry was validated, if the cell has it.
    #[inline]
    pub(crate) fn validated_at(self, entry: &Entry) -> Option<ValidatedAt> {
        // Pairs with the release in `mark_validated`: what is noted has been done.
        let state = self.state(Ordering::Acquire);
        state.is_of(self.sets, entry).then(|| self.validated_in(state, Ordering::Acquire))
    }

    /// Notes what was seen of a generation, if the cell has it, and `before` is what is noted of
    /// it.
    #[inline]
    pub(crate) fn mark_validated(
        self,
        generation: Generation,
        before: ValidatedAt,
        validated_at: ValidatedAt,
        order: Ordering,
    ) -> bool {
        let state = self.state(Ordering::Relaxed);
        if state.generation() != generation {
            return false;
        }
        match (state.validated_at(), said(validated_at)) {
            (None, _) => self.note(generation, before, validated_at, order),
            (Some(stands), _) if stands != before => false,
            (Some(_), Some(says)) => self.renew_validated(state, says, order),
            (Some(_), None) => {
                self.begin_notes(state, before)
                    && self.note(generation, before, validated_at, order)
            }
        }
    }

    /// How to say that so much was seen of this generation, whose entry has a record, if the cell
    /// has it.
    #[inline(always)]
    pub(crate) fn to_note(
        self,
        generation: Generation,
        validated_at: ValidatedAt,
    ) -> Option<ToNote<'a>> {
        let state = self.state(Ordering::Relaxed);
        if state.generation() != generation {
            return None;
        }
        if state.says() == NOTED {
            let (word, new) = (self.notes.get(self.number)?, note(generation, validated_at));
            return Some(ToNote::Note { word, new });
        }
        let new = state.saying(said(validated_at)?).0;
        Some(ToNote::State { word: self.word, stands: state.0, new })
    }

    fn renew_validated(self, state: State, says: u32, order: Ordering) -> bool {
        let State(new) = state.saying(says);
        self.word.compare_exchange(state.0, new, order, Ordering::Relaxed).is_ok()
    }

    fn note(
        self,
        generation: Generation,
        before: ValidatedAt,
        validated_at: ValidatedAt,
        order: Ordering,
    ) -> bool {
        let word = self.notes.get(self.number).unwrap_or_else(|| self.notes.make(self.number));
        let stands = word.load(Ordering::Relaxed);
        let new = note(generation, validated_at);
        told_by_note(stands, generation) == before
            && word.compare_exchange(stands, new, order, Ordering::Relaxed).is_ok()
    }

    /// Has a note say what the state said.
    #[cold]
    fn begin_notes(self, state: State, validated_at: ValidatedAt) -> bool {
        let (word, new) = (self.notes.make(self.number), note(state.generation(), validated_at));
        let stands = word.load(Ordering::Relaxed);
        // A note that says something else comes from who was ahead, or too slow.
        let other_generation = stands >> 32 != new >> 32;
        let noted = stands == new
            || other_generation
                && word.compare_exchange(stands, new, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // Pairs with the acquire in `take`: a thread that finds this state finds the note. And with
        // those of its readers: what the state said before, and the note says now, has been done.
        // (That was found before an acquire fence.)
        noted && self.renew_validated(state, NOTED, Ordering::Release)
    }

    /// Fills the cell.
    pub(super) fn set(self, entry: &Entry, validated_at: ValidatedAt) {
        let state = State::of(self.sets, entry, validated_at);
        if state.validated_at().is_none() {
            // There may be a note of this generation, of a thread that was too slow when the entry
            // was here before.
            let word = self.notes.make(self.number);
            word.store(note(entry.generation, validated_at), Ordering::Relaxed);
        }
        self.word.store(state.0, Ordering::Relaxed);
    }

    /// Empties the cell, and tells what was seen of its entry. That changes meanwhile, and must not
    /// be in two cells, nor be lost and come back; what it names passes on to a thread that finds
    /// it in another cell.
    pub(super) fn take(self) -> ValidatedAt {
        let state = State(self.word.swap(State::EMPTY.0, Ordering::Acquire));
        state.validated_at().unwrap_or_else(|| {
            let word = self.notes.make(self.number);
            told_by_note(word.swap(0, Ordering::Acquire), state.generation())
        })
    }

    /// Replaces the entry by another of the same object. Nothing is seen yet of a new generation.
    pub(super) fn renew<M: Memory>(self, memory: &M, entry: &Entry) {
        // A store would do, but the model checker lets it come before what was seen of the old
        // generation.
        let never_validated = State::of(self.sets, entry, NEVER_VALIDATED);
        let before = State(self.word.swap(never_validated.0, Ordering::Relaxed));
        let same = before.generation() == entry.generation;
        if same || !memory.keeps(sites::READ_SEEN_GENERATION) {
            self.set(entry, self.validated_in(before, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LostTo;
    use crate::storage::index::validated::{copied, copy_line};
    use crate::storage::records::RecordId;

    #[test]
    fn a_state_is_of_its_entry_and_no_other() {
        let sets = Sets::new(16);
        let entry = |sharing| Entry { hash: 1, generation: 2, slot: 3 << LOW_BITS | 4, sharing };
        let all = [Sharing::READ, Sharing::in_partition(0), Sharing::lost(LostTo::MemoryError)];
        let records = [0, 1, 19].map(|number| Sharing::record(RecordId(number)));
        let entries: Vec<Entry> = all.into_iter().chain(records).map(entry).collect();
        for (number, one) in entries.iter().enumerate() {
            for validated_at in
                [NEVER_VALIDATED, READ_SHARED, 0, 6, (1 << COUNTER_BITS) - 2, copied(7)]
            {
                let state = State::of(&sets, one, validated_at);
                assert_eq!(state.entry(&sets, 1, 4), *one);
                let is_said = one.is_plain() && copy_line(validated_at).is_none();
                assert_eq!(state.validated_at(), is_said.then_some(validated_at));
                for (other_number, other) in entries.iter().enumerate() {
                    assert_eq!(state.is_of(&sets, other), number == other_number);
                }
                let later = Entry { generation: 3, ..*one };
                assert!(!state.is_of(&sets, &later) && !State::EMPTY.is_of(&sets, one));
            }
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn what_a_writer_says_is_not_said_of_a_later_generation() {
        let (word, sets, notes) = (AtomicU64::new(0), Sets::new(16), NoteTable::new(1));
        let entry =
            Entry { hash: 1, generation: 2, slot: 3, sharing: Sharing::record(RecordId(4)) };
        let later = Entry { generation: 3, ..entry };
        let cell = Cell::new(&word, &sets, &notes, 0);
        cell.set(&entry, 4);
        cell.to_note(2, 6).unwrap().set();
        assert_eq!(cell.validated_at(&entry), Some(6));
        let too_late = cell.to_note(2, 8).unwrap();
        cell.set(&later, NEVER_VALIDATED);
        too_late.set();
        assert_eq!(cell.validated_at(&later), Some(NEVER_VALIDATED));
        assert_eq!(notes.bytes(), 0);
    }

    #[cfg(not(loom))]
    #[test]
    fn what_is_noted_is_not_noted_of_a_later_generation() {
        let (word, sets, notes) = (AtomicU64::new(0), Sets::new(16), NoteTable::new(1));
        let entry =
            Entry { hash: 1, generation: 2, slot: 3, sharing: Sharing::record(RecordId(4)) };
        let later = Entry { generation: 3, ..entry };
        let cell = Cell::new(&word, &sets, &notes, 0);
        cell.set(&entry, 4);
        assert!(cell.mark_validated(2, 4, copied(7), Ordering::Relaxed));
        assert_eq!(cell.validated_at(&entry), Some(copied(7)));
        cell.to_note(2, 6).unwrap().set();
        assert_eq!(cell.validated_at(&entry), Some(6));
        let too_late = cell.to_note(2, 8).unwrap();
        cell.set(&later, copied(9));
        too_late.set();
        assert_eq!(cell.validated_at(&later), Some(NEVER_VALIDATED));
    }
}
