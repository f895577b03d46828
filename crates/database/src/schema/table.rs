//! Tables with typed columns, a primary key, and ordered secondary indexes.

use super::SchemaError;
use super::value::{Coding, ColumnType, Value, escape};
use crate::Partitioning;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: ColumnType,
    /// Whether a value may be null.
    pub nullable: bool,
}

impl Column {
    /// A column that is never null.
    pub fn new(name: &str, kind: ColumnType) -> Self {
        Self { name: name.to_owned(), kind, nullable: false }
    }

    /// The same, where values may be null.
    #[must_use]
    pub fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}

/// A column's part in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The column's number in its table, from 0.
    pub column: u16,
    /// Whether greater values come first.
    pub descending: bool,
}

/// An ordered secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// The columns it is ordered by. Rows that are equal in them are ordered by primary key.
    pub parts: Vec<KeyPart>,
    /// Whether no two rows are equal in them. Rows in which one is null are equal to none.
    pub unique: bool,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The columns that it is ordered by. No two rows are equal in them, and none is null.
    pub primary_key: Vec<KeyPart>,
    /// Its secondary indexes.
    pub indexes: Vec<Index>,
    /// How its rows are divided. [`Partitioning::Leading`] wants a first key column of type
    /// [`ColumnType::U32`], ascending.
    pub partitioning: Partitioning,
}

/// The longest key, and the longest row.
const KEY_BYTES: usize = 1 << 12;
const ROW_BYTES: usize = 1 << 20;

impl Table {
    /// A table without indexes that is ordered by the columns with these names, and has one
    /// partition.
    ///
    /// # Errors
    /// [`SchemaError::NoColumn`].
    pub fn new(name: &str, columns: Vec<Column>, key: &[&str]) -> Result<Self, SchemaError> {
        let mut table = Self {
            name: name.to_owned(),
            columns,
            primary_key: Vec::new(),
            indexes: Vec::new(),
            partitioning: Partitioning::Leading { per_partition: u32::MAX },
        };
        table.primary_key = table.parts(key)?;
        Ok(table)
    }

    /// The same, divided by the first column of its key.
    #[must_use]
    pub fn partitioned(self, partitioning: Partitioning) -> Self {
        Self { partitioning, ..self }
    }

    /// The same with one more index.
    ///
    /// # Errors
    /// [`SchemaError::NoColumn`].
    pub fn with_index(
        mut self,
        name: &str,
        columns: &[&str],
        unique: bool,
    ) -> Result<Self, SchemaError> {
        let parts = self.parts(columns)?;
        self.indexes.push(Index { name: name.to_owned(), parts, unique });
        Ok(self)
    }

    /// Ascending parts of a key.
    fn parts(&self, columns: &[&str]) -> Result<Vec<KeyPart>, SchemaError> {
        let part = |name: &&str| Ok(KeyPart { column: self.column(name)?, descending: false });
        columns.iter().map(part).collect()
    }

    /// The number of a column.
    ///
    /// # Errors
    /// [`SchemaError::NoColumn`].
    pub fn column(&self, name: &str) -> Result<u16, SchemaError> {
        let found = self.columns.iter().position(|column| column.name == name);
        found.map(|column| column as u16).ok_or_else(|| SchemaError::NoColumn {
            table: self.name.clone(),
            column: name.to_owned(),
        })
    }

    /// The number of an index.
    ///
    /// # Errors
    /// [`SchemaError::NoIndex`].
    pub fn index(&self, name: &str) -> Result<usize, SchemaError> {
        let found = self.indexes.iter().position(|index| index.name == name);
        found.ok_or_else(|| SchemaError::NoIndex {
            table: self.name.clone(),
            index: name.to_owned(),
        })
    }

