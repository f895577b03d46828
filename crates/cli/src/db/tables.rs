//! Databases with tables of a program's own, and the files that describe them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tombolo::database::{
    Catalog, Column, ColumnType, DatabasePlan, Partitioning, SchemaError, TableSchema,
};
use tombolo_database::{Engine, MAX_KEY_BYTES, TableSpec, Transaction, TxError};
use tombolo_oltp::{Outcome, Seat, Workload};

use super::conditions::{Checked, Found};
use super::hex::{from_hex, to_hex};

/// A file that describes tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaFile {
    table: Vec<TableEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableEntry {
    name: String,
    columns: Vec<ColumnEntry>,
    key: Vec<String>,
    /// Successive numbers of the first key column that share a partition.
    per_partition: Option<u32>,
    #[serde(default)]
    replicated: bool,
    #[serde(default)]
    index: Vec<IndexEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnEntry {
    name: String,
    r#type: TypeName,
    /// Bytes of text or bytes at most.
    most: Option<u16>,
    /// Digits behind the point of a decimal number.
    scale: Option<u8>,
    #[serde(default)]
    nullable: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TypeName {
    Bool,
    U32,
    I32,
    I64,
    Decimal,
    Text,
    Bytes,
    Timestamp,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexEntry {
    name: String,
    columns: Vec<String>,
    #[serde(default)]
    unique: bool,
}

impl ColumnEntry {
    fn column(&self) -> Result<Column> {
        let lacks = |what| format!("column `{}` lacks `{what}`", self.name);
        let most = || self.most.with_context(|| lacks("most"));
        let kind = match self.r#type {
            TypeName::Bool => ColumnType::Bool,
            TypeName::U32 => ColumnType::U32,
            TypeName::I32 => ColumnType::I32,
            TypeName::I64 => ColumnType::I64,
            TypeName::Decimal => {
                ColumnType::Decimal { scale: self.scale.with_context(|| lacks("scale"))? }
            }
            TypeName::Text => ColumnType::Text { most: most()? },
            TypeName::Bytes => ColumnType::Bytes { most: most()? },
            TypeName::Timestamp => ColumnType::Timestamp,
        };
        let column = Column::new(&self.name, kind);
        Ok(if self.nullable { column.nullable() } else { column })
    }
}

impl TableEntry {
    fn table(&self) -> Result<TableSchema> {
        let columns = self.columns.iter().map(ColumnEntry::column).collect::<Result<_>>();
        let columns = columns.with_context(|| format!("table `{}`", self.name))?;
        let key: Vec<&str> = self.key.iter().map(String::as_str).collect();
        let mut table = TableSchema::new(&self.name, columns, &key)?;
        if self.replicated {
            table = table.partitioned(Partitioning::Replicated);
        } else if let Some(per_partition) = self.per_partition {
            table = table.partitioned(Partitioning::Leading { per_partition });
        }
        for IndexEntry { name, columns, unique } in &self.index {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            table = table.with_index(name, &columns, *unique)?;
        }
        Ok(table)
    }
}

/// Reads tables from a file.
///
/// # Errors
/// That it cannot be read, or what is wrong in it.
pub(crate) fn read_schema(path: &Path) -> Result<Catalog> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let file: SchemaFile =
        toml::from_str(&text).with_context(|| format!("{name} describes no tables"))?;
    let tables = file.table.iter().map(TableEntry::table).collect::<Result<_>>();
    let catalog = tables.and_then(|tables| {
        let catalog = Catalog::new(tables)?;
        catalog.check_keys(MAX_KEY_BYTES)?;
        Ok(catalog)
    });
    catalog.with_context(|| format!("the tables in {name} cannot be"))
}

/// A database with tables of its own: no transactions run on it here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tables(pub(crate) DatabasePlan);

impl Tables {
    /// Reads the text of [`to_text`](Self::to_text).
    pub(crate) fn from_text(text: &str) -> Result<Self, SchemaError> {
        let bytes = from_hex(text).ok_or(SchemaError::Damaged)?;
        DatabasePlan::decode(&bytes).map(Self)
    }

    /// The plan in hexadecimal digits.
    pub(crate) fn to_text(&self) -> Result<String, SchemaError> {
        Ok(to_hex(&self.0.encode()?))
    }
}

impl Serialize for Tables {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_text().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tables {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_text(&text).map_err(serde::de::Error::custom)
    }
}

impl Workload for Tables {
    type Worker = ();
    type Input = ();

    fn name(&self) -> &'static str {
        "tables of its own"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["none"]
    }

    fn tables(&self) -> Vec<TableSpec> {
        self.0.catalog.specs()
    }

    fn partitions(&self) -> u32 {
        self.0.partitions
    }

    fn load_replicated<E: Engine>(&self, _: &E) -> Result<(), TxError> {
        Ok(())
    }

    fn load_partition<E: Engine>(&self, _: &E, _: u32) -> Result<(), TxError> {
        Ok(())
    }

    fn worker(&self, _: &Seat) {}

    fn next(&self, (): &mut ()) {}

    fn kind(&self, (): &()) -> usize {
        0
    }

    fn run<T: Transaction>(&self, (): &mut (), (): &(), _: &mut T) -> Result<Outcome, TxError> {
        Ok(Outcome::RollBack)
    }
}

impl Checked for Tables {
    fn table_names(&self) -> Vec<String> {
        self.0.catalog.names()
    }

    fn shared_tables(&self) -> &'static [tombolo_database::TableId] {
        &[]
    }

    fn check<E: Engine>(&self, _: &E, _: Vec<u32>) -> Result<Found, TxError> {
        Ok(Found::default())
    }
}
