//! A table's partition at its home: its rows in order, and which of them are shared.
//!
//! Invariants:
//! * The rows of a partition, and which of them are shared, change only while its rows are locked.
//! * A row is in the shared index exactly as long as its content names a record.
//! * The gap bit of a shared row is set only if no row is between it and the shared row before it.
//! * A deleted row stays as a *ghost* as long as a transaction has locked it. So the place of a row
//!   that a transaction may bring back, or has seen to be absent, does not go.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_database::{LocalRows, Locks, Mode, OrderedKey, OrderedMap, TxError, Version};
use tombolo_memory::{HostMutex, Memory};

use crate::cat::Cat;
use crate::index::{Index, RecordAt};
use crate::record::{MAX_LINES, Record, State};
use crate::row::{Content, Row, Slot};
use crate::sites;
use crate::variant::Victims;
use crate::victims::SharedRows;

/// Epochs that a ghost stays for: the thread that has asked for it may have to wait for a processor
/// before it comes to it.
const GHOST_EPOCHS: u64 = 10;

pub(crate) struct Partition<M: Memory> {
    pub(crate) index: Index,
    /// Bytes of a shared row.
    slot_bytes: u64,
    pub(crate) rows: HostMutex<M, Rows<M>>,
}

/// The rows of a partition.
pub(crate) struct Rows<M: Memory> {
    /// All rows, and behind them the end of the partition.
    pub(crate) tree: OrderedMap<Arc<Row<M>>>,
    shared: SharedRows<M>,
    /// Rows that are to be removed, if they are still ghosts.
    ghosts: VecDeque<Entry<M>>,
}

/// A row and its key.
pub(crate) type Entry<M> = (OrderedKey, Arc<Row<M>>);

/// A row's version, and the row.
pub(crate) type Committed = (Version, Box<[u8]>);

/// The outcome of locking a row.
pub(crate) enum Locked {
    /// It is locked, and was read: whether there is a row, and its version.
    Done { is_valid: bool, version: Version },
    /// Another transaction is in the way.
    Conflict,
    /// The row has moved, or is no part of its partition any more: it is to be looked up again.
    Gone,
}

/// The outcome of inserting a row.
pub(crate) enum Inserted<M: Memory> {
    /// It is there now, as a ghost.
    Made(Arc<Row<M>>),
    /// It was there, as a ghost or as a row.
    Exists,
    /// Another transaction has locked the gap.
    GapLocked,
}

/// The outcome of moving a row in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is where it was to be.
    Done,
    /// It stays, since a transaction has locked it, or it was used lately.
    Stays,
    /// There is no room.
    NoRoom,
    /// It was there before.
    Already,
}

impl<M: Memory> Partition<M> {
    pub(crate) fn new(index: Index, width: usize, slot_bytes: u64) -> Self {
        let mut tree = OrderedMap::new(width);
        tree.insert(&OrderedKey::END, Row::new(false, Version::default(), &[], Locks::default()));
        let rows = Rows { tree, shared: SharedRows::new(), ghosts: VecDeque::new() };
        Self { index, slot_bytes, rows: HostMutex::<M, _>::new(rows) }
    }

    /// A thread searches the rows for a key.
    pub(crate) fn searches(&self, memory: &M, rows: &Rows<M>, key: &OrderedKey) {
        self.local().searches(memory, &rows.tree, key);
    }

    /// A thread reads or writes a row of so many bytes.
    pub(crate) fn uses(&self, memory: &M, key: &OrderedKey, write: bool, bytes: usize) {
        self.local().uses(memory, key, write, bytes);
    }

    fn local(&self) -> LocalRows {
        LocalRows::new(self.index.root().offset())
    }

    pub(crate) fn slot(&self, record: Record) -> Slot {
        Slot { line: record.line(), bytes: self.slot_bytes }
    }

    /// Locks a row for a transaction that has it locked as `held` says, and appends it to `to`.
    #[track_caller]
    pub(crate) fn lock(
        &self,
        cat: &Cat<M>,
        (key, row): (&OrderedKey, &Row<M>),
        (wanted, held): (Mode, Option<Mode>),
        to: &mut Vec<u8>,
    ) -> Result<Locked, TxError> {
        let mut content = row.content.lock();
        if content.is_removed {
            return Ok(Locked::Gone);
        }
        let Some(at) = content.shared else {
            let Some(locks) = content.locks.acquire(wanted, held) else {
                return Ok(Locked::Conflict);
            };
            content.locks = locks;
            to.extend_from_slice(&content.bytes);
            let Content { is_valid, version, .. } = *content;
            return Ok(Locked::Done { is_valid, version });
        };
        let at = match cat.variant.shortcuts {
            true => at,
            false => self.index.get(cat, key)?.unwrap_or(at),
        };
        let record = cat.latch(at)?;
        let Some(locks) = record.locks().acquire(wanted, held) else {
            cat.release(at, record);
            return Ok(Locked::Conflict);
        };
        let record = self.refresh(cat, &mut content, record.with_locks(locks));
        cat.release(at, record);
        to.extend_from_slice(&content.bytes);
        let is_valid = record.state() == State::Valid;
        Ok(Locked::Done { is_valid, version: content.version })
    }

