//! How many chunks there are of each kind: what the chunk table alone tells. Hosts may use the pod
//! meanwhile.

use std::collections::BTreeMap;

use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_sharing::{Classes, ObjectArea};

use crate::storage::space::chunk_table::{ChunkState, ChunkTable, ChunkWord};

/// Chunks that are carved into slots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSize {
    /// Bytes of a slot.
    pub bytes: u64,
    /// How many chunks.
    pub chunks: u64,
    /// How many slots in them are prepared: behind these there is memory.
    pub slots: u64,
}

/// How many chunks there are of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Those that are carved, by the size of their slots, the smallest first.
    pub sizes: Vec<SlotSize>,
    /// Those of objects that are larger than a chunk.
    pub large: u64,
    /// Those that are free, with memory behind them.
    pub free: u64,
    /// Those behind which there need be no memory.
    pub untaken: u64,
}

/// Counts the chunks of an area, by their words in the chunk table.
pub fn census<M: Memory>(area: &ObjectArea<M>) -> Census {
    let (table, geometry) = (ChunkTable::new(area), area.geometry());
    let classes = Classes::new(geometry.chunk_bytes);
    let (mut census, mut sizes) = (Census::default(), BTreeMap::new());
    for word in (0..geometry.chunks as u32).filter_map(|number| table.sound_word(number)) {
        match word.state {
            ChunkState::ChainHead | ChunkState::ChainLink => census.large += 1,
            ChunkState::Free if word == ChunkWord::FREE => census.untaken += 1,
            ChunkState::Free => census.free += 1,
            ChunkState::Shared | ChunkState::Held | ChunkState::Moving => {
                let (chunks, slots) = sizes.entry(word.class).or_insert((0, 0));
                (*chunks, *slots) = (*chunks + 1, *slots + word.prepared());
            }
        }
    }
    let size = |(class, (chunks, slots))| {
        let bytes = classes.slot_lines(class)? * LINE_BYTES;
        Some(SlotSize { bytes, chunks, slots })
    };
    census.sizes = sizes.into_iter().filter_map(size).collect();
    census
}
