//! Rows as objects: the version, 8 bytes, and the row's own bytes. Loading them, and reading all.

use tombolo_database::hosts::EachVersion;
use tombolo_database::{
    Conflict, Engine, MAX_KEY_WORDS, OrderedKey, TableId, TableSpec, TxError, Version, key_width,
};
use tombolo_memory::Memory;
use tombolo_sharing::{Error, Reads, Version as ObjectVersion, Writes};

use crate::database::{ObjectDatabase, Side, Table};
use crate::index::Leaves;
use crate::names;

/// How often a key is put into an index while others change it.
const ATTEMPTS: usize = 1000;

/// The home whose host puts the rows of replicated tables into the pod.
const KEEPER: u8 = 0;

/// A row, and the version of its object.
pub(crate) struct ReadRow {
    pub(crate) object: ObjectVersion,
    pub(crate) version: Version,
    pub(crate) row: Vec<u8>,
}

pub(crate) fn encode(version: Version, row: &[u8]) -> Vec<u8> {
    [&version.0.to_le_bytes(), row].concat()
}

impl<M: Memory> ObjectDatabase<M> {
    /// The row with `key`.
    pub(crate) fn read_row(&self, table: TableId, key: &[u8]) -> Result<Option<ReadRow>, TxError> {
        let (mut head, mut row) = ([0; 8], Vec::new());
        let object = self.objects.read_split(&names::of_row(table, key), &mut head, &mut row);
        let object = object.map_err(|error| self.failed(&error))?;
        let version = Version(u64::from_le_bytes(head));
        Ok(object.map(|object| ReadRow { object, version, row }))
    }

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
        let ordered = OrderedKey::new(key, key_width(spec.key_bytes));
        if let Table::Replicated(replica, _) = what {
            replica.load(table, &ordered, row)?;
            if self.homes.own() != KEEPER {
                return Ok(());
            }
        }
        match self.objects.create(&names::of_row(table, key), &encode(version, row)) {
            Err(Error::Exists) => return Err(TxError::Duplicate { table }),
            created => _ = created.map_err(|error| self.failed(&error))?,
        }
        self.add_key(table, &ordered)
    }

    /// Puts the key of a row that was loaded into the index.
    fn add_key(&self, table: TableId, key: &OrderedKey) -> Result<(), TxError> {
        for _ in 0..ATTEMPTS {
            let mut leaves = Leaves::new(self);
            match leaves.insert(table, key) {
                Err(error) if error.is_conflict() => continue,
                inserted => _ = inserted?,
            }
            let (mut reads, mut writes) = (Reads::new(), Writes::new());
            leaves.add_to(&mut reads, &mut writes);
            let added = self.objects.transact(&reads, &writes, &|| true);
            if added.map_err(|error| self.failed(&error))? {
                leaves.committed();
                return Ok(());
            }
        }
        Err(Conflict::Lock.into())
    }

    /// Calls `each` with all rows of a table that are at home here, or at a home that this host
    /// [stands for](tombolo_database::hosts::Homes::stands_for), and of a replicated table with all
    /// rows, in the order of keys. Transactions may run: each row is as one of them has left
    /// it, and rows that come or go meanwhile are met or not.
    ///
    /// # Errors
    /// Those of `each`; that a host has died.
    pub fn each_row(&self, table: TableId, each: &mut EachVersion<'_>) -> Result<(), TxError> {
        let (what, spec) = self.table(table)?;
        if let Table::Replicated(replica, _) = what {
            return replica.each_version(table, spec, each);
        }
        let homes = self.homes.stands_for();
        self.each_object(
            (table, spec),
            &|partition| homes >> self.home_of(partition).0 & 1 == 1,
            each,
        )
    }

    /// Copies the rows of replicated tables from the pod, which this host has come to later.
    pub(crate) fn copy_replicated(&self) -> Result<(), TxError> {
        for (table, spec) in (0..).map(TableId).zip(&self.specs) {
            let (Table::Replicated(replica, shared), _) = self.table(table)? else { continue };
            self.each_object((table, spec), &|_| true, &mut |_, key, _, row| {
                replica.load(table, &OrderedKey::new(key, shared.width), row)
            })?;
        }
        Ok(())
    }

    /// Calls `each` with the rows of a table that are objects, and in partitions that are wanted.
    fn each_object(
        &self,
        (table, spec): (TableId, &TableSpec),
        is_wanted: &dyn Fn(u32) -> bool,
        each: &mut EachVersion<'_>,
    ) -> Result<(), TxError> {
        let (width, mut buffer) = (key_width(spec.key_bytes), [0; 8 * MAX_KEY_WORDS]);
        let mut from = Some(OrderedKey::from_words(&[0]));
        while let Some(low) = from {
            // Leaves are read anew: they do not have to be of one instant.
            let mut leaves = Leaves::new(self);
            let id = leaves.find(table, &low, Side::At)?;
            let leaf = leaves.leaf(table, id);
            for key in leaf.keys.iter().filter(|key| **key >= low) {
                let key = key.bytes(width, &mut buffer);
                let partition = spec.partition_of(key, self.partitions());
                if !is_wanted(partition) {
                    continue;
                }
                if let Some(ReadRow { version, row, .. }) = self.read_row(table, key)? {
                    each(partition, key, version, &row)?;
                }
            }
            from = leaf.right.map(|(high, _)| high);
        }
        Ok(())
    }
}
