//! Taking chunks: by one compare-and-swap of a chunk's word, after which its new holder applies the
//! log, and so knows what is in it.

use std::sync::atomic::Ordering;

use tombolo_memory::Memory;
use tombolo_sharing::UNDIVIDED;

use super::Space;
use crate::storage::space::chunk::ChunkSlots;
use crate::storage::space::chunk_table::{ChunkState, ChunkWord};
use crate::{Error, sites};

/// Whether a chunk is one to take, by what this replica knows of it.
type Wanted<'a> = &'a dyn Fn(&ChunkSlots) -> bool;

impl<M: Memory> Space<M> {
    /// Takes a chunk for slots of `class`: a partly used one, or else a free one. Whether there was
    /// one.
    pub(super) fn acquire(
        &self,
        class: u8,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        // Slots that other hosts freed meanwhile count, too.
        sync()?;
        let was_used = |chunk: &ChunkSlots| chunk.is_empty() && chunk.class != UNDIVIDED;
        Ok(self.acquire_partly_used(class, sync)?
            // Behind a chunk that was used there is memory, if nobody has given that back.
            || self.acquire_one(class, &was_used, &|word| word.is_free() && word.class != UNDIVIDED, sync)?
            || self.acquire_one(class, &ChunkSlots::is_empty, &ChunkWord::is_free, sync)?)
    }

    pub(super) fn acquire_partly_used(
        &self,
        class: u8,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let partly_used = |chunk: &ChunkSlots| chunk.class == class && chunk.has_room();
        self.acquire_one(class, &partly_used, &|word| word.state == ChunkState::Shared, sync)
    }

    /// Takes a chunk that is `wanted`, and whose word is `fit`; whether there was one.
    fn acquire_one(
        &self,
        class: u8,
        wanted: Wanted<'_>,
        fit: &dyn Fn(ChunkWord) -> bool,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let start = u64::from(self.last.load(Ordering::Relaxed));
        let mut from = 0;
        while let Some((distance, number)) = self.find(start, from, wanted) {
            let word = self.table.word(number)?;
            let same = word.shard == self.shard || word.state == ChunkState::Free;
            let ours = self.memory.check(sites::CHUNK_SHARD, same);
            if fit(word) && ours && self.try_acquire(number, word, class, sync)? {
                self.last.store(number, Ordering::Relaxed);
                return Ok(true);
            }
            from = distance + 1;
        }
        Ok(false)
    }

    /// The next chunk, going round from `start` and beginning `from` chunks further, that is
    /// `wanted`: how far it is, and its number.
    pub(super) fn find(&self, start: u64, from: u64, wanted: Wanted<'_>) -> Option<(u64, u32)> {
        let view = self.view.lock();
        (from..self.count)
            .map(|distance| (distance, ((start + distance) % self.count) as u32))
            .find(|&(_, number)| wanted(&view.chunks[number as usize]))
    }

    fn try_acquire(
        &self,
        number: u32,
        word: ChunkWord,
        class: u8,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if !self.claim(number, word, word.claimed(self.host), sync)? {
            return Ok(false);
        }
        let mut view = self.view.lock();
        let chunk = &mut view.chunks[number as usize];
        let is_carved = chunk.class == class;
        if !(if is_carved { chunk.has_room() } else { chunk.is_empty() }) {
            self.table.set(number, word);
            return Ok(false);
        }
        if !is_carved {
            chunk.carve(class, self.classes.slots(class).unwrap_or(0));
        }
        // Memory that was prepared for slots of another size is not for these.
        let prepared = if word.class == class { word.prepared() } else { 0 };
        chunk.prepare(prepared);
        chunk.held = true;
        drop(view);
        // An object that leaves from here on has to be scrubbed. Of one that has left before, its
        // intent tells.
        if self.is_being_left(number) {
            self.view.lock().chunks[number as usize].release();
            self.table.set(number, word);
            return Ok(false);
        }
        let held = ChunkWord::held(self.host, class, self.shard).with_prepared(prepared);
        let mut view = self.view.lock();
        self.table.set(number, held);
        view.active[usize::from(class)] = Some(number);
        Ok(true)
    }

    /// Takes a chunk whose word is `from`, and learns what is in it; whether nobody was faster, or
    /// is still taking a header out of it.
    pub(super) fn claim(
        &self,
        number: u32,
        from: ChunkWord,
        to: ChunkWord,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if !self.memory.check(sites::CHUNK_POISONED, !from.poisoned)
            || !self.table.claim(number, from, to)
        {
            return Ok(false);
        }
        // Everything the last holder did with this chunk is in the log before it was released.
        if self.memory.keeps(sites::CHUNK_SYNC) {
            sync()?;
        }
        if self.is_being_left(number) {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
            self.table.set(number, from);
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether there may be something in a chunk whose objects have left: a header, or what
    /// somebody views.
    pub(super) fn is_being_left(&self, number: u32) -> bool {
        self.being_left().contains(&number) || self.is_viewed(number)
    }

    /// Whether something in a chunk is viewed, or may be soon. By who has taken the chunk, and
    /// knows as of then what is in it.
    pub(super) fn is_viewed(&self, number: u32) -> bool {
        !self.memory.check(sites::PIN_CHUNK, !self.pins.is_pinned(number))
    }

    /// Chunks in slots of which there may be headers whose objects have left.
    pub(super) fn being_left(&self) -> Vec<u32> {
        let left = self.intents.left().filter(|_| self.memory.keeps(sites::SLOT_LEFT));
        left.filter_map(|line| Some(self.chunk_of(line)?.0 as u32)).collect()
    }

    /// How often this host has passed over a chunk because a header was being taken out of it.
    pub(crate) fn passed_over(&self) -> u64 {
        self.passed_over.load(Ordering::Relaxed)
    }
}
