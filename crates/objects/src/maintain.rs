//! What a host does in the background, a little at a time.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use tombolo_memory::{HostMutex, Memory};
use tombolo_pod::Giver;
use tombolo_sharing::Counter;

use crate::compact::Room;
use crate::event::{Event, KeyHash};
use crate::lock::target;
use crate::objects::Shard;
use crate::records::Held;
use crate::{Error, Objects, sites};

/// How the background work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Records are taken back while more than this share of them is in use, in percent.
    pub watermark_percent: u64,
    /// Records taken back in one tick, at most.
    pub reclaim_batch: u64,
    /// Objects of sparsely used chunks are moved together while more than this share of LNR is divided
    /// into slots and unused, in percent.
    pub fragmented_percent: u64,
    /// Objects moved in one tick, at most.
    pub move_batch: usize,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self { watermark_percent: 90, reclaim_batch: 256, fragmented_percent: 10, move_batch: 32 }
    }
}

/// Ticks between two looks for chunks that are held but not used.
const TICKS_TO_IDLE: u64 = 128;

/// Ticks between two looks whether hosts have died, or somebody has met errors in memory.
const TICKS_TO_LOOK: u64 = 4;

/// Ticks between two looks at how fragmented LNR is, while there is nothing to be done about it.
const TICKS_TO_COMPACT: u64 = 32;

pub(crate) struct Upkeep<M: Memory> {
    options: Maintenance,
    ticks: AtomicU64,
    /// Whether the last tick moved objects, and the next may go on.
    compacting: AtomicBool,
    /// When somebody last looked who is in the way, in nanoseconds.
    pub(crate) looked: AtomicU64,
    /// Which host was in some thread's way last, plus one.
    obstacle: AtomicU8,
    /// Held by the thread that goes on without a dead host.
    pub(crate) recovering: HostMutex<M, ()>,
}

impl<M: Memory> Upkeep<M> {
    pub(crate) fn new(options: Maintenance) -> Self {
        Self {
            options,
            ticks: AtomicU64::new(0),
            compacting: AtomicBool::new(false),
            looked: AtomicU64::new(0),
            obstacle: AtomicU8::new(0),
            recovering: HostMutex::<M, _>::new(()),
        }
    }

    pub(crate) fn obstructed_by(&self, host: u8) {
        self.obstacle.store(host + 1, Ordering::Relaxed);
    }

    /// Which host was in the way last.
    pub(crate) fn obstacle(&self) -> Option<u8> {
        self.obstacle.load(Ordering::Relaxed).checked_sub(1)
    }
}

impl<M: Memory> Objects<M> {
    /// Does what has to be done in the background: applies the log, so that its head can move on; goes on without
    /// hosts that have died;
    /// hands the replica to joining hosts; takes little-used records back; hands on chunks that this
    /// host holds and does not use; moves objects of sparsely used chunks together. To be called about every millisecond, by one thread of each host.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Damaged`].
    pub fn tick(&self) -> Result<(), Error> {
        self.seat.beat(self.memory());
        self.sync_all()?;
        self.help_joining()?;
        self.answer_in_tick()?;
        self.make_room_at_home()?;
        self.reclaim_above_watermark()?;
        let ticks = self.upkeep.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        if ticks.is_multiple_of(TICKS_TO_LOOK) {
            self.recover_all()?;
            self.shards().iter().for_each(|shard| shard.state().space.leave_poisoned());
        }
        if ticks.is_multiple_of(TICKS_TO_IDLE) {
            self.shards().iter().for_each(|shard| shard.state().space.release_idle());
        }
        let compacting = self.upkeep.compacting.load(Ordering::Relaxed);
        if compacting || ticks.is_multiple_of(TICKS_TO_COMPACT) {
            let goes_on = self.compact_above_watermark()?;
            self.upkeep.compacting.store(goes_on, Ordering::Relaxed);
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

    /// Answers hosts that want a replica.
    pub(crate) fn help_joining(&self) -> Result<(), Error> {
        if !self.pod().has_joining() {
            return Ok(());
        }
        let members = self.pod().membership();
        for host in members.hosts().filter(|&host| !members.is_ready(host)) {
            if let Some(giver) = Giver::answer(self.pod(), &self.seat, host) {
                giver.give(self.snapshot()?);
            }
        }
        Ok(())
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

    /// Takes a record that the object with this hash may have back from one that is little written, and frees it; which one.
    pub(crate) fn reclaim_some(&self, wanted: KeyHash) -> Result<Option<u32>, Error> {
        for (record, hash) in self.victims(wanted) {
            if self.reclaim(record, hash)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Takes `record` back from the object that has it, whose hash was `hash`: the object is
    /// read-shared from then on.
    fn reclaim(&self, record: u32, hash: KeyHash) -> Result<bool, Error> {
        let cleaned = match self.clean_before_reclaim(record, hash) {
            // There is nothing left to be cleaned, and the record is free.
            Err(error) if error.is_loss() => false,
            cleaned => cleaned?,
        };
        if !cleaned {
            return Ok(false);
        }
        let records = &self.records;
        let Some(counter) = records.load(record).readable() else { return Ok(false) };
        let held = if self.memory().keeps(sites::RECLAIM_LOCK) {
            records.lock(record, counter)
        } else {
            Some(Held { record, counter })
        };
        let Some(held) = held else { return Ok(false) };
        let unmarked = self.memory().check(sites::RECLAIM_UNMARKED, !self.marks.is_set(record));
        let reclaimed = if unmarked { self.deallocate(record, hash) } else { Ok(false) };
        if matches!(reclaimed, Ok(true)) {
            self.count(Counter::Reclaims);
            records.free(held);
        } else {
            let _ = records.unlock(held, false);
        }
        reclaimed
    }

    fn deallocate(&self, record: u32, hash: KeyHash) -> Result<bool, Error> {
        self.sync(hash)?;
        let found = self.state(hash).index.find(self.memory(), hash);
        let owner = found.iter().find(|found| found.entry.record() == Some(record));
        owner.map_or(Ok(false), |found| {
            self.commit(Event::Deallocate { target: target(found.entry), record })
        })
    }
}
