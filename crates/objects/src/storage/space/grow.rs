//! Preparing the slots of a chunk: some at a time, in the order in which they are promised.
//!
//! So memory comes to be behind a chunk as it fills, and a large chunk with few objects takes
//! little. The chunk's word says how many slots are prepared before one of them is promised: the
//! host that opens the pod looks at no others, for what lies there is nobody's.

use std::ops::Range;

use tombolo_memory::{LINE_BYTES, Lines, Memory};

use super::Space;
use crate::storage::space::chunk_table::ChunkWord;
use crate::{Error, sites};

/// Slots are prepared for so many bytes at once, at most: a huge page.
const STEP_BYTES: u64 = 2 << 20;

/// Parts in which a chunk is prepared, at least, if its slots are small enough.
const PARTS: u64 = 4;

impl<M: Memory> Space<M> {
    /// Prepares more slots of the active chunk of `class`, unless all are; whether there are more.
    /// By the thread that acquires.
    ///
    /// # Errors
    /// [`Error::LnrFull`] if the system has no memory for them.
    pub(super) fn grow(&self, class: u8) -> Result<bool, Error> {
        let Some((number, slots)) = self.begin_growth(class) else { return Ok(false) };
        let lines = self.classes.slot_lines(class).unwrap_or(1);
        let first = self.first_line_of(number) + slots.start * lines;
        let more = Lines::new(first, (slots.end - slots.start) * lines);
        let populated = self.populate(more);
        if populated {
            self.scrub(
                sites::CHUNK_SCRUB,
                slots.clone().map(|slot| self.first_line_of(number) + slot * lines),
            );
            if self.memory.keeps(sites::CHUNK_PREPARED) {
                let held = ChunkWord::held(self.host, class, self.shard);
                self.table.set(number, held.with_prepared(slots.end));
            }
        }
        self.end_growth(number, class, if populated { slots.end } else { slots.start });
        if populated { Ok(true) } else { Err(Error::LnrFull { bytes: lines * LINE_BYTES }) }
    }

    /// Has memory put behind lines of a chunk that this host has taken; whether there is some.
    pub(super) fn populate(&self, lines: Lines) -> bool {
        !self.memory.keeps(sites::CHUNK_POPULATE) || self.memory.populate(lines)
    }

    /// Which slots of which chunk come next. Nobody reserves any of the chunk meanwhile, or hands
    /// it on.
    fn begin_growth(&self, class: u8) -> Option<(u32, Range<u64>)> {
        let lines = self.classes.slot_lines(class)?;
        let mut view = self.view.lock();
        let number = view.active[usize::from(class)]?;
        let chunk = &mut view.chunks[number as usize];
        if !chunk.may_grow() {
            return None;
        }
        chunk.begin_growth();
        view.active[usize::from(class)] = None;
        let chunk = &view.chunks[number as usize];
        let from = chunk.prepared();
        let step = (self.classes.chunk_lines() / PARTS).clamp(1, STEP_BYTES / LINE_BYTES);
        // To the end of the part in which the next slot ends.
        let end = ((from + 1) * lines).next_multiple_of(step);
        Some((number, from..(end / lines).min(chunk.slots())))
    }

    /// So many slots are prepared.
    fn end_growth(&self, number: u32, class: u8, prepared: u64) {
        let poisoned = self.table.word(number).is_ok_and(|word| word.poisoned);
        let usable = self.memory.check(sites::CHUNK_POISONED, !poisoned);
        let mut view = self.view.lock();
        let chunk = &mut view.chunks[number as usize];
        let grew = chunk.prepared() < prepared;
        chunk.end_growth(prepared);
        if grew && usable {
            view.active[usize::from(class)] = Some(number);
        }
        self.release_if_idle(&mut view, number);
    }
}
