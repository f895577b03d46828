//! What a cell holds besides hash and slot, and where this host notes what it has seen of its entry.
//!
//! ```text
//! state   generation (32 bits) | sharing (28) | highest bits of the slot's line (4); 0 if the cell is empty
//! note    generation (32 bits) | what this host has seen of it (32), see `seen.rs`
//! ```
//!
//! Each is one word, so what is seen of one generation is never noted of another. A read-shared object has
//! two states, read and not, and takes no note; until it is to have another, which its state says from then on.
//! Objects that are shared otherwise always have one. Notes lie in arrays of their own, which take no memory
//! until there is one.

use tombolo_memory::{Memory, Table};

use super::entry::{Entry, LOST, Sharing};
use crate::event::{Generation, KeyHash};
use crate::seen::{READ_SHARED, Seen, UNSEEN};
use crate::sites;
use crate::sync::{AtomicU64, OnceLock, Ordering};

/// How an object is shared: as [`Sharing::code`] says, or one of these, which are no record's. Most that are read have the first.
const READ: u32 = 0;
const UNREAD: u32 = LOST - 2;
const NOTED: u32 = LOST - 1;

/// Bits of a slot's line that are elsewhere in a cell.
const LOW_BITS: u32 = 32;

const SHARING_SHIFT: u32 = 4;
const HIGH_MASK: u64 = (1 << SHARING_SHIFT) - 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    pub(super) const EMPTY: Self = Self(0);

    fn new(entry: &Entry, sharing: u32) -> Self {
        let generation = u64::from(entry.generation) << 32;
        Self(generation | u64::from(sharing) << SHARING_SHIFT | entry.slot >> LOW_BITS)
    }

    /// The state of an entry of which so much is seen.
    fn of(entry: &Entry, seen: Seen) -> Self {
        let sharing = match entry.sharing.code() {
            READ => read_shared(seen).unwrap_or(NOTED),
            code => code,
        };
        Self::new(entry, sharing)
    }

    fn generation(self) -> Generation {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    fn sharing(self) -> u32 {
        (self.0 as u32) >> SHARING_SHIFT
    }

    /// What is seen, unless that is noted.
    #[inline(always)]
    fn seen(self) -> Option<Seen> {
        match self.sharing() {
            UNREAD => Some(UNSEEN),
            READ => Some(READ_SHARED),
            _ => None,
        }
    }

    fn read_shared_as(self, sharing: u32) -> Self {
        let others = u64::from(u32::MAX >> SHARING_SHIFT) << SHARING_SHIFT;
        Self(self.0 & !others | u64::from(sharing) << SHARING_SHIFT)
    }

    /// Whether it is one of this entry's.
    fn is_of(self, entry: &Entry) -> bool {
        self != Self::EMPTY && self.entry(entry.hash, entry.slot as u32) == *entry
    }

    #[inline(always)]
    pub(super) fn entry(self, hash: KeyHash, slot: u32) -> Entry {
        let slot = (self.0 & HIGH_MASK) << LOW_BITS | u64::from(slot);
        let sharing = match self.sharing() {
            UNREAD | NOTED => READ,
            sharing => sharing,
        };
        let sharing = Sharing::of_code(sharing);
        Entry { hash, generation: self.generation(), slot, sharing }
    }
}

/// How a read-shared object is shared of which so much is seen, if that takes no note.
fn read_shared(seen: Seen) -> Option<u32> {
    match seen {
        UNSEEN => Some(UNREAD),
        READ_SHARED => Some(READ),
        _ => None,
    }
}

fn note(generation: Generation, seen: Seen) -> u64 {
    u64::from(generation) << 32 | u64::from(seen)
}

/// What a note says of a generation.
#[inline(always)]
fn seen_of(note: u64, generation: Generation) -> Seen {
    if (note >> 32) as u32 == generation { note as Seen } else { UNSEEN }
}

