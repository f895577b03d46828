//! A transaction's part at one home: its *branch*.
//!
//! A branch knows which rows the transaction has locked or read there. It is the same for
//! transactions of the home's own workers, which use it directly, and for those of other hosts,
//! which send requests.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use tombolo_database::log::{self, GroupCommit};
use tombolo_database::{
    Conflict, Direction, Locks, MAX_KEY_WORDS, Mode, OrderedKey, TxError, Version,
};
use tombolo_memory::{Memory, Work};

use crate::message::{Change, Found, Place, ScanEnd, Stretch};
use crate::partition::{Content, Lease, Partition, Row};
use crate::protocol::Protocol;
use crate::sites;
use crate::tables::Tables;

/// The parts of the host's database that a branch works with.
pub(crate) struct Ground<'a, M: Memory> {
    pub(crate) memory: &'a M,
    pub(crate) group: &'a GroupCommit<M>,
    /// Whether changes are logged.
    pub(crate) is_logged: bool,
    /// Whether gaps are leased.
    pub(crate) gap_leases: bool,
    pub(crate) tables: &'a Tables<M>,
}

impl<'a, M: Memory> Ground<'a, M> {
    fn partition(&self, place: Place) -> &'a Partition<M> {
        self.tables.own(place).expect("a branch is of rows that are at home here")
    }

    /// Bytes of a row's key.
    fn key<'b>(&self, access: &Access<M>, buffer: &'b mut [u8; 8 * MAX_KEY_WORDS]) -> &'b [u8] {
        access.key.bytes(self.tables.width(access.place.table), buffer)
    }
}

/// A transaction's part at one home.
pub(crate) struct Branch<M: Memory, P> {
    /// The number of the transaction at its worker.
    transaction: u32,
    accesses: Vec<Access<M>>,
    /// Accesses by the address of their row.
    by_row: HashMap<usize, u32>,
    /// Stretches of keys that were read: leased when the transaction commits.
    gaps: Vec<(Place, Stretch)>,
    /// Rows that are to be written.
    redo: Vec<u8>,
    /// Buffers for requests, and for replies and rows.
    pub(crate) buffers: [Vec<u8>; 3],
    /// Whether it keeps an epoch from passing.
    is_pinned: bool,
    pub(crate) log: log::Worker<M>,
    protocol: PhantomData<P>,
}

/// A row that the transaction has met.
struct Access<M: Memory> {
    place: Place,
    key: OrderedKey,
    row: Arc<Row<M>>,
    held: Option<Mode>,
    seen: Lease,
    change: Staged,
}

/// The change that the commit makes to a row.
enum Staged {
    None,
    Put(Range<usize>),
    Delete,
}

/// Which row of a scan this is: its key, what is known of it, and the row.
pub(crate) type EachFound<'f> = dyn FnMut(&OrderedKey, Found, &[u8]) + 'f;

impl<M: Memory, P: Protocol> Branch<M, P> {
    pub(crate) fn new(log: log::Worker<M>) -> Self {
        Self {
            transaction: 0,
            accesses: Vec::new(),
            by_row: HashMap::new(),
            gaps: Vec::new(),
            redo: Vec::new(),
            buffers: Default::default(),
            is_pinned: false,
            log,
            protocol: PhantomData,
        }
    }

    /// Makes it the branch of transaction `number`. One that came before has ended, or has locked
    /// nothing.
    pub(crate) fn begin(&mut self, number: u32) {
        if self.transaction != number {
            self.release();
            self.transaction = number;
        }
    }

    /// Reads a row, and locks it as `mode` says where the protocol does so. If there is none, the
    /// gap where it would be is locked or noted. The row is appended to `to`.
    pub(crate) fn read(
        &mut self,
        on: &Ground<'_, M>,
        place: Place,
        key: &OrderedKey,
        mode: Mode,
        to: &mut Vec<u8>,
    ) -> Result<Found, Conflict> {
        let partition = on.partition(place);
        let rows = partition.rows.lock();
        partition.local.searches(on.memory, &rows.tree, key);
        if let Some(row) = rows.tree.get(key) {
            return self.access(on, place, *key, row, mode, to);
        }
        let (next, row) = rows.next(key, false);
        let (one, direction) = ((*key, true), Direction::Forward);
        let stretch = Stretch { lower: one, upper: one, direction, mode, limit: 1 };
        let gap_wts = self.read_gap(on, place, (next, &row), stretch)?;
        Ok(Found { lease: Lease { wts: gap_wts, rts: u64::MAX }, ..Found::default() })
    }

