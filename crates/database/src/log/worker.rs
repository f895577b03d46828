//! A worker's part of the log: its words in SCR, and its buffer in LNR.
//!
//! A buffer is a ring of lines. Each record begins with a line. Positions count bytes since the
//! buffer was made, so they never go round.

use std::sync::Arc;

use tombolo_memory::{FetchOp, LINE_BYTES, Memory};

use super::epochs::{GroupCommit, IDLE};
use super::record::{self, Change};
use crate::{TxError, sites};

/// A position in a worker's buffer: how many bytes were put into it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(pub u64);

/// The log of one worker: it runs one transaction at a time.
///
/// A transaction calls [`begin`](Self::begin), and [`finish`](Self::finish) at its end, however it
/// ends. To commit it calls, in this order:
///
/// 1. [`reserve`](Self::reserve): after it nothing of the log can fail;
/// 2. [`commit_epoch`](Self::commit_epoch), when it holds all its locks;
/// 3. [`append`](Self::append), before another transaction can see its changes. An engine that can
///    tell of a dead host whether it has committed may [`stage`](Self::stage) the record before the
///    commit instead, and [`publish`](Self::publish) it afterwards.
pub struct Worker<M: Memory> {
    group: Arc<GroupCommit<M>>,
    number: u16,
    filled: u64,
    /// As it was last loaded.
    flushed: u64,
    /// Where records are encoded.
    record: Vec<u8>,
}

impl<M: Memory> Worker<M> {
    pub(crate) fn new(group: Arc<GroupCommit<M>>, number: u16) -> Self {
        let filled = group.memory.load(group.places.filled(group.host, number));
        let flushed = group.memory.load(group.places.flushed(group.host, number));
        Self { group, number, filled, flushed, record: Vec::new() }
    }

    /// Which of its host's workers it is.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Announces a transaction. What other hosts take out of shared structures from here on,
    /// [`oldest_active`](GroupCommit::oldest_active) keeps from being freed until `finish`. Returns
    /// the epoch it began in.
    pub fn begin(&mut self) -> u64 {
        let (memory, places) = (&self.group.memory, &self.group.places);
        let epoch = memory.load(places.epoch());
        if memory.keeps(sites::BEGIN_ANNOUNCE) {
            // Visible before this worker looks at anything: a store alone may be late.
            let word = places.began(self.group.host, self.number);
            memory.fetch(sites::BEGIN_ANNOUNCE, word, FetchOp::Swap, epoch);
        }
        epoch
    }

    /// The epoch in which a transaction commits that holds all its locks. No logger of this host
    /// passes it before `finish`.
    pub fn commit_epoch(&mut self) -> u64 {
        let (memory, places) = (&self.group.memory, &self.group.places);
        let announced = memory.load(places.epoch());
        if memory.keeps(sites::COMMIT_ANNOUNCE) {
            let word = places.commits(self.group.host, self.number);
            memory.fetch(sites::COMMIT_ANNOUNCE, word, FetchOp::Swap, announced);
        }
        // A logger that has not seen the announcement has not passed what is loaded now.
        if memory.keeps(sites::COMMIT_EPOCH) { memory.load(places.epoch()) } else { announced }
    }

    /// Waits until there is room for the record of a transaction, of
    /// [`record_bytes`](super::record_bytes). Meanwhile it calls `meanwhile`, which may have to
    /// flush buffers, if no other thread does.
    ///
    /// # Errors
    /// [`TxError::TooLarge`]; [`TxError::Full`] if that takes longer than
    /// [`patience`](super::GroupSettings::patience); an error of `meanwhile`.
    pub fn reserve(
        &mut self,
        record_bytes: u64,
        mut meanwhile: impl FnMut() -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        let most = self.group.places.layout.buffer_bytes;
        if record_bytes > most {
            return Err(TxError::TooLarge { bytes: record_bytes, most });
        }
        let since = self.group.memory.uptime();
        while !self.has_room(record_bytes) {
            let waited = self.group.memory.uptime().saturating_sub(since);
            if waited >= self.group.settings.patience {
                return Err(TxError::Full {
                    what: "the log buffer",
                    hint: "the logger does not keep up; look at its disk",
                });
            }
            meanwhile()?;
            self.group.memory.pause();
        }
        Ok(())
    }

    fn has_room(&mut self, record_bytes: u64) -> bool {
        let (memory, places) = (&self.group.memory, &self.group.places);
        let bytes = record_bytes.next_multiple_of(LINE_BYTES);
        // The position whose bytes lie at the place of the record's last byte.
        let used_before = (self.filled + bytes).saturating_sub(places.layout.buffer_bytes);
        if used_before <= self.flushed {
            return true;
        }
        self.flushed = memory.load(places.flushed(self.group.host, self.number));
        memory.check(sites::APPEND_ROOM, used_before <= self.flushed)
    }

    /// Publishes the record of a transaction that commits in `epoch`. It is whole in shared memory
    /// when this returns; if the host dies before, there is none.
    ///
    /// # Panics
    /// As of [`stage`](Self::stage).
    pub fn append<'a>(&mut self, epoch: u64, changes: impl IntoIterator<Item = Change<'a>>) {
        let position = self.stage(epoch, changes);
        self.publish(epoch, position);
    }

    /// Puts the record of a transaction that may commit in `epoch` into the buffer: the position
    /// behind it. It is whole in shared memory when this returns, and counts once it is
    /// [published](Self::publish). If it never is, the next record takes its place.
    ///
    /// # Panics
    /// If there is no room, or a key has more than 65,535 bytes.
    pub fn stage<'a>(
        &mut self,
        epoch: u64,
        changes: impl IntoIterator<Item = Change<'a>>,
    ) -> LogPosition {
        self.record.clear();
        record::encode(epoch, changes.into_iter(), &mut self.record);
        let bytes = self.record.len() as u64;
        assert!(self.has_room(bytes), "a record of {bytes} bytes was not reserved");
        let (memory, places) = (&self.group.memory, &self.group.places);
        let pieces = places.pieces(self.group.host, self.number, self.filled, bytes);
        let pieces = pieces.into_iter().filter(|lines| lines.count() > 0);
        let mut rest = &self.record[..];
        for lines in pieces.clone() {
            let (piece, behind) = rest.split_at(rest.len().min(lines.bytes() as usize));
            memory.takes_blank(lines);
            memory.write(lines.start(), piece);
            rest = behind;
        }
        memory.publish(sites::APPEND_CLEAN, pieces.clone(), |memory| {
            let mut rest = bytes;
            for lines in pieces {
                memory.gives(lines, rest.min(lines.bytes()));
                rest -= rest.min(lines.bytes());
            }
        });
        LogPosition(self.filled + bytes.next_multiple_of(LINE_BYTES))
    }

    /// The record that was [staged](Self::stage) up to `position` counts.
    pub fn publish(&mut self, epoch: u64, position: LogPosition) {
        self.filled = position.0;
        let word = self.group.places.filled(self.group.host, self.number);
        self.group.memory.store(word, self.filled);
        self.group.request(epoch);
    }

    /// The transaction has ended, and uses nothing that is shared any more.
    pub fn finish(&mut self) {
        let (memory, places) = (&self.group.memory, &self.group.places);
        // After the record: stores become visible in order.
        memory.store(places.commits(self.group.host, self.number), IDLE);
        memory.store(places.began(self.group.host, self.number), IDLE);
    }
}

impl<M: Memory> Drop for Worker<M> {
    /// No epoch waits for a worker that is not there any more, as after a panic.
    fn drop(&mut self) {
        if !self.group.memory.is_gone() {
            self.finish();
        }
    }
}
