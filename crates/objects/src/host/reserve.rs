//! Slots for objects, and what is waited for if the pod is full.

use std::time::Duration;

use tombolo_memory::Memory;

use crate::host::blocked::Why;
use crate::ids::{KeyHash, Slot};
use crate::storage::space::chunk_table::ChunkState;
use crate::{Error, Objects};

/// How long who needs room, and holds no lock, waits for objects that are in use. (Who holds a lock
/// would wait for itself, or for others who wait for it.)
pub(crate) const PATIENCE: Duration = Duration::from_millis(5);

/// The outcome of an attempt to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// A chunk is free, or emptier than before.
    Made,
    /// Others are at it.
    Others,
    /// There is none to be made now: objects are in use, or chunks changed hands meanwhile.
    NotNow,
    /// There is none to be made.
    None,
}

impl<M: Memory> Objects<M> {
    /// A slot for an object with this hash, reserved for it. If the pod is full as things are,
    /// objects that are in use are waited for, for as long as `patience` lasts.
    pub(crate) fn reserve(
        &self,
        hash: KeyHash,
        bytes: u64,
        patience: Duration,
    ) -> Result<Slot, Error> {
        match self.reserve_free(hash, bytes) {
            Err(Error::LnrFull { .. }) => self.reserve_after_making_room(hash, bytes, patience),
            reserved => reserved,
        }
    }

    /// The same, if there is one as things are.
    pub(crate) fn reserve_free(&self, hash: KeyHash, bytes: u64) -> Result<Slot, Error> {
        self.state(hash).space.reserve(bytes, || self.sync(hash).map(drop))
    }

    /// A slot for an object with this hash, reserved for it, in a pod that is full as things are.
    fn reserve_after_making_room(
        &self,
        hash: KeyHash,
        bytes: u64,
        patience: Duration,
    ) -> Result<Slot, Error> {
        let full = || Error::LnrFull { bytes };
        let (space, mut waiting_since) = (&self.state(hash).space, None);
        let reserved = self.retry_with_backoff(|| {
            let table = &self.shards()[0].state().space;
            let (before, passed_over) = (table.words()?, space.passed_over());
            match self.reserve_free(hash, bytes) {
                Err(Error::LnrFull { .. }) => {}
                reserved => return reserved.map(Some),
            }
            let mut room = Room::None;
            self.blocked(Why::NoSlot { room: &mut room })?;
            let room = match room {
                Room::None if before.iter().any(|word| word.state == ChunkState::Moving) => {
                    Room::Others
                }
                // Whether there was room at any one moment, nobody knows.
                Room::None if before != table.words()? => Room::NotNow,
                Room::None if passed_over != space.passed_over() => Room::NotNow,
                room => room,
            };
            if room == Room::NotNow {
                let now = self.memory().uptime();
                if now.saturating_sub(*waiting_since.get_or_insert(now)) > patience {
                    return Err(full());
                }
            }
            if room == Room::None { Err(full()) } else { Ok(None) }
        });
        reserved.map_err(|error| if matches!(error, Error::Busy { .. }) { full() } else { error })
    }
}
