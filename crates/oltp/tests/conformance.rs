//! The conformance checks fail for engines that do not keep the trait's word.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_database::{
    Commit, Conflict, Direction, EachRow, Engine, Home, Scan, TableId, TableSpec, Transaction,
    TxError,
};
use tombolo_oltp::{Reference, ReferenceTransaction, conformance};

/// The fault of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    EmptyRowsAreAbsent,
    BackwardIsForward,
    LimitsAreIgnored,
    LimitsAreIgnoredBackward,
    ALimitOfZeroMeetsARow,
    ExcludedBoundsAreIncluded,
    BreaksAreIgnored,
    CrossedBoundsPanic,
    ScansEndWithTheirPartition,
    ScansMissOwnInserts,
    ScansMeetOwnDeletes,
    ScansMeetOldRows,
    LastRowIsNotMet,
    InsertOverwrites,
    InsertAfterOwnDeleteIsRefused,
    DuplicateEndsTheTransaction,
    UpdateInserts,
    UpdateOfOwnInsertIsLost,
    DeleteIsAlwaysTrue,
    DeleteOfOwnInsertIsLost,
    ReadsAreNotUpgraded,
    AbortCommits,
    DropCommits,
    LongKeysAreCut,
    LongRowsAreCut,
    NoTableIsTableZero,
    ReplicatedTablesAreWritten,
    EpochsGoBack,
    ReadersAreDurableAtOnce,
}

const ALL: [Fault; 29] = [
    Fault::EmptyRowsAreAbsent,
    Fault::BackwardIsForward,
    Fault::LimitsAreIgnored,
    Fault::LimitsAreIgnoredBackward,
    Fault::ALimitOfZeroMeetsARow,
    Fault::ExcludedBoundsAreIncluded,
    Fault::BreaksAreIgnored,
    Fault::CrossedBoundsPanic,
    Fault::ScansEndWithTheirPartition,
    Fault::ScansMissOwnInserts,
    Fault::ScansMeetOwnDeletes,
    Fault::ScansMeetOldRows,
    Fault::LastRowIsNotMet,
    Fault::InsertOverwrites,
    Fault::InsertAfterOwnDeleteIsRefused,
    Fault::DuplicateEndsTheTransaction,
    Fault::UpdateInserts,
    Fault::UpdateOfOwnInsertIsLost,
    Fault::DeleteIsAlwaysTrue,
    Fault::DeleteOfOwnInsertIsLost,
    Fault::ReadsAreNotUpgraded,
    Fault::AbortCommits,
    Fault::DropCommits,
    Fault::LongKeysAreCut,
    Fault::LongRowsAreCut,
    Fault::NoTableIsTableZero,
    Fault::ReplicatedTablesAreWritten,
    Fault::EpochsGoBack,
    Fault::ReadersAreDurableAtOnce,
];

struct Faulty {
    engine: Reference,
    fault: Fault,
}

impl Engine for Faulty {
    type Transaction<'a> = FaultyTransaction<'a>;

    fn tables(&self) -> &[TableSpec] {
        self.engine.tables()
    }

    fn partitions(&self) -> u32 {
        self.engine.partitions()
    }

    fn home(&self) -> (Home, u8) {
        self.engine.home()
    }

    fn home_of(&self, partition: u32) -> Home {
        self.engine.home_of(partition)
    }

    fn begin(&self, worker: usize) -> FaultyTransaction<'_> {
        let inner = Some(self.engine.begin(worker));
        let own = Own::default();
        FaultyTransaction { engine: self, inner, own, failed: false }
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.engine.load(table, key, row)
    }

    fn tick(&self) -> Result<(), TxError> {
        self.engine.tick()
    }

    fn durable_epoch(&self) -> u64 {
        self.engine.durable_epoch()
    }
}

/// Keys that a transaction has touched, and rows that were there before.
#[derive(Default)]
struct Own {
    read: BTreeSet<Place>,
    inserted: BTreeSet<Place>,
    updated: BTreeMap<Place, Vec<u8>>,
    deleted: BTreeMap<Place, Vec<u8>>,
}

type Place = (TableId, Vec<u8>);

struct FaultyTransaction<'a> {
    engine: &'a Faulty,
    inner: Option<ReferenceTransaction<'a>>,
    own: Own,
    failed: bool,
}

