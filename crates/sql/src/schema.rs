//! The catalog in the engine: it is read and changed in transactions, as rows are.

use std::sync::Arc;

use tombolo_database::{Engine, TableId};

use crate::bind::Ddl;
use crate::bind::NewIndex;
use crate::catalog::{Catalog, ColumnDef, FIRST_OID, IndexDef, TableDef};
use crate::error::{Result, SqlError, state};
use crate::layout::{self, CATALOG, PREFIX, catalog_key, version_key};
use crate::row;
use crate::store::{self, HiddenKeys, KeyRange, Work};
use crate::types::{DataType, Datum};

/// Rows that are rewritten between two looks whether the statement is cancelled.
const BATCH: usize = 256;

/// Where this host stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// All partitions.
    pub(crate) partitions: u32,
    /// One that is at home here: new tables are, too.
    pub(crate) own: u32,
}

impl Places {
    pub(crate) fn of<E: Engine>(engine: &E) -> Self {
        let (partitions, home) = (engine.partitions(), engine.home().0);
        let own = (0..partitions).find(|&partition| engine.home_of(partition) == home);
        Self { partitions, own: own.unwrap_or(0) }
    }
}

fn damaged(what: &str) -> SqlError {
    SqlError::new(state::DATA_CORRUPTED, format!("the catalog is damaged: {what}"))
}

/// The version of the catalog.
fn version(work: &mut Work<'_>, places: Places) -> Result<u64> {
    match work.get(CATALOG, &version_key(places.own), false)? {
        None => Ok(0),
        Some(bytes) => {
            let bytes = bytes.try_into().map_err(|_| damaged("its version"))?;
            Ok(u64::from_le_bytes(bytes))
        }
    }
}

/// The catalog as the transaction sees it: `known`, if that is still right.
pub(crate) fn read(
    work: &mut Work<'_>,
    places: Places,
    known: &Arc<Catalog>,
) -> Result<Arc<Catalog>> {
    let version = version(work, places)?;
    if version == known.version {
        return Ok(Arc::clone(known));
    }
    let range = KeyRange::prefix(catalog_key(b't', None));
    let rows = work.scan(CATALOG, &range, usize::MAX, false)?;
    let tables: Vec<TableDef> = rows
        .iter()
        .map(|(_, row)| serde_json::from_slice(row).map_err(|error| damaged(&error.to_string())))
        .collect::<Result<_>>()?;
    Ok(Arc::new(Catalog::new(version, tables)))
}

/// Changes the catalog in a transaction.
pub(crate) struct Changer<'x, 'e> {
    pub(crate) work: &'x mut Work<'e>,
    pub(crate) catalog: &'x mut Catalog,
    pub(crate) places: Places,
    pub(crate) hidden: &'x HiddenKeys,
    pub(crate) cancel: &'x std::sync::atomic::AtomicBool,
}

impl Changer<'_, '_> {
    fn put(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        if !self.work.update(CATALOG, key, row)? {
            self.work.insert(CATALOG, key, row)?;
        }
        Ok(())
    }

    /// Changes the version in all partitions: each host reads it in its own. All of the
    /// transactions that have read it end before, or begin after.
    fn new_version(&mut self) -> Result<()> {
        let next = self.catalog.version + 1;
        for partition in 0..self.places.partitions {
            self.put(&version_key(partition), &next.to_le_bytes())?;
        }
        self.catalog.version = next;
        Ok(())
    }

    /// A number that no table and no index has had: with its partition, and by itself.
    fn next_number(&mut self) -> Result<(u32, u32)> {
        let key = catalog_key(b'n', None);
        let last = match self.work.get(CATALOG, &key, true)? {
            None => 0,
            Some(bytes) => {
                u32::from_le_bytes(bytes.try_into().map_err(|_| damaged("its last number"))?)
            }
        };
        if last >= layout::MAX_NUMBERS {
            let message = "there have been too many tables and indexes";
            return Err(SqlError::new(state::PROGRAM_LIMIT, message));
        }
        self.put(&key, &(last + 1).to_le_bytes())?;
        Ok((layout::number(self.places.own, last + 1), last + 1))
    }

    fn save(&mut self, table: &TableDef) -> Result<()> {
        let text = serde_json::to_vec(table).map_err(|error| damaged(&error.to_string()))?;
        self.put(&catalog_key(b't', Some(table.oid)), &text)?;
        self.catalog.put(table.clone());
        Ok(())
    }