    /// Whether it makes sense.
    pub(super) fn check(&self) -> Result<(), SchemaError> {
        let names = self.columns.iter().map(|column| column.name.as_str());
        check_names("a column", names)?;
        check_names("an index", self.indexes.iter().map(|index| index.name.as_str()))?;
        let wrong_key = |why| Err(SchemaError::PrimaryKey { table: self.name.clone(), why });
        let keys = self.indexes.iter().map(|index| &index.parts).chain([&self.primary_key]);
        for parts in keys {
            if parts.is_empty() {
                return wrong_key("or an index of it has no columns");
            }
            if let Some(part) = parts.iter().find(|p| self.columns.len() <= usize::from(p.column)) {
                let (table, column) = (self.name.clone(), part.column.to_string());
                return Err(SchemaError::NoColumn { table, column });
            }
        }
        if self.primary_key.iter().any(|part| self.columns[usize::from(part.column)].nullable) {
            return wrong_key("has a column that may be null");
        }
        if self.partitioning != Self::undivided() && !self.leads(&self.primary_key) {
            let is_replicated = self.partitioning == Partitioning::Replicated;
            if !is_replicated {
                return wrong_key("does not begin with an ascending column of type U32");
            }
        }
        self.check_size("keys", KEY_BYTES, self.longest_key())?;
        self.check_size("rows", ROW_BYTES, self.row_bytes())
    }

    fn check_size(&self, what: &'static str, most: usize, bytes: usize) -> Result<(), SchemaError> {
        let table = self.name.clone();
        if bytes > most { Err(SchemaError::TooLong { what, table, bytes, most }) } else { Ok(()) }
    }

    /// How a table is divided that has one partition.
    pub(super) fn undivided() -> Partitioning {
        Partitioning::Leading { per_partition: u32::MAX }
    }

    /// Whether keys begin with a number that partitions can be told by.
    fn leads(&self, parts: &[KeyPart]) -> bool {
        let first = parts[0];
        self.columns[usize::from(first.column)].kind == ColumnType::U32
            && !self.columns[usize::from(first.column)].nullable
            && !first.descending
    }

    /// How an index's entries are divided: like the rows, if it begins with the same column.
    pub(super) fn index_partitioning(&self, index: &Index) -> Partitioning {
        let same = index.parts[0] == self.primary_key[0] && self.leads(&index.parts);
        match self.partitioning {
            Partitioning::Leading { .. } if !same => Self::undivided(),
            other => other,
        }
    }

    fn coding(&self, part: KeyPart) -> Coding {
        let Column { kind, nullable, .. } = self.columns[usize::from(part.column)];
        Coding { kind, nullable, descending: part.descending }
    }

    /// Columns that are not in the primary key.
    fn rest(&self) -> impl Iterator<Item = (usize, Coding)> {
        let in_key =
            |column: usize| self.primary_key.iter().any(|part| usize::from(part.column) == column);
        (0..self.columns.len()).filter(move |&column| !in_key(column)).map(|column| {
            (column, self.coding(KeyPart { column: column as u16, descending: false }))
        })
    }

    fn parts_bytes(&self, parts: &[KeyPart]) -> usize {
        let codings = parts.iter().map(|&part| self.coding(part));
        codings.map(|coding| coding.kind.key_bytes() + usize::from(coding.nullable)).sum()
    }

    /// The most bytes of a primary key.
    pub(super) fn key_bytes(&self) -> usize {
        self.parts_bytes(&self.primary_key)
    }

    /// The most bytes of an index's key.
    pub(super) fn index_key_bytes(&self, index: &Index) -> usize {
        self.parts_bytes(&index.parts) + self.key_bytes()
    }

    fn longest_key(&self) -> usize {
        let indexes = self.indexes.iter().map(|index| self.index_key_bytes(index));
        indexes.chain([self.key_bytes()]).max().unwrap_or(0)
    }

