//! The work of a host in the background, a little at a time.

use std::sync::atomic::Ordering;

use tombolo_memory::Memory;
use tombolo_sharing::Counter;

use crate::host::reserve::Room;
use crate::host::upkeep::Maintenance;
use crate::ids::KeyHash;
use crate::replica::Shard;
use crate::{Error, Objects};

/// Ticks between two looks for chunks that are held but not used.
const TICKS_TO_IDLE: u64 = 128;

/// Ticks between two looks whether hosts have died, or somebody has met errors in memory.
const TICKS_TO_LOOK: u64 = 4;

/// Ticks between two looks at how fragmented LNR is, while there is nothing to be done about it.
const TICKS_TO_COMPACT: u64 = 32;

impl<M: Memory> Objects<M> {
    /// Does what has to be done in the background: applies the log, so that its head can move on;
    /// goes on without hosts that have died; hands the replica to joining hosts; takes little-used
    /// records back; hands on chunks that this host holds and does not use; moves objects of
    /// sparsely used chunks together. To be called about every millisecond, by one thread of each
    /// host.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Fenced`], [`Error::Damaged`].
    pub fn tick(&self) -> Result<(), Error> {
        self.host.beat();
        self.sync_all()?;
        self.help_joining()?;
        self.answer_in_tick()?;
        self.make_room_in_partition()?;
        self.reclaim_above_watermark()?;
        let ticks = self.upkeep.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        if ticks.is_multiple_of(TICKS_TO_LOOK) {
            self.recover_all()?;
            self.shards().iter().for_each(|shard| shard.state().space.leave_poisoned());
        }
        if ticks.is_multiple_of(TICKS_TO_IDLE) {
            self.seat().tell_time(self.memory());
            self.shards().iter().for_each(|shard| shard.state().space.release_idle());
        }
        self.give_back_idle()?;
        let compacting = self.upkeep.compacting.load(Ordering::Relaxed);
        if compacting || ticks.is_multiple_of(TICKS_TO_COMPACT) {
            let goes_on = self.compact_above_watermark()?;
            self.upkeep.compacting.store(goes_on, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Frees some chunks that are empty, and gives back the memory of such as are not used.
    fn give_back_idle(&self) -> Result<(), Error> {
        let after = self.upkeep.options.give_back_after;
        for shard in self.shards() {
            let sync = || self.sync_shard(shard).map(drop);
            let chunks = shard.state().space.give_back_idle(after, sync)?;
            self.counters.add(Counter::GivenBack, chunks);
        }
        Ok(())
    }

    /// Moves some objects together; whether there may be more to do.
    fn compact_above_watermark(&self) -> Result<bool, Error> {
        let Maintenance { fragmented_percent, move_batch, .. } = self.upkeep.options;
        let fragmented = |shard: &Shard<M>| shard.state().space.fragmented_bytes();
        let most = self.shards()[0].state().space.bytes() / 100 * fragmented_percent;
        if self.shards().iter().map(fragmented).sum::<u64>() <= most {
            return Ok(false);
        }
        let Some(shard) = self.shards().iter().max_by_key(|shard| fragmented(shard)) else {
            return Ok(false);
        };
        Ok(self.compact(shard, move_batch)? == Room::Made)
    }

    fn reclaim_above_watermark(&self) -> Result<(), Error> {
        let Maintenance { watermark_percent, reclaim_batch, .. } = self.upkeep.options;
        for _ in 0..reclaim_batch {
            let any = self.memory().random() as KeyHash;
            if !self.records.over(watermark_percent) || self.reclaim_some(any)?.is_none() {
                break;
            }
        }
        Ok(())
    }
}
