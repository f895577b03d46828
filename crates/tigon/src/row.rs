//! Rows: at home in a host's own memory, and shared in LNR.
//!
//! ```text
//! shared row   epoch-version (8 bytes) | length (4) | zeros (4) | the row
//! ```
//!
//! A shared row has lines of its own. Nothing in them changes but under its record's latch.

use std::sync::Arc;

use tombolo_database::{Locks, Version};
use tombolo_memory::{HostMutex, LINE_BYTES, Lines, LnrAddr, Memory};

use crate::index::RecordAt;

/// Bytes in front of a shared row.
pub(crate) const HEAD_BYTES: usize = 16;

/// Bytes of LNR that a shared row of up to `row_bytes` takes.
pub(crate) fn slot_bytes(row_bytes: u32) -> u64 {
    (HEAD_BYTES as u64 + u64::from(row_bytes)).next_multiple_of(LINE_BYTES)
}

/// A row at its home.
pub(crate) struct Row<M: Memory> {
    /// Locked for a moment, and only one row at a time but by a thread that has its partition's
    /// rows locked.
    pub(crate) content: HostMutex<M, Content>,
}

/// The home's state of one of its rows.
pub(crate) struct Content {
    /// How transactions have locked it, unless it is shared: then its record says so.
    pub(crate) locks: Locks,
    /// Whether there is a row, unless it is shared, likewise.
    pub(crate) is_valid: bool,
    /// Whether it is no part of its partition any more.
    pub(crate) is_removed: bool,
    /// The epoch up to which it stays, even if it is a ghost that no transaction has locked.
    pub(crate) stays_until: u64,
    /// Its record, if it is shared.
    pub(crate) shared: Option<RecordAt>,
    /// The row, unless it is shared and its record says that it is dirty.
    pub(crate) version: Version,
    pub(crate) bytes: Box<[u8]>,
}

impl<M: Memory> Row<M> {
    pub(crate) fn new(is_valid: bool, version: Version, bytes: &[u8], locks: Locks) -> Arc<Self> {
        let content = Content {
            locks,
            is_valid,
            is_removed: false,
            stays_until: 0,
            shared: None,
            version,
            bytes: bytes.into(),
        };
        Arc::new(Self { content: HostMutex::<M, _>::new(content) })
    }
}

/// The lines of a shared row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) line: u64,
    pub(crate) bytes: u64,
}

impl Slot {
    pub(crate) fn at(self) -> LnrAddr {
        LnrAddr::of_line(self.line)
    }

    pub(crate) fn lines(self) -> Lines {
        Lines::new(self.line, self.bytes / LINE_BYTES)
    }

    /// The lines that a row of so many bytes lies in.
    pub(crate) fn used_lines(self, row_bytes: usize) -> Lines {
        Lines::covering(self.at(), (HEAD_BYTES + row_bytes) as u64)
    }
}

pub(crate) fn encode_head(version: Version, length: usize) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&version.0.to_le_bytes());
    head[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    head
}

/// Version and length, which is not beyond the slot's end.
pub(crate) fn decode_head(head: &[u8; HEAD_BYTES], slot: Slot) -> (Version, usize) {
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let most = slot.bytes as usize - HEAD_BYTES;
    (Version(word(0)), (word(8) as u32 as usize).min(most))
}
