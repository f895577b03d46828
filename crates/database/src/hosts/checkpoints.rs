//! Checkpoints of a database that runs.
//!
//! One host asks for a checkpoint, of an epoch that is settled. Each host writes the rows that are
//! at home there into a part of its own, while transactions run. The first one also writes those at
//! home where no host is, if the database goes on then. When all parts are written, and the epoch
//! in which the last row was read is durable, the host that asked writes the manifest. If a host
//! has come or gone meanwhile, it gives up.
//!
//! ```text
//! claim          how many checkpoints were begun and ended (56 bits) | the home whose host writes
//!                one now, plus one (8)
//! wanted         the checkpoint that parts are asked for: its number (23 bits) | its epoch (41);
//!                0 if there is none
//! a line a home  the checkpoint of its last part | rows | batches | last epoch read
//! ```
//!
//! Invariants:
//! * At most one checkpoint is written at a time.
//! * A part counts for one checkpoint alone: one that was given up may have had the same epoch.

use tombolo_memory::{Memory, ScrAddr};

use super::{EachVersion, Homes};
use crate::log::{CheckpointPart, CheckpointWriter, GroupCommit, LogError, PartSummary, Storage};
use crate::{Durability, Partitioning, TableId, TableSpec, TxError, sites};

/// Why a running database has no new checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Another one is being written.
    #[error("another checkpoint is being written; wait until it is done")]
    Busy,
    /// A host could not write its part.
    #[error("host {host} of the database could not write its part; look at its disk")]
    Part {
        /// The number of its home.
        host: u8,
    },
    /// A host has left, or has died.
    #[error(transparent)]
    Tx(#[from] TxError),
    /// The storage.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The number of rows in the entry of a part that could not be written.
const FAILED: u64 = u64::MAX;

/// Bits of an epoch, and one more.
const EPOCH_BITS: u32 = 41;

/// The right to write a checkpoint.
#[derive(Clone, Copy, Debug)]
struct CheckpointClaim {
    count: u64,
}

impl CheckpointClaim {
    /// The word while a host of `home` has it.
    fn of(self, home: u8) -> u64 {
        self.count << 8 | (u64::from(home) + 1)
    }

    /// The word afterwards.
    fn ended(self) -> u64 {
        (self.count + 1) << 8
    }
}

/// A checkpoint that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CheckpointId(u64);

impl CheckpointId {
    /// The epoch that it is good from.
    fn epoch(self) -> u64 {
        self.0 & ((1 << EPOCH_BITS) - 1)
    }
}

/// A part that was written, and the epoch in which its last row was read.
type WrittenPart = (PartSummary, u64);

impl<M: Memory> Homes<M> {
    fn claim_word(&self) -> ScrAddr<u64> {
        self.places().failed.element(1)
    }

    fn wanted(&self) -> ScrAddr<u64> {
        self.places().failed.element(2)
    }

    /// A word of what a home says of its part.
    fn part_word(&self, home: u8, word: u64) -> ScrAddr<u64> {
        self.places().home(home).element(1 + word)
    }

    /// Begins a checkpoint; `None` if another one is being written.
    fn claim_checkpoint(&self) -> Option<CheckpointClaim> {
        let (memory, word) = (self.memory(), self.claim_word());
        let found = memory.load(word);
        let claim = CheckpointClaim { count: (found >> 8) + 1 };
        let is_free = found as u8 == 0
            && memory
                .compare_exchange(sites::CHECKPOINT_ASK, word, found, claim.of(self.own()))
                .is_ok();
        is_free.then_some(claim)
    }

    /// Asks all hosts for their parts of the checkpoint that is good from `epoch`. The remains of
    /// an earlier one are removed.
    fn ask_parts(&self, claim: CheckpointClaim, epoch: u64) -> CheckpointId {
        let id = CheckpointId(claim.count << EPOCH_BITS | epoch);
        self.memory().store(self.wanted(), id.0);
        id
    }

    /// A checkpoint of which this host has not written its part.
    fn part_to_write(&self) -> Option<CheckpointId> {
        let wanted = self.memory().load(self.wanted());
        let written = self.memory().load(self.part_word(self.own(), 0));
        (wanted != 0 && wanted != written).then_some(CheckpointId(wanted))
    }

    /// This host has written its part of a checkpoint; `None` if it could not.
    fn part_written(&self, of: CheckpointId, part: Option<WrittenPart>) {
        let (memory, own) = (self.memory(), self.own());
        let (rows, batches, last) = match part {
            Some((part, last)) => (part.rows, part.batches.into(), last),
            None => (FAILED, 0, 0),
        };
        memory.store(self.part_word(own, 1), rows);
        memory.store(self.part_word(own, 2), batches);
        memory.store(self.part_word(own, 3), last);
        // Stores become visible in order.
        memory.store(self.part_word(own, 0), of.0);
    }

    /// The hosts that take part now, by their homes.
    fn hosts(&self) -> Vec<Option<u8>> {
        let there = self.are_there();
        let host = |home| self.host_of(home).filter(|_| there >> home & 1 == 1);
        (0..self.count()).map(host).collect()
    }

    /// The parts of all `hosts`, those of when they were asked for; `None` as long as one is
    /// missing.
    ///
    /// # Errors
    /// [`CheckpointError::Part`]; that a host has come or gone.
    fn parts_of(
        &self,
        of: CheckpointId,
        hosts: &[Option<u8>],
    ) -> Result<Option<Vec<WrittenPart>>, CheckpointError> {
        self.check()?;
        let memory = self.memory();
        let mut parts = Vec::new();
        for (home, host) in (0..).zip(hosts) {
            if host.is_none() && self.goes_on() {
                continue;
            }
            if memory.load(self.part_word(home, 0)) != of.0 {
                if !self.is_there(home) {
                    let host = self.host_of(home).unwrap_or(home);
                    return Err(TxError::HostLeft { host }.into());
                }
                return Ok(None);
            }
            let rows = memory.load(self.part_word(home, 1));
            if rows == FAILED {
                return Err(CheckpointError::Part { host: home });
            }
            let batches = memory.load(self.part_word(home, 2)) as u32;
            let last = memory.load(self.part_word(home, 3));
            parts.push((PartSummary { number: home.into(), batches, rows }, last));
        }
        self.check_same(hosts)?;
        Ok(Some(parts))
    }

    /// The rows at home where no host is were read by a host that stands for it: no host has come
    /// or gone since they were asked for.
    fn check_same(&self, hosts: &[Option<u8>]) -> Result<(), TxError> {
        if !self.goes_on() {
            return Ok(());
        }
        let now = self.hosts();
        let changed = hosts.iter().zip(&now).find(|(then, now)| then != now);
        let host = changed.and_then(|(then, now)| then.or(*now));
        host.map_or(Ok(()), |host| Err(TxError::HostLeft { host }))
    }

    /// The checkpoint that this host has begun is written, or given up.
    fn end_checkpoint(&self, claim: CheckpointClaim) {
        self.memory().store(self.wanted(), 0);
        self.memory().store(self.claim_word(), claim.ended());
    }

    /// The checkpoint that a host of this home has begun is given up, if there is one: it is gone.
    pub(super) fn give_up_checkpoint_of(&self, home: u8) {
        let found = self.memory().load(self.claim_word());
        let claim = CheckpointClaim { count: found >> 8 };
        if found == claim.of(home) {
            self.end_checkpoint(claim);
        }
    }
}

/// Writes this host's part of the checkpoint that is good from `epoch`: the rows that
/// `each_version` calls back with, for each of the tables. The host that stands for home 0 writes
/// the tables of which each host has a copy. Blocks while files are synchronised.
///
/// # Errors
/// That the storage fails; those of `each_version`.
fn write_part<S: Storage>(
    storage: S,
    (epoch, home, stands_for): (u64, u8, u64),
    tables: &[TableSpec],
    mut each_version: impl FnMut(TableId, &mut EachVersion<'_>) -> Result<(), TxError>,
) -> Result<PartSummary, CheckpointError> {
    let mut part = CheckpointPart::create(storage, epoch, home.into())?;
    for (table, spec) in (0..).map(TableId).zip(tables) {
        if spec.partitioning == Partitioning::Replicated && stands_for & 1 == 0 {
            continue;
        }
        each_version(table, &mut |partition, key, version, row| {
            Ok(part.row((table, partition), key, version, row)?)
        })?;
    }
    Ok(part.finish()?)
}

/// A checkpoint of a running database that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The epoch that it is good from.
    pub epoch: u64,
    /// Its rows.
    pub rows: u64,
    /// Files before it that were removed.
    pub removed_files: usize,
}

/// Writes this host's part of the checkpoint that is asked for, if there is one; whether it did.
/// Blocks while files are synchronised.
pub fn serve_part<M: Memory, S: Storage>(
    (homes, group): (&Homes<M>, &GroupCommit<M>),
    storage: S,
    tables: &[TableSpec],
    each_version: impl FnMut(TableId, &mut EachVersion<'_>) -> Result<(), TxError>,
) -> bool {
    let Some(id) = homes.part_to_write() else { return false };
    let part =
        write_part(storage, (id.epoch(), homes.own(), homes.stands_for()), tables, each_version);
    // Loaded after the last row was read.
    let last = group.epoch();
    homes.part_written(id, part.ok().map(|part| (part, last)));
    true
}

/// Writes a checkpoint while transactions run, of parts that all hosts [write](serve_part). Then it
/// calls `truncate`, which is to [remove](crate::log::truncate) files that recovery does not need
/// any more. Calls `wait` in each round in which it waits.
///
/// # Errors
/// [`CheckpointError`]: then the last checkpoint is still good. Those of `wait`.
pub fn write_checkpoint<M: Memory, S: Storage + Clone>(
    (homes, group): (&Homes<M>, &GroupCommit<M>),
    storage: &S,
    catalog: &[u8],
    truncate: impl FnOnce() -> Result<usize, LogError>,
    mut wait: impl FnMut() -> Result<(), TxError>,
) -> Result<Written, CheckpointError> {
    // Transactions that have committed by now are to be in it.
    group.advance_past(group.epoch());
    let claim = homes.claim_checkpoint().ok_or(CheckpointError::Busy)?;
    // Loaded before the first row is read.
    let epoch = group.settled_epoch();
    let written = CheckpointWriter::begin(storage.clone(), epoch).map_err(Into::into);
    let written = written.and_then(|writer| {
        let hosts = homes.hosts();
        let id = homes.ask_parts(claim, epoch);
        let rows = finish((homes, group), writer, (id, &hosts), catalog, &mut wait)?;
        Ok(Written { epoch, rows, removed_files: truncate()? })
    });
    homes.end_checkpoint(claim);
    written
}

/// Waits until all parts are written and durable, and writes the manifest.
fn finish<M: Memory, S: Storage + Clone>(
    (homes, group): (&Homes<M>, &GroupCommit<M>),
    mut writer: CheckpointWriter<S>,
    (id, hosts): (CheckpointId, &[Option<u8>]),
    catalog: &[u8],
    wait: &mut impl FnMut() -> Result<(), TxError>,
) -> Result<u64, CheckpointError> {
    let parts = loop {
        if let Some(parts) = homes.parts_of(id, hosts)? {
            break parts;
        }
        wait()?;
    };
    let last = parts.iter().map(|(_, last)| *last).fold(id.epoch(), u64::max);
    let rows = parts.iter().map(|(part, _)| part.rows).sum();
    parts.into_iter().for_each(|(part, _)| writer.add_summary(part));
    group.wait_durable(last, Durability::Epoch, || homes.check().and_then(|()| wait()))?;
    writer.finish(catalog, last, group.durable_epoch())?;
    Ok(rows)
}