/// As many notes as a bucket has, at most, so that those of one are in one line.
#[derive(Default)]
#[repr(align(64))]
struct NoteLine([AtomicU64; NOTES_PER_LINE]);

const NOTES_PER_LINE: usize = if cfg!(loom) { 1 } else { 8 };

/// The notes of some cells, by number.
pub(super) struct Notes {
    cells: usize,
    lines: OnceLock<Table<NoteLine>>,
}

impl Notes {
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

/// What will be noted to have been seen of a generation whose entries always have a note, and where.
#[derive(Clone, Copy)]
pub(crate) struct ToNote<'a> {
    word: &'a AtomicU64,
    note: u64,
}

impl ToNote<'_> {
    /// Notes it, whatever is noted. If the cell has another entry by now, whose note that was, nothing is seen of that one any
    /// more: it costs an invalidation.
    #[inline(always)]
    pub(crate) fn set(self) {
        self.word.store(self.note, Ordering::Relaxed);
    }
}

/// Where an entry is, or was when it was found.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    state: &'a AtomicU64,
    notes: &'a Notes,
    /// That of its note.
    number: u32,
    /// What this host had seen of the entry by then.
    pub(crate) seen: Seen,
}

impl<'a> Cell<'a> {
    /// A cell that is not looked at yet.
    #[inline(always)]
    pub(super) fn new(state: &'a AtomicU64, notes: &'a Notes, number: usize) -> Self {
        Self { state, notes, number: number as u32, seen: UNSEEN }
    }

    #[inline(always)]
    pub(super) fn state(self, order: Ordering) -> State {
        State(self.state.load(order))
    }

    #[inline(always)]
    pub(super) fn seen_in(self, state: State, order: Ordering) -> Seen {
        if let Some(seen) = state.seen() {
            return seen;
        }
        let note = self.notes.get(self.number).map_or(0, |note| note.load(order));
        seen_of(note, state.generation())
    }

    /// What was seen of this entry, if the cell has it.
    #[inline]
    pub(crate) fn seen_of(self, entry: &Entry) -> Option<Seen> {
        // Pairs with the release in `see`: what is noted has been done.
        let state = self.state(Ordering::Acquire);
        state.is_of(entry).then(|| self.seen_in(state, Ordering::Acquire))
    }

    /// Notes what was seen of a generation, if the cell has it, and `before` is what is noted of it.
    #[inline]
    pub(crate) fn see(
        self,
        generation: Generation,
        before: Seen,
        seen: Seen,
        order: Ordering,
    ) -> bool {
        let state = self.state(Ordering::Relaxed);
        if state.generation() != generation {
            return false;
        }
        match (state.seen(), read_shared(seen)) {
            (None, _) => self.note(generation, before, seen, order),
            (Some(stands), _) if stands != before => false,
            (Some(_), Some(sharing)) => self.renew_sharing(state, sharing, order),
            (Some(_), None) => {
                self.begin_notes(state, before) && self.note(generation, before, seen, order)
            }
        }
    }