impl<'a> FaultyTransaction<'a> {
    fn is(&self, fault: Fault) -> bool {
        self.engine.fault == fault
    }

    fn inner(&mut self) -> Result<&mut ReferenceTransaction<'a>, TxError> {
        match self.failed {
            true => Err(Conflict::Lock.into()),
            false => Ok(self.inner.as_mut().expect("the transaction has not ended")),
        }
    }

    fn table(&self, table: TableId) -> TableId {
        let missing = usize::from(table.0) >= self.engine.tables().len();
        if missing && self.is(Fault::NoTableIsTableZero) { TableId(0) } else { table }
    }

    /// Where the fault has an operation done.
    fn place<'k>(&self, table: TableId, key: &'k [u8]) -> (TableId, &'k [u8], Place) {
        let table = self.table(table);
        let spec = self.engine.tables().get(usize::from(table.0));
        let most = spec.map_or(usize::MAX, |spec| usize::from(spec.key_bytes));
        let bytes = if self.is(Fault::LongKeysAreCut) { most } else { usize::MAX };
        let key = &key[..key.len().min(bytes)];
        (table, key, (table, key.to_vec()))
    }

    fn row<'k>(&self, table: TableId, row: &'k [u8]) -> &'k [u8] {
        let spec = self.engine.tables().get(usize::from(table.0));
        let most = spec.map_or(usize::MAX, |spec| spec.row_bytes as usize);
        let bytes = if self.is(Fault::LongRowsAreCut) { most } else { usize::MAX };
        &row[..row.len().min(bytes)]
    }

    fn before(&mut self, place: &Place) -> Result<Option<Vec<u8>>, TxError> {
        Ok(self.inner()?.get(place.0, &place.1)?.map(<[u8]>::to_vec))
    }

    fn is_skipped(&self, table: TableId) -> bool {
        table == TableId(2) && self.is(Fault::ReplicatedTablesAreWritten)
    }
}

