//! Transactions, as the worker that runs one sees it.

use std::ops::Range;

use hashbrown::HashMap;
use tombolo_database::{
    Bounds, Commit, Conflict, Direction, EachRow, MAX_KEY_WORDS, Mode, OrderedKey, Replica, Scan,
    TableId, Transaction, TxError, Version, key_width,
};
use tombolo_memory::lock_api::MutexGuard;
use tombolo_memory::{Memory, Work};

use crate::branch::Branch;
use crate::engine::{Caller, SharedNothing, strange};
use crate::message::{Found, Place, Reader, Request, ScanEnd, Stretch, put_change};
use crate::partition::Lease;
use crate::protocol::Protocol;
use crate::sites;

/// How many rows of its own host a scan locks at once.
const SCAN_BATCH: u32 = 32;

/// Bytes of a request in front of changes, at most.
const HEAD_BYTES: usize = 16;

/// Bytes of a change in front of its row.
const CHANGE_BYTES: usize = 9;

/// A transaction of a [`SharedNothing`].
pub struct Tx<'a, M: Memory, P: Protocol> {
    db: &'a SharedNothing<M, P>,
    caller: MutexGuard<'a, M::RawMutex, Caller>,
    /// The branch at this host.
    branch: MutexGuard<'a, M::RawMutex, Branch<M, P>>,
    rows: Vec<Met>,
    /// By table, partition and key.
    known: HashMap<(TableId, u32, OrderedKey), usize>,
    /// Rows that were read, and rows that are to be written.
    arena: Vec<u8>,
    /// When the latest row was deleted from gaps that were read.
    gap_wts: u64,
    /// Other homes at which the branch may have locked something, a bit for each.
    locked: u32,
    /// Other homes at which gaps were read.
    gaps: u32,
    /// Why it can only be aborted.
    failed: Option<Conflict>,
    has_ended: bool,
}

/// A row that the transaction has met.
struct Met {
    home: u8,
    /// The number of its access in the branch at its home.
    access: u32,
    mode: Mode,
    lease: Lease,
    version: Version,
    /// The bytes that were read, as a range of the arena; `None` if there is no row.
    seen: Option<Range<usize>>,
    change: Change,
}

/// The change that the commit makes to a row.
enum Change {
    None,
    Put(Range<usize>),
    Delete,
}

impl Met {
    fn is_changed(&self) -> bool {
        !matches!(self.change, Change::None)
    }

    /// The row from here on.
    fn row(&self) -> Option<&Range<usize>> {
        match &self.change {
            Change::Put(row) => Some(row),
            Change::None | Change::Delete => None,
        }
    }
}

impl<'a, M: Memory, P: Protocol> Tx<'a, M, P> {
    pub(crate) fn new(db: &'a SharedNothing<M, P>, worker: usize) -> Self {
        // An error here comes again at the commit.
        let _ = db.serve();
        db.memory().works(Work::Transaction);
        let mut caller = db.caller(worker);
        caller.transaction = caller.transaction.wrapping_add(1);
        let mut branch = db.branch(db.homes.own(), worker as u16);
        branch.begin(caller.transaction);
        Self {
            db,
            caller,
            branch,
            rows: Vec::new(),
            known: HashMap::new(),
            arena: Vec::new(),
            gap_wts: 0,
            locked: 0,
            gaps: 0,
            failed: None,
            has_ended: false,
        }
    }

    /// Commits as [`commit`](Transaction::commit) does, and says at which logical time.
    /// Transactions of [`Sundial`](crate::Sundial) might have run one after the other in the order
    /// of these times, and in that of their commits where times are equal. [`Ds2pl`](crate::Ds2pl)
    /// has no such times: 0.
    ///
    /// # Errors
    /// As of `commit`.
    pub fn commit_at(mut self) -> Result<(Commit, u64), TxError> {
        if let Some(conflict) = self.failed {
            return Err(conflict.into());
        }
        self.db.homes.check()?;
        let at = if P::LOCKS_READS { 0 } else { self.logical_time() };
        self.prepare_all(at)?;
        let epoch = self.write_all(at)?;
        Ok((Commit { epoch }, at))
    }

