//! Chunks in whose memory there are errors: what is in them stays, and nothing comes to it.

use std::iter;

use tombolo_memory::{LINE_BYTES, Lines, Memory};
use tombolo_sharing::HEADER_BYTES;

use super::Space;
use crate::ids::{LostTo, SlotLine};
use crate::sites;
use crate::storage::space::away::mark_away;
use crate::storage::space::extent::Extent;

impl<M: Memory> Space<M> {
    /// Marks the chunks in which this host has met an error within a slot.
    #[cold]
    pub(crate) fn set_poisoned(&self, extent: &Extent) {
        let met = extent.lines().flat_map(|lines| self.by_chunk(lines));
        for (number, _) in met.filter(|&(_, lines)| self.memory.poisoned(lines)) {
            self.table.set_poisoned(number, false);
        }
        self.leave_poisoned();
    }

    /// Marks the chunk of a slot in which a header could not be changed: those in it are not to be
    /// believed when the pod is opened again.
    #[cold]
    pub(crate) fn set_untrue(&self, line: SlotLine) {
        if let Some((number, _)) = self.chunk_of(line) {
            self.table.set_poisoned(number as u32, true);
        }
        self.leave_poisoned();
    }

    /// Gives up chunks that this host holds, and that somebody has marked.
    pub(crate) fn leave_poisoned(&self) {
        let is_poisoned = |number| self.table.word(number).is_ok_and(|word| word.poisoned);
        self.release_active(|number, _| {
            !self.memory.check(sites::CHUNK_POISONED, !is_poisoned(number))
        });
    }

    /// Bytes of the chunks that are marked.
    pub(crate) fn poisoned_bytes(&self) -> u64 {
        self.table.poisoned() * self.classes.chunk_lines() * LINE_BYTES
    }

    /// Says in an object's slot that its value is in a host's own memory, or lost. No other host
    /// may write there.
    pub(crate) fn mark_away(&self, extent: &Extent, to: LostTo) {
        let marked = mark_away(&self.memory, extent, to).unwrap_or(HEADER_BYTES as u64);
        if extent.is_poisoned(&self.memory, marked) {
            self.set_untrue(extent.start().line());
        }
    }

    /// Lines, those of each chunk by themselves, and the chunk's number.
    pub(super) fn by_chunk(&self, lines: Lines) -> impl Iterator<Item = (u32, Lines)> {
        let end = lines.first() + lines.count();
        let mut next = lines.first();
        iter::from_fn(move || {
            let (number, within) = self.chunk_of(next).filter(|_| next < end)?;
            let count = (self.classes.chunk_lines() - within).min(end - next);
            let lines = Lines::new(next, count);
            next += count;
            Some((number as u32, lines))
        })
    }
}