    /// Notes that rows with a number are to be deleted. The catalog does not speak of them.
    fn discard(&mut self, number: u32, place: TableId) -> Result<()> {
        self.put(&catalog_key(b'd', Some(number)), &place.0.to_le_bytes())
    }

    fn discard_all(&mut self, table: &TableDef) -> Result<()> {
        self.discard(table.number, table.table())?;
        table.indexes.iter().try_for_each(|index| self.discard(index.number, index.table()))
    }

    /// Makes a change. Whether there was one to make: a notice says why, if not.
    pub(crate) fn change(&mut self, ddl: &Ddl) -> Result<Option<String>> {
        let skipped = self.change_inner(ddl)?;
        if skipped.is_none() {
            self.new_version()?;
        }
        Ok(skipped)
    }

    fn change_inner(&mut self, ddl: &Ddl) -> Result<Option<String>> {
        match ddl {
            Ddl::CreateTable { name, columns, indexes, if_not_exists } => {
                if self.catalog.has_relation(name) {
                    let message = format!("relation \"{name}\" already exists");
                    return skip(*if_not_exists, state::DUPLICATE_TABLE, message);
                }
                self.create_table(name, columns, indexes)?;
            }
            Ddl::CreateIndex { table, index, if_not_exists } => {
                let table = Arc::clone(self.catalog.table(table)?);
                if let Some(name) = &index.name
                    && self.catalog.has_relation(name)
                {
                    let message = format!("relation \"{name}\" already exists");
                    return skip(*if_not_exists, state::DUPLICATE_TABLE, message);
                }
                match index.primary {
                    true => self.add_primary(&table, index)?,
                    false => self.add_index(&table, index)?,
                }
            }
            Ddl::DropTables { names, if_exists } => {
                let mut dropped = false;
                for name in names {
                    let Some(table) = self.catalog.find(name).cloned() else {
                        let message = format!("table \"{name}\" does not exist");
                        skip(*if_exists, state::UNDEFINED_TABLE, message)?;
                        continue;
                    };
                    self.discard_all(&table)?;
                    self.work.delete(CATALOG, &catalog_key(b't', Some(table.oid)))?;
                    self.catalog.remove(name);
                    dropped = true;
                }
                if !dropped {
                    let message =
                        format!("table \"{}\" does not exist, skipping", names.join(", "));
                    return Ok(Some(message));
                }
            }
            Ddl::DropIndexes { names, if_exists } => {
                for name in names {
                    let found = self
                        .catalog
                        .index(name)
                        .map(|(table, index)| (Arc::clone(table), index.is_constraint));
                    let Some((table, is_constraint)) = found else {
                        let message = format!("index \"{name}\" does not exist");
                        return skip(*if_exists, state::UNDEFINED_OBJECT, message);
                    };
                    if is_constraint {
                        let message = format!(
                            "cannot drop index {name} because constraint {name} on table {} \
                             requires it",
                            table.name
                        );
                        return Err(SqlError::new(state::DEPENDENT_OBJECTS, message));
                    }
                    self.drop_index(&table, name)?;
                }
            }
            Ddl::DropConstraint { table, name, if_exists } => {
                let table = Arc::clone(self.catalog.table(table)?);
                let is_it = |index: &IndexDef| index.name == *name && index.is_constraint;
                if table.primary.as_ref().is_some_and(is_it) {
                    return Err(SqlError::unsupported("DROP CONSTRAINT of a primary key"));
                }
                if !table.indexes.iter().any(is_it) {
                    let message = format!(
                        "constraint \"{name}\" of relation \"{}\" does not exist",
                        table.name
                    );
                    return skip(*if_exists, state::UNDEFINED_OBJECT, message);
                }
                self.drop_index(&table, name)?;
            }
            Ddl::RenameTable { table, to } => {
                if self.catalog.has_relation(to) {
                    let message = format!("relation \"{to}\" already exists");
                    return Err(SqlError::new(state::DUPLICATE_TABLE, message));
                }
                let mut changed = TableDef::clone(self.catalog.table(table)?);
                self.catalog.remove(table);
                changed.name.clone_from(to);
                self.save(&changed)?;
            }
            Ddl::RenameColumn { table, column, to } => {
                let mut changed = TableDef::clone(self.catalog.table(table)?);
                let place = changed.column(column)?;
                if changed.columns.iter().any(|other| other.name == *to) {
                    let message = format!("column \"{to}\" of relation \"{table}\" already exists");
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                changed.columns[place].name.clone_from(to);
                self.save(&changed)?;
            }
            Ddl::Truncate { names } => {
                for name in names {
                    let mut table = TableDef::clone(self.catalog.table(name)?);
                    self.discard_all(&table)?;
                    self.renumber(&mut table)?;
                    self.save(&table)?;
                }
            }
        }
        Ok(None)
    }

    /// Gives a table and its indexes new numbers: it has no rows then.
    fn renumber(&mut self, table: &mut TableDef) -> Result<()> {
        table.number = self.next_number()?.0;
        if let Some(primary) = &mut table.primary {
            primary.number = table.number;
        }
        for index in &mut table.indexes {
            index.number = self.next_number()?.0;
        }
        Ok(())
    }

    fn create_table(
        &mut self,
        name: &str,
        columns: &[ColumnDef],
        indexes: &[NewIndex],
    ) -> Result<()> {
        let (number, count) = self.next_number()?;
        let mut table = TableDef {
            number,
            oid: FIRST_OID + count,
            name: name.to_owned(),
            columns: columns.to_vec(),
            primary: None,
            indexes: Vec::new(),
            place: 0,
        };
        self.catalog.put(table.clone());
        if let Some(primary) = indexes.iter().find(|index| index.primary) {
            self.set_primary(&mut table, primary)?;
        }
        place_rows(&mut table);
        for index in indexes.iter().filter(|index| !index.primary) {
            let index = self.index_def(&table, index)?;
            table.indexes.push(index);
            self.catalog.put(table.clone());
        }
        self.save(&table)
    }

    fn set_primary(&mut self, table: &mut TableDef, new: &NewIndex) -> Result<()> {
        let mut primary = self.index_def(table, new)?;
        primary.number = table.number;
        for &column in &primary.columns {
            table.columns[column].not_null = true;
        }
        table.primary = Some(primary);
        Ok(())
    }

    /// An index of a table, with a number and a name of its own.
    fn index_def(&mut self, table: &TableDef, new: &NewIndex) -> Result<IndexDef> {
        let columns: Vec<usize> =
            new.columns.iter().map(|name| table.column(name)).collect::<Result<_>>()?;
        let mut once = columns.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() < columns.len() {
            let message = "a column appears twice in a constraint or an index";
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        let name = match &new.name {
            Some(name) if self.catalog.has_relation(name) => {
                let message = format!("relation \"{name}\" already exists");
                return Err(SqlError::new(state::DUPLICATE_TABLE, message));
            }
            Some(name) => name.clone(),
            None => self.free_name(table, new),
        };
        let (number, count) = self.next_number()?;
        let own: usize = columns.iter().map(|&column| key_bytes(table.columns[column].ty)).sum();
        // Where rows may be equal in the index, the primary key tells them apart.
        let tells = new.unique && columns.iter().all(|&column| table.columns[column].not_null);
        let bytes = PREFIX + own + if tells { 0 } else { primary_bytes(table) };
        Ok(IndexDef {
            number,
            oid: FIRST_OID + count,
            name,
            unique: new.unique,
            is_constraint: new.is_constraint,
            columns,
            place: layout::index_table(bytes).0,
        })
    }

    /// A name as PostgreSQL gives it.
    fn free_name(&self, table: &TableDef, new: &NewIndex) -> String {
        let base = match (new.primary, new.is_constraint) {
            (true, _) => format!("{}_pkey", table.name),
            (false, true) => format!("{}_{}_key", table.name, new.columns.join("_")),
            (false, false) => format!("{}_{}_idx", table.name, new.columns.join("_")),
        };
        let mut name = base.clone();
        let mut number = 0;
        while self.catalog.has_relation(&name) || name == table.name {
            number += 1;
            name = format!("{base}{number}");
        }
        name
    }

    /// Calls `each` with key and values of each row of a table.
    fn each_row(
        &mut self,
        table: &TableDef,
        mut each: impl FnMut(&mut Self, &[u8], &[Datum]) -> Result<()>,
    ) -> Result<()> {
        let mut range = KeyRange::prefix(table.number.to_be_bytes().to_vec());
        loop {
            store::check_cancel(self.cancel)?;
            let pairs = self.work.scan(table.table(), &range, BATCH, false)?;
            for (key, bytes) in &pairs {
                let values = row::decode(&table.columns, bytes)?;
                each(self, key, &values)?;
            }
            match pairs.last() {
                Some((last, _)) if pairs.len() == BATCH => {
                    range.low = std::ops::Bound::Excluded(last.clone());
                }
                _ => return Ok(()),
            }
        }
    }

    fn add_index(&mut self, table: &TableDef, new: &NewIndex) -> Result<()> {
        let index = self.index_def(table, new)?;
        let mut changed = table.clone();
        changed.indexes.push(index.clone());
        self.each_row(table, |changer, key, values| {
            store::insert_entry(changer.work, table, &index, values, key)
        })?;
        self.save(&changed)
    }

    /// Gives a table a primary key: all rows get new keys.
    fn add_primary(&mut self, table: &TableDef, new: &NewIndex) -> Result<()> {
        if table.primary.is_some() {
            let message =
                format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        let mut changed = table.clone();
        self.discard_all(table)?;
        self.renumber(&mut changed)?;
        self.set_primary(&mut changed, new)?;
        place_rows(&mut changed);
        self.each_row(table, |changer, _, values| {
            store::insert(changer.work, changer.hidden, &changed, values)
        })?;
        self.save(&changed)
    }

    fn drop_index(&mut self, table: &TableDef, name: &str) -> Result<()> {
        let mut changed = table.clone();
        let at = changed.indexes.iter().position(|index| index.name == name);
        let index = changed.indexes.remove(at.ok_or_else(|| damaged(name))?);
        self.discard(index.number, index.table())?;
        self.save(&changed)
    }
}

/// An error, or if that is allowed a notice.
fn skip(allowed: bool, code: &'static str, message: String) -> Result<Option<String>> {
    match allowed {
        true => Ok(Some(format!("{message}, skipping"))),
        false => Err(SqlError::new(code, message)),
    }
}

/// Chooses the engine's table for rows of a table.
fn place_rows(table: &mut TableDef) {
    let bytes = table.columns.iter().map(|column| row::most_bytes(column.ty));
    let bytes: Option<usize> = bytes.sum();
    let bytes = bytes.map(|bytes| bytes + table.columns.len().div_ceil(8));
    let key = PREFIX + primary_bytes(table);
    // Longer rows are refused when they come.
    let place = layout::row_table(key, bytes).or_else(|| layout::row_table(key, None));
    table.place = place.expect("there is one for rows of any length").0;
}

/// The most bytes of a table's keys without their numbers.
fn primary_bytes(table: &TableDef) -> usize {
    match &table.primary {
        Some(primary) => {
            primary.columns.iter().map(|&column| key_bytes(table.columns[column].ty)).sum()
        }
        None => 8,
    }
}

/// The most bytes of a value in a key.
fn key_bytes(ty: DataType) -> usize {
    match ty {
        DataType::Bool => 2,
        DataType::Int2 => 3,
        DataType::Int4 | DataType::Date | DataType::Oid => 5,
        DataType::Int8 | DataType::Timestamp | DataType::Timestamptz => 9,
        DataType::Real | DataType::Double => 9,
        DataType::Numeric(Some((precision, _))) => 5 + usize::from(precision).div_ceil(2),
        DataType::Numeric(None) => 18,
        DataType::Varchar(Some(length)) | DataType::Char(length) => {
            3 + 4 * (length as usize).min(tombolo_database::MAX_KEY_BYTES)
        }
        _ => tombolo_database::MAX_KEY_BYTES,
    }
}

/// Rows that one transaction deletes of a table that is gone.
const SWEPT: usize = 200;

/// Deletes some rows of tables and indexes that are gone, and are at home here: whether any are
/// left.
pub(crate) fn sweep(work: &mut Work<'_>, is_own: impl Fn(u32) -> bool) -> Result<bool> {
    let range = KeyRange::prefix(catalog_key(b'd', None));
    let listed = work.scan(CATALOG, &range, usize::MAX, false)?;
    for (key, place) in listed {
        let number: [u8; 4] =
            key[PREFIX + 1..].try_into().map_err(|_| damaged("a number to be deleted"))?;
        if !is_own(u32::from_be_bytes(number)) {
            continue;
        }
        let place = u16::from_le_bytes(place.try_into().map_err(|_| damaged("a place"))?);
        let table = TableId(place);
        let rows = work.scan(table, &KeyRange::prefix(number.to_vec()), SWEPT, true)?;
        for (key, _) in &rows {
            work.delete(table, key)?;
        }
        if rows.len() < SWEPT {
            work.delete(CATALOG, &key)?;
        }
        return Ok(true);
    }
    Ok(false)
}