    /// Locks the gap before a row, or notes that a stretch that ends there was read: when the
    /// latest row was deleted from the gap.
    fn read_gap(
        &mut self,
        on: &Ground<'_, M>,
        place: Place,
        (key, row): (OrderedKey, &Arc<Row<M>>),
        stretch: Stretch,
    ) -> Result<u64, Conflict> {
        if P::LOCKS_READS {
            if on.memory.keeps(sites::GAP_LOCK) {
                self.access(on, place, key, row, Mode::Shared, &mut Vec::new())?;
            }
            return Ok(0);
        }
        if !on.gap_leases {
            return Ok(0);
        }
        self.gaps.push((place, stretch));
        Ok(row.content.lock().gap.wts)
    }

    /// Reads a row that stays where it is meanwhile.
    fn access(
        &mut self,
        on: &Ground<'_, M>,
        place: Place,
        key: OrderedKey,
        row: &Arc<Row<M>>,
        mode: Mode,
        to: &mut Vec<u8>,
    ) -> Result<Found, Conflict> {
        on.memory.works(Work::Row);
        let known = self.by_row.get(&address(row)).copied();
        let mut content = row.content.lock();
        let (mut held, lease) = (None, content.lease);
        if let Some(number) = known {
            let access = &self.accesses[number as usize];
            held = access.held;
            if !P::LOCKS_READS && access.seen.wts != lease.wts {
                return Err(Conflict::Validation);
            }
        } else if content.is_valid
            && self.gaps.iter().any(|gap| gap.0 == place && has(&gap.1, &key))
        {
            // It was not there when the stretch was read.
            return Err(Conflict::Validation);
        }
        if P::LOCKS_READS || mode == Mode::Exclusive {
            content.locks = content.locks.acquire(mode, held).ok_or(Conflict::Lock)?;
            held = held.max(Some(mode));
        }
        let number = known.unwrap_or(self.accesses.len() as u32);
        match self.accesses.get_mut(number as usize) {
            Some(access) => (access.held, access.seen) = (held, lease),
            None => self.add(place, key, row, held, lease),
        }
        let start = to.len();
        to.extend_from_slice(&content.bytes);
        on.partition(place).local.uses(on.memory, &key, false, content.bytes.len());
        let Content { is_valid, version, .. } = *content;
        Ok(Found { access: Some(number), is_valid, version, lease, row: start..to.len() })
    }

    fn add(
        &mut self,
        place: Place,
        key: OrderedKey,
        row: &Arc<Row<M>>,
        held: Option<Mode>,
        seen: Lease,
    ) {
        self.by_row.insert(address(row), self.accesses.len() as u32);
        let (row, change) = (Arc::clone(row), Staged::None);
        self.accesses.push(Access { place, key, row, held, seen, change });
    }

    /// Locks a ghost for a row that is to be inserted, or reads the row that there is.
    pub(crate) fn insert(
        &mut self,
        on: &Ground<'_, M>,
        place: Place,
        key: &OrderedKey,
        to: &mut Vec<u8>,
    ) -> Result<Found, Conflict> {
        let partition = on.partition(place);
        let mut rows = partition.rows.lock();
        partition.local.searches(on.memory, &rows.tree, key);
        if let Some(row) = rows.tree.get(key).cloned() {
            let start = to.len();
            let found = self.access(on, place, *key, &row, Mode::Shared, to)?;
            if found.is_valid {
                return Ok(found);
            }
            to.truncate(start);
            return self.access(on, place, *key, &row, Mode::Exclusive, to);
        }
        let (_, next) = rows.next(key, false);
        let held = self.by_row.get(&address(&next));
        let held = held.and_then(|&number| self.accesses[number as usize].held);
        let behind = next.content.lock();
        if P::LOCKS_READS {
            let is_free = behind.locks.acquire(Mode::Exclusive, held).is_some();
            if !on.memory.check(sites::GAP_LOCKED, is_free) {
                return Err(Conflict::Gap);
            }
        }
        let gap = behind.gap;
        drop(behind);
        let locks = Locks { readers: 0, writer: true };
        let row = Row::new(Content { locks, lease: gap, gap, ..Content::default() });
        rows.add_ghost(key, &row);
        let access = Some(self.accesses.len() as u32);
        self.add(place, *key, &row, Some(Mode::Exclusive), gap);
        Ok(Found { access, lease: gap, ..Found::default() })
    }

