//! Walks from row to row: each row is locked as the next one, with the gap before it.
//!
//! At home a walk has the partition's rows locked, so no row comes between. Elsewhere it locks a
//! row as the next one while the row's record is latched, its gap bit is set, and the index still
//! has it as the next one.

use std::sync::Arc;

use tombolo_database::{
    Bounds, Conflict, Direction, EachRow, MAX_KEY_WORDS, Mode, OrderedKey, TxError,
};
use tombolo_memory::Memory;

use super::{ATTEMPTS, Handle, Place, Tx, lock_other};
use crate::index::{Index, RecordAt, Side};
use crate::partition::Locked;
use crate::request::Wish;
use crate::sites;
use crate::tigon::Part;

/// How many rows a scan asks for at once.
const SCAN_BATCH: usize = 32;

/// Which lock a row is to get that a walk meets.
type ModeOf<'f> = &'f dyn Fn(&OrderedKey) -> Mode;

/// A key that is looked for: the first one behind this, or this one if the second value says so.
type From<'k> = (&'k OrderedKey, bool);

impl<'a, M: Memory> Tx<'a, M> {
    /// Locks the first row behind `from`, such that no row comes between them: its key and its
    /// access. It may be the end of the partition. If the home has to be asked, it is for so many
    /// rows more.
    pub(super) fn next(
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
                if let Some(number) =
                    self.lock_next(place, (key, at), (mode_of(&key), index), is_next)?
                {
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
                if let Some(number) =
                    self.lock_next(place, (key, at), (mode, index), |_| Ok(true))?
                {
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
        (mode, index): (Mode, &Index),
        is_next: impl FnOnce(bool) -> Result<bool, TxError>,
    ) -> Result<Option<usize>, TxError> {
        let known = self.found.get(&place.row(&key)).copied();
        let held = known.map(|number| self.accesses[number].mode);
        let (start, mode) = (self.arena.len(), held.map_or(mode, |held| held.max(mode)));
        let kept = place.kept(&self.db.cat, index);
        let locked = lock_other(self.db, &mut self.arena, (at, kept), (mode, held), is_next)?;
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
                let handle = Handle::Other(at, kept);
                Ok(Some(self.add(place, key, handle, mode, (seen, version))))
            }
        }
    }

    /// Calls `each` for rows of one partition, and counts `left` down; whether the scan goes on.
    pub(super) fn scan_partition(
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
                if self.leaves_gap(place) && !self.goes_on(place, (&from, or_equal), scan) {
                    return Ok(true);
                }
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

    /// Whether the next row of this home is within the scan.
    fn goes_on(&self, place: Place<'a, M>, (from, or_equal): From<'_>, scan: &Bounds) -> bool {
        let Part::Own(partition) = place.part else { return true };
        let rows = partition.rows.lock();
        rows.tree.after(from, or_equal).is_some_and(|(key, _)| scan.has(&key))
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
}
