//! The use of each chunk of LNR: a picture for an operator.

use tombolo_memory::Memory;

use super::Space;
use crate::storage::space::chunk_table::ChunkState;

/// The use of a chunk, as its word in the chunk table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkUse {
    /// Nothing.
    Free,
    /// Objects; one host alone puts new ones there.
    Held,
    /// Objects; no host puts new ones there now.
    Shared,
    /// A large object, or a part of it.
    Large,
    /// Objects that move elsewhere.
    Moving,
}

/// A chunk of LNR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its use at the moment when it was looked at.
    pub used_for: ChunkUse,
    /// The host that has taken it, if one has.
    pub host: Option<u8>,
    /// How much of it holds objects, in percent, as far as this host has applied the log.
    pub used_percent: u8,
    /// Whether memory in it has errors.
    pub poisoned: bool,
}

impl<M: Memory> Space<M> {
    /// Puts the shard's chunks, with their uses, each at its number in `map`. Those whose words
    /// make no sense are left out.
    pub(crate) fn draw(&self, map: &mut [Option<Chunk>]) {
        let view = self.view.lock();
        for ((number, at), chunk) in (0..).zip(map).zip(&view.chunks) {
            let Some(word) = self.table.sound_word(number) else { continue };
            if word.shard != self.shard {
                continue;
            }
            let used_for = match word.state {
                ChunkState::Free => ChunkUse::Free,
                ChunkState::Held => ChunkUse::Held,
                ChunkState::Shared => ChunkUse::Shared,
                ChunkState::ChainHead | ChunkState::ChainLink => ChunkUse::Large,
                ChunkState::Moving => ChunkUse::Moving,
            };
            let carved = chunk.carved().map(|(_, used)| used * 100 / chunk.slots().max(1));
            let whole = u64::from(used_for == ChunkUse::Large) * 100;
            *at = Some(Chunk {
                used_for,
                host: word.is_taken().then_some(word.host),
                used_percent: carved.unwrap_or(whole) as u8,
                poisoned: word.poisoned,
            });
        }
    }
}
