//! Room for replies that are under way.
//!
//! A connection may have [`FREE_BYTES`] of values in its replies, and some more of what is sent
//! with them. For more it takes room that all connections share, before anything is read, and gives
//! it back when the reply is sent.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of values that a connection reads without asking for room.
pub(crate) const FREE_BYTES: u64 = 64 << 10;
/// The unit in which room is counted, in bytes.
const UNIT_BYTES: u64 = 1 << 10;

/// The room that all connections share.
pub(crate) struct Room {
    free: Arc<Semaphore>,
    units: u32,
}

impl Room {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = (bytes / UNIT_BYTES).clamp(1, u64::from(u32::MAX >> 4)) as u32;
        Self { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Waits for room for a reply with so many bytes of values: the values themselves, and the
    /// reply that has them. A reply that takes more than there is gets all of it.
    ///
    /// `None` if the server stops.
    pub(crate) async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = (bytes.saturating_mul(2).div_ceil(UNIT_BYTES)).min(u64::from(self.units));
        self.free.clone().acquire_many_owned(units as u32).await.ok()
    }
}
