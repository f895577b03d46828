//! Transactions: strong strict two-phase locking without waiting, and next-key locking.
//!
//! A row is locked when it is first read, for a reader or for a writer, and all locks are released
//! when the transaction ends. A lock that another transaction is in the way of ends this one.
//! Changes are buffered until the commit, which a single host makes alone, whatever rows they are
//! of. (Tigon paper, sections 3.3 and 3.4.)
//!
//! The lock of a row is the lock of the gap before it, too. So a transaction that has found a row
//! to be absent has locked the next one, and a row is inserted only where no other transaction has
//! locked the next one. The paper holds that lock of an inserted row's neighbour to the end. Here
//! it is looked at while the gap is split, since the new row is locked from then on, and with it
//! its own gap.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use tombolo_database::{
    Bounds, Commit, Conflict, Direction, EachRow, Locks, Mode, Scan, TableId, TableSpec,
    Transaction, TxError, Version, log,
};
use tombolo_memory::lock_api::MutexGuard;
use tombolo_memory::{Memory, Work};

use crate::cat::Cat;
use crate::index::{Index, RecordAt, Side};
use crate::partition::{Inserted, Locked, Partition};
use crate::record::State;
use crate::request::{Request, Wish};
use crate::row::{Row, Slot, slot_bytes};
use crate::sites;
use crate::tigon::{Part, Table, Tigon};
use tombolo_database::{MAX_KEY_WORDS, OrderedKey, key_width};

/// How often a row is looked up again that moves meanwhile.
const ATTEMPTS: usize = 64;

/// How many rows a scan asks for at once.
const SCAN_BATCH: usize = 32;

/// A transaction of a [`Tigon`].
pub struct Tx<'a, M: Memory> {
    db: &'a Tigon<M>,
    worker: MutexGuard<'a, M::RawMutex, log::Worker<M>>,
    accesses: Vec<Access<'a, M>>,
    /// By table, partition and key: each partition has an end.
    found: HashMap<(TableId, u32, OrderedKey), usize>,
    /// Rows that were read, and rows that are to be written.
    arena: Vec<u8>,
    /// Why it can only be aborted.
    failed: Option<Conflict>,
    has_ended: bool,
}

/// A row that the transaction has locked.
struct Access<'a, M: Memory> {
    table: TableId,
    partition: u32,
    key: OrderedKey,
    handle: Handle<'a, M>,
    mode: Mode,
    /// What was read, if there is a row.
    seen: Option<Range<usize>>,
    version: Version,
    change: Change,
}

/// How a locked row is reached.
enum Handle<'a, M: Memory> {
    /// It is at home here.
    Own(&'a Partition<M>, Arc<Row<M>>),
    /// It is shared. While it is locked, its record stays.
    Other(RecordAt, u64),
}

/// What is to become of a row.
enum Change {
    None,
    Put(Range<usize>),
    Delete,
}

impl Change {
    fn row(&self) -> Option<&Range<usize>> {
        match self {
            Self::Put(row) => Some(row),
            Self::None | Self::Delete => None,
        }
    }
}

/// Where a transaction looks for rows: a partition of a table.
struct Place<'a, M: Memory> {
    table: TableId,
    spec: &'a TableSpec,
    partition: u32,
    part: &'a Part<M>,
}

impl<M: Memory> Clone for Place<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Memory> Copy for Place<'_, M> {}

impl<M: Memory> Place<'_, M> {
    fn request(&self, wish: Wish, key: OrderedKey) -> Request {
        Request { wish, table: self.table, partition: self.partition, key }
    }

    fn width(&self) -> usize {
        key_width(self.spec.key_bytes)
    }

    fn row(&self, key: &OrderedKey) -> (TableId, u32, OrderedKey) {
        (self.table, self.partition, *key)
    }
}

/// Which lock a row is to get that a walk meets.
type ModeOf<'f> = &'f dyn Fn(&OrderedKey) -> Mode;

/// A key that is looked for: the first one behind this, or this one if the second value says so.
type From<'k> = (&'k OrderedKey, bool);

