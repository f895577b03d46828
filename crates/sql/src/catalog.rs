//! The tables that there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tombolo_database::TableId;

use crate::error::{Result, SqlError, state};
use crate::types::DataType;

/// Objects that users have made have numbers from here on in PostgreSQL's catalog.
pub(crate) const FIRST_OID: u32 = 16_384;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnDef {
    /// Its name.
    pub(crate) name: String,
    /// The type of its values.
    pub(crate) ty: DataType,
    /// Whether null cannot stand in it.
    pub(crate) not_null: bool,
    /// The expression that stands for a value that is not given, as SQL.
    pub(crate) default: Option<String>,
}

/// An index of a table, or its primary key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexDef {
    /// The number that its keys begin with; for a primary key that of the table.
    pub(crate) number: u32,
    /// Its number in PostgreSQL's catalog.
    pub(crate) oid: u32,
    /// Its name.
    pub(crate) name: String,
    /// Whether no two rows may be equal in it.
    pub(crate) unique: bool,
    /// Whether it was made as a constraint.
    pub(crate) is_constraint: bool,
    /// Its columns, by their places in the table.
    pub(crate) columns: Vec<usize>,
    /// The engine's table that has its entries.
    pub(crate) place: u16,
}

impl IndexDef {
    pub(crate) fn table(&self) -> TableId {
        TableId(self.place)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableDef {
    /// The number that keys of its rows begin with. TRUNCATE changes it.
    pub(crate) number: u32,
    /// Its number in PostgreSQL's catalog.
    pub(crate) oid: u32,
    /// Its name.
    pub(crate) name: String,
    /// Its columns.
    pub(crate) columns: Vec<ColumnDef>,
    /// Its primary key; a table without one has hidden keys.
    pub(crate) primary: Option<IndexDef>,
    /// Its other indexes.
    pub(crate) indexes: Vec<IndexDef>,
    /// The engine's table that has its rows.
    pub(crate) place: u16,
}

impl TableDef {
    pub(crate) fn table(&self) -> TableId {
        TableId(self.place)
    }

    /// The place of a column.
    pub(crate) fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(state::UNDEFINED_COLUMN, message)
        })
    }

    /// Its primary key and its indexes.
    pub(crate) fn all_indexes(&self) -> impl Iterator<Item = &IndexDef> {
        self.primary.iter().chain(&self.indexes)
    }
}

/// All tables, as of one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// The version. A change of any table changes it.
    pub(crate) version: u64,
    tables: BTreeMap<String, Arc<TableDef>>,
}

impl Catalog {
    pub(crate) fn new(version: u64, tables: impl IntoIterator<Item = TableDef>) -> Self {
        let tables = tables.into_iter().map(|table| (table.name.clone(), Arc::new(table)));
        Self { version, tables: tables.collect() }
    }

    /// Its tables, by name.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.tables.values()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<TableDef>> {
        self.tables.get(name)
    }

    /// The table called `name`.
    pub(crate) fn table(&self, name: &str) -> Result<&Arc<TableDef>> {
        self.find(name).ok_or_else(|| {
            let message = format!("relation \"{name}\" does not exist");
            SqlError::new(state::UNDEFINED_TABLE, message)
        })
    }

    /// The table with an index, and the index.
    pub(crate) fn index(&self, name: &str) -> Option<(&Arc<TableDef>, &IndexDef)> {
        self.tables().find_map(|table| {
            let index = table.all_indexes().find(|index| index.name == name)?;
            Some((table, index))
        })
    }

    /// Whether a table or an index has this name: they share one space.
    pub(crate) fn has_relation(&self, name: &str) -> bool {
        self.find(name).is_some() || self.index(name).is_some()
    }

    pub(crate) fn put(&mut self, table: TableDef) {
        self.tables.insert(table.name.clone(), Arc::new(table));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.tables.remove(name);
    }
}