    /// Reads a shared row that others have written, while its record is latched: the record from
    /// then on.
    fn refresh(&self, cat: &Cat<M>, content: &mut Content, record: Record) -> Record {
        let may_differ = record.is_dirty() || !cat.variant.dirty_bit;
        if !may_differ || !cat.memory().keeps(sites::ROW_DIRTY) {
            return record;
        }
        let mut bytes = Vec::new();
        let (version, record) = cat.read(record, self.slot(record), &mut bytes);
        (content.version, content.bytes) = (version, bytes.into());
        record.with_dirty(false)
    }

    /// A row as the last transaction that changed it has left it; `None` if there is none.
    pub(crate) fn committed(
        &self,
        cat: &Cat<M>,
        row: &Row<M>,
    ) -> Result<Option<Committed>, TxError> {
        let mut content = row.content.lock();
        let mut is_valid = content.is_valid && !content.is_removed;
        if let Some(at) = content.shared {
            let record = cat.latch(at)?;
            let record = self.refresh(cat, &mut content, record);
            is_valid = record.state() == State::Valid;
            cat.release(at, record);
        }
        Ok(is_valid.then(|| (content.version, content.bytes.clone())))
    }

    /// Releases a transaction's lock on a row.
    pub(crate) fn unlock(&self, cat: &Cat<M>, row: &Row<M>, held: Mode) -> Result<(), TxError> {
        let mut content = row.content.lock();
        match content.shared {
            None => content.locks = content.locks.release(held),
            Some(at) => {
                let record = cat.latch(at)?;
                cat.release(at, record.with_locks(record.locks().release(held)));
            }
        }
        Ok(())
    }

    /// Writes a row that a transaction has locked, or makes a ghost of it, and releases the lock.
    pub(crate) fn write(
        &self,
        cat: &Cat<M>,
        row: &Row<M>,
        version: Version,
        bytes: Option<&[u8]>,
    ) -> Result<(), TxError> {
        let mut content = row.content.lock();
        content.version = version;
        content.bytes = bytes.unwrap_or_default().into();
        let locks = |locks: Locks| locks.release(Mode::Exclusive);
        match content.shared {
            None => {
                content.is_valid = bytes.is_some();
                content.locks = locks(content.locks);
            }
            Some(at) => {
                let record = cat.latch(at)?;
                let state = if bytes.is_some() { State::Valid } else { State::Ghost };
                let record = record.with_state(state).with_locks(locks(record.locks()));
                // The home's own copy is as new.
                let record = record.with_dirty(false);
                cat.write(at, record, self.slot(record), content.version, &content.bytes);
            }
        }
        Ok(())
    }

    /// Puts a ghost in the place of the row with `key`, for a transaction that has locked the next
    /// row as `held` says.
    pub(crate) fn insert(
        &self,
        cat: &Cat<M>,
        rows: &mut Rows<M>,
        key: &OrderedKey,
        held: Option<Mode>,
        locks: Locks,
    ) -> Result<Inserted<M>, TxError> {
        if rows.tree.get(key).is_some() {
            return Ok(Inserted::Exists);
        }
        let (_, next) = rows.next(key);
        if !self.open_gap(cat, &next, held)? {
            return Ok(Inserted::GapLocked);
        }
        let row = Row::new(false, Version::default(), &[], locks);
        row.content.lock().stays_until = cat.group.epoch() + GHOST_EPOCHS;
        rows.tree.insert(key, Arc::clone(&row));
        rows.ghosts.push_back((*key, Arc::clone(&row)));
        Ok(Inserted::Made(row))
    }

