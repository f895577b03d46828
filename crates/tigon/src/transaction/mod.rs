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

mod commit;
mod insert;
mod walk;

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use tombolo_database::{
    Bounds, Commit, Conflict, Direction, EachRow, Mode, OrderedKey, Scan, TableId, TableSpec,
    Transaction, TxError, Version, key_width, log,
};
use tombolo_memory::lock_api::MutexGuard;
use tombolo_memory::{Memory, Work};

use crate::cat::Cat;
use crate::index::{Index, RecordAt};
use crate::partition::{Locked, Partition};
use crate::record::State;
use crate::request::{Request, Wish};
use crate::row::{Row, Slot, slot_bytes};
use crate::sites;
use crate::tigon::{Part, Table, Tigon};
use crate::usage::Usage;

/// How often a row is looked up again that moves meanwhile.
const ATTEMPTS: usize = 64;

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
    /// The bytes that were read, as a range of the arena; `None` if there is no row.
    seen: Option<Range<usize>>,
    version: Version,
    change: Change,
}

/// How a locked row is reached.
enum Handle<'a, M: Memory> {
    /// It is at home here.
    Own(&'a Partition<M>, Arc<Row<M>>),
    /// It is shared. While it is locked, its record stays.
    Other(RecordAt, Kept),
}

/// Where rows of another home are kept.
#[derive(Clone, Copy)]
struct Kept {
    /// Bytes of a shared row.
    slot_bytes: u64,
    /// The list of shared rows by use, if there is one.
    usage: Option<Usage>,
}

/// The change that the commit makes to a row.
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

    fn kept(&self, cat: &Cat<M>, index: &Index) -> Kept {
        Kept { slot_bytes: slot_bytes(self.spec.row_bytes), usage: index.usage(cat) }
    }

    fn row(&self, key: &OrderedKey) -> (TableId, u32, OrderedKey) {
        (self.table, self.partition, *key)
    }
}

impl<'a, M: Memory> Tx<'a, M> {
    pub(crate) fn new(db: &'a Tigon<M>, worker: usize) -> Self {
        // An error here comes again at the commit.
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
        // Locks of a host that has died stay: to run this transaction again would be in vain.
        self.db.cat.homes.check().err().unwrap_or_else(|| conflict.into())
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
        if !self.db.memory().keeps(sites::GAP_LOCK) || self.leaves_gap(place) {
            return Ok(None);
        }
        let of_key = |found: &OrderedKey| if found == key { mode } else { Mode::Shared };
        let (found, number) = self.next(place, (key, true), 0, &of_key)?;
        Ok((found == *key).then_some(number))
    }

    /// Whether gaps of this place are not locked.
    fn leaves_gap(&self, place: Place<'a, M>) -> bool {
        !self.db.cat.variant.next_key_locks && matches!(place.part, Part::Own(_))
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
                    at.map(|at| Handle::Other(at, place.kept(&self.db.cat, index)))
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
        match self.lock_handle((&key, &handle), mode, None)? {
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
        let Access { key, handle, .. } = &self.accesses[number];
        let (key, handle) = (*key, handle.clone());
        match self.lock_handle((&key, &handle), mode, Some(held))? {
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
        (key, handle): (&OrderedKey, &Handle<'a, M>),
        wanted: Mode,
        held: Option<Mode>,
    ) -> Result<Locked, TxError> {
        self.db.memory().works(Work::Row);
        match handle {
            Handle::Own(partition, row) => {
                partition.lock(&self.db.cat, (key, row), (wanted, held), &mut self.arena)
            }
            Handle::Other(at, kept) => {
                let (db, arena) = (self.db, &mut self.arena);
                lock_other(db, arena, (*at, *kept), (wanted, held), |_| Ok(true))
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

    fn mode_of(&self, place: Place<'a, M>, key: &OrderedKey) -> Option<Mode> {
        self.found.get(&place.row(key)).map(|&number| self.accesses[number].mode)
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
            Self::Other(at, kept) => Self::Other(*at, *kept),
        }
    }
}

/// Locks a shared row of another home, if `may` says so while its record is latched, given whether
/// no row is between it and the shared one before it; appends the row to `arena`.
fn lock_other<M: Memory>(
    db: &Tigon<M>,
    arena: &mut Vec<u8>,
    (at, kept): (RecordAt, Kept),
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
    if let Some(usage) = kept.usage {
        usage.uses(cat, at)?;
    }
    let slot = Slot { line: record.line(), bytes: kept.slot_bytes };
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