    /// Remembers that only abort is left, if it is a conflict. The locks of a host that has died do
    /// not go away: then that is the error.
    fn note<R>(&mut self, result: Result<R, TxError>) -> Result<R, TxError> {
        if let Err(TxError::Conflict(conflict)) = result {
            self.failed = Some(conflict);
            self.db.homes.check()?;
        }
        result
    }

    /// Where the row with `key` is, and its key; `None` for a replicated table.
    fn place(&self, table: TableId, key: &[u8]) -> Result<Option<(Place, OrderedKey)>, TxError> {
        if let Some(conflict) = self.failed {
            return Err(conflict.into());
        }
        let spec = self.db.tables.spec(table)?;
        spec.check_key(table, key)?;
        if self.db.tables.replica(table).is_some() {
            return Ok(None);
        }
        let partition = spec.partition_of(key, self.db.tables.partitions());
        let key = OrderedKey::new(key, key_width(spec.key_bytes));
        Ok(Some((Place { table, partition }, key)))
    }

    fn place_to_change(&self, table: TableId, key: &[u8]) -> Result<(Place, OrderedKey), TxError> {
        self.place(table, key)?.ok_or(TxError::ReadOnly { table })
    }

    /// Asks another home, and waits for the reply.
    fn call(&mut self, home: u8, request: &Request<'_>, locks: bool) -> Result<(), TxError> {
        if locks || P::LOCKS_READS {
            self.locked |= 1 << home;
        }
        self.db.post(&mut self.caller, home, request)?;
        let outcome = self.db.outcome(&mut self.caller, home);
        self.note(outcome)
    }

    /// Asks a home for one row: what is known of it, and where the arena has it.
    fn ask(
        &mut self,
        home: u8,
        request: &Request<'_>,
        is_exclusive: bool,
    ) -> Result<Found, TxError> {
        if home == self.db.homes.own() {
            let (on, to) = (self.db.ground(), &mut self.arena);
            let found = match *request {
                Request::Read(place, ref key, mode) => self.branch.read(&on, place, key, mode, to),
                Request::Insert(place, ref key) => self.branch.insert(&on, place, key, to),
                _ => unreachable!("a request for one row"),
            };
            return self.note(found.map_err(TxError::Conflict));
        }
        self.call(home, request, is_exclusive)?;
        let reply = &self.caller.reply[1..];
        let mut found = Reader::new(reply).found().ok_or_else(|| strange(home))?;
        let start = self.arena.len();
        self.arena.extend_from_slice(&reply[found.row]);
        found.row = start..self.arena.len();
        Ok(found)
    }

    /// Reads a row: its number, if there is one or its place is kept.
    fn reach(
        &mut self,
        place: Place,
        key: OrderedKey,
        mode: Mode,
    ) -> Result<Option<usize>, TxError> {
        let known = self.known.get(&(place.table, place.partition, key)).copied();
        if let Some(number) = known.filter(|&number| self.rows[number].mode >= mode) {
            return Ok(Some(number));
        }
        let home = self.db.tables.home_of(place.partition);
        let request = Request::Read(place, key, mode);
        let found = self.ask(home, &request, mode == Mode::Exclusive)?;
        self.add(home, place, key, found, mode)
    }

    /// Notes what was found of a row: its number, unless there is none.
    ///
    /// # Errors
    /// A conflict, if it has changed since it was read first.
    fn add(
        &mut self,
        home: u8,
        place: Place,
        key: OrderedKey,
        found: Found,
        mode: Mode,
    ) -> Result<Option<usize>, TxError> {
        let Found { access, is_valid, version, lease, row } = found;
        let Some(access) = access else {
            self.gap_wts = self.gap_wts.max(lease.wts);
            self.gaps |= 1 << home;
            return Ok(None);
        };
        let id = (place.table, place.partition, key);
        if let Some(&number) = self.known.get(&id) {
            // The row's home compares versions of one row. But the row that was read may have been
            // swept as a ghost, and this be another one with its key.
            let met = &mut self.rows[number];
            let is_same = is_valid == met.seen.is_some() && (!is_valid || version == met.version);
            if !is_same {
                return self.note(Err(Conflict::Validation.into()));
            }
            (met.access, met.mode, met.lease) = (access, met.mode.max(mode), lease);
            return Ok(Some(number));
        }
        let (seen, change) = (is_valid.then_some(row), Change::None);
        self.known.insert(id, self.rows.len());
        self.rows.push(Met { home, access, mode, lease, version, seen, change });
        Ok(Some(self.rows.len() - 1))
    }