    /// Whether a row may be inserted before `next`, which is told that there is a gap before it.
    fn open_gap(&self, cat: &Cat<M>, next: &Row<M>, held: Option<Mode>) -> Result<bool, TxError> {
        let content = next.content.lock();
        let is_free = |locks: Locks| {
            let free =
                locks.acquire(Mode::Exclusive, held).is_some() || !cat.variant.next_key_locks;
            cat.memory().check(sites::GAP_LOCKED, free)
        };
        let Some(at) = content.shared else { return Ok(is_free(content.locks)) };
        let record = cat.latch(at)?;
        let free = is_free(record.locks());
        let opens = free && cat.memory().keeps(sites::GAP_INSERT);
        cat.release(at, if opens { record.with_gap_closed(false) } else { record });
        Ok(free)
    }

    /// Shares a row: its record and its lines first, the entry of the index last.
    pub(crate) fn move_in(
        &self,
        cat: &Cat<M>,
        rows: &mut Rows<M>,
        key: &OrderedKey,
        row: &Arc<Row<M>>,
    ) -> Result<Moved, TxError> {
        let closes_gap = match rows.tree.before(key, false) {
            None => true,
            Some((_, before)) => before.content.lock().shared.is_some(),
        };
        let mut content = row.content.lock();
        if content.shared.is_some() {
            return Ok(Moved::Already);
        }
        let Some(slot) = cat.reserve_slot(self.slot_bytes) else { return Ok(Moved::NoRoom) };
        debug_assert!(slot.line < MAX_LINES);
        let Some(record_at) = cat.reserve_record() else {
            cat.free_slot(slot);
            return Ok(Moved::NoRoom);
        };
        let state = if content.is_valid { State::Valid } else { State::Ghost };
        let keeps = cat.memory().keeps(sites::MOVE_LOCKS);
        let locks = if keeps { content.locks } else { Locks::default() };
        let record = Record::new(slot.line, state, locks).with_gap_closed(closes_gap);
        cat.make(record_at, record.with_used(true), slot, content.version, &content.bytes);
        let usage = self.index.usage(cat);
        usage.map_or(Ok(()), |usage| usage.add(cat, record_at))?;
        if !self.index.insert(cat, key, record_at) {
            usage.map_or(Ok(()), |usage| usage.remove(cat, record_at))?;
            cat.free_record(record_at);
            cat.unmake(slot);
            return Ok(Moved::NoRoom);
        }
        content.shared = Some(record_at);
        drop(content);
        rows.shared.add(usage.map(|_| record_at), (*key, Arc::clone(row)));
        self.set_gap(cat, rows, key, true)?;
        Ok(Moved::Done)
    }

    /// Takes a row back, unless it is in use: the entry of the index goes first, then the record.
    fn move_out(
        &self,
        cat: &Cat<M>,
        rows: &Rows<M>,
        key: &OrderedKey,
        row: &Row<M>,
        spares_used: bool,
    ) -> Result<Moved, TxError> {
        let memory = cat.memory();
        let mut content = row.content.lock();
        let Some(at) = content.shared else { return Ok(Moved::Done) };
        let record = cat.latch(at)?;
        let is_free = memory.check(sites::MOVE_UNLOCKED, record.locks().is_free());
        if !is_free || (record.is_used() && spares_used) {
            cat.release(at, record.with_used(false));
            return Ok(Moved::Stays);
        }
        if memory.keeps(sites::GAP_MOVE) {
            self.set_gap(cat, rows, key, false)?;
        }
        content.is_valid = record.state() == State::Valid;
        content.locks = Locks::default();
        let dirty = record.is_dirty() && memory.keeps(sites::MOVE_BACK);
        let record = if dirty { self.refresh(cat, &mut content, record) } else { record };
        content.shared = None;
        self.index.remove(cat, key);
        self.index.usage(cat).map_or(Ok(()), |usage| usage.remove(cat, at))?;
        let slot = self.slot(record);
        let freed =
            if memory.keeps(sites::MOVE_FREE) { record.with_state(State::Free) } else { record };
        cat.release(at, freed);
        cat.retire_record(at);
        cat.retire_slot(slot);
        Ok(Moved::Done)
    }

    /// Tells the row behind `key`, if it is shared, whether a row is between it and the shared one
    /// before it.
    fn set_gap(
        &self,
        cat: &Cat<M>,
        rows: &Rows<M>,
        key: &OrderedKey,
        closed: bool,
    ) -> Result<(), TxError> {
        let Some((_, next)) = rows.tree.after(key, false) else { return Ok(()) };
        let content = next.content.lock();
        if let Some(at) = content.shared {
            let record = cat.latch(at)?;
            cat.release(at, record.with_gap_closed(closed));
        }
        Ok(())
    }

