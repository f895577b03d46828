//! A host's logger: it writes what the host's workers have logged to files.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tombolo_memory::{LINE_BYTES, Memory};

use super::epochs::{GroupCommit, IDLE, JOINING};
use super::error::{During, LogError};
use super::file::FileWriter;
use super::frames::{HEADER, Header, MARK, Mark, RECORD, parse_name};
use super::layout::LogPlaces;
use super::record::Record;
use super::storage::Storage;
use crate::sites;

/// Numbers that are tried for a new file, if other hosts make files of the same host's log.
const NUMBERS: u32 = 64;

/// How long a logger waits after an error.
const RETRY: Duration = Duration::from_millis(100);

/// The counters of a logger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogMetrics {
    /// Bytes written to files.
    pub bytes: u64,
    /// Times that a file was synchronised.
    pub syncs: u64,
    /// How long synchronising takes, with the write before it: all but one of 100 take less.
    pub sync_p99: Duration,
    /// How many epochs the host's log is behind.
    pub epochs_behind: u64,
}

/// A host's logger. One thread at a time has it.
///
/// It writes one batch at a time: records of its host's workers, and a mark up to which epoch that
/// is all. When the batch is on the disk, the bytes of the buffers are free again, and the epoch is
/// durable as far as this host is concerned.
pub struct Logger<M: Memory, S> {
    group: Arc<GroupCommit<M>>,
    storage: S,
    file: Option<FileWriter>,
    /// The number of this log's first file, and batches of the last one.
    written: Option<(u32, u32)>,
    /// The durable epoch that this host has announced in SCR.
    durable: u64,
    /// When [`tick`](Self::tick) tries again after an error.
    retry_at: Duration,
    bytes: u64,
    sync_ns: Histogram<u64>,
}

/// The parts of a host's buffers that are to be written: from and to which position.
type Ends = Vec<(u64, u64)>;

impl<M: Memory, S: Storage> Logger<M, S> {
    /// Begins the log of this host. Before that it writes out what the last host of this number may
    /// have left in its buffers. The host's workers may commit when this has returned.
    ///
    /// # Errors
    /// That the storage fails, or a buffer is damaged.
    pub fn open(group: Arc<GroupCommit<M>>, storage: S) -> Result<Self, LogError> {
        let mut logger = Self {
            group,
            storage,
            file: None,
            written: None,
            durable: IDLE,
            retry_at: Duration::ZERO,
            bytes: 0,
            sync_ns: Histogram::new(3).expect("3 digits are possible"),
        };
        let memory = logger.group.memory.clone();
        let early = (!memory.keeps(sites::JOIN_ANNOUNCE)).then(|| logger.group.epoch());
        logger.drain(logger.group.host)?;
        logger.set_durable(JOINING)?;
        // After that nothing becomes durable, so no epoch that is durable already is greater.
        let epoch = early.unwrap_or_else(|| logger.group.epoch()) - 1;
        let begun = logger.write(&Ends::new(), epoch, false);
        logger.set_durable(if begun.is_ok() { epoch } else { IDLE })?;
        begun.map(|()| logger)
    }

    /// Writes what is to be written, if an epoch has ended, or a buffer is half full; whether it
    /// did. Blocks while the file is synchronised. To be called every millisecond.
    ///
    /// # Errors
    /// That the storage fails: a call after 100 ms tries another file. [`LogError::Retired`]: no
    /// call succeeds any more.
    pub fn tick(&mut self) -> Result<bool, LogError> {
        let is_due = self.passable() > self.durable || self.is_crowded();
        if !is_due || self.group.memory.uptime() < self.retry_at {
            return Ok(false);
        }
        self.flush()
    }

    /// Whether a buffer is half full.
    fn is_crowded(&self) -> bool {
        let half = self.group.places.layout.buffer_bytes / 2;
        self.ends(self.group.host).iter().any(|(from, to)| to.saturating_sub(*from) >= half)
    }

    /// Writes what is to be written; whether there was anything. Blocks while the file is
    /// synchronised.
    ///
    /// # Errors
    /// As of [`tick`](Self::tick), but the next call tries another file.
    pub fn flush(&mut self) -> Result<bool, LogError> {
        let (host, memory) = (self.group.host, self.group.memory.clone());
        let early = (!memory.keeps(sites::FLUSH_FILLED_LAST)).then(|| self.ends(host));
        let epoch = self.passable().max(self.durable);
        // After that: a worker that has ended by then has filled its buffer before.
        let ends = early.unwrap_or_else(|| self.ends(host));
        let is_filled = ends.iter().any(|(flushed, filled)| filled > flushed);
        if !is_filled && epoch == self.durable {
            return Ok(false);
        }
        self.write(&ends, epoch, false)?;
        self.set_durable(epoch)?;
        self.free(host, &ends);
        Ok(true)
    }