    /// Meets up to so many rows of a stretch, as long as `has_room` says so: rows that there are,
    /// and ghosts of this transaction.
    pub(crate) fn scan(
        &mut self,
        on: &Ground<'_, M>,
        place: Place,
        stretch: &Stretch,
        each: &mut EachFound<'_>,
        has_room: &dyn Fn() -> bool,
    ) -> Result<ScanEnd, Conflict> {
        let partition = on.partition(place);
        let rows = partition.rows.lock();
        let forward = stretch.direction == Direction::Forward;
        let (upper, with_upper) = stretch.upper;
        let mut end = ScanEnd::default();
        if !forward && P::LOCKS_READS {
            let (key, row) = rows.next(&upper, !with_upper);
            self.read_gap(on, place, (key, &row), *stretch)?;
        }
        let mut from = if forward { stretch.lower } else { stretch.upper };
        let (mut buffer, mut count) = (Vec::new(), 0);
        while count < stretch.limit && has_room() {
            partition.local.searches(on.memory, &rows.tree, &from.0);
            let next = if forward {
                rows.tree.after(&from.0, from.1)
            } else {
                rows.tree.before(&from.0, from.1)
            };
            let within = next.filter(|(key, _)| has(stretch, key));
            let Some((key, row)) = within else {
                end.is_last = true;
                break;
            };
            buffer.clear();
            end.gap_wts = end.gap_wts.max(row.content.lock().gap.wts);
            let found = self.access(on, place, key, row, stretch.mode, &mut buffer)?;
            let number = found.access.unwrap_or_default() as usize;
            if found.is_valid || self.accesses[number].held == Some(Mode::Exclusive) {
                each(&key, found, &buffer);
                count += 1;
            } else {
                end.gap_wts = end.gap_wts.max(found.lease.wts);
            }
            from = (key, false);
        }
        let mut met = *stretch;
        match (end.is_last, stretch.direction) {
            (true, _) => {}
            (false, Direction::Forward) => met.upper = (from.0, true),
            (false, Direction::Backward) => met.lower = (from.0, true),
        }
        if !P::LOCKS_READS || (forward && end.is_last) {
            let (key, row) = rows.next(&met.upper.0, !met.upper.1);
            let wts = self.read_gap(on, place, (key, &row), met)?;
            end.gap_wts = end.gap_wts.max(wts);
        }
        Ok(end)
    }

    /// Notes a change of a row that is locked for that; whether there is such a row.
    #[must_use]
    pub(crate) fn stage(&mut self, (number, row): Change<'_>) -> bool {
        let Some(access) = self.accesses.get_mut(number as usize) else { return false };
        if access.held != Some(Mode::Exclusive) {
            return false;
        }
        access.change = match row {
            None => Staged::Delete,
            Some(row) => {
                let start = self.redo.len();
                self.redo.extend_from_slice(row);
                Staged::Put(start..self.redo.len())
            }
        };
        true
    }

    /// Makes sure that the branch can commit at logical time `at`, whatever comes. If it is to be
    /// `pinned`, the home's log does not pass the present epoch until the branch ends. Calls
    /// `meanwhile` while its log has no room.
    ///
    /// # Errors
    /// A conflict; that the changes are too large for the log buffer; an error of `meanwhile`.
    pub(crate) fn prepare(
        &mut self,
        on: &Ground<'_, M>,
        at: u64,
        pinned: bool,
        meanwhile: &mut dyn FnMut() -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        if !P::LOCKS_READS {
            self.renew_leases(on, at)?;
        }
        let changed = || self.accesses.iter().filter(|a| !matches!(a.change, Staged::None));
        if changed().next().is_none() {
            return Ok(());
        }
        if on.is_logged {
            let sizes = changed().map(|access| {
                let mut buffer = [0; 8 * MAX_KEY_WORDS];
                (on.key(access, &mut buffer).len(), access.change.row().map_or(0, Range::len))
            });
            let bytes = log::record_bytes(sizes);
            self.log.reserve(bytes, meanwhile)?;
        }
        let pins = pinned && on.memory.keeps(sites::PREPARE_PIN);
        let epoch = if pins { self.log.commit_epoch() } else { on.group.epoch() };
        self.is_pinned = pins;
        let changed = self.accesses.iter().filter(|a| !matches!(a.change, Staged::None));
        for access in changed {
            if access.row.content.lock().version.next(epoch).is_none() {
                on.group.advance_past(epoch);
                return Err(Conflict::Lock.into());
            }
        }
        Ok(())
    }

    /// Makes what was read readable up to `at`, if it is still the same.
    fn renew_leases(&self, on: &Ground<'_, M>, at: u64) -> Result<(), Conflict> {
        let is_short =
            |access: &&Access<M>| matches!(access.change, Staged::None) && access.seen.rts < at;
        for access in self.accesses.iter().filter(is_short) {
            let mut content = access.row.content.lock();
            let is_same = content.lease.wts == access.seen.wts && !content.is_removed;
            if !on.memory.check(sites::LEASE_SAME, is_same) {
                return Err(Conflict::Validation);
            }
            renew(on, &mut content, access.held.is_some(), at)?;
        }
        if !on.memory.keeps(sites::LEASE_GAP) {
            return Ok(());
        }
        for (place, stretch) in &self.gaps {
            let rows = on.partition(*place).rows.lock();
            let mut next = rows.next(&stretch.lower.0, stretch.lower.1);
            while has(stretch, &next.0) {
                self.renew_gap(on, &next.1, true, at)?;
                next = rows.next(&next.0, false);
            }
            let (_, behind) = rows.next(&stretch.upper.0, !stretch.upper.1);
            self.renew_gap(on, &behind, false, at)?;
        }
        Ok(())
    }

