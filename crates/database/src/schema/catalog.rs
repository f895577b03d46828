//! All tables of a database, and the bytes by which hosts tell each other of them.
//!
//! ```text
//! magic (8) | version (4) | bytes of the body (4) | CRC-32C of the body (4) | body
//! ```

use super::table::check_names;
use super::{Column, ColumnType, Index, KeyPart, SchemaError, Table};
use crate::{Partitioning, TableId, TableSpec};

const MAGIC: [u8; 8] = *b"TOMBCATA";
const VERSION: u32 = 1;
const HEAD: usize = 20;

/// The tables of a database. Each table is one of its engine, and so is each index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    tables: Vec<Table>,
}

impl Catalog {
    /// A catalog of these tables.
    ///
    /// # Errors
    /// The first table that is wrong.
    pub fn new(tables: Vec<Table>) -> Result<Self, SchemaError> {
        check_names("a table", tables.iter().map(|table| table.name.as_str()))?;
        tables.iter().try_for_each(Table::check)?;
        let catalog = Self { tables };
        let count = catalog.specs().len();
        if count > usize::from(u16::MAX) {
            let (bytes, most) = (count, usize::from(u16::MAX));
            return Err(SchemaError::CatalogSize { bytes, most });
        }
        Ok(catalog)
    }

    /// Its tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Whether no key of a table or an index has more than `most` bytes.
    ///
    /// # Errors
    /// [`SchemaError::TooLong`], with the table.
    pub fn check_keys(&self, most: usize) -> Result<(), SchemaError> {
        for table in &self.tables {
            let longest = specs_of(table).map(|spec| usize::from(spec.key_bytes)).max();
            if let Some(bytes) = longest.filter(|&bytes| bytes > most) {
                let table = table.name.clone();
                return Err(SchemaError::TooLong { what: "keys", table, bytes, most });
            }
        }
        Ok(())
    }

    /// A table, and its number in the engine. Its indexes have the numbers behind that.
    ///
    /// # Errors
    /// [`SchemaError::NoTable`].
    pub fn table(&self, name: &str) -> Result<(TableId, &Table), SchemaError> {
        let mut id = 0;
        for table in &self.tables {
            if table.name == name {
                return Ok((TableId(id), table));
            }
            id += 1 + table.indexes.len() as u16;
        }
        Err(SchemaError::NoTable(name.to_owned()))
    }

    /// The specifications for an engine: a table each, followed by its indexes.
    pub fn specs(&self) -> Vec<TableSpec> {
        self.tables.iter().flat_map(specs_of).collect()
    }

    /// The catalog as bytes, of which there are at most `most`.
    ///
    /// # Errors
    /// [`SchemaError::CatalogSize`].
    pub fn encode(&self, most: usize) -> Result<Vec<u8>, SchemaError> {
        let mut body = Writer::default();
        body.list(&self.tables, write_table);
        let bytes = HEAD + body.0.len();
        if bytes > most {
            return Err(SchemaError::CatalogSize { bytes, most });
        }
        let mut encoded = Vec::with_capacity(bytes);
        encoded.extend(MAGIC);
        encoded.extend(VERSION.to_le_bytes());
        encoded.extend((body.0.len() as u32).to_le_bytes());
        encoded.extend(crc32c::crc32c(&body.0).to_le_bytes());
        encoded.extend(body.0);
        Ok(encoded)
    }

    /// The catalog that `bytes` begin with; what is behind it does not matter.
    ///
    /// # Errors
    /// [`SchemaError::CatalogVersion`] or [`SchemaError::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SchemaError> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or(SchemaError::Damaged)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        if head[..8] != MAGIC {
            return Err(SchemaError::Damaged);
        }
        if word(8) != VERSION {
            return Err(SchemaError::CatalogVersion { found: word(8), known: VERSION });
        }
        let body = rest.get(..word(12) as usize).ok_or(SchemaError::Damaged)?;
        if crc32c::crc32c(body) != word(16) {
            return Err(SchemaError::Damaged);
        }
        let mut reader = Reader(body);
        let tables = reader.list(read_table)?;
        if reader.0.is_empty() { Self::new(tables) } else { Err(SchemaError::Damaged) }
    }
}

