//! The chunk table in SCR: which host may reserve a chunk's slots for new objects.
//!
//! ```text
//! chunk word   flags (2 bits) | state (6) | host (8) | class (8) | log shard (8)
//!              next chunk of a chain, or slots that are prepared (32)
//! ```
//!
//! Slots of a carved chunk are *prepared* from the first one on, as they are needed: there is
//! memory behind them, and what looked like a header is gone. No object is in any other.
//!
//! Flags stay whatever else becomes of a chunk, until the pod is created anew.

use tombolo_memory::{FetchOp, Memory, ScrAddr};
use tombolo_sharing::{CHAIN, ObjectArea, UNDIVIDED};

use crate::{Error, sites};

/// The purpose of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkState {
    /// Nobody's, and empty. The word still says how it was carved, for an object may be on its way
    /// out. If it does not, no memory need be behind the chunk.
    Free,
    /// One host reserves its slots.
    Held,
    /// Divided; any host may take it.
    Shared,
    /// The first chunk of a large object.
    ChainHead,
    /// A further chunk of a large object.
    ChainLink,
    /// Carved; one host reserves none of its slots, and moves its objects elsewhere.
    Moving,
}

/// A chunk's word in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkWord {
    pub(crate) state: ChunkState,
    pub(crate) host: u8,
    pub(crate) class: u8,
    /// The shard of the log that tells which slots are in use.
    pub(crate) shard: u8,
    /// Of a chain's chunk, the one in which the object goes on, or [`LAST`]; of one that is carved,
    /// how many of its slots are prepared.
    pub(crate) next: u32,
    /// Memory in there has errors: its free slots are given to nobody.
    pub(crate) poisoned: bool,
    /// There may be headers in there that could not be taken out, of objects that are gone.
    pub(crate) untrue: bool,
}

const POISONED: u64 = 1 << 63;
const UNTRUE: u64 = 1 << 62;
const FLAGS: u64 = POISONED | UNTRUE;

/// Comes after a chain's last chunk.
pub(crate) const LAST: u32 = u32::MAX;

impl ChunkWord {
    pub(crate) const FREE: Self = Self::of(ChunkState::Free, 0, UNDIVIDED, 0);

    const fn of(state: ChunkState, host: u8, class: u8, shard: u8) -> Self {
        Self { state, host, class, shard, next: 0, poisoned: false, untrue: false }
    }

    /// A free chunk of which only is known that memory may be behind it.
    pub(crate) const EMPTIED: Self = Self::of(ChunkState::Free, 0, CHAIN, 0);

    pub(crate) fn held(host: u8, class: u8, shard: u8) -> Self {
        Self::of(ChunkState::Held, host, class, shard)
    }

    /// The same chunk, so many of whose slots are prepared.
    pub(crate) fn with_prepared(self, slots: u64) -> Self {
        Self { next: slots as u32, ..self }
    }

    /// How many slots of a carved chunk are prepared.
    pub(crate) fn prepared(self) -> u64 {
        self.next.into()
    }

    /// The word of this carved chunk when any host may take it.
    pub(crate) fn shared(self) -> Self {
        Self { state: ChunkState::Shared, host: 0, ..self }
    }

    /// The word of this carved chunk while `host` moves its objects elsewhere.
    pub(crate) fn moving(self, host: u8) -> Self {
        Self { state: ChunkState::Moving, host, ..self }
    }

    /// The word of this carved chunk once it is empty.
    pub(crate) fn freed(self) -> Self {
        Self { state: ChunkState::Free, host: 0, ..self }
    }

    /// The same, while `host` looks whether it can have the chunk.
    pub(crate) fn claimed(self, host: u8) -> Self {
        Self { state: ChunkState::Held, host, ..self }
    }

    /// Whether it says how a chunk is carved.
    pub(crate) fn is_carved(self) -> bool {
        ![UNDIVIDED, CHAIN].contains(&self.class)
    }

    /// Whether it can be had for anything.
    pub(crate) fn is_free(self) -> bool {
        self.state == ChunkState::Free && !self.poisoned && !self.untrue
    }

    /// Whether one host has taken the chunk, and nobody else may.
    pub(crate) fn is_taken(self) -> bool {
        matches!(self.state, ChunkState::Held | ChunkState::Moving)
    }

