//! The cross-host active tuples (CAT): records in SCR and rows in LNR, and how they are read and
//! written.
//!
//! A row in LNR is kept coherent by software, under its record's latch. A host's bit in the record
//! says that its caches hold the row as it is. A reader whose bit is clear drops the row's lines,
//! after it has the latch, and sets the bit. A writer cleans the row before it releases the latch,
//! and clears the bits of all others. (Tigon paper, section 3.2.)
//!
//! Invariants:
//! * Readers store nothing in LNR.
//! * A record, a row or a node that is taken away is used again only when every transaction that
//!   may know of it has ended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_database::hosts::Homes;
use tombolo_database::log::GroupCommit;
use tombolo_database::{TxError, Version};
use tombolo_memory::{HostMutex, Memory};
use tombolo_pod::Heap;

use crate::index::RecordAt;
use crate::layout::Places;
use crate::record::Record;
use crate::row::{HEAD_BYTES, Slot, decode_head, encode_head};
use crate::scr_row;
use crate::sites;
use crate::variant::{Coherence, Variant};

/// Memory that is to be used again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retired {
    /// A cell of SCR.
    Scr { at: u64, bytes: u64 },
    /// A shared row.
    Row(Slot),
}

pub(crate) struct Cat<M: Memory> {
    pub(crate) homes: Homes<M>,
    places: Places,
    /// This host's own.
    pub(crate) home: u8,
    pub(crate) variant: Variant,
    pub(crate) group: Arc<GroupCommit<M>>,
    scr: Heap<M>,
    rows: Heap<M>,
    /// The memory that is to be freed, and the epoch in which it was taken away.
    retired: HostMutex<M, VecDeque<(u64, Retired)>>,
    /// Bytes of SCR among that.
    retired_scr: AtomicU64,
    /// Records of rows that this host has shared.
    records: AtomicU64,
    /// Lines of rows that this host has invalidated, and cleaned.
    invalidated_lines: AtomicU64,
    cleaned_lines: AtomicU64,
}

impl<M: Memory> Cat<M> {
    pub(crate) fn new(
        homes: Homes<M>,
        places: Places,
        group: Arc<GroupCommit<M>>,
        variant: Variant,
    ) -> Self {
        let (memory, home) = (homes.memory(), homes.own());
        let share = f64::from(home) / f64::from(places.shape.homes);
        Self {
            scr: Heap::new(memory, places.scr_heap, home, share),
            rows: Heap::new(memory, places.lnr_heap, home, share),
            retired: HostMutex::<M, _>::new(VecDeque::new()),
            retired_scr: AtomicU64::new(0),
            records: AtomicU64::new(0),
            invalidated_lines: AtomicU64::new(0),
            cleaned_lines: AtomicU64::new(0),
            homes,
            places,
            home,
            variant,
            group,
        }
    }

