//! Errors of tiers.

use std::io;

use tombolo_memory::paging::FaultsError;

/// Why something was not done. Pages are where they were, with all their bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TieringError {
    /// The kernel, or the process' rights, do not allow pages to move.
    #[error(transparent)]
    Faults(#[from] FaultsError),
    /// The system refused something.
    #[error("cannot {doing}: {reason}; ask for less, or see to what the system lacks")]
    Os {
        /// The action that was refused, as a verb with its object.
        doing: &'static str,
        /// Why not.
        reason: io::Error,
    },
    /// The heap has no free range of this size.
    #[error("the heap has no {asked} bytes in one piece; reserve a larger heap, or free blocks")]
    Full {
        /// How many bytes were asked for.
        asked: usize,
    },
    /// The range is not all in the block.
    #[error("bytes {start}..{end} are outside their block of {bytes}; ask within the block")]
    Outside {
        /// The first byte.
        start: usize,
        /// Behind the last byte.
        end: usize,
        /// The block's size.
        bytes: usize,
    },
    /// The heap's threads have ended.
    #[error("the heap's threads have ended, and pages stay where they are; make another heap")]
    Stopped,
    /// This process is a child of the one that made the heap.
    #[error(
        "pages do not move in a child of fork(); its memory is whole, make a heap in the child"
    )]
    Forked,
}