    /// The most bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        let rest = self.rest().map(|(_, coding)| coding);
        rest.map(|coding| coding.kind.row_bytes() + usize::from(coding.nullable)).sum()
    }

    fn check_value(&self, column: u16, value: &Value) -> Result<(), SchemaError> {
        let Column { name, kind, nullable } = &self.columns[usize::from(column)];
        let fits = match value {
            Value::Null => *nullable,
            value => kind.admits(value),
        };
        if fits {
            return Ok(());
        }
        Err(SchemaError::Value {
            table: self.name.clone(),
            column: name.clone(),
            kind: format!("{kind:?}{}", if *nullable { ", or null" } else { "" }),
            value: format!("{value:?}"),
        })
    }

    fn check_count(&self, found: usize, expected: usize) -> Result<(), SchemaError> {
        let table = self.name.clone();
        if found == expected { Ok(()) } else { Err(SchemaError::Count { table, found, expected }) }
    }

    /// Key and row of a row with these values, one for each column.
    ///
    /// # Errors
    /// That a value does not fit.
    pub fn encode(&self, values: &[Value]) -> Result<(Vec<u8>, Vec<u8>), SchemaError> {
        self.check_count(values.len(), self.columns.len())?;
        for (column, value) in (0..).zip(values) {
            self.check_value(column, value)?;
        }
        let mut row = Vec::with_capacity(self.row_bytes());
        for (column, coding) in self.rest() {
            coding.encode_row(&values[column], &mut row);
        }
        Ok((self.key_of_row(&self.primary_key, values), row))
    }

    fn key_of_row(&self, parts: &[KeyPart], values: &[Value]) -> Vec<u8> {
        let mut key = Vec::new();
        for &part in parts {
            self.coding(part).encode_key(&values[usize::from(part.column)], &mut key);
        }
        key
    }

    /// The values of a row.
    ///
    /// # Errors
    /// [`SchemaError::Damaged`].
    pub fn decode(&self, key: &[u8], row: &[u8]) -> Result<Vec<Value>, SchemaError> {
        let (mut key, mut row) = (key, row);
        let mut values = vec![Value::Null; self.columns.len()];
        for &part in &self.primary_key {
            values[usize::from(part.column)] = self.coding(part).decode_key(&mut key)?;
        }
        for (column, coding) in self.rest() {
            values[column] = coding.decode_row(&mut row)?;
        }
        if key.is_empty() && row.is_empty() { Ok(values) } else { Err(SchemaError::Damaged) }
    }

    /// How keys begin whose first columns have these values: the primary key's, or those of an
    /// index.
    ///
    /// # Errors
    /// That there are more values than columns, or a value does not fit.
    pub fn key_prefix(
        &self,
        index: Option<usize>,
        values: &[Value],
    ) -> Result<Vec<u8>, SchemaError> {
        let parts = index.map_or(&self.primary_key, |index| &self.indexes[index].parts);
        if values.len() > parts.len() {
            self.check_count(values.len(), parts.len())?;
        }
        let mut key = Vec::new();
        for (&part, value) in parts.iter().zip(values) {
            self.check_value(part.column, value)?;
            self.coding(part).encode_key(value, &mut key);
        }
        Ok(key)
    }

    /// As [`key_prefix`](Self::key_prefix), of keys whose next column is text that begins with
    /// `text`.
    ///
    /// # Errors
    /// As there, and that the next column is not text.
    pub fn text_prefix(
        &self,
        index: Option<usize>,
        values: &[Value],
        text: &str,
    ) -> Result<Vec<u8>, SchemaError> {
        let mut key = self.key_prefix(index, values)?;
        let parts = index.map_or(&self.primary_key, |index| &self.indexes[index].parts);
        let Some(&part) = parts.get(values.len()) else {
            return self.check_count(values.len() + 1, parts.len()).map(|()| key);
        };
        let coding = self.coding(part);
        self.check_value(part.column, &Value::Text(text.to_owned()))?;
        let start = key.len();
        if coding.nullable {
            key.push(1);
        }
        escape(text.as_bytes(), &mut key);
        if coding.descending {
            key[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(key)
    }

    /// The key of a row in an index, and whether no other row may have it. The primary key `key`
    /// follows where others may be equal.
    pub(crate) fn index_key(&self, index: usize, values: &[Value], key: &[u8]) -> (Vec<u8>, bool) {
        let index = &self.indexes[index];
        let has_null = index.parts.iter().any(|p| values[usize::from(p.column)] == Value::Null);
        let unique = index.unique && !has_null;
        let mut found = self.key_of_row(&index.parts, values);
        if !unique {
            found.extend_from_slice(key);
        }
        (found, unique)
    }
}

/// Whether names can be told apart.
pub(super) fn check_names<'a>(
    of: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), SchemaError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        let why = match name.len() {
            0 => "it is empty",
            1..=63 if seen.insert(name) => continue,
            1..=63 => "there is another one",
            _ => "it has more than 63 bytes",
        };
        return Err(SchemaError::Name { name: name.to_owned(), of, why });
    }
    Ok(())
}
