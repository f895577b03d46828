//! How much room there is for values.

use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_sharing::Scheme;

use crate::Store;

/// For so long what was found counts, in milliseconds: to find it takes a look at all chunks.
const COUNTS_MS: u64 = 50;

/// The free room that was found, and until when it counts.
#[derive(Default)]
pub(crate) struct KnownRoom {
    bytes: AtomicU64,
    until_ms: AtomicU64,
}

impl<S: Scheme> Store<S> {
    /// Bytes of the pod for objects of any size, as of at most 50 ms ago: those that no object
    /// takes up, but for the rests of chunks that have some.
    pub fn room(&self) -> u64 {
        let (now_ms, known) = (self.now_ms(), &self.known_room);
        if now_ms >= known.until_ms.load(Ordering::Relaxed) {
            // Other threads do with what was found before meanwhile.
            known.until_ms.store(now_ms + COUNTS_MS, Ordering::Relaxed);
            let usage = self.objects.usage();
            let taken =
                usage.lnr_used_bytes + usage.lnr_fragmented_bytes + usage.lnr_poisoned_bytes;
            let bytes = usage.lnr_bytes.saturating_sub(taken);
            known.bytes.store(bytes, Ordering::Relaxed);
        }
        known.bytes.load(Ordering::Relaxed)
    }
}
