//! Where slots and chunks are, in lines.

use std::ops::Range;
use std::sync::atomic::Ordering;

use tombolo_memory::{Lines, Memory, prefetch};
use tombolo_sharing::CHAIN;

use super::Space;
use crate::Error;
use crate::ids::{Slot, SlotLine};
use crate::storage::space::chunk_table::ChunkState;
use crate::storage::space::extent::Extent;

impl<M: Memory> Space<M> {
    /// How many lines `slot` has, if its place and size make sense in this pod.
    pub(crate) fn slot_lines(&self, slot: Slot) -> Option<u64> {
        let chunk_lines = self.classes.chunk_lines();
        let (_, within) = self.chunk_of(slot.line)?;
        if slot.class == CHAIN {
            let chunks = u64::from(slot.chunks);
            let sound = within == 0 && (1..=self.count).contains(&chunks);
            return sound.then_some(chunks * chunk_lines);
        }
        let lines = self.classes.slot_lines(slot.class)?;
        let sound =
            within.is_multiple_of(lines) && within + lines <= chunk_lines && slot.chunks == 0;
        sound.then_some(lines)
    }

    /// The chunk in which `line` is, and its number there.
    #[inline]
    pub(super) fn chunk_of(&self, line: SlotLine) -> Option<(u64, u64)> {
        let offset = line.checked_sub(self.first_line)?;
        let chunk = offset >> self.chunk_shift;
        (chunk < self.count).then(|| (chunk, offset - (chunk << self.chunk_shift)))
    }

    /// Where `slot` is, if that makes sense. If it was freed meanwhile it may be anywhere in LNR,
    /// or nowhere.
    #[inline]
    pub(crate) fn extent(&self, slot: Slot) -> Option<Extent> {
        if slot.class == CHAIN {
            return self.chain_extent(slot);
        }
        let (_, within) = self.chunk_of(slot.line)?;
        let lines = self.classes.slot_lines(slot.class)?;
        let sound = within + lines <= self.classes.chunk_lines();
        sound.then(|| Extent::of(Lines::new(slot.line, lines)))
    }

    /// The slot at `line` as this replica knows it.
    #[inline]
    pub(crate) fn slot_at(&self, line: SlotLine) -> Option<Slot> {
        let (chunk, _) = self.chunk_of(line)?;
        let extent = self.extents[chunk as usize].load(Ordering::Relaxed);
        Some(Slot { line, class: extent as u8, chunks: (extent >> 8) as u32 })
    }

    /// Where the slot at `line` is.
    #[inline]
    pub(crate) fn extent_at(&self, line: SlotLine) -> Option<Extent> {
        self.extent(self.slot_at(line)?)
    }

    /// Has the processor fetch what says where the slot at `line` is; the chunk where it begins.
    pub(crate) fn fetch_place(&self, line: SlotLine) -> Option<u32> {
        let (chunk, _) = self.chunk_of(line)?;
        prefetch(&self.extents[chunk as usize]);
        self.table.prefetch(chunk as u32);
        Some(chunk as u32)
    }

    /// The lines of the slot at `line`, as this replica knows it, unless it is a chain's.
    #[inline(always)]
    pub(crate) fn lines_at(&self, line: SlotLine) -> Option<Lines> {
        let (chunk, within) = self.chunk_of(line)?;
        let lines = self.extents.get(chunk as usize)?.load(Ordering::Relaxed) >> 40;
        let sound = lines > 0 && within + lines <= self.classes.chunk_lines();
        sound.then(|| Lines::new(line, lines))
    }

    /// The chunk in which a slot is that somebody has recorded.
    pub(crate) fn chunk_at(&self, line: SlotLine) -> Result<u32, Error> {
        let nowhere =
            || Error::Damaged(format!("a slot at line {line} is noted, which is nowhere"));
        let (number, _) = self.chunk_of(line).ok_or_else(nowhere)?;
        Ok(number as u32)
    }

    /// The first line of a chunk.
    pub(crate) fn first_line_of(&self, number: u32) -> SlotLine {
        self.first_line + u64::from(number) * self.classes.chunk_lines()
    }

    /// All lines of a chunk.
    pub(crate) fn chunk_lines(&self, number: u32) -> Lines {
        Lines::new(self.first_line_of(number), self.classes.chunk_lines())
    }

    /// Chunk and index in it.
    pub(super) fn locate(&self, slot: Slot) -> (u32, u64) {
        let offset = slot.line - self.first_line;
        let chunk = offset >> self.chunk_shift;
        let lines = self.classes.slot_lines(slot.class).unwrap_or(self.classes.chunk_lines());
        (chunk as u32, (offset - (chunk << self.chunk_shift)) / lines)
    }

    /// Every slot of a chunk that may hold an object, as its word says.
    pub(crate) fn slots_of(&self, number: u32) -> Result<Vec<Slot>, Error> {
        let word = self.table.word(number)?;
        let start = self.first_line_of(number);
        Ok(match word.state {
            ChunkState::Free | ChunkState::ChainLink => Vec::new(),
            ChunkState::ChainHead => {
                vec![Slot { line: start, class: CHAIN, chunks: self.chain_chunks(number)? }]
            }
            ChunkState::Shared | ChunkState::Held | ChunkState::Moving => {
                self.slots_in(number, word.class).take(word.prepared() as usize).collect()
            }
        })
    }

    /// The slots of a chunk that is carved into slots of `class`.
    pub(super) fn slots_in(&self, number: u32, class: u8) -> impl Iterator<Item = Slot> {
        let start = self.first_line_of(number);
        let lines = self.classes.slot_lines(class).unwrap_or(1);
        let slots = self.classes.slots(class).unwrap_or(0);
        (0..slots).map(move |index| Slot { line: start + index * lines, class, chunks: 0 })
    }

    /// The chunks in which something lies.
    pub(crate) fn chunks_of(&self, extent: &Extent) -> impl Iterator<Item = u32> {
        extent.lines().flat_map(|lines| self.by_chunk(lines)).map(|(number, _)| number)
    }

    pub(crate) fn chunk_numbers(&self) -> Range<u32> {
        0..self.count as u32
    }
}
