//! Many rows at once: loading, sharing before a run, and reading all that is at home here.

use std::sync::atomic::Ordering;

use tombolo_database::hosts::EachVersion;
use tombolo_database::{
    Engine, Locks, MAX_KEY_WORDS, OrderedKey, TableId, TxError, Version, key_width,
};
use tombolo_memory::Memory;

use crate::partition::{Entry, Moved, Partition};

use crate::row::Row;
use crate::tigon::{Part, Table, Tigon};

/// Rows that are looked at before others get at the partition again.
const AT_ONCE: usize = 64;

impl<M: Memory> Tigon<M> {
    /// As [`Engine::load`], of a row that has a version already: one that was recovered.
    ///
    /// # Errors
    /// As of [`Engine::load`].
    pub fn load_version(
        &self,
        table: TableId,
        key: &[u8],
        version: Version,
        row: &[u8],
    ) -> Result<(), TxError> {
        let (what, spec) = self.table(table)?;
        spec.check_key(table, key)?;
        spec.check_row(table, row)?;
        let (duplicate, words) = (Err(TxError::Duplicate { table }), key_width(spec.key_bytes));
        let key_words = OrderedKey::new(key, words);
        match what {
            Table::Replicated(replica) => return replica.load(table, &key_words, row),
            Table::Partitioned(parts) => {
                let partition = spec.partition_of(key, self.partitions());
                let Part::Own(partition) = &parts[partition as usize] else {
                    let host = self.home_of(partition).0;
                    return Err(TxError::NotHome { partition, host });
                };
                let mut rows = partition.rows.lock();
                if rows.tree.get(&key_words).is_some() {
                    return duplicate;
                }
                let row = Row::new(true, version, row, Locks::default());
                rows.tree.insert(&key_words, row);
            }
        }
        Ok(())
    }

    /// Shares rows of a table that are at home here, as if other hosts had asked for them, as far
    /// as there is room. How many it has shared now; none of a replicated table. Blocks for some
    /// microseconds a row.
    ///
    /// # Errors
    /// [`TxError::Full`] once there is no room for more; that there is no such table; that a host
    /// has died.
    pub fn share_table(&self, table: TableId) -> Result<u64, TxError> {
        let (what, _) = self.table(table)?;
        let mut shared = 0;
        for (_, partition) in Self::own_partitions_of(what) {
            let mut after = None;
            loop {
                let page = page(partition, after.as_ref());
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                let mut rows = partition.rows.lock();
                for (key, row) in &page {
                    if row.content.lock().is_removed {
                        continue;
                    }
                    let has_room = self.cat.scr_in_use() < self.scr_budget;
                    let moved = has_room
                        .then(|| partition.move_in(&self.cat, &mut rows, key, row))
                        .transpose()?;
                    if moved.is_none_or(|moved| moved == Moved::NoRoom) {
                        self.counters.moved_in.fetch_add(shared, Ordering::Relaxed);
                        return Err(TxError::Full {
                            what: "the pod",
                            hint: "give it more SCR and more LNR, or share fewer rows",
                        });
                    }
                    shared += u64::from(moved == Some(Moved::Done));
                }
            }
        }
        self.counters.moved_in.fetch_add(shared, Ordering::Relaxed);
        Ok(shared)
    }

    /// Calls `each` with all rows of a table that are at home here, and of a replicated table with
    /// all rows, in the order of keys for each partition. Transactions may run: each row is as one
    /// of them has left it, and rows that come or go meanwhile are met or not.
    ///
    /// # Errors
    /// Those of `each`; that a host has died.
    pub fn each_row(&self, table: TableId, each: &mut EachVersion<'_>) -> Result<(), TxError> {
        let (what, spec) = self.table(table)?;
        let width = key_width(spec.key_bytes);
        let mut buffer = [0; 8 * MAX_KEY_WORDS];
        if let Table::Replicated(replica) = what {
            return replica.each_version(table, spec, each);
        }
        for (number, partition) in Self::own_partitions_of(what) {
            let mut after = None;
            loop {
                let page = page(partition, after.as_ref());
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                for (key, row) in page.iter().filter(|(key, _)| *key != OrderedKey::END) {
                    let Some((version, bytes)) = partition.committed(&self.cat, row)? else {
                        continue;
                    };
                    each(number, key.bytes(width, &mut buffer), version, &bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// The next rows of a partition, its end included.
fn page<M: Memory>(partition: &Partition<M>, after: Option<&OrderedKey>) -> Vec<Entry<M>> {
    partition.rows.lock().tree.page(after, AT_ONCE)
}