fn specs_of(table: &Table) -> impl Iterator<Item = TableSpec> {
    let rows = TableSpec {
        key_bytes: table.key_bytes() as u16,
        row_bytes: table.row_bytes() as u32,
        partitioning: table.partitioning,
    };
    let indexes = table.indexes.iter().map(|index| TableSpec {
        key_bytes: table.index_key_bytes(index) as u16,
        row_bytes: table.key_bytes() as u32,
        partitioning: table.index_partitioning(index),
    });
    [rows].into_iter().chain(indexes)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.u8(text.len() as u8);
        self.0.extend(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], each: impl Fn(&mut Self, &T)) {
        self.u16(items.len() as u16);
        items.iter().for_each(|item| each(self, item));
    }
}

fn write_table(writer: &mut Writer, table: &Table) {
    writer.text(&table.name);
    writer.list(&table.columns, |writer, column| {
        writer.text(&column.name);
        writer.u8(u8::from(column.nullable));
        let (kind, detail) = match column.kind {
            ColumnType::Bool => (0, 0),
            ColumnType::U32 => (1, 0),
            ColumnType::I32 => (2, 0),
            ColumnType::I64 => (3, 0),
            ColumnType::Decimal { scale } => (4, u16::from(scale)),
            ColumnType::Text { most } => (5, most),
            ColumnType::Bytes { most } => (6, most),
            ColumnType::Timestamp => (7, 0),
        };
        writer.u8(kind);
        writer.u16(detail);
    });
    writer.list(&table.primary_key, write_part);
    writer.list(&table.indexes, |writer, index| {
        writer.text(&index.name);
        writer.u8(u8::from(index.unique));
        writer.list(&index.parts, write_part);
    });
    match table.partitioning {
        Partitioning::Replicated => writer.u8(0),
        Partitioning::Leading { per_partition } => {
            writer.u8(1);
            writer.u32(per_partition);
        }
    }
}

fn write_part(writer: &mut Writer, part: &KeyPart) {
    writer.u16(part.column);
    writer.u8(u8::from(part.descending));
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], SchemaError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(SchemaError::Damaged)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8, SchemaError> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, SchemaError> {
        self.array().map(u16::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, SchemaError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SchemaError::Damaged),
        }
    }

    fn text(&mut self) -> Result<String, SchemaError> {
        let length = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(length).ok_or(SchemaError::Damaged)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| SchemaError::Damaged)
    }

    fn list<T>(
        &mut self,
        each: impl Fn(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<Vec<T>, SchemaError> {
        (0..self.u16()?).map(|_| each(self)).collect()
    }
}

fn read_table(reader: &mut Reader<'_>) -> Result<Table, SchemaError> {
    let name = reader.text()?;
    let columns = reader.list(|reader| {
        let (name, nullable) = (reader.text()?, reader.flag()?);
        let kind = match (reader.u8()?, reader.u16()?) {
            (0, 0) => ColumnType::Bool,
            (1, 0) => ColumnType::U32,
            (2, 0) => ColumnType::I32,
            (3, 0) => ColumnType::I64,
            (4, scale @ ..256) => ColumnType::Decimal { scale: scale as u8 },
            (5, most) => ColumnType::Text { most },
            (6, most) => ColumnType::Bytes { most },
            (7, 0) => ColumnType::Timestamp,
            _ => return Err(SchemaError::Damaged),
        };
        Ok(Column { name, kind, nullable })
    })?;
    let primary_key = reader.list(read_part)?;
    let indexes = reader.list(|reader| {
        let (name, unique) = (reader.text()?, reader.flag()?);
        Ok(Index { name, unique, parts: reader.list(read_part)? })
    })?;
    let partitioning = match reader.u8()? {
        0 => Partitioning::Replicated,
        1 => Partitioning::Leading { per_partition: reader.array().map(u32::from_le_bytes)? },
        _ => return Err(SchemaError::Damaged),
    };
    Ok(Table { name, columns, primary_key, indexes, partitioning })
}

fn read_part(reader: &mut Reader<'_>) -> Result<KeyPart, SchemaError> {
    Ok(KeyPart { column: reader.u16()?, descending: reader.flag()? })
}