    /// Moves the row out whose turn it is, or the next one that can; whether there was one.
    pub(crate) fn move_one_out(&self, cat: &Cat<M>) -> Result<bool, TxError> {
        let mut rows = self.rows.lock();
        let usage = self.index.usage(cat);
        let spares_used = cat.variant.victims == Victims::Clock;
        for _ in 0..2 * rows.shared.len() {
            let Some((at, (key, row))) = rows.shared.take_next(cat, usage)? else { break };
            if row.content.lock().shared.is_none() {
                continue;
            }
            if self.move_out(cat, &rows, &key, &row, spares_used)? == Moved::Done {
                if !row.content.lock().is_valid && key != OrderedKey::END {
                    rows.ghosts.push_back((key, row));
                }
                return Ok(true);
            }
            rows.shared.add(at, (key, row));
            if let (Some(usage), Some(at)) = (usage, at) {
                usage.uses(cat, at)?;
            }
        }
        Ok(false)
    }

    /// Bytes of SCR that its shared rows take: records, and their index.
    pub(crate) fn scr_bytes(&self, cat: &Cat<M>) -> u64 {
        let _unchanged = self.rows.lock();
        let (nodes, entries) = self.index.count(cat.memory());
        nodes * self.index.node_bytes() + cat.records_bytes(entries)
    }

    /// A row that was deleted, or that a transaction has not inserted after all, is looked at
    /// later.
    pub(crate) fn note_ghost(&self, key: &OrderedKey, row: &Arc<Row<M>>) {
        self.rows.lock().ghosts.push_back((*key, Arc::clone(row)));
    }

    /// Removes up to `most` ghosts, and looks at as many shared rows for others: hosts that delete
    /// a row of another home leave a ghost.
    pub(crate) fn sweep(&self, cat: &Cat<M>, most: usize) -> Result<(), TxError> {
        let Some(mut rows) = self.rows.try_lock() else { return Ok(()) };
        for _ in 0..most.min(rows.ghosts.len()) {
            let Some((key, row)) = rows.ghosts.pop_front() else { break };
            if !self.remove_ghost(cat, &mut rows, &key, &row)? {
                rows.ghosts.push_back((key, row));
            }
        }
        for _ in 0..most.min(rows.shared.len()) {
            let Some((at, (key, row))) = rows.shared.take_any() else { break };
            let shared = row.content.lock().shared;
            let state = shared.map(|at| Record(cat.memory().load(at.word())).state());
            if state == Some(State::Ghost) && key != OrderedKey::END {
                rows.ghosts.push_back((key, Arc::clone(&row)));
            }
            if shared.is_some() {
                rows.shared.add(at, (key, row));
            }
        }
        Ok(())
    }

    /// Removes a row if it is a ghost that no transaction has locked; whether there is nothing more
    /// to do.
    fn remove_ghost(
        &self,
        cat: &Cat<M>,
        rows: &mut Rows<M>,
        key: &OrderedKey,
        row: &Arc<Row<M>>,
    ) -> Result<bool, TxError> {
        let mut content = row.content.lock();
        if content.is_removed {
            return Ok(true);
        }
        if let Some(at) = content.shared {
            if Record(cat.memory().load(at.word())).state() == State::Valid {
                return Ok(true);
            }
            drop(content);
            if self.move_out(cat, rows, key, row, false)? == Moved::Stays {
                return Ok(false);
            }
            content = row.content.lock();
        }
        if content.is_valid {
            return Ok(true);
        }
        // The next row with this key must have a greater version.
        let stays_until = content.version.epoch().max(content.stays_until);
        let is_over = stays_until < cat.group.epoch();
        if !content.locks.is_free() || !cat.memory().check(sites::GHOST_EPOCH, is_over) {
            // Without a log no commit asks for another epoch.
            cat.group.request(stays_until);
            return Ok(false);
        }
        content.is_removed = true;
        drop(content);
        rows.tree.remove(key);
        // The gap before it and the one behind it are one now.
        let before = rows.tree.before(key, false);
        let is_shared = before.is_none_or(|(_, row)| row.content.lock().shared.is_some());
        if is_shared {
            self.set_gap(cat, rows, key, true)?;
        }
        Ok(true)
    }
}

impl<M: Memory> Rows<M> {
    /// Whether the row behind `key` is the one with this record.
    pub(crate) fn is_next(&self, key: &OrderedKey, at: RecordAt) -> bool {
        self.next(key).1.content.lock().shared == Some(at)
    }

    /// The row behind `key`, which may be the end of the partition.
    pub(crate) fn next(&self, key: &OrderedKey) -> Entry<M> {
        let (key, row) = self.tree.after(key, false).expect("a partition has an end");
        (key, Arc::clone(row))
    }
}
