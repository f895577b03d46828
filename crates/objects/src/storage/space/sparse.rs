//! Chunks with few objects in them: found, taken in order to be emptied, and freed.
//!
//! Slots are for one class and one shard of the log. So that room which deletes leave behind is
//! there for others, the objects of a class are packed: while the free slots of its chunks that
//! nobody holds add up to a chunk, the objects of the one with the fewest fit into the others. When
//! no more can be done, less than a chunk of free slots is left per class and shard, and the chunk
//! that each host holds of them.

use tombolo_memory::{LINE_BYTES, Memory};

use super::Space;
use crate::ids::Slot;
use crate::storage::space::chunk_table::ChunkWord;
use crate::{Error, sites};

/// A chunk whose objects are to go elsewhere. Nobody reserves its slots meanwhile.
pub(crate) struct Emptying {
    number: u32,
    /// The chunk's word before it was taken.
    word: ChunkWord,
    /// Where its objects are.
    pub(crate) slots: Vec<Slot>,
}

/// The outcome of looking for a chunk to be emptied.
pub(crate) enum Sparse {
    Taken(Emptying),
    /// Others are at it.
    Busy,
    /// No class has a chunk's worth of free slots.
    None,
}

/// A chunk of which some slots are used and others free, and which nobody holds.
#[derive(Clone, Copy)]
struct SparseChunk {
    number: u32,
    class: u8,
    used: u64,
    free: u64,
    word: ChunkWord,
}

impl<M: Memory> Space<M> {
    /// Bytes of chunks with objects in slots that no object takes up.
    pub(crate) fn fragmented_bytes(&self) -> u64 {
        let view = self.view.lock();
        let unused = |(class, used): (u8, u64)| {
            let slot_lines = self.classes.slot_lines(class).unwrap_or(0);
            self.classes.chunk_lines().saturating_sub(used * slot_lines)
        };
        let carved = view.chunks.iter().filter_map(|chunk| chunk.carved());
        carved.map(unused).sum::<u64>() * LINE_BYTES
    }

    /// All chunks' words, of whatever shard.
    pub(crate) fn words(&self) -> Result<Vec<ChunkWord>, Error> {
        self.chunk_numbers().map(|number| self.table.word(number)).collect()
    }

    /// Takes a chunk whose objects fit into others of its class. `sync` applies the shard's log.
    pub(crate) fn take_sparse(
        &self,
        sync: impl Fn() -> Result<(), Error>,
    ) -> Result<Sparse, Error> {
        sync()?;
        let Some(sparse) = self.sparsest(&self.candidates()?) else { return Ok(Sparse::None) };
        let moving = sparse.word.moving(self.host);
        if self.claim(sparse.number, sparse.word, moving, &sync)? {
            return Ok(Sparse::Taken(self.emptying(sparse)));
        }
        Ok(Sparse::Busy)
    }

    /// The shard's partly used chunks that nobody holds, by class.
    fn candidates(&self) -> Result<Vec<SparseChunk>, Error> {
        let partly_used: Vec<(u32, u8, u64, u64)> = {
            let view = self.view.lock();
            let chunks = (0..).zip(&view.chunks).filter(|(_, chunk)| !chunk.held);
            chunks
                .filter_map(|(number, chunk)| {
                    let ((class, used), slots) = (chunk.carved()?, chunk.slots());
                    (used < slots).then_some((number, class, used, slots - used))
                })
                .collect()
        };
        let mut candidates = Vec::new();
        for (number, class, used, free) in partly_used {
            let word = self.table.word(number)?;
            let shared = ChunkWord::held(0, class, self.shard).shared();
            if word == shared.with_prepared(word.prepared()) {
                candidates.push(SparseChunk { number, class, used, free, word });
            }
        }
        candidates.sort_by_key(|candidate| candidate.class);
        Ok(candidates)
    }

    /// The emptiest chunk of the class with the most room in which a chunk's worth of slots is
    /// free. All hosts choose alike, so that they do not move the same objects to and fro.
    fn sparsest(&self, candidates: &[SparseChunk]) -> Option<SparseChunk> {
        let of_a_class = candidates.chunk_by(|a, b| a.class == b.class);
        let room = |class: &&[SparseChunk]| -> Option<u64> {
            let free: u64 = class.iter().map(|candidate| candidate.free).sum();
            let (first, lines) = (class.first()?, self.classes.slot_lines(class.first()?.class)?);
            (free >= first.used + first.free).then_some(free * lines)
        };
        let (_, class) = of_a_class
            .filter_map(|class| Some((room(&class)?, class)))
            .max_by_key(|(room, _)| *room)?;
        class.iter().min_by_key(|candidate| candidate.used).copied()
    }

    fn emptying(&self, chunk: SparseChunk) -> Emptying {
        let view = self.view.lock();
        let start = self.first_line_of(chunk.number);
        let lines = self.classes.slot_lines(chunk.class).unwrap_or(0);
        let slot = |index| Slot { line: start + index * lines, class: chunk.class, chunks: 0 };
        let known = &view.chunks[chunk.number as usize];
        let slots = if known.class == chunk.class {
            known.occupied_slots().map(slot).collect()
        } else {
            Vec::new()
        };
        Emptying { number: chunk.number, word: chunk.word, slots }
    }

    /// Hands on a chunk that was to be emptied; whether it is free.
    pub(crate) fn put_back(&self, chunk: &Emptying) -> bool {
        self.free_or(chunk.number, chunk.word)
    }

    /// Frees a chunk that this host has taken, if it is empty, or hands it on as `word`; whether it
    /// is free.
    pub(super) fn free_or(&self, number: u32, word: ChunkWord) -> bool {
        if self.abandoned.is_set() {
            return false;
        }
        let empty = self.view.lock().chunks[number as usize].is_empty();
        let empty = self.memory.check(sites::CHUNK_EMPTY, empty);
        self.table.set(number, if empty { self.freed(word) } else { word });
        empty
    }

    /// Reserves a slot of `class` in a chunk that has objects already, if there is one.
    pub(crate) fn reserve_among_others(
        &self,
        class: u8,
        sync: impl Fn() -> Result<(), Error>,
    ) -> Result<Option<Slot>, Error> {
        let _acquiring = self.acquiring.lock();
        loop {
            if let Some(slot) = self.reserve_slot(class) {
                return Ok(Some(slot));
            }
            if !self.grow(class)? && !self.acquire_partly_used(class, &sync)? {
                return Ok(None);
            }
        }
    }
}
