//! The commit: changes are logged, made, and their locks released, by one host.

use std::ops::Range;

use tombolo_database::{Conflict, MAX_KEY_WORDS, Mode, TxError, log};
use tombolo_memory::{Memory, Work};

use super::{Change, Handle, Tx, unlock};
use crate::record::State;
use crate::row::Slot;

impl<M: Memory> Tx<'_, M> {
    /// Gives each changed row its next version, and logs the changes: the epoch.
    pub(super) fn log(&mut self) -> Result<u64, TxError> {
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
    pub(super) fn apply(&mut self) -> Result<(), TxError> {
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
                Handle::Other(at, kept) => {
                    let record = cat.latch(*at)?;
                    let slot = Slot { line: record.line(), bytes: kept.slot_bytes };
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
}
