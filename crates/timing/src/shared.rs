//! The cache that a host's cores share, and what it notes of each of its lines.

use tombolo_coherence::State;
use tombolo_memory::prefetch;

use crate::cache::{Cache, Key, Line, Place, blank};
use crate::profile;

/// The shared cache's note of a line.
#[derive(Clone, Copy, Default)]
pub struct Note {
    /// A bit per core that may have it.
    pub(crate) cores: u64,
    /// The line, and above it what else is known of it.
    line: u64,
}

/// It is dirty.
const DIRTY: u64 = 1 << 63;
/// No other host has it, if it is coherent.
const ALONE: u64 = 1 << 62;

impl Note {
    pub(crate) fn new(core: usize, line: Line, dirty: bool, alone: bool) -> Self {
        let flags = if dirty { DIRTY } else { 0 } | if alone { ALONE } else { 0 };
        Self { cores: 1 << core, line: line.bits() | flags }
    }

    /// The line.
    #[inline]
    pub fn line(&self) -> Line {
        Line::from_bits(self.line & !(DIRTY | ALONE))
    }

    /// Whether it was changed.
    #[inline]
    pub fn dirty(&self) -> bool {
        self.line & DIRTY != 0
    }

    #[inline]
    pub(crate) fn alone(&self) -> bool {
        self.line & ALONE != 0
    }

    /// The host's rights to the line.
    #[inline]
    pub(crate) fn state(&self) -> State {
        match (self.dirty(), self.alone()) {
            (true, _) => State::Modified,
            (false, true) => State::Exclusive,
            (false, false) => State::Shared,
        }
    }

    /// A core changes it, and no other one has it any more; which did.
    #[inline]
    pub(crate) fn change(&mut self, core: usize) -> u64 {
        let others = self.cores & !(1 << core);
        self.cores = 1 << core;
        self.line |= DIRTY;
        others
    }

    /// The host has it alone, or does so no longer.
    #[inline]
    pub(crate) fn set_alone(&mut self, alone: bool) {
        self.line = self.line & !ALONE | if alone { ALONE } else { 0 };
    }

    /// It is written back; whether it was dirty.
    #[inline]
    pub(crate) fn clean(&mut self) -> bool {
        let dirty = self.dirty();
        self.line &= !DIRTY;
        dirty
    }
}

/// The cache.
pub(crate) struct Shared {
    cache: Cache,
    /// By the number of their place.
    notes: Vec<Note>,
}

impl Shared {
    pub(crate) fn new(shape: &profile::Cache) -> Self {
        let cache = Cache::new(shape.kib, shape.ways, 1);
        let notes = blank(cache.places());
        Self { cache, notes }
    }

    /// Where a line is.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key) -> Option<Place> {
        self.cache.matches(0, key).find(|&place| self.note(place).line() == key.line)
    }

    /// Where a line is, which is used.
    #[inline(always)]
    pub(crate) fn touch(&mut self, key: Key) -> Option<Place> {
        let place = self.find(key)?;
        self.cache.used(place);
        Some(place)
    }

    /// The note at a place.
    #[inline(always)]
    pub(crate) fn note(&self, place: Place) -> &Note {
        &self.notes[place.number()]
    }

    #[inline(always)]
    pub(crate) fn note_mut(&mut self, place: Place) -> &mut Note {
        &mut self.notes[place.number()]
    }

    /// Adds a line that is not there; returns the note of the one that had to go, if one had to.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: Key, note: Note) -> Option<Note> {
        let (place, goes) = self.cache.add(0, key, false);
        let gone = std::mem::replace(self.note_mut(place), note);
        goes.then_some(gone)
    }

    /// Drops the line there; returns its note.
    #[inline(always)]
    pub(crate) fn remove_at(&mut self, place: Place) -> Note {
        self.cache.remove_at(place);
        *self.note(place)
    }

    /// Has this machine fetch a line's set.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: Key) {
        self.cache.prefetch(0, key);
    }

    /// When its set has been fetched, has this machine fetch what is noted of a line, or of the one
    /// that would have to go for it. Where that is, and whether the line is there; of lines with
    /// the same tag it may be the wrong one.
    #[inline(always)]
    pub(crate) fn prefetch_note(&self, key: Key) -> (Place, bool) {
        let (place, found) = self.cache.guess(0, key);
        prefetch(self.note(place));
        (place, found)
    }
}