    /// A row with this transaction's changes.
    fn current(&self, number: usize) -> Option<Range<usize>> {
        let met = &self.rows[number];
        if met.is_changed() { met.row().cloned() } else { met.seen.clone() }
    }

    fn put(&mut self, number: usize, row: &[u8]) {
        let start = self.arena.len();
        self.arena.extend_from_slice(row);
        self.rows[number].change = Change::Put(start..self.arena.len());
    }

    fn read(&mut self, table: TableId, key: &[u8], mode: Mode) -> Result<Option<&[u8]>, TxError> {
        let Some((place, ordered)) = self.place(table, key)? else {
            let width = self.db.tables.width(table);
            let replica = self.db.tables.replica(table);
            let height = replica.map_or(0, Replica::height);
            (0..height).for_each(|_| self.db.memory().works(Work::Node));
            return Ok(replica.and_then(|replica| replica.get(&OrderedKey::new(key, width))));
        };
        let Some(number) = self.reach(place, ordered, mode)? else { return Ok(None) };
        Ok(self.current(number).map(|row| &self.arena[row]))
    }

    /// The number of a row that is to be changed, if there is such a row.
    fn reach_to_change(&mut self, table: TableId, key: &[u8]) -> Result<Option<usize>, TxError> {
        let (place, key) = self.place_to_change(table, key)?;
        let number = self.reach(place, key, Mode::Exclusive)?;
        Ok(number.filter(|&number| self.current(number).is_some()))
    }

    /// The number of a row's place, which is locked unless there is a row.
    fn reach_to_insert(&mut self, place: Place, key: OrderedKey) -> Result<usize, TxError> {
        let known = self.known.get(&(place.table, place.partition, key)).copied();
        let met = known.map(|number| (number, self.current(number), self.rows[number].mode));
        if let Some((number, row, mode)) = met
            && (row.is_some() || mode == Mode::Exclusive)
        {
            return Ok(number);
        }
        let home = self.db.tables.home_of(place.partition);
        let found = self.ask(home, &Request::Insert(place, key), true)?;
        let mode = if found.is_valid { Mode::Shared } else { Mode::Exclusive };
        let number = self.add(home, place, key, found, mode)?;
        number.ok_or_else(|| strange(home))
    }

    /// Calls `each` for rows of one partition, and counts `left` down; whether the scan goes on.
    fn scan_partition(
        &mut self,
        place: Place,
        bounds: &Bounds,
        left: &mut usize,
        each: &mut EachRow<'_>,
    ) -> Result<bool, TxError> {
        let (home, width) =
            (self.db.tables.home_of(place.partition), self.db.tables.width(place.table));
        let Bounds { lower, upper, direction, mode } = *bounds;
        let mut stretch = Stretch { lower, upper, direction, mode, limit: 0 };
        while *left > 0 {
            stretch.limit = u32::try_from(*left).unwrap_or(u32::MAX);
            let (rows, end) = self.fetch(home, place, stretch)?;
            let last = rows.last().map(|(key, _)| *key);
            for (key, found) in rows {
                let number = self.add(home, place, key, found, mode)?;
                let row = number.and_then(|number| self.current(number));
                let Some(row) = row else { continue };
                *left -= 1;
                let mut buffer = [0; 8 * MAX_KEY_WORDS];
                if each(key.bytes(width, &mut buffer), &self.arena[row]).is_break() {
                    return Ok(false);
                }
                if *left == 0 {
                    return Ok(false);
                }
            }
            if end.is_last {
                return Ok(true);
            }
            let last = last.ok_or_else(|| strange(home))?;
            match direction {
                Direction::Forward => stretch.lower = (last, false),
                Direction::Backward => stretch.upper = (last, false),
            }
        }
        Ok(false)
    }

