//! Removing the obstacle that blocks a thread.

use tombolo_memory::Memory;

use crate::host::blocked::Why;
use crate::{Error, Objects};

/// See [`Objects::blocked`].
pub(crate) fn unblock<M: Memory>(objects: &Objects<M>, why: Why<'_>) -> Result<(), Error> {
    match why {
        Why::Fenced { stay, entry } => objects.recover_object(stay, entry),
        Why::Waiting => objects.recover_all(),
        Why::InPartition { host, entry } => objects.recall(host, entry),
        Why::Requested { request } => objects.answer(&request),
        Why::NoSlot { room } => objects.make_room().map(|made| *room = made),
        Why::NoRecord { hash, freed } => {
            *freed = objects.reclaim_some(hash)?;
            if freed.is_none() { objects.take_records_over() } else { Ok(()) }
        }
        Why::Misplaced { found, tail, header, key, value } => {
            objects.move_in_after_read(found, tail, header, key, value)
        }
    }
}