    pub(crate) fn memory(&self) -> &M {
        self.homes.memory()
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Takes the latch of a record.
    ///
    /// # Errors
    /// That a host of the database has died.
    #[track_caller]
    pub(crate) fn latch(&self, at: RecordAt) -> Result<Record, TxError> {
        let mut round = 0;
        loop {
            let record = Record(self.memory().load(at.word()));
            let latched = record.latched(self.home);
            if !record.is_latched()
                && self
                    .memory()
                    .compare_exchange(sites::LATCH_TAKE, at.word(), record.0, latched.0)
                    .is_ok()
            {
                return Ok(record);
            }
            self.homes.wait(&mut round)?;
        }
    }

    /// Releases a latch that this thread holds; the record is `record` from now on.
    pub(crate) fn release(&self, at: RecordAt, record: Record) {
        self.memory().store(at.word(), record.unlatched().0);
    }

    /// Appends the row of a record to `to`, while this thread holds its latch: its version, and the
    /// record, which says that this host's caches are current.
    #[track_caller]
    pub(crate) fn read(&self, record: Record, slot: Slot, to: &mut Vec<u8>) -> (Version, Record) {
        let coherence = self.variant.coherence;
        if coherence == Coherence::Hardware {
            return (scr_row::read(self.memory(), slot, to), record);
        }
        let memory = self.memory();
        let since = memory.moment();
        let stale = coherence == Coherence::Uncached || !record.is_current(self.home);
        let alone = stale && coherence == Coherence::OneReader;
        let record = if alone { record.without_current() } else { record };
        if stale {
            self.invalidated_lines.fetch_add(slot.lines().count(), Ordering::Relaxed);
        }
        memory.consume(sites::ROW_INVALIDATE, |_| ((), stale.then(|| slot.lines())));
        let mut head = [0; HEAD_BYTES];
        memory.read(slot.at(), &mut head);
        let (version, length) = decode_head(&head, slot);
        memory.append(slot.at().plus(HEAD_BYTES as u64), length as u64, to);
        memory.relies_on(slot.at(), (HEAD_BYTES + length) as u64, since);
        (version, record.with_current(self.home))
    }

    /// Writes the row of a record while this thread holds its latch, and releases it: the record is
    /// `record` from then on, but that this host's caches alone are current.
    #[track_caller]
    pub(crate) fn write(
        &self,
        at: RecordAt,
        record: Record,
        slot: Slot,
        version: Version,
        row: &[u8],
    ) {
        let memory = self.memory();
        if self.variant.coherence == Coherence::Hardware {
            scr_row::write(memory, slot, version, row);
            return self.release(at, record);
        }
        memory.takes(slot.lines());
        let record = self.written(record);
        self.put(slot, version, row, |_| self.release(at, record));
    }

    /// A record whose row this host has just written.
    fn written(&self, record: Record) -> Record {
        let alone =
            if self.memory().keeps(sites::ROW_ALONE) { record.without_current() } else { record };
        alone.with_current(self.home)
    }

    /// Writes a row into a slot that no other host knows, and makes a record of it.
    pub(crate) fn make(
        &self,
        at: RecordAt,
        record: Record,
        slot: Slot,
        version: Version,
        row: &[u8],
    ) {
        if self.variant.coherence == Coherence::Hardware {
            scr_row::write(self.memory(), slot, version, row);
            return self.memory().store(at.word(), record.0);
        }
        self.memory().takes_blank(slot.lines());
        let record = record.with_current(self.home);
        self.put(slot, version, row, |memory| memory.store(at.word(), record.0));
    }

    fn put(&self, slot: Slot, version: Version, row: &[u8], announce: impl FnOnce(&M)) {
        let memory = self.memory();
        memory.write(slot.at(), &encode_head(version, row.len()));
        memory.write(slot.at().plus(HEAD_BYTES as u64), row);
        let used = slot.used_lines(row.len());
        self.cleaned_lines.fetch_add(used.count(), Ordering::Relaxed);
        memory.publish(sites::ROW_CLEAN, [used], |memory| {
            memory.gives(slot.lines(), (HEAD_BYTES + row.len()) as u64);
            announce(memory);
        });
    }

    /// A cell of SCR.
    pub(crate) fn reserve_scr(&self, bytes: u64) -> Option<u64> {
        self.scr.reserve(bytes).or_else(|| {
            self.reclaim();
            self.scr.reserve(bytes)
        })
    }

    /// A cell of SCR for a record.
    pub(crate) fn reserve_record(&self) -> Option<RecordAt> {
        let at = self.reserve_scr(self.variant.record_bytes())?;
        self.records.fetch_add(1, Ordering::Relaxed);
        Some(RecordAt((at / size_of::<u64>() as u64) as u32))
    }

    /// Frees a cell that no other host knows.
    pub(crate) fn free_scr(&self, at: u64, bytes: u64) {
        self.scr.free(at, bytes);
    }

    /// Frees a record that no other host knows.
    pub(crate) fn free_record(&self, at: RecordAt) {
        self.records.fetch_sub(1, Ordering::Relaxed);
        self.free_scr(at.word().offset(), self.variant.record_bytes());
    }

    /// No way leads to this record any more.
    pub(crate) fn retire_record(&self, at: RecordAt) {
        self.records.fetch_sub(1, Ordering::Relaxed);
        self.retire(Retired::Scr { at: at.word().offset(), bytes: self.variant.record_bytes() });
    }

    /// Bytes of SCR that so many records take.
    pub(crate) fn records_bytes(&self, records: u64) -> u64 {
        records * self.variant.record_bytes()
    }

    /// Bytes of SCR that records of this host's shared rows take, of those in use.
    pub(crate) fn scr_of_records(&self) -> u64 {
        self.records_bytes(self.records.load(Ordering::Relaxed))
    }

    /// Lines of rows that this host has invalidated, and cleaned.
    pub(crate) fn flushed_lines(&self) -> (u64, u64) {
        let load = |lines: &AtomicU64| lines.load(Ordering::Relaxed);
        (load(&self.invalidated_lines), load(&self.cleaned_lines))
    }

    /// A slot for a row.
    pub(crate) fn reserve_slot(&self, bytes: u64) -> Option<Slot> {
        let at = if self.variant.coherence == Coherence::Hardware {
            self.reserve_scr(bytes)?
        } else {
            self.rows.reserve(bytes).or_else(|| {
                self.reclaim();
                self.rows.reserve(bytes)
            })?
        };
        Some(Slot { line: at / tombolo_memory::LINE_BYTES, bytes })
    }

    /// Frees a slot that no other host knows.
    pub(crate) fn free_slot(&self, slot: Slot) {
        let heap =
            if self.variant.coherence == Coherence::Hardware { &self.scr } else { &self.rows };
        heap.free(slot.at().offset(), slot.bytes);
    }

    /// As [`retire`](Self::retire), of the slot of a row.
    pub(crate) fn retire_slot(&self, slot: Slot) {
        self.retire(match self.variant.coherence {
            Coherence::Hardware => Retired::Scr { at: slot.at().offset(), bytes: slot.bytes },
            _ => Retired::Row(slot),
        });
    }

    /// Takes the lines of a slot that no host knows from this host.
    pub(crate) fn unmake(&self, slot: Slot) {
        if self.variant.coherence != Coherence::Hardware {
            self.memory().gives(slot.lines(), 0);
        }
        self.free_slot(slot);
    }

    /// Bytes of SCR that this host's shared rows take, without what is to be freed.
    pub(crate) fn scr_in_use(&self) -> u64 {
        self.scr.used_bytes().saturating_sub(self.retired_scr.load(Ordering::Relaxed))
    }

    /// No way leads to this memory any more. It is used again later.
    pub(crate) fn retire(&self, retired: Retired) {
        if let Retired::Scr { bytes, .. } = retired {
            self.retired_scr.fetch_add(bytes, Ordering::Relaxed);
        }
        let epoch = self.group.epoch();
        self.group.request(epoch);
        self.retired.lock().push_back((epoch, retired));
    }

    /// Frees what no transaction can know of any more.
    pub(crate) fn reclaim(&self) {
        let mut retired = self.retired.lock();
        if retired.is_empty() {
            return;
        }
        let oldest = self.group.oldest_active();
        while let Some(&(epoch, what)) = retired.front() {
            if !self.memory().check(sites::RECLAIM_WAIT, epoch < oldest) {
                break;
            }
            retired.pop_front();
            match what {
                Retired::Scr { at, bytes } => {
                    self.retired_scr.fetch_sub(bytes, Ordering::Relaxed);
                    self.scr.free(at, bytes);
                }
                Retired::Row(slot) => self.free_slot(slot),
            }
        }
    }
}