    /// The greatest epoch in which no worker of this host can commit any more.
    fn passable(&self) -> u64 {
        let memory = &self.group.memory;
        let first = memory.keeps(sites::FLUSH_EPOCH_FIRST).then(|| self.group.epoch());
        let committing = self.group.least(self.group.host, LogPlaces::commits);
        let epoch = first.unwrap_or_else(|| self.group.epoch());
        let is_free = memory.check(sites::FLUSH_COMMITTING, committing >= epoch);
        (if is_free { epoch } else { committing }) - 1
    }

    fn ends(&self, host: u8) -> Ends {
        let (memory, places) = (&self.group.memory, &self.group.places);
        let end = |worker| {
            let flushed = memory.load(places.flushed(host, worker));
            (flushed, memory.load(places.filled(host, worker)))
        };
        (0..places.layout.workers).map(end).collect()
    }

    /// The file for the next batch: it is put back when that is written, and given up otherwise.
    fn file_to_write(&mut self) -> Result<FileWriter, LogError> {
        let has_room = |file: &FileWriter| file.bytes() < self.group.settings.file_bytes;
        if let Some(file) = self.file.take_if(|file| has_room(file)) {
            return Ok(file);
        }
        self.file = None;
        let host = self.group.host;
        if self.group.memory.load(self.group.places.durable(host)) != self.durable {
            return Err(LogError::Retired { host });
        }
        let (file, header) = self.create(host, self.written)?;
        // The batches are those of the file before, until there is one in this.
        self.written = Some((header.first, header.previous_batches));
        Ok(file)
    }

