//! Notes that one thread has for itself, in which nothing is noted yet.

use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_memory::{Located, Memory};

use super::{Change, Note, Place, Underway};
use crate::sites;

/// A note that is reserved for now.
pub(crate) struct Reserved<'a, M: Memory> {
    pub(super) underway: &'a Underway<M>,
    pub(super) place: Place,
}

impl<'a, M: Memory> Reserved<'a, M> {
    /// It stays reserved until it [ends](Underway::end).
    #[inline(always)]
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// What will be noted there of a write.
    #[inline(always)]
    pub(crate) fn of_write(&self, change: Change) -> WriteNote<'a, M> {
        self.underway.write_note(self.place, change)
    }
}

impl<M: Memory> Underway<M> {
    /// What is noted of a write, and where.
    #[inline(always)]
    pub(super) fn write_note(&self, place: Place, change: Change) -> WriteNote<'_, M> {
        let memory = &self.notes.memory;
        let words = |note: Note| note.encode().map(Option::unwrap_or_default);
        let [writes, slot, ..] = words(Note::Writes(change));
        let [through, ..] = words(Note::Through { record: change.record });
        let first = self.at(place);
        WriteNote {
            memory,
            head: memory.locate(first),
            line: memory.locate(first.element(1)),
            used: &self.used[usize::from(place.0)],
            writes,
            slot,
            through,
            place,
        }
    }
}

impl<M: Memory> Drop for Reserved<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        self.underway.end(self.place, false);
    }
}

/// What is noted of a write from its first store to its end: which words, and where, is worked out before its lock is taken.
pub(crate) struct WriteNote<'a, M: Memory> {
    memory: &'a M,
    head: M::Located<'a, u64>,
    line: M::Located<'a, u64>,
    used: &'a AtomicBool,
    writes: u64,
    slot: u64,
    through: u64,
    place: Place,
}

impl<M: Memory> WriteNote<'_, M> {
    /// Which note it is.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Notes that the object is about to be changed, before anything of it is.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        if self.memory.keeps(sites::WRITE_NOTED) {
            self.line.store(self.slot);
            self.head.store(self.writes);
        }
    }

    /// As [`Underway::through`].
    #[inline(always)]
    pub(crate) fn through(&self) {
        if self.memory.keeps(sites::WRITE_THROUGH) {
            self.head.store(self.through);
        }
    }

    /// As [`Underway::end`].
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.head.store(0);
        self.used.store(false, Ordering::Release);
    }
}
