//! Rows in SCR, for the variant without coherence by software: words that their record's latch
//! keeps whole.
//!
//! ```text
//! row   epoch-version (8 bytes) | length (8) | the row, and zeros up to a whole word
//! ```

use tombolo_database::Version;
use tombolo_memory::{Memory, ScrAddr};

use crate::row::{HEAD_BYTES, Slot};

const WORD_BYTES: usize = 8;

/// Appends a row to `to`: its version. The caller has its record's latch.
pub(crate) fn read<M: Memory>(memory: &M, slot: Slot, to: &mut Vec<u8>) -> Version {
    let version = Version(memory.load(word(slot, 0)));
    let length = memory.load(word(slot, 1)) as usize;
    let mut left = length.min(slot.bytes as usize - HEAD_BYTES);
    for number in 2.. {
        if left == 0 {
            break;
        }
        let bytes = memory.load(word(slot, number)).to_le_bytes();
        let here = left.min(WORD_BYTES);
        to.extend_from_slice(&bytes[..here]);
        left -= here;
    }
    version
}

/// Writes a row. The caller has its record's latch, or no other host knows the slot.
pub(crate) fn write<M: Memory>(memory: &M, slot: Slot, version: Version, row: &[u8]) {
    memory.store(word(slot, 0), version.0);
    memory.store(word(slot, 1), row.len() as u64);
    for (number, bytes) in (2..).zip(row.chunks(WORD_BYTES)) {
        let mut whole = [0; WORD_BYTES];
        whole[..bytes.len()].copy_from_slice(bytes);
        memory.store(word(slot, number), u64::from_le_bytes(whole));
    }
}

fn word(slot: Slot, number: u64) -> ScrAddr<u64> {
    ScrAddr::<u64>::new(slot.at().offset()).element(number)
}