    /// Renews the lease of the gap before a row, and that of the row itself if it is `within` what
    /// was read.
    fn renew_gap(
        &self,
        on: &Ground<'_, M>,
        row: &Arc<Row<M>>,
        within: bool,
        at: u64,
    ) -> Result<(), Conflict> {
        let mut content = row.content.lock();
        if within && !self.by_row.contains_key(&address(row)) {
            // It was not there when the stretch was read.
            if content.is_valid || content.lease.wts > at {
                return Err(Conflict::Validation);
            }
            renew(on, &mut content, false, at)?;
        }
        if content.gap.wts > at {
            return Err(Conflict::Validation);
        }
        content.gap.rts = content.gap.rts.max(at);
        Ok(())
    }

    /// Logs the changes of a branch that was prepared, makes them, and ends it.
    pub(crate) fn commit(&mut self, on: &Ground<'_, M>, epoch: u64, at: u64) {
        let changed = self.accesses.iter().filter(|a| !matches!(a.change, Staged::None));
        let changed: Vec<(&Access<M>, Version)> = changed
            .map(|access| {
                let version = access.row.content.lock().version.next(epoch);
                (access, version.expect("a branch that was prepared has versions left"))
            })
            .collect();
        if on.is_logged && !changed.is_empty() {
            let mut buffers = vec![[0; 8 * MAX_KEY_WORDS]; changed.len()];
            let keys = changed
                .iter()
                .zip(&mut buffers)
                .map(|((access, _), buffer)| on.key(access, buffer));
            let changes = changed.iter().zip(keys).map(|((access, version), key)| log::Change {
                table: access.place.table,
                partition: access.place.partition,
                key,
                version: *version,
                row: access.change.row().map(|row| &self.redo[row.clone()]),
            });
            self.log.append(epoch, changes);
        }
        for (access, version) in changed {
            let row = access.change.row().map(|row| &self.redo[row.clone()]);
            on.memory.works(Work::Change);
            let bytes = row.map_or(0, <[u8]>::len);
            on.partition(access.place).local.uses(on.memory, &access.key, true, bytes);
            let mut content = access.row.content.lock();
            content.is_valid = row.is_some();
            content.bytes = row.unwrap_or_default().into();
            (content.version, content.lease) = (version, Lease::written(at));
            drop(content);
            if row.is_none() {
                on.partition(access.place).note_ghost(&access.key, &access.row);
            }
        }
        self.is_pinned = true;
        self.release();
    }

    /// Ends it: all locks are released.
    pub(crate) fn release(&mut self) {
        for access in self.accesses.drain(..) {
            if let Some(held) = access.held {
                let mut content = access.row.content.lock();
                content.locks = content.locks.release(held);
            }
        }
        self.by_row.clear();
        self.gaps.clear();
        self.redo.clear();
        if std::mem::take(&mut self.is_pinned) {
            self.log.finish();
        }
    }
}

impl Staged {
    fn row(&self) -> Option<&Range<usize>> {
        match self {
            Self::Put(row) => Some(row),
            Self::None | Self::Delete => None,
        }
    }
}

/// Rows have addresses of their own as long as an access has them.
fn address<M: Memory>(row: &Arc<Row<M>>) -> usize {
    Arc::as_ptr(row).addr()
}

fn renew<M: Memory>(
    on: &Ground<'_, M>,
    content: &mut Content,
    is_held: bool,
    at: u64,
) -> Result<(), Conflict> {
    if content.lease.rts >= at {
        return Ok(());
    }
    if !on.memory.check(sites::LEASE_FREE, is_held || !content.locks.writer) {
        return Err(Conflict::Validation);
    }
    if on.memory.keeps(sites::LEASE_NOTED) {
        content.lease.rts = at;
    }
    Ok(())
}

/// Whether a key is within a stretch.
fn has(stretch: &Stretch, key: &OrderedKey) -> bool {
    let ((lower, with_lower), (upper, with_upper)) = (&stretch.lower, &stretch.upper);
    let above = key > lower || *with_lower && key == lower;
    above && (key < upper || *with_upper && key == upper)
}