    /// Asks a home for rows of a stretch: the first ones, which the arena has then.
    fn fetch(
        &mut self,
        home: u8,
        place: Place,
        mut stretch: Stretch,
    ) -> Result<(Vec<(OrderedKey, Found)>, ScanEnd), TxError> {
        let mut rows = Vec::new();
        let arena = &mut self.arena;
        let end = if home == self.db.homes.own() {
            stretch.limit = stretch.limit.min(SCAN_BATCH);
            let each = &mut |key: &OrderedKey, mut found: Found, row: &[u8]| {
                let start = arena.len();
                arena.extend_from_slice(row);
                found.row = start..arena.len();
                rows.push((*key, found));
            };
            let end = self.branch.scan(&self.db.ground(), place, &stretch, each, &|| true);
            self.note(end.map_err(TxError::Conflict))?
        } else {
            let is_exclusive = stretch.mode == Mode::Exclusive;
            self.call(home, &Request::Scan(place, stretch), is_exclusive)?;
            let (reply, arena) = (&self.caller.reply[1..], &mut self.arena);
            let mut reader = Reader::new(reply);
            let end = reader.scan_end().ok_or_else(|| strange(home))?;
            while !reader.is_at_end() {
                let (key, found) = (reader.key(), reader.found());
                let (key, mut found) = key.zip(found).ok_or_else(|| strange(home))?;
                let start = arena.len();
                arena.extend_from_slice(&reply[found.row]);
                found.row = start..arena.len();
                rows.push((key, found));
            }
            end
        };
        self.gap_wts = self.gap_wts.max(end.gap_wts);
        self.gaps |= 1 << home;
        Ok((rows, end))
    }

    /// When the transaction commits: no earlier than all that it has read was written, and after
    /// all leases of what it writes.
    fn logical_time(&self) -> u64 {
        let memory = self.db.memory();
        let times = self.rows.iter().map(|met| {
            let counts = met.home != self.db.homes.own() || memory.keeps(sites::LEASE_LOCAL);
            match (met.is_changed() && memory.keeps(sites::LEASE_AFTER), counts) {
                (true, _) => met.lease.wts.max(met.lease.rts + 1),
                (false, true) => met.lease.wts,
                (false, false) => 0,
            }
        });
        times.max().unwrap_or(0).max(self.gap_wts)
    }

    /// Homes at which rows are changed, a bit for each.
    fn changed(&self) -> u32 {
        self.rows.iter().filter(|met| met.is_changed()).fold(0, |homes, met| homes | 1 << met.home)
    }

    /// Other homes whose leases end before `at`.
    fn expired(&self, at: u64) -> u32 {
        let expired = self.rows.iter().filter(|met| met.lease.rts < at);
        let rows = expired.fold(0, |homes, met| homes | 1 << met.home);
        if self.db.gap_leases { rows | self.gaps } else { rows }
    }

    /// Prepares all branches that have anything to prepare.
    fn prepare_all(&mut self, at: u64) -> Result<(), TxError> {
        let own = self.db.homes.own();
        for met in self.rows.iter().filter(|met| met.home == own && met.is_changed()) {
            let row = met.row().map(|row| &self.arena[row.clone()]);
            if !self.branch.stage((met.access, row)) {
                return Err(strange(own));
            }
        }
        let (db, mut round) = (self.db, 0);
        let meanwhile = &mut || db.serve().and_then(|()| db.homes.wait(&mut round));
        let prepared = self.branch.prepare(&db.ground(), at, false, meanwhile);
        self.note(prepared)?;
        let asked = self.changed() | if P::LOCKS_READS { 0 } else { self.expired(at) };
        let asked = asked & !(1 << own);
        for home in homes(asked) {
            self.prepare_other(home, at)?;
        }
        for home in homes(asked) {
            let outcome = db.outcome(&mut self.caller, home);
            self.note(outcome)?;
        }
        Ok(())
    }