impl<'a, M: Memory> Tx<'a, M> {
    pub(crate) fn new(db: &'a Tigon<M>, worker: usize) -> Self {
        // What goes wrong here goes wrong at the commit again.
        let _ = db.serve();
        db.memory().works(Work::Transaction);
        let mut worker = db.workers[worker].lock();
        worker.begin();
        Self {
            db,
            worker,
            accesses: Vec::new(),
            found: HashMap::new(),
            arena: Vec::new(),
            failed: None,
            has_ended: false,
        }
    }

    /// Where the row with `key` is; `None` for a replicated table.
    fn place(&self, table: TableId, key: &[u8]) -> Result<Option<Place<'a, M>>, TxError> {
        if let Some(conflict) = self.failed {
            return Err(conflict.into());
        }
        let (what, spec) = self.db.table(table)?;
        spec.check_key(table, key)?;
        let Table::Partitioned(parts) = what else { return Ok(None) };
        let partition = spec.partition_of(key, parts.len() as u32);
        Ok(Some(Place { table, spec, partition, part: &parts[partition as usize] }))
    }

    /// Where a row can be changed.
    fn place_to_change(&self, table: TableId, key: &[u8]) -> Result<Place<'a, M>, TxError> {
        self.place(table, key)?.ok_or(TxError::ReadOnly { table })
    }

    fn conflict(&mut self, conflict: Conflict) -> TxError {
        self.failed = Some(conflict);
        conflict.into()
    }

    /// As [`Tigon::ask`].
    fn ask(&mut self, request: Request) -> Result<bool, TxError> {
        match self.db.ask(request) {
            Err(TxError::Conflict(conflict)) => Err(self.conflict(conflict)),
            asked => asked,
        }
    }

    /// Locks the row with `key`, or if there is none the gap that it would be in: the row's access.
    fn reach(
        &mut self,
        place: Place<'a, M>,
        key: &OrderedKey,
        mode: Mode,
    ) -> Result<Option<usize>, TxError> {
        if let Some(&number) = self.found.get(&place.row(key)) {
            self.strengthen(number, mode)?;
            return Ok(Some(number));
        }
        if let Some(number) = self.reach_known(place, key, mode)? {
            return Ok(Some(number));
        }
        if !self.db.memory().keeps(sites::GAP_LOCK) {
            return Ok(None);
        }
        let of_key = |found: &OrderedKey| if found == key { mode } else { Mode::Shared };
        let (found, number) = self.next(place, (key, true), 0, &of_key)?;
        Ok((found == *key).then_some(number))
    }

    /// The same, if the row is found at once.
    fn reach_known(
        &mut self,
        place: Place<'a, M>,
        key: &OrderedKey,
        mode: Mode,
    ) -> Result<Option<usize>, TxError> {
        for _ in 0..ATTEMPTS {
            let handle = match place.part {
                Part::Own(partition) => {
                    let rows = partition.rows.lock();
                    partition.searches(self.db.memory(), &rows, key);
                    let row = rows.tree.get(key).cloned();
                    row.map(|row| Handle::Own(partition, row))
                }
                Part::Others(index) => {
                    let at = index.get(&self.db.cat, key)?;
                    at.map(|at| Handle::Other(at, slot_bytes(place.spec.row_bytes)))
                }
            };
            let Some(handle) = handle else { return Ok(None) };
            if let Some(number) = self.lock(place, *key, handle, mode)? {
                return Ok(Some(number));
            }
        }
        Err(self.conflict(Conflict::Moved))
    }

    /// Locks a row that this transaction has not locked: its access, unless the row is to be looked
    /// up again.
    fn lock(
        &mut self,
        place: Place<'a, M>,
        key: OrderedKey,
        handle: Handle<'a, M>,
        mode: Mode,
    ) -> Result<Option<usize>, TxError> {
        let start = self.arena.len();
        match self.lock_handle(&handle, mode, None)? {
            Locked::Gone => Ok(None),
            Locked::Conflict => Err(self.conflict(Conflict::Lock)),
            Locked::Done { is_valid, version } => {
                if let Handle::Own(partition, _) = &handle {
                    partition.uses(self.db.memory(), &key, false, self.arena.len() - start);
                }
                let seen = is_valid.then_some(start..self.arena.len());
                Ok(Some(self.add(place, key, handle, mode, (seen, version))))
            }
        }
    }

    /// Notes a row that was just locked: its access.
    fn add(
        &mut self,
        place: Place<'a, M>,
        key: OrderedKey,
        handle: Handle<'a, M>,
        mode: Mode,
        (seen, version): (Option<Range<usize>>, Version),
    ) -> usize {
        let number = self.accesses.len();
        self.found.insert(place.row(&key), number);
        let Place { table, partition, .. } = place;
        let change = Change::None;
        self.accesses.push(Access { table, partition, key, handle, mode, seen, version, change });
        number
    }

    /// Locks a row for a writer that was locked for a reader.
    fn strengthen(&mut self, number: usize, mode: Mode) -> Result<(), TxError> {
        let held = self.accesses[number].mode;
        if held >= mode {
            return Ok(());
        }
        let start = self.arena.len();
        let handle = self.accesses[number].handle.clone();
        match self.lock_handle(&handle, mode, Some(held))? {
            Locked::Done { .. } => {
                // It has not changed since it was locked.
                self.arena.truncate(start);
                self.accesses[number].mode = mode;
                Ok(())
            }
            Locked::Conflict | Locked::Gone => Err(self.conflict(Conflict::Lock)),
        }
    }

    fn lock_handle(
        &mut self,
        handle: &Handle<'a, M>,
        wanted: Mode,
        held: Option<Mode>,
    ) -> Result<Locked, TxError> {
        self.db.memory().works(Work::Row);
        match handle {
            Handle::Own(partition, row) => {
                partition.lock(&self.db.cat, row, (wanted, held), &mut self.arena)
            }
            Handle::Other(at, bytes) => {
                let (db, arena) = (self.db, &mut self.arena);
                lock_other(db, arena, (*at, *bytes), (wanted, held), |_| Ok(true))
            }
        }
    }

    /// Locks the first row behind `from`, such that no row comes between them: its key and its
    /// access. It may be the end of the partition. If the home has to be asked, it is for so many
    /// rows more.
    fn next(
        &mut self,
        place: Place<'a, M>,
        (from, or_equal): From<'_>,
        batch: usize,
        mode_of: ModeOf<'_>,
    ) -> Result<(OrderedKey, usize), TxError> {
        let index = match place.part {
            Part::Own(partition) => {
                let rows = partition.rows.lock();
                partition.searches(self.db.memory(), &rows, from);
                let (key, row) = rows.tree.after(from, or_equal).expect("a partition has an end");
                let handle = Handle::Own(partition, Arc::clone(row));
                return Ok((key, self.lock_in_place(place, key, handle, mode_of(&key))?));
            }
            Part::Others(index) => index,
        };
        let (cat, side) = (&self.db.cat, Side::After { or_equal });
        for _ in 0..ATTEMPTS {
            let found = index.seek(cat, from, side)?;
            if let Some((key, at)) = found {
                // While the record is latched, no row moves out between the two.
                let is_next = |closed| {
                    let memory = self.db.memory();
                    Ok(memory.check(sites::GAP_CLOSED, closed)
                        && memory.check(sites::GAP_NEXT, index.seek(cat, from, side)? == found))
                };
                if let Some(number) = self.lock_next(place, (key, at), mode_of(&key), is_next)? {
                    return Ok((key, number));
                }
            }
            self.ask(place.request(Wish::After(batch.min(SCAN_BATCH) as u32), *from))?;
        }
        Err(self.conflict(Conflict::Moved))
    }

    /// Locks the row before that of access `number`, which has the gap between them locked; `None`
    /// if it is the first one, or `mode_of` wants none.
    fn previous(
        &mut self,
        place: Place<'a, M>,
        number: usize,
        batch: usize,
        mode_of: &dyn Fn(&OrderedKey) -> Option<Mode>,
    ) -> Result<Option<(OrderedKey, usize)>, TxError> {
        let anchor = self.accesses[number].key;
        let (index, at) = match (place.part, &self.accesses[number].handle) {
            (Part::Own(partition), _) => {
                let rows = partition.rows.lock();
                partition.searches(self.db.memory(), &rows, &anchor);
                let Some((key, row)) = rows.tree.before(&anchor, false) else { return Ok(None) };
                let Some(mode) = mode_of(&key) else { return Ok(None) };
                let handle = Handle::Own(partition, Arc::clone(row));
                return Ok(Some((key, self.lock_in_place(place, key, handle, mode)?)));
            }
            (Part::Others(index), Handle::Other(at, _)) => (index, *at),
            (Part::Others(_), Handle::Own(..)) => unreachable!("a row of another home"),
        };
        let (cat, side) = (&self.db.cat, Side::Before { or_equal: false });
        for _ in 0..ATTEMPTS {
            let record = cat.latch(at)?;
            let closed = cat.memory().check(sites::GAP_CLOSED, record.closes_gap());
            let found = index.seek(cat, &anchor, side);
            cat.release(at, record);
            if closed {
                let Some((key, at)) = found? else { return Ok(None) };
                let Some(mode) = mode_of(&key) else { return Ok(None) };
                if let Some(number) = self.lock_next(place, (key, at), mode, |_| Ok(true))? {
                    return Ok(Some((key, number)));
                }
                continue;
            }
            self.ask(place.request(Wish::Before(batch.min(SCAN_BATCH) as u32), anchor))?;
        }
        Err(self.conflict(Conflict::Moved))
    }

    /// Locks a row of this home while its partition's rows are locked, so that it stays where it
    /// is.
    fn lock_in_place(
        &mut self,
        place: Place<'a, M>,
        key: OrderedKey,
        handle: Handle<'a, M>,
        mode: Mode,
    ) -> Result<usize, TxError> {
        if let Some(&number) = self.found.get(&place.row(&key)) {
            self.strengthen(number, mode)?;
            return Ok(number);
        }
        match self.lock(place, key, handle, mode)? {
            Some(number) => Ok(number),
            None => Err(self.conflict(Conflict::Moved)),
        }
    }

    /// Locks a shared row of another home that a walk has come to, if `is_next` says so while its
    /// record is latched: its access, unless it is to be looked up again.
    fn lock_next(
        &mut self,
        place: Place<'a, M>,
        (key, at): (OrderedKey, RecordAt),
        mode: Mode,
        is_next: impl FnOnce(bool) -> Result<bool, TxError>,
    ) -> Result<Option<usize>, TxError> {
        let known = self.found.get(&place.row(&key)).copied();
        let held = known.map(|number| self.accesses[number].mode);
        let (start, mode) = (self.arena.len(), held.map_or(mode, |held| held.max(mode)));
        let bytes = slot_bytes(place.spec.row_bytes);
        let locked = lock_other(self.db, &mut self.arena, (at, bytes), (mode, held), is_next)?;
        match (locked, known) {
            (Locked::Gone, _) => Ok(None),
            (Locked::Conflict, _) => Err(self.conflict(Conflict::Lock)),
            (Locked::Done { .. }, Some(number)) => {
                self.arena.truncate(start);
                self.accesses[number].mode = mode;
                Ok(Some(number))
            }
            (Locked::Done { is_valid, version }, None) => {
                let seen = is_valid.then_some(start..self.arena.len());
                let handle = Handle::Other(at, bytes);
                Ok(Some(self.add(place, key, handle, mode, (seen, version))))
            }
        }
    }

    /// The row of an access, with this transaction's changes.
    fn current(&self, number: usize) -> Option<Range<usize>> {
        let access = &self.accesses[number];
        match &access.change {
            Change::None => access.seen.clone(),
            Change::Put(row) => Some(row.clone()),
            Change::Delete => None,
        }
    }

    fn put(&mut self, number: usize, row: &[u8]) {
        let start = self.arena.len();
        self.arena.extend_from_slice(row);
        self.accesses[number].change = Change::Put(start..self.arena.len());
    }

    fn read(&mut self, table: TableId, key: &[u8], mode: Mode) -> Result<Option<&[u8]>, TxError> {
        let Some(place) = self.place(table, key)? else {
            let (Table::Replicated(replica), spec) = self.db.table(table)? else { unreachable!() };
            (0..replica.height()).for_each(|_| self.db.memory().works(Work::Node));
            return Ok(replica.get(&OrderedKey::new(key, key_width(spec.key_bytes))));
        };
        let key = OrderedKey::new(key, place.width());
        let Some(number) = self.reach(place, &key, mode)? else { return Ok(None) };
        Ok(self.current(number).map(|row| &self.arena[row]))
    }

    /// The access of a row that is to be changed, if there is such a row.
    fn reach_to_change(&mut self, table: TableId, key: &[u8]) -> Result<Option<usize>, TxError> {
        let place = self.place_to_change(table, key)?;
        let key = OrderedKey::new(key, place.width());
        let number = self.reach(place, &key, Mode::Exclusive)?;
        Ok(number.filter(|&number| self.current(number).is_some()))
    }

    /// The access, locked for a writer, of a row that may be inserted: there was none, or it is a
    /// ghost.
    fn reach_to_insert(&mut self, place: Place<'a, M>, key: &OrderedKey) -> Result<usize, TxError> {
        for _ in 0..ATTEMPTS {
            if let Some(&number) = self.found.get(&place.row(key)) {
                self.strengthen(number, Mode::Exclusive)?;
                return Ok(number);
            }
            if let Some(number) = self.reach_known(place, key, Mode::Exclusive)? {
                return Ok(number);
            }
            match place.part {
                Part::Own(partition) => {
                    if let Some(number) = self.insert_own(place, partition, key)? {
                        return Ok(number);
                    }
                }
                Part::Others(index) => self.insert_other(place, index, key)?,
            }
        }
        Err(self.conflict(Conflict::Moved))
    }

    fn insert_own(
        &mut self,
        place: Place<'a, M>,
        partition: &'a Partition<M>,
        key: &OrderedKey,
    ) -> Result<Option<usize>, TxError> {
        let mut rows = partition.rows.lock();
        partition.searches(self.db.memory(), &rows, key);
        let (next, _) = rows.next(key);
        let held = self.mode_of(place, &next);
        let locks = Locks::of(Some(Mode::Exclusive));
        match partition.insert(&self.db.cat, &mut rows, key, held, locks)? {
            Inserted::Exists => Ok(None),
            Inserted::GapLocked => Err(self.conflict(Conflict::Gap)),
            Inserted::Made(row) => {
                Ok(Some(self.add_ghost(place, key, Handle::Own(partition, row), Mode::Exclusive)))
            }
        }
    }

    fn insert_other(
        &mut self,
        place: Place<'a, M>,
        index: &Index,
        key: &OrderedKey,
    ) -> Result<(), TxError> {
        let next = index.seek(&self.db.cat, key, Side::After { or_equal: false })?;
        let held = next.and_then(|(next, at)| Some((self.mode_of(place, &next)?, at)));
        if self.ask(place.request(Wish::Ghost(held), *key))? {
            // The ghost is locked for this transaction. So its record stays.
            let at = index.get(&self.db.cat, key)?.ok_or_else(|| damaged(key))?;
            let handle = Handle::Other(at, slot_bytes(place.spec.row_bytes));
            self.add_ghost(place, key, handle, Mode::Shared);
        }
        Ok(())
    }

    fn add_ghost(
        &mut self,
        place: Place<'a, M>,
        key: &OrderedKey,
        handle: Handle<'a, M>,
        mode: Mode,
    ) -> usize {
        self.add(place, *key, handle, mode, (None, Version::default()))
    }

    fn mode_of(&self, place: Place<'a, M>, key: &OrderedKey) -> Option<Mode> {
        self.found.get(&place.row(key)).map(|&number| self.accesses[number].mode)
    }

    /// Calls `each` for rows of one partition, and counts `left` down; whether the scan goes on.
    fn scan_partition(
        &mut self,
        place: Place<'a, M>,
        scan: &Bounds,
        left: &mut usize,
        each: &mut EachRow<'_>,
    ) -> Result<bool, TxError> {
        let in_range = |key: &OrderedKey| if scan.has(key) { scan.mode } else { Mode::Shared };
        if scan.direction == Direction::Forward {
            let (mut from, mut or_equal) = scan.lower;
            while *left > 0 {
                let (key, number) = self.next(place, (&from, or_equal), *left, &in_range)?;
                if !scan.has(&key) {
                    return Ok(true);
                }
                if !self.show(place, number, left, each) {
                    return Ok(false);
                }
                (from, or_equal) = (key, false);
            }
            return Ok(false);
        }
        let (upper, included) = scan.upper;
        let (_, mut number) = self.next(place, (&upper, !included), 0, &|_| Mode::Shared)?;
        while *left > 0 {
            let mode = |key: &OrderedKey| scan.has(key).then_some(scan.mode);
            let Some((_, previous)) = self.previous(place, number, *left, &mode)? else {
                return Ok(true);
            };
            if !self.show(place, previous, left, each) {
                return Ok(false);
            }
            number = previous;
        }
        Ok(false)
    }

    /// Calls `each` if there is a row; whether the scan goes on.
    fn show(
        &self,
        place: Place<'a, M>,
        number: usize,
        left: &mut usize,
        each: &mut EachRow<'_>,
    ) -> bool {
        let Some(row) = self.current(number) else { return true };
        *left -= 1;
        let mut buffer = [0; 8 * MAX_KEY_WORDS];
        let key = self.accesses[number].key.bytes(place.width(), &mut buffer);
        each(key, &self.arena[row]).is_continue()
    }

    /// Gives each changed row its next version, and logs the changes: the epoch.
    fn log(&mut self) -> Result<u64, TxError> {
        let db = self.db;
        let changed = self.accesses.iter().enumerate();
        let changed = changed.filter(|(_, access)| !matches!(access.change, Change::None));
        let changed: Vec<usize> = changed.map(|(number, _)| number).collect();
        if changed.is_empty() {
            // It is durable when all is that it has read.
            return Ok(self
                .accesses
                .iter()
                .map(|access| access.version.epoch())
                .max()
                .unwrap_or(0));
        }
        let mut buffers = vec![[0; 8 * MAX_KEY_WORDS]; changed.len()];
        let keys = buffers.iter_mut().zip(&changed).map(|(buffer, &number)| {
            let access = &self.accesses[number];
            access.key.bytes(db.key_width(access.table), buffer)
        });
        let keys: Vec<&[u8]> = keys.collect();
        if db.is_logged {
            let sizes = changed.iter().zip(&keys).map(|(&number, key)| {
                (key.len(), self.accesses[number].change.row().map_or(0, Range::len))
            });
            let bytes = log::record_bytes(sizes);
            self.worker.reserve(bytes, || db.serve().and_then(|()| db.cat.homes.look()))?;
        }
        // All locks are held: the epochs of transactions that depend on each other are in their
        // order.
        let epoch = self.worker.commit_epoch();
        for &number in &changed {
            let version = self.accesses[number].version.next(epoch);
            let Some(version) = version else {
                db.cat.group.advance_past(epoch);
                return Err(self.conflict(Conflict::Lock));
            };
            self.accesses[number].version = version;
        }
        if db.is_logged {
            let changes = changed.iter().zip(keys).map(|(&number, key)| {
                let access = &self.accesses[number];
                log::Change {
                    table: access.table,
                    partition: access.partition,
                    key,
                    version: access.version,
                    row: access.change.row().map(|row| &self.arena[row.clone()]),
                }
            });
            self.worker.append(epoch, changes);
        }
        Ok(epoch)
    }

    /// Makes all changes, and releases all locks.
    fn apply(&mut self) -> Result<(), TxError> {
        let cat = &self.db.cat;
        for access in &self.accesses {
            if matches!(access.change, Change::None) {
                unlock(cat, &access.handle, access.mode)?;
                continue;
            }
            let row = access.change.row().map(|row| &self.arena[row.clone()]);
            cat.memory().works(Work::Change);
            match &access.handle {
                Handle::Own(partition, own) => {
                    partition.uses(cat.memory(), &access.key, true, row.map_or(0, <[u8]>::len));
                    partition.write(cat, own, access.version, row)?;
                    if row.is_none() {
                        partition.note_ghost(&access.key, own);
                    }
                }
                Handle::Other(at, bytes) => {
                    let record = cat.latch(*at)?;
                    let slot = Slot { line: record.line(), bytes: *bytes };
                    let state = if row.is_some() { State::Valid } else { State::Ghost };
                    let locks = record.locks().release(Mode::Exclusive);
                    let record = record.with_state(state).with_locks(locks).with_dirty(true);
                    let row = row.unwrap_or_default();
                    cat.write(*at, record.with_used(true), slot, access.version, row);
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.worker.finish();
    }

    /// Releases all locks, if this has not been done.
    fn give_up(&mut self) {
        if self.has_ended || self.db.memory().is_gone() {
            return;
        }
        for access in &self.accesses {
            // A host has died, if this fails: then no lock matters any more.
            let _ = unlock(&self.db.cat, &access.handle, access.mode);
        }
        self.end();
    }
}

impl<M: Memory> Clone for Handle<'_, M> {
    fn clone(&self) -> Self {
        match self {
            Self::Own(partition, row) => Self::Own(partition, Arc::clone(row)),
            Self::Other(at, bytes) => Self::Other(*at, *bytes),
        }
    }
}

/// Locks a shared row of another home, if `may` says so while its record is latched, given whether
/// no row is between it and the shared one before it; appends the row to `arena`.
fn lock_other<M: Memory>(
    db: &Tigon<M>,
    arena: &mut Vec<u8>,
    (at, bytes): (RecordAt, u64),
    (wanted, held): (Mode, Option<Mode>),
    may: impl FnOnce(bool) -> Result<bool, TxError>,
) -> Result<Locked, TxError> {
    let cat = &db.cat;
    let record = cat.latch(at)?;
    let there = cat.memory().check(sites::MOVED_AGAIN, record.state() != State::Free);
    if !there || !may(record.closes_gap())? {
        cat.release(at, record);
        return Ok(Locked::Gone);
    }
    let Some(locks) = record.locks().acquire(wanted, held) else {
        cat.release(at, record);
        return Ok(Locked::Conflict);
    };
    let slot = Slot { line: record.line(), bytes };
    let (version, record) = cat.read(record.with_locks(locks), slot, arena);
    cat.release(at, record.with_used(true));
    Ok(Locked::Done { is_valid: record.state() == State::Valid, version })
}

fn unlock<M: Memory>(cat: &Cat<M>, handle: &Handle<'_, M>, held: Mode) -> Result<(), TxError> {
    match handle {
        Handle::Own(partition, row) => partition.unlock(cat, row, held),
        Handle::Other(at, _) => {
            let record = cat.latch(*at)?;
            cat.release(*at, record.with_locks(record.locks().release(held)));
            Ok(())
        }
    }
}

fn damaged(key: &OrderedKey) -> TxError {
    TxError::Failed(format!("the shared index has lost a row that was put there: {key:?}"))
}

impl<M: Memory> Transaction for Tx<'_, M> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.read(table, key, Mode::Shared)
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.read(table, key, Mode::Exclusive)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        self.db.table(table)?.1.check_row(table, row)?;
        let Some(number) = self.reach_to_change(table, key)? else { return Ok(false) };
        self.put(number, row);
        Ok(true)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        let place = self.place_to_change(table, key)?;
        place.spec.check_row(table, row)?;
        let number = self.reach_to_insert(place, &OrderedKey::new(key, place.width()))?;
        if self.current(number).is_some() {
            return Err(TxError::Duplicate { table });
        }
        self.put(number, row);
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        let Some(number) = self.reach_to_change(table, key)? else { return Ok(false) };
        self.accesses[number].change = Change::Delete;
        Ok(true)
    }

    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        if let Some(conflict) = self.failed {
            return Err(conflict.into());
        }
        let (what, spec) = self.db.table(table)?;
        let bounds = Bounds::new(table, spec, &scan)?;
        if bounds.is_empty() {
            return Ok(());
        }
        let parts = match what {
            Table::Partitioned(parts) => parts,
            Table::Replicated(replica) => {
                replica.scan(&bounds, scan.limit, each);
                return Ok(());
            }
        };
        let (touched, mut left) = (spec.partitions_of(&scan, parts.len() as u32), scan.limit);
        let mut numbers: Vec<u32> = touched.collect();
        if scan.direction == Direction::Backward {
            numbers.reverse();
        }
        for partition in numbers {
            let place = Place { table, spec, partition, part: &parts[partition as usize] };
            if left == 0 || !self.scan_partition(place, &bounds, &mut left, each)? {
                break;
            }
        }
        Ok(())
    }

    fn commit(mut self) -> Result<Commit, TxError> {
        if let Some(conflict) = self.failed {
            self.give_up();
            return Err(conflict.into());
        }
        self.db.cat.homes.check()?;
        let epoch = self.log()?;
        self.apply()?;
        self.end();
        Ok(Commit { epoch })
    }

    fn abort(mut self) {
        self.give_up();
    }
}

impl<M: Memory> Drop for Tx<'_, M> {
    fn drop(&mut self) {
        self.give_up();
    }
}