    /// Whether `host` alone may have reserved its slots for new objects.
    pub(crate) fn is_of(self, host: u8) -> bool {
        (self.is_taken() || self.state == ChunkState::ChainHead) && self.host == host
    }

    fn encode(self) -> u64 {
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        flag(self.poisoned, POISONED)
            | flag(self.untrue, UNTRUE)
            | (self.state as u64) << 56
            | u64::from(self.host) << 48
            | u64::from(self.class) << 40
            | u64::from(self.shard) << 32
            | u64::from(self.next)
    }

    #[inline]
    fn decode(word: u64) -> Option<Self> {
        let state = match (word & !FLAGS) >> 56 {
            0 => ChunkState::Free,
            1 => ChunkState::Held,
            2 => ChunkState::Shared,
            3 => ChunkState::ChainHead,
            4 => ChunkState::ChainLink,
            5 => ChunkState::Moving,
            _ => return None,
        };
        let (host, class, shard) = ((word >> 48) as u8, (word >> 40) as u8, (word >> 32) as u8);
        let (poisoned, untrue) = (word & POISONED != 0, word & UNTRUE != 0);
        Some(Self { state, host, class, shard, next: word as u32, poisoned, untrue })
    }
}

/// The words of all chunks.
pub(crate) struct ChunkTable<M> {
    memory: M,
    base: ScrAddr<u64>,
    shards: u64,
    chunks: u64,
}

impl<M: Memory> ChunkTable<M> {
    pub(crate) fn new(area: &ObjectArea<M>) -> Self {
        Self {
            memory: area.memory().clone(),
            base: area.areas().chunk_table,
            shards: area.geometry().log_shards,
            chunks: area.geometry().chunks,
        }
    }

    pub(crate) fn word(&self, number: u32) -> Result<ChunkWord, Error> {
        let word = self.memory.load(self.at(number));
        self.decode(word)
            .ok_or_else(|| Error::Damaged(format!("chunk {number} has the word {word:#x}")))
    }

    /// The word of a chunk, if there is that chunk, and its word makes sense.
    #[inline]
    pub(crate) fn sound_word(&self, number: u32) -> Option<ChunkWord> {
        let is_there = u64::from(number) < self.chunks;
        is_there.then(|| self.decode(self.memory.load(self.at(number)))).flatten()
    }

    #[inline]
    fn decode(&self, word: u64) -> Option<ChunkWord> {
        ChunkWord::decode(word).filter(|word| u64::from(word.shard) < self.shards)
    }

    /// Has the processor fetch a chunk's word.
    pub(crate) fn prefetch(&self, number: u32) {
        self.memory.prefetch_word(self.at(number));
    }

    /// Changes the word of a chunk that this host holds.
    pub(crate) fn set(&self, number: u32, word: ChunkWord) {
        let at = self.at(number);
        let mut found = self.memory.load(at);
        loop {
            let word = word.encode() | found & FLAGS;
            match self.memory.compare_exchange(sites::CHUNK_FLAGS_STAY, at, found, word) {
                Ok(_) => return,
                Err(other) => found = other,
            }
        }
    }

    /// Records that memory in a chunk has errors, and whether headers may be there that could not
    /// be taken out.
    pub(crate) fn set_poisoned(&self, number: u32, untrue: bool) {
        let flags = if untrue { FLAGS } else { POISONED };
        if self.memory.keeps(sites::CHUNK_FLAGGED) {
            self.memory.fetch(sites::CHUNK_FLAGS_STAY, self.at(number), FetchOp::Or, flags);
        }
    }

    /// How many chunks are so marked.
    pub(crate) fn poisoned(&self) -> u64 {
        let words = (0..self.chunks).map(|number| self.memory.load(self.at(number as u32)));
        words.filter(|word| word & POISONED != 0).count() as u64
    }

    /// Takes a chunk whose word is `from`; whether nobody was faster.
    pub(crate) fn claim(&self, number: u32, from: ChunkWord, to: ChunkWord) -> bool {
        let from = from.encode();
        let to = to.encode() | from & FLAGS;
        self.memory.compare_exchange(sites::CHUNK_CLAIM, self.at(number), from, to).is_ok()
    }

    fn at(&self, number: u32) -> ScrAddr<u64> {
        self.base.element(u64::from(number))
    }
}