    /// Brings a branch its changes: in one message, if they are not many.
    fn prepare_other(&mut self, home: u8, at: u64) -> Result<(), TxError> {
        let (mut changes, room) = (Vec::new(), self.db.message_bytes - HEAD_BYTES);
        for number in 0..self.rows.len() {
            let met = &self.rows[number];
            if met.home != home || !met.is_changed() {
                continue;
            }
            let (access, row) = (met.access, met.row().cloned());
            let bytes = CHANGE_BYTES + row.as_ref().map_or(0, Range::len);
            if changes.len() + bytes > room {
                self.call(home, &Request::Stage(&changes), true)?;
                changes.clear();
            }
            put_change(&mut changes, (access, row.map(|row| &self.arena[row])));
        }
        self.db.post(&mut self.caller, home, &Request::Prepare(at, &changes))
    }

    /// Commits all branches, which are prepared: the epoch.
    fn write_all(&mut self, at: u64) -> Result<u64, TxError> {
        let changed = self.changed();
        if changed == 0 {
            // It is durable when all is that it has read.
            let epoch = self.rows.iter().map(|met| met.version.epoch()).max();
            self.give_up();
            return Ok(epoch.unwrap_or(0));
        }
        // All branches keep their logs from passing the present epoch.
        let epoch = self.branch.log.commit_epoch();
        self.branch.commit(&self.db.ground(), epoch, at);
        self.has_ended = true;
        let others = changed & !(1 << self.db.homes.own());
        let (db, caller) = (self.db, &mut *self.caller);
        let mut result = Ok(());
        for home in homes(others) {
            result = result.and(db.post(caller, home, &Request::Write(epoch, at)));
        }
        for home in homes(self.locked & !others) {
            result = result.and(db.post(caller, home, &Request::Release));
        }
        for home in homes(others) {
            result = result.and(db.outcome(caller, home));
        }
        result.map(|()| epoch)
    }

    /// Releases all locks, if this has not been done.
    fn give_up(&mut self) {
        if self.has_ended || self.db.memory().is_gone() {
            return;
        }
        self.has_ended = true;
        self.branch.release();
        for home in homes(self.locked) {
            // A host has died or left, if this fails: then no lock matters any more.
            let _ = self.db.post(&mut self.caller, home, &Request::Release);
        }
    }
}

/// The homes whose bits are set.
fn homes(bits: u32) -> impl Iterator<Item = u8> {
    (0..u32::BITS as u8).filter(move |home| bits >> home & 1 == 1)
}

impl<M: Memory, P: Protocol> Transaction for Tx<'_, M, P> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.read(table, key, Mode::Shared)
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.read(table, key, Mode::Exclusive)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        self.db.tables.spec(table)?.check_row(table, row)?;
        let Some(number) = self.reach_to_change(table, key)? else { return Ok(false) };
        self.put(number, row);
        Ok(true)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        let (place, key) = self.place_to_change(table, key)?;
        self.db.tables.spec(table)?.check_row(table, row)?;
        let number = self.reach_to_insert(place, key)?;
        if self.current(number).is_some() {
            return Err(TxError::Duplicate { table });
        }
        self.put(number, row);
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        let Some(number) = self.reach_to_change(table, key)? else { return Ok(false) };
        self.rows[number].change = Change::Delete;
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
        let tables = &self.db.tables;
        let spec = tables.spec(table)?;
        let bounds = Bounds::new(table, spec, &scan)?;
        if bounds.is_empty() {
            return Ok(());
        }
        if let Some(replica) = tables.replica(table) {
            replica.scan(&bounds, scan.limit, each);
            return Ok(());
        }
        let mut partitions: Vec<u32> = spec.partitions_of(&scan, tables.partitions()).collect();
        if scan.direction == Direction::Backward {
            partitions.reverse();
        }
        let mut left = scan.limit;
        for partition in partitions {
            let place = Place { table, partition };
            if left == 0 || !self.scan_partition(place, &bounds, &mut left, each)? {
                break;
            }
        }
        Ok(())
    }

    fn commit(self) -> Result<Commit, TxError> {
        self.commit_at().map(|(commit, _)| commit)
    }

    fn abort(mut self) {
        self.give_up();
    }
}

impl<M: Memory, P: Protocol> Drop for Tx<'_, M, P> {
    fn drop(&mut self) {
        self.give_up();
    }
}