    /// Makes a file of a host's log, which begins with a header. `written` is what the same logger
    /// has written of it.
    fn create(
        &self,
        host: u8,
        written: Option<(u32, u32)>,
    ) -> Result<(FileWriter, Header), LogError> {
        let (session, epoch) = (self.group.session(), self.group.epoch());
        let start = self.next_number(session, host)?;
        let header = |number| {
            let (first, previous_batches) = written.unwrap_or((number, 0));
            Header { session, epoch, host, number, first, previous_batches }
        };
        for header in (start..start + NUMBERS).map(header) {
            match FileWriter::create(&self.storage, header.name()) {
                // Another host writes a file of the same log.
                Err(LogError::Storage { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(mut file) => {
                    file.push(HEADER, &header.encode());
                    return Ok((file, header));
                }
            }
        }
        let source = io::ErrorKind::AlreadyExists.into();
        Err(source).during("create", &header(start).name())
    }

    /// The number after that of all files of a host's log.
    fn next_number(&self, session: u64, host: u8) -> Result<u32, LogError> {
        let names = self.storage.list().during("list the files beside", "log-*")?;
        let of_host = names.iter().filter_map(|name| parse_name(name));
        let numbers = of_host.filter(|&(s, h, _)| (s, h) == (session, host)).map(|(_, _, n)| n);
        Ok(numbers.max().map_or(0, |number| number + 1))
    }

    /// Writes a batch to this host's file.
    fn write(&mut self, ends: &Ends, epoch: u64, is_last: bool) -> Result<(), LogError> {
        let mut file = self.file_to_write()?;
        let sync = self.group.memory.keeps(sites::FLUSH_SYNC);
        let since = self.group.memory.uptime();
        let written = self.fill(&mut file, (self.group.host, ends), (epoch, is_last), sync);
        let now = self.group.memory.uptime();
        match written {
            Ok(bytes) => self.bytes += bytes,
            Err(error) => {
                self.retry_at = now + RETRY;
                return Err(error);
            }
        }
        let took = now.saturating_sub(since).as_nanos() as u64;
        self.sync_ns.record(took).expect("a histogram grows to any value");
        self.written = self.written.map(|(first, _)| (first, file.batches()));
        self.file = Some(file);
        Ok(())
    }

    /// Writes the records in a host's buffers to a file, and a mark. Returns the batch's bytes.
    /// After an error the file is gone, unless an earlier batch is in it.
    fn fill(
        &self,
        file: &mut FileWriter,
        (host, ends): (u8, &Ends),
        (epoch, is_last): (u64, bool),
        sync: bool,
    ) -> Result<u64, LogError> {
        let written = collect(&self.group, host, ends, file).and_then(|()| {
            let (known, hosts) = (self.group.durable_epoch(), self.group.loggers());
            file.push(MARK, &Mark { epoch, known, hosts, is_last }.encode());
            file.commit(&self.storage, sync)
        });
        if written.is_err() && file.batches() == 0 {
            // A disk that is full is not to be filled with names.
            let _ = self.storage.remove(file.name());
        }
        written
    }

    /// Says up to which epoch this host's log is durable, or [`IDLE`] if it leaves.
    fn set_durable(&mut self, epoch: u64) -> Result<(), LogError> {
        let (memory, host) = (&self.group.memory, self.group.host);
        let word = self.group.places.durable(host);
        memory
            .compare_exchange(sites::FLUSH_RETIRED, word, self.durable, epoch)
            .map_err(|_| LogError::Retired { host })?;
        self.durable = epoch;
        self.group.set_own(epoch);
        Ok(())
    }

    /// The written parts of a host's buffers may be used again.
    fn free(&self, host: u8, ends: &Ends) {
        for (worker, &(from, to)) in ends.iter().enumerate() {
            if from < to {
                let word = self.group.places.flushed(host, worker as u16);
                self.group.memory.store(word, to);
            }
        }
    }

    /// Ends this host's log: it takes no part in the durable epoch any more. No worker of the host
    /// runs a transaction. Blocks while the file is synchronised.
    ///
    /// # Errors
    /// As of [`tick`](Self::tick).
    pub fn leave(mut self) -> Result<(), LogError> {
        self.flush()?;
        self.write(&Ends::new(), self.group.epoch(), true)?;
        self.set_durable(IDLE)
    }

    /// Writes out what a dead host has left in its buffers, and retires its logger: the durable
    /// epoch does not wait for it any more. Whether there was anything to do. The host is fenced,
    /// and does nothing to shared memory any more. Several hosts may do this at once, or one after
    /// the other if one dies. Blocks while the file is synchronised.
    ///
    /// # Errors
    /// That the storage fails, or a buffer is damaged.
    pub fn drain(&mut self, host: u8) -> Result<bool, LogError> {
        let (memory, places) = (&self.group.memory, &self.group.places);
        let ends = self.ends(host);
        let is_filled = ends.iter().any(|(flushed, filled)| filled > flushed);
        let has_logger = memory.load(places.durable(host)) != IDLE;
        if is_filled || has_logger {
            let (mut file, _) = self.create(host, None)?;
            for (worker, &(from, to)) in ends.iter().enumerate() {
                // Written by another host: what this one's caches hold may be older.
                memory.consume(sites::DRAIN_INVALIDATE, |_| {
                    ((), places.pieces(host, worker as u16, from, to.saturating_sub(from)))
                });
            }
            let (mark, sync) = ((self.group.epoch(), true), memory.keeps(sites::DRAIN_SYNC));
            let bytes = self.fill(&mut file, (host, &ends), mark, sync)?;
            self.free(host, &ends);
            self.bytes += bytes;
        }
        self.group.retire(host);
        Ok(is_filled || has_logger)
    }

    /// This logger's counters since it began.
    pub fn metrics(&self) -> LogMetrics {
        LogMetrics {
            bytes: self.bytes,
            syncs: self.sync_ns.len(),
            sync_p99: Duration::from_nanos(self.sync_ns.value_at_quantile(0.99)),
            epochs_behind: (self.group.epoch() - 1).saturating_sub(self.durable),
        }
    }

    /// Where its files lie.
    pub fn storage(&self) -> &S {
        &self.storage
    }
}

/// Adds the records in a host's buffers to a file's next batch.
fn collect<M: Memory>(
    group: &GroupCommit<M>,
    host: u8,
    ends: &Ends,
    file: &mut FileWriter,
) -> Result<(), LogError> {
    let (memory, places) = (&group.memory, &group.places);
    let since = memory.moment();
    let mut buffer = Vec::new();
    for (worker, &(from, to)) in (0..).zip(ends) {
        let damaged = |position| LogError::Buffer { host, worker, position };
        if to < from || to - from > places.layout.buffer_bytes {
            return Err(damaged(from));
        }
        buffer.clear();
        for lines in places.pieces(host, worker, from, to - from) {
            memory.append(lines.start(), lines.bytes(), &mut buffer);
            memory.relies_on(lines.start(), lines.bytes(), since);
        }
        let mut at = 0;
        while at < buffer.len() {
            let (_, bytes) =
                Record::decode(&buffer[at..]).ok_or_else(|| damaged(from + at as u64))?;
            file.push(RECORD, &buffer[at..at + bytes]);
            at += bytes.next_multiple_of(LINE_BYTES as usize);
        }
    }
    Ok(())
}
