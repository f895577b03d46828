//! Chunks that are free for a while give their memory back to the system.
//!
//! A host takes such a chunk as if it were to put objects there: so nobody else has it, nobody
//! views what is in it, and no object is on its way out. A reader that was late may still copy from
//! there. It sees zeros, as it may see any bytes of another object, and finds out at its end.
//!
//! The chunk's word forgets how the chunk was carved before the memory is gone. A host that dies in
//! between leaves memory behind a chunk that seems to have none, and the next host to take it has
//! slots prepared as in any other. The other way round, slots would count as prepared behind which
//! there is nothing.

use std::time::Duration;

use tombolo_memory::Memory;

use super::Space;
use crate::storage::space::chunk::ChunkSlots;
use crate::storage::space::chunk_table::{ChunkState, ChunkWord};
use crate::{Error, sites};

/// Chunks that are looked at in one call, at most.
const LOOKS: u32 = 64;

/// How far the rounds through all chunks are.
#[derive(Default)]
pub(super) struct Rounds {
    /// When the round began.
    began: Duration,
    /// The chunk that is next.
    next: u32,
    /// A bit per chunk: it was free, with memory behind it, when it was last looked at.
    free: Vec<u64>,
    /// The system does not take memory back.
    refused: bool,
}

impl Rounds {
    /// Notes whether a chunk is free; whether it was at the last look, too.
    fn note(&mut self, number: u32, free: bool) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let was = self.free[word] & bit != 0;
        self.free[word] = if free { self.free[word] | bit } else { self.free[word] & !bit };
        was && free
    }
}

impl<M: Memory> Space<M> {
    /// Looks at some chunks: frees those of the shard that are empty, and gives back the memory of
    /// those that were free in the last round, too; of how many. Rounds begin `after` one another,
    /// at least.
    pub(crate) fn give_back_idle(
        &self,
        after: Duration,
        sync: impl Fn() -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let now = self.memory.uptime();
        let range = {
            let mut rounds = self.rounds.lock();
            if rounds.refused || (rounds.next == 0 && now.saturating_sub(rounds.began) < after) {
                return Ok(0);
            }
            if rounds.next == 0 {
                rounds.began = now;
                rounds.free.resize(self.count.div_ceil(64) as usize, 0);
            }
            let end = u64::from(rounds.next + LOOKS).min(self.count) as u32;
            let range = rounds.next..end;
            rounds.next = if u64::from(end) == self.count { 0 } else { end };
            range
        };
        let mut given_back = 0;
        for number in range {
            let word = self.table.word(number)?;
            if word.state == ChunkState::Shared && word.shard == self.shard {
                self.free_if_empty(number, word, &sync)?;
            }
            // One shard's space does it for all: what is free is no shard's.
            let free = self.shard == 0 && word.is_free() && word != ChunkWord::FREE;
            let long = self.rounds.lock().note(number, free);
            if long {
                given_back += u64::from(self.give_back(number, word, &sync)?);
            }
        }
        Ok(given_back)
    }

    /// Frees a chunk of the shard that is empty; whether it did.
    pub(super) fn free_if_empty(
        &self,
        number: u32,
        word: ChunkWord,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let is_empty = self.view.lock().chunks[number as usize].is_empty();
        let taken = is_empty && self.claim(number, word, word.moving(self.host), sync)?;
        Ok(taken && self.free_or(number, word))
    }

    /// Gives back the memory of a free chunk with this word, unless somebody has taken it, or may
    /// use what is in it; whether it did.
    fn give_back(
        &self,
        number: u32,
        word: ChunkWord,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if self.memory.keeps(sites::CHUNK_DISCARD_TAKEN)
            && !self.claim(number, word, word.claimed(self.host), sync)?
        {
            return Ok(false);
        }
        let mut view = self.view.lock();
        let chunk = &mut view.chunks[number as usize];
        if !chunk.is_empty() {
            self.table.set(number, word);
            return Ok(false);
        }
        *chunk = ChunkSlots::default();
        drop(view);
        let (lines, forgotten) = (self.chunk_lines(number), ChunkWord::FREE.claimed(self.host));
        if self.memory.keeps(sites::CHUNK_FORGET_FIRST) {
            self.table.set(number, forgotten);
        }
        self.memory.takes_blank(lines);
        let discarded = self.memory.discard(lines);
        self.memory.gives(lines, 0);
        self.rounds.lock().refused |= !discarded;
        self.table.set(number, ChunkWord::FREE);
        Ok(discarded)
    }
}
