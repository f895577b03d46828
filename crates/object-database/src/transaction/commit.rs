//! The commit: all changes of rows and leaves at one instant, if nothing that was read has changed.

use std::collections::BTreeMap;

use tombolo_database::log::LogPosition;
use tombolo_database::{Conflict, Engine, MAX_KEY_WORDS, OrderedKey, TableId, TxError, log};
use tombolo_memory::Memory;
use tombolo_sharing::{Reads, Writes};

use super::{Access, Change, Tx};
use crate::database::ObjectDatabase;
use crate::{names, rows, sites};

impl<M: Memory> Tx<'_, M> {
    /// Commits: in which epoch.
    pub(super) fn commit_all(&mut self) -> Result<u64, TxError> {
        self.db.homes.check()?;
        if !self.rows.values().any(Access::has_changed) {
            return self.commit_reads();
        }
        self.change_leaves()?;
        if self.db.is_logged {
            let db = self.db;
            let changes = changes(db, &self.rows);
            let sizes = changes
                .iter()
                .map(|change| (change.key.len(), change.access.current().map_or(0, <[u8]>::len)));
            let bytes = log::record_bytes(sizes);
            self.worker.reserve(bytes, || db.serve().and_then(|()| db.homes.look()))?;
        }
        // All has been read that the commit depends on, and it counts only if that is still so. So
        // the epoch is not less than that of a transaction whose changes were seen.
        let epoch = self.worker.commit_epoch();
        let is_late = self.db.memory().keeps(sites::EPOCH_AFTER_READS);
        let epoch = if is_late { epoch } else { epoch.max(2) - 1 };
        self.choose_versions(epoch)?;
        let staged = self.db.is_logged.then(|| self.stage(epoch));
        self.transact(staged)?;
        if let Some(position) = staged {
            self.worker.publish(epoch, position);
        }
        self.leaves.committed();
        Ok(epoch)
    }

    /// The epoch of a transaction that changes nothing: it is durable when all is that it has read.
    fn commit_reads(&mut self) -> Result<u64, TxError> {
        self.transact(None)?;
        // Of a row that is absent nothing tells when it was deleted.
        if self.rows.values().any(|access| access.seen.is_none()) {
            let epoch = self.db.group.epoch();
            // It would not end for the sake of a reader otherwise.
            self.db.group.request(epoch);
            return Ok(epoch);
        }
        let of_rows = self.rows.values().map(|access| access.version).max().unwrap_or_default();
        Ok(of_rows.max(self.leaves.newest_gone()).epoch())
    }

    /// Looks whether all that was read is so at one instant.
    pub(super) fn validate_reads(&self) -> Result<(), TxError> {
        let mut reads = Reads::new();
        self.each_key(|name, access| _ = reads.insert(name, access.object));
        self.leaves.add_to(&mut reads, &mut Writes::new());
        self.transact_objects(&reads, &Writes::new())
    }

    /// Puts keys of rows that come into their leaves, and takes out those of rows that go.
    fn change_leaves(&mut self) -> Result<(), TxError> {
        for (&(table, key), access) in &mut self.rows {
            match (&access.seen, &access.change) {
                (None, Change::Put(_)) => access.version = self.leaves.insert(table, &key)?,
                (Some(_), Change::Delete) => self.leaves.remove(table, &key)?,
                _ => {}
            }
        }
        self.leaves.remove_empty()
    }

    /// Gives each row that changes its next version.
    fn choose_versions(&mut self, epoch: u64) -> Result<(), TxError> {
        for (&(table, _), access) in &mut self.rows {
            if !access.has_changed() {
                continue;
            }
            let Some(version) = access.version.next(epoch) else {
                self.db.group.advance_past(epoch);
                return Err(Conflict::Lock.into());
            };
            access.version = version;
            if matches!(access.change, Change::Delete) {
                self.leaves.note_gone(table, version);
            }
        }
        Ok(())
    }

    /// Makes the changes, and the worker's marker if they are logged.
    fn transact(&mut self, staged: Option<LogPosition>) -> Result<(), TxError> {
        let (mut reads, mut writes) = (Reads::new(), Writes::new());
        let keeps = self.db.memory().keeps(sites::READ_ROWS);
        self.each_key(|name, access| {
            if access.has_changed() {
                let row = access.current().map(|row| rows::encode(access.version, row));
                writes.insert(name.clone(), row);
            }
            if access.has_changed() || keeps {
                reads.insert(name, access.object);
            }
        });
        self.leaves.add_to(&mut reads, &mut writes);
        if let Some(position) = staged {
            let name = names::of_marker(self.db.homes.own(), self.worker.number());
            writes.insert(name, Some(self.db.marker(position)));
        }
        self.transact_objects(&reads, &writes)
    }

    fn transact_objects(&self, reads: &Reads, writes: &Writes) -> Result<(), TxError> {
        match self.db.objects.transact(reads, writes, &|| true) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Conflict::Validation.into()),
            Err(error) => Err(self.db.failed(&error)),
        }
    }

    /// Calls `each` with the key of the object of each row.
    fn each_key(&self, mut each: impl FnMut(Vec<u8>, &Access)) {
        let mut buffer = [0; 8 * MAX_KEY_WORDS];
        for ((table, key), access) in &self.rows {
            let bytes = key.bytes(self.db.shared(*table).width, &mut buffer);
            each(names::of_row(*table, bytes), access);
        }
    }

    /// Puts the changes into the log's buffer, before the commit: the host may die right after it.
    /// When they count there, others may have seen them. That is no harm: their epochs are not
    /// smaller, and this host's logger does not pass this one before the transaction has ended.
    fn stage(&mut self, epoch: u64) -> LogPosition {
        let changes = changes(self.db, &self.rows);
        let (specs, partitions) = (&self.db.specs, self.db.partitions());
        let records = changes.iter().map(|LoggedRow { table, key, access }| log::Change {
            table: *table,
            partition: specs[usize::from(table.0)].partition_of(key, partitions),
            key,
            version: access.version,
            row: access.current(),
        });
        self.worker.stage(epoch, records)
    }
}

/// A row that changes.
struct LoggedRow<'t> {
    table: TableId,
    key: Vec<u8>,
    access: &'t Access,
}

fn changes<'t, M: Memory>(
    db: &ObjectDatabase<M>,
    rows: &'t BTreeMap<(TableId, OrderedKey), Access>,
) -> Vec<LoggedRow<'t>> {
    let mut buffer = [0; 8 * MAX_KEY_WORDS];
    let changed = rows.iter().filter(|(_, access)| access.has_changed());
    let row = changed.map(|(&(table, key), access)| {
        let key = key.bytes(db.shared(table).width, &mut buffer).to_vec();
        LoggedRow { table, key, access }
    });
    row.collect()
}
