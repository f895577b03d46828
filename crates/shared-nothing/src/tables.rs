//! The tables of a database, as one host has them.

use tombolo_database::hosts::EachVersion;
use tombolo_database::{
    MAX_KEY_WORDS, OrderedKey, Partitioning, Replica, TableId, TableSpec, TxError, Version,
    key_width,
};
use tombolo_memory::Memory;

use crate::message::Place;
use crate::partition::{Content, Partition, Row};

pub(crate) struct Tables<M: Memory> {
    pub(crate) specs: Vec<TableSpec>,
    tables: Vec<Table<M>>,
    partitions: u32,
    homes: u8,
}

enum Table<M: Memory> {
    Replicated(Replica<M>),
    /// Its partitions that are at home here.
    Partitioned(Vec<Option<Partition<M>>>),
}

impl<M: Memory> Table<M> {
    fn own(&self) -> &[Option<Partition<M>>] {
        match self {
            Self::Partitioned(parts) => parts,
            Self::Replicated(_) => &[],
        }
    }
}

impl<M: Memory> Tables<M> {
    pub(crate) fn new(specs: Vec<TableSpec>, partitions: u32, homes: u8, own: u8) -> Self {
        let table = |(table, spec): (u64, &TableSpec)| {
            let width = key_width(spec.key_bytes);
            if spec.partitioning == Partitioning::Replicated {
                return Table::Replicated(Replica::new(width));
            }
            let partition = |number| {
                let name = (table + 1) << u32::BITS | u64::from(number);
                (home_of(number, homes) == own).then(|| Partition::new(width, name))
            };
            Table::Partitioned((0..partitions).map(partition).collect())
        };
        let tables = (0..).zip(&specs).map(table).collect();
        Self { specs, tables, partitions, homes }
    }

    pub(crate) fn partitions(&self) -> u32 {
        self.partitions
    }

    pub(crate) fn home_of(&self, partition: u32) -> u8 {
        home_of(partition, self.homes)
    }

    pub(crate) fn spec(&self, table: TableId) -> Result<&TableSpec, TxError> {
        self.specs.get(usize::from(table.0)).ok_or(TxError::NoTable { table })
    }

    /// Words of a table's keys.
    pub(crate) fn width(&self, table: TableId) -> usize {
        key_width(self.specs[usize::from(table.0)].key_bytes)
    }

    /// This host's copy, if a table is replicated.
    pub(crate) fn replica(&self, table: TableId) -> Option<&Replica<M>> {
        match self.tables.get(usize::from(table.0)) {
            Some(Table::Replicated(replica)) => Some(replica),
            _ => None,
        }
    }

    /// A partition, if it is at home here.
    pub(crate) fn own(&self, place: Place) -> Option<&Partition<M>> {
        match self.tables.get(usize::from(place.table.0)) {
            Some(Table::Partitioned(parts)) => parts.get(place.partition as usize)?.as_ref(),
            _ => None,
        }
    }

    /// Partition `turn` of all that are at home here.
    pub(crate) fn own_in_turn(&self, turn: usize) -> Option<&Partition<M>> {
        let parts = || self.tables.iter().flat_map(Table::own).flatten();
        let count = parts().count();
        parts().nth(turn.checked_rem(count)?)
    }

    /// Loads a row without a transaction.
    pub(crate) fn load(
        &self,
        table: TableId,
        key: &[u8],
        version: Version,
        row: &[u8],
    ) -> Result<(), TxError> {
        let spec = self.spec(table)?;
        spec.check_key(table, key)?;
        spec.check_row(table, row)?;
        let ordered = OrderedKey::new(key, key_width(spec.key_bytes));
        if let Some(replica) = self.replica(table) {
            return replica.load(table, &ordered, row);
        }
        let partition = spec.partition_of(key, self.partitions);
        let Some(own) = self.own(Place { table, partition }) else {
            return Err(TxError::NotHome { partition, host: self.home_of(partition) });
        };
        let mut rows = own.rows.lock();
        if rows.tree.get(&ordered).is_some() {
            return Err(TxError::Duplicate { table });
        }
        let content = Content { is_valid: true, version, bytes: row.into(), ..Content::default() };
        rows.tree.insert(&ordered, Row::new(content));
        Ok(())
    }

    /// Calls `each` with all rows of a table that are at home here, and of a replicated table with
    /// all rows. Transactions may run.
    pub(crate) fn each_version(
        &self,
        table: TableId,
        each: &mut EachVersion<'_>,
    ) -> Result<(), TxError> {
        let spec = self.spec(table)?;
        let mut buffer = [0; 8 * MAX_KEY_WORDS];
        if let Some(replica) = self.replica(table) {
            return replica.each_version(table, spec, each);
        }
        let parts = self.tables[usize::from(table.0)].own();
        for (number, part) in (0..).zip(parts) {
            let Some(part) = part else { continue };
            let mut after = None;
            loop {
                let page = part.page(after.as_ref());
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                for (key, row) in page.iter().filter(|(key, _)| *key != OrderedKey::END) {
                    let Some((version, bytes)) = row.committed() else { continue };
                    each(number, key.bytes(self.width(table), &mut buffer), version, &bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// The host at which a partition is at home.
fn home_of(partition: u32, homes: u8) -> u8 {
    (partition % u32::from(homes)) as u8
}
