//! Objects larger than a chunk: a *chain* of whole chunks, wherever they are. Each chunk's word
//! says in which one the object goes on, and stays so until the object is deleted or moved and the
//! log says so.
//!
//! So a chain needs as many free chunks as it has, and no two of them in a row. If there are that
//! many in a row they are taken, which makes one piece for readers.
//!
//! The words of an object that is read may be another's already. A read finds that out at its end,
//! as it finds out about its bytes.

use std::collections::HashSet;
use std::iter;
use std::sync::atomic::Ordering;

use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_sharing::CHAIN;

use super::Space;
use crate::ids::{Slot, SlotLine};
use crate::storage::space::chunk_table::{ChunkState, ChunkWord, LAST};
use crate::storage::space::extent::Extent;
use crate::{Error, sites};

impl<M: Memory> Space<M> {
    /// The chain that starts in this line as its chunk's word says: this replica may never have
    /// known of it.
    pub(crate) fn chain_at(&self, line: SlotLine) -> Result<Option<Slot>, Error> {
        let number = self.chunk_at(line)?;
        let is_head = self.word(number)?.state == ChunkState::ChainHead;
        let slots = if is_head { self.slots_of(number)? } else { Vec::new() };
        Ok(slots.into_iter().find(|slot| slot.line == line))
    }

    /// Reserves whole chunks.
    pub(super) fn reserve_chain(&self, bytes: u64) -> Result<Slot, Error> {
        if bytes > self.largest() {
            return Err(Error::TooLarge { bytes, most: self.largest() });
        }
        let chunks = bytes.div_ceil(self.classes.chunk_lines() * LINE_BYTES) as usize;
        let _acquiring = self.acquiring.lock();
        let mut taken = Vec::with_capacity(chunks);
        let there = matches!(self.take_free(chunks, &mut taken), Ok(true))
            && taken.iter().all(|&number| self.populate(self.chunk_lines(number)));
        if !there {
            taken.iter().for_each(|&number| self.table.set(number, ChunkWord::EMPTIED));
            return Err(Error::LnrFull { bytes });
        }
        taken.sort_unstable();
        self.scrub(sites::CHUNK_SCRUB, [self.first_line_of(taken[0])]);
        self.link(&taken);
        Ok(Slot { line: self.first_line_of(taken[0]), class: CHAIN, chunks: chunks as u32 })
    }

    /// Takes free chunks until there are so many; whether there were.
    fn take_free(&self, wanted: usize, taken: &mut Vec<u32>) -> Result<bool, Error> {
        while taken.len() < wanted {
            let (words, left) = (self.words()?, self.being_left());
            let is_free = |&(_, word): &(u32, &ChunkWord)| word.is_free();
            let numbers = (0..).zip(&words).filter(is_free).map(|(number, _)| number);
            let in_use = |number: &u32| left.contains(number) || self.is_viewed(*number);
            let (passed_over, free): (Vec<u32>, Vec<u32>) = numbers.partition(in_use);
            self.passed_over.fetch_add(passed_over.len() as u64, Ordering::Relaxed);
            let Some(chosen) = choose(&free, wanted - taken.len()) else { return Ok(false) };
            let claim = |&&number: &&u32| {
                let word = words[number as usize];
                self.table.claim(number, word, word.claimed(self.host))
            };
            let claimed: Vec<u32> = chosen.iter().filter(claim).copied().collect();
            // They may have been taken, and left, between the two looks.
            let left = self.being_left();
            let (left, usable): (Vec<u32>, Vec<u32>) =
                claimed.into_iter().partition(|n| left.contains(n) || self.is_viewed(*n));
            left.iter().for_each(|&number| self.table.set(number, words[number as usize]));
            taken.extend(usable);
        }
        Ok(true)
    }

    /// Makes chunks that this host holds a chain.
    fn link(&self, chunks: &[u32]) {
        let nexts = chunks.iter().skip(1).copied().chain(iter::once(LAST));
        for (place, (&number, next)) in chunks.iter().zip(nexts).enumerate() {
            let state = if place == 0 { ChunkState::ChainHead } else { ChunkState::ChainLink };
            let (host, shard) = (self.host, self.shard);
            let word = ChunkWord { next, ..ChunkWord::held(host, CHAIN, shard) };
            self.table.set(number, ChunkWord { state, ..word });
        }
    }

    /// Returns a chain's chunks; by the host that deleted or moved its object, once the log says
    /// so, and as long as an intent says that it leaves.
    pub(crate) fn free_chain(&self, slot: Slot) {
        if slot.class == CHAIN && !self.abandoned.is_set() {
            // Should this host die before all are free, they count among what it had taken.
            for chunk in self.assign_chain(slot, self.host) {
                self.table.set(chunk, ChunkWord::EMPTIED);
            }
        }
    }