impl Transaction for FaultyTransaction<'_> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        let (table, key, place) = self.place(table, key);
        self.own.read.insert(place);
        let hides = self.is(Fault::EmptyRowsAreAbsent);
        let row = self.inner()?.get(table, key)?;
        Ok(row.filter(|row| !(hides && row.is_empty())))
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        let (table, key, place) = self.place(table, key);
        if self.is(Fault::ReadsAreNotUpgraded) && self.own.read.contains(&place) {
            return Err(Conflict::Lock.into());
        }
        self.inner()?.get_for_update(table, key)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        let (table, key, place) = self.place(table, key);
        let row = self.row(table, row);
        let is_lost = self.is(Fault::UpdateOfOwnInsertIsLost) && self.own.inserted.contains(&place);
        if self.is_skipped(table) || is_lost {
            return Ok(true);
        }
        let before = self.before(&place)?;
        let there = self.inner()?.update(table, key, row)?;
        match before {
            Some(before) => {
                self.own.updated.entry(place).or_insert(before);
            }
            None if self.is(Fault::UpdateInserts) => {
                self.inner()?.insert(table, key, row)?;
                return Ok(true);
            }
            None => {}
        }
        Ok(there)
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        let (table, key, place) = self.place(table, key);
        let row = self.row(table, row);
        if self.is_skipped(table) {
            return Ok(());
        }
        let was_deleted = self.own.deleted.contains_key(&place);
        if self.is(Fault::InsertAfterOwnDeleteIsRefused) && was_deleted {
            return Err(TxError::Duplicate { table });
        }
        match self.inner()?.insert(table, key, row) {
            Ok(()) => {
                self.own.inserted.insert(place);
                Ok(())
            }
            Err(TxError::Duplicate { .. }) if self.is(Fault::InsertOverwrites) => {
                self.inner()?.update(table, key, row).map(drop)
            }
            Err(error) => {
                let is_duplicate = matches!(error, TxError::Duplicate { .. });
                self.failed = is_duplicate && self.is(Fault::DuplicateEndsTheTransaction);
                Err(error)
            }
        }
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        let (table, key, place) = self.place(table, key);
        let is_lost = self.is(Fault::DeleteOfOwnInsertIsLost) && self.own.inserted.contains(&place);
        if self.is_skipped(table) || is_lost {
            return Ok(true);
        }
        let before = self.before(&place)?;
        let there = self.inner()?.delete(table, key)?;
        self.own.deleted.extend(before.map(|row| (place, row)));
        Ok(there || self.is(Fault::DeleteIsAlwaysTrue))
    }

    fn scan(
        &mut self,
        table: TableId,
        mut scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        let table = self.table(table);
        let backward = scan.direction == Direction::Backward;
        match self.engine.fault {
            Fault::BackwardIsForward => scan.direction = Direction::Forward,
            Fault::LimitsAreIgnored => scan.limit = usize::MAX,
            Fault::LimitsAreIgnoredBackward if backward => scan.limit = usize::MAX,
            Fault::ALimitOfZeroMeetsARow => scan.limit = scan.limit.max(1),
            Fault::ExcludedBoundsAreIncluded => {
                let include = |bound| match bound {
                    Bound::Excluded(key) => Bound::Included(key),
                    other => other,
                };
                scan.range = (include(scan.range.0), include(scan.range.1));
            }
            Fault::CrossedBoundsPanic => {
                let tree = BTreeMap::from([(vec![], ())]);
                let _ = tree.range::<[u8], _>(scan.range);
            }
            _ => {}
        }
        let mut rows = Vec::new();
        self.inner()?.scan(table, scan, &mut |key, row| {
            rows.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })?;
        let of_table = |(key, _): &(Vec<u8>, Vec<u8>)| (table, key.clone());
        match self.engine.fault {
            Fault::ScansMissOwnInserts => {
                rows.retain(|pair| !self.own.inserted.contains(&of_table(pair)));
            }
            Fault::ScansMeetOldRows => rows.iter_mut().for_each(|pair| {
                if let Some(old) = self.own.updated.get(&of_table(pair)) {
                    pair.1.clone_from(old);
                }
            }),
            Fault::ScansMeetOwnDeletes => {
                let own = self.own.deleted.iter().filter(|((of, _), _)| *of == table);
                rows.extend(own.map(|((_, key), row)| (key.clone(), row.clone())));
            }
            Fault::ScansEndWithTheirPartition => {
                let first = rows.first().map(|(key, _)| key[..4].to_vec());
                rows.retain(|(key, _)| table == TableId(2) || Some(&key[..4]) == first.as_deref());
            }
            Fault::LastRowIsNotMet => drop(rows.pop()),
            _ => {}
        }
        for (key, row) in rows {
            if each(&key, &row).is_break() && !self.is(Fault::BreaksAreIgnored) {
                break;
            }
        }
        Ok(())
    }

    fn commit(mut self) -> Result<Commit, TxError> {
        self.inner()?;
        let Own { inserted, updated, deleted, .. } = &self.own;
        let reads_only = inserted.is_empty() && updated.is_empty() && deleted.is_empty();
        let inner = self.inner.take().expect("the transaction has not ended");
        let mut commit = inner.commit()?;
        match self.engine.fault {
            Fault::EpochsGoBack => commit.epoch = u64::MAX - commit.epoch,
            Fault::ReadersAreDurableAtOnce if reads_only => commit.epoch = 0,
            _ => {}
        }
        Ok(commit)
    }

    fn abort(mut self) {
        let inner = self.inner.take().expect("the transaction has not ended");
        match self.is(Fault::AbortCommits) {
            true => drop(inner.commit()),
            false => inner.abort(),
        }
    }
}

impl Drop for FaultyTransaction<'_> {
    fn drop(&mut self) {
        match self.inner.take() {
            Some(inner) if self.is(Fault::DropCommits) => drop(inner.commit()),
            inner => drop(inner),
        }
    }
}

fn conforms(fault: Fault) -> bool {
    let check = || {
        conformance::check(|tables, partitions| Faulty {
            engine: Reference::new(tables, partitions),
            fault,
        });
    };
    catch_unwind(AssertUnwindSafe(check)).is_ok()
}

#[test]
fn an_engine_without_a_fault_conforms() {
    assert!(conforms(Fault::None));
}

#[test]
fn each_fault_is_found() {
    let missed: Vec<Fault> = ALL.into_iter().filter(|fault| conforms(*fault)).collect();
    assert_eq!(missed, []);
}
