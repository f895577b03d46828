//! The directory of a pod's areas: an entry of 32 words for each area, behind the superblock.
//!
//! ```text
//! word  0      kind, eight letters
//! word  1      version of the tenant's format
//! words 2, 3   SCR: start, bytes
//! words 4, 5   LNR: start, bytes
//! words 6..9   log: shards, entries of a ring, entries of a segment
//! words 9..25  the tenant's parameters
//! word  25     bytes of LNR that are populated on demand
//! word  31     checksum of the others
//! ```
//!
//! The directory is written when the pod is created, before the superblock, and never changes.

use tombolo_memory::{LINE_BYTES, Memory, ScrAddr};

use crate::PodError;
use crate::layout::{AreaLayout, ENTRY_LINES, Kind, PARAMETERS, Stretch};

const WORDS: usize = 32;
const CHECKSUM: usize = WORDS - 1;
const FIRST_PARAMETER: usize = 9;
const ON_DEMAND: usize = FIRST_PARAMETER + PARAMETERS;

fn entry(number: usize) -> ScrAddr<u64> {
    ScrAddr::new((1 + number as u64) * ENTRY_LINES * LINE_BYTES)
}

/// Writes the entry of area `number`.
pub(crate) fn write<M: Memory>(memory: &M, number: usize, area: &AreaLayout) {
    let words = encode(area);
    (0..).zip(words).for_each(|(at, word)| memory.store(entry(number).element(at), word));
}

/// The entry of area `number`.
///
/// # Errors
/// [`PodError::Damaged`] if its checksum is wrong.
pub(crate) fn read<M: Memory>(memory: &M, number: usize) -> Result<AreaLayout, PodError> {
    let words = std::array::from_fn(|at| memory.load(entry(number).element(at as u64)));
    if words[CHECKSUM] != checksum(&words) {
        return Err(PodError::Damaged(format!("entry {number} of its directory is damaged")));
    }
    Ok(decode(&words))
}

fn encode(area: &AreaLayout) -> [u64; WORDS] {
    let fixed = [
        u64::from_le_bytes(area.kind.0),
        area.version,
        area.scr.start,
        area.scr.bytes,
        area.lnr.start,
        area.lnr.bytes,
        area.log_shards,
        area.ring_entries,
        area.segment_entries,
    ];
    let mut words = [0; WORDS];
    words[..fixed.len()].copy_from_slice(&fixed);
    words[FIRST_PARAMETER..][..PARAMETERS].copy_from_slice(&area.parameters);
    words[ON_DEMAND] = area.on_demand;
    words[CHECKSUM] = checksum(&words);
    words
}

fn decode(words: &[u64; WORDS]) -> AreaLayout {
    AreaLayout {
        kind: Kind(words[0].to_le_bytes()),
        version: words[1],
        scr: Stretch { start: words[2], bytes: words[3] },
        lnr: Stretch { start: words[4], bytes: words[5] },
        log_shards: words[6],
        ring_entries: words[7],
        segment_entries: words[8],
        parameters: std::array::from_fn(|at| words[FIRST_PARAMETER + at]),
        on_demand: words[ON_DEMAND],
    }
}

fn checksum(words: &[u64; WORDS]) -> u64 {
    crate::superblock::checksum(&words[..CHECKSUM])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back_and_tell_damage() {
        let area = AreaLayout {
            kind: Kind::new("objects"),
            version: 3,
            scr: Stretch { start: 640, bytes: 64 << 10 },
            lnr: Stretch { start: 1 << 20, bytes: 1 << 30 },
            log_shards: 2,
            ring_entries: 64,
            segment_entries: 128,
            parameters: std::array::from_fn(|at| at as u64 * 7),
            on_demand: 1 << 20,
        };
        let mut words = encode(&area);
        assert_eq!(decode(&words), area);
        words[12] ^= 1;
        assert_ne!(words[CHECKSUM], checksum(&words));
    }
}