    /// Has the chunks of a chain that is no object's any more belong to `host`; which they are.
    pub(crate) fn assign_chain(&self, slot: Slot, host: u8) -> Vec<u32> {
        if slot.class != CHAIN {
            return Vec::new();
        }
        let chunks: Vec<u32> = self.chain(self.locate(slot).0).map_while(Result::ok).collect();
        if self.memory.keeps(sites::CHAIN_ASSIGN) {
            for &chunk in &chunks {
                if let Ok(word) = self.table.word(chunk) {
                    self.table.set(chunk, ChunkWord { host, ..word });
                }
            }
        }
        chunks
    }

    /// The first lines of the chains of the shard's objects.
    pub(crate) fn chain_lines(&self) -> Vec<SlotLine> {
        let view = self.view.lock();
        let chains = (0..).zip(&view.chunks).filter(|(_, chunk)| chunk.class == CHAIN);
        chains.map(|(number, _)| self.first_line_of(number)).collect()
    }

    /// Frees chunks that a host, which is gone, had taken for chains, but for those of chains that
    /// start in these lines.
    pub(crate) fn free_chains_of(&self, host: u8, known: &[SlotLine]) -> Result<(), Error> {
        let firsts = known.iter().filter_map(|&line| Some(self.chunk_of(line)?.0 as u32));
        let chains = firsts.flat_map(|first| self.chain(first));
        let in_use: HashSet<u32> = chains.filter_map(Result::ok).collect();
        for number in self.chunk_numbers().filter(|number| !in_use.contains(number)) {
            let word = self.table.word(number)?;
            let of_chain = matches!(word.state, ChunkState::ChainHead | ChunkState::ChainLink);
            if of_chain && word.host == host {
                self.table.claim(number, word, ChunkWord::EMPTIED);
            }
        }
        Ok(())
    }

    /// Where a chain is; `None` if its chunks are not as many as it has.
    pub(super) fn chain_extent(&self, slot: Slot) -> Option<Extent> {
        let lines = |number| self.chunk_lines(number);
        let mut links = self.links(self.chunk_of(slot.line)?.0 as u32).map_while(Result::ok);
        let mut extent = Extent::of(lines(links.next()?));
        for _ in 1..slot.chunks {
            extent = extent.and(lines(links.next()?));
        }
        links.next().is_none().then_some(extent)
    }

    /// How many chunks the chain has that starts in this one.
    pub(super) fn chain_chunks(&self, first: u32) -> Result<u32, Error> {
        self.chain(first).try_fold(0, |chunks, number| number.map(|_| chunks + 1))
    }

    /// Chunks that are said to be parts of chains, and are not.
    pub(crate) fn chunks_of_no_object(&self) -> Vec<u32> {
        let with = |state| {
            let is = move |number: &u32| self.word(*number).is_ok_and(|word| word.state == state);
            self.chunk_numbers().filter(is)
        };
        let chains = with(ChunkState::ChainHead).flat_map(|first| self.chain(first));
        let known: HashSet<u32> = chains.filter_map(Result::ok).collect();
        with(ChunkState::ChainLink).filter(|number| !known.contains(number)).collect()
    }

    /// The chunks of the chain that starts in `first`; an error for one that is not of it.
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = Result<u32, Error>> {
        let stray = move |number| {
            Error::Damaged(format!(
                "chunk {number} is no part of the object that starts in chunk {first}"
            ))
        };
        self.links(first).map(move |link| link.map_err(stray))
    }

    /// The same, for who does not say what is wrong: an error is the chunk's number.
    #[inline]
    fn links(&self, first: u32) -> impl Iterator<Item = Result<u32, u32>> {
        let (mut next, mut left) = (first, self.count);
        iter::from_fn(move || {
            let number = (next != LAST && left > 0).then_some(next)?;
            let wanted =
                if number == first { ChunkState::ChainHead } else { ChunkState::ChainLink };
            let word = self.table.sound_word(number).filter(|word| word.state == wanted);
            (next, left) = word.map_or((LAST, 0), |word| (word.next, left - 1));
            Some(word.map(|_| number).ok_or(number))
        })
    }
}

/// So many of these chunks, in a row if there are as many in a row.
fn choose(free: &[u32], wanted: usize) -> Option<&[u32]> {
    let in_a_row = |chunks: &&[u32]| chunks[wanted - 1] - chunks[0] == wanted as u32 - 1;
    free.windows(wanted).find(in_a_row).or_else(|| free.get(..wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_in_a_row_come_first() {
        let free = [1, 3, 4, 7, 8, 9];
        assert_eq!(choose(&free, 3), Some(&[7, 8, 9][..]));
        assert_eq!(choose(&free, 4), Some(&[1, 3, 4, 7][..]));
        assert_eq!(choose(&free, 7), None);
        assert_eq!(choose(&[], 1), None);
    }
}