    /// A note that so much was seen of this generation, if there are notes.
    #[inline(always)]
    pub(crate) fn to_note(self, generation: Generation, seen: Seen) -> Option<ToNote<'a>> {
        Some(ToNote { word: self.notes.get(self.number)?, note: note(generation, seen) })
    }

    fn renew_sharing(self, state: State, sharing: u32, order: Ordering) -> bool {
        let State(new) = state.read_shared_as(sharing);
        self.state.compare_exchange(state.0, new, order, Ordering::Relaxed).is_ok()
    }

    fn note(self, generation: Generation, before: Seen, seen: Seen, order: Ordering) -> bool {
        let word = self.notes.get(self.number).unwrap_or_else(|| self.notes.make(self.number));
        let stands = word.load(Ordering::Relaxed);
        let new = note(generation, seen);
        seen_of(stands, generation) == before
            && word.compare_exchange(stands, new, order, Ordering::Relaxed).is_ok()
    }

    /// Has a note say what the state of a read-shared object said.
    #[cold]
    fn begin_notes(self, state: State, seen: Seen) -> bool {
        let (word, new) = (self.notes.make(self.number), note(state.generation(), seen));
        let stands = word.load(Ordering::Relaxed);
        // A note that says something else comes from who was ahead, or too slow.
        let other_generation = stands >> 32 != new >> 32;
        let noted = stands == new
            || other_generation
                && word.compare_exchange(stands, new, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // Pairs with the acquire in `take`: who finds this state finds the note. And with those of whoever reads it: what
        // the state said before, and the note says now, has been done. (That was found before an acquire fence.)
        noted && self.renew_sharing(state, NOTED, Ordering::Release)
    }

    /// Fills the cell.
    pub(super) fn set(self, entry: &Entry, seen: Seen) {
        let state = State::of(entry, seen);
        if state.seen().is_none() {
            // There may be a note of this generation, of a thread that was too slow when the entry was here before.
            let word = self.notes.make(self.number);
            word.store(note(entry.generation, seen), Ordering::Relaxed);
        }
        self.state.store(state.0, Ordering::Relaxed);
    }

    /// Empties the cell, and tells what was seen of its entry. That changes meanwhile, and must not be in two
    /// cells, nor be lost and come back; what it names passes on to whoever finds it in another cell.
    pub(super) fn take(self) -> Seen {
        let state = State(self.state.swap(State::EMPTY.0, Ordering::Acquire));
        state.seen().unwrap_or_else(|| {
            let word = self.notes.make(self.number);
            seen_of(word.swap(0, Ordering::Acquire), state.generation())
        })
    }

    /// Replaces the entry by another of the same object. Nothing is seen yet of a new generation.
    pub(super) fn renew<M: Memory>(self, memory: &M, entry: &Entry) {
        // A store would do, but the model checker lets it come before what was seen of the old generation.
        let unseen = State::of(entry, UNSEEN);
        let before = State(self.state.swap(unseen.0, Ordering::Relaxed));
        let same = before.generation() == entry.generation;
        if same || !memory.keeps(sites::READ_SEEN_GENERATION) {
            self.set(entry, self.seen_in(before, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_of_its_entry_and_no_other() {
        let entry = |sharing| Entry { hash: 1, generation: 2, slot: 3 << LOW_BITS | 4, sharing };
        let all = [Sharing::READ, Sharing::home(0), Sharing::lost(u8::MAX)];
        let records = [0, 1, UNREAD - 2].map(Sharing::record);
        let entries: Vec<Entry> = all.into_iter().chain(records).map(entry).collect();
        for (number, one) in entries.iter().enumerate() {
            for seen in [UNSEEN, READ_SHARED, 6] {
                let state = State::of(one, seen);
                assert_eq!(state.entry(1, 4), *one);
                let is_read_shared = one.sharing == Sharing::READ && read_shared(seen).is_some();
                assert_eq!(state.seen(), is_read_shared.then_some(seen));
                for (other_number, other) in entries.iter().enumerate() {
                    assert_eq!(state.is_of(other), number == other_number);
                }
                let later = Entry { generation: 3, ..*one };
                assert!(!state.is_of(&later) && !State::EMPTY.is_of(one));
            }
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn a_note_that_replaces_another_says_nothing_of_a_later_generation() {
        let (state, notes) = (AtomicU64::new(0), Notes::new(1));
        let cell = Cell::new(&state, &notes, 0);
        let entry = Entry { hash: 1, generation: 2, slot: 3, sharing: Sharing::record(4) };
        cell.set(&entry, 6);
        cell.to_note(2, 8).unwrap().set();
        assert_eq!(cell.seen_of(&entry), Some(8));
        // Of a thread that wrote an object that was here before.
        cell.to_note(1, 10).unwrap().set();
        assert_eq!(cell.seen_of(&entry), Some(UNSEEN));
    }
}
