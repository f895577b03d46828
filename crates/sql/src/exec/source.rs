//! Rows of sources.

use std::collections::HashSet;
use std::ops::Bound;

use super::{Exec, ROWS_BETWEEN_LOOKS, too_many};
use crate::catalog::TableDef;
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::key;
use crate::layout::PREFIX;
use crate::plan::{Access, RangeAccess, Relation, Source};
use crate::row;
use crate::store::{KeyRange, Pair, check_cancel};
use crate::types::{Datum, Row};

/// Rows of `generate_series` at most.
const MAX_SERIES: usize = 10_000_000;

/// Rows that are read first where some suffice.
const FIRST_BATCH: usize = 16;

impl Exec<'_, '_> {
    /// Rows of a source, for a row of the sources before it if it depends on that.
    pub(super) fn source_rows(
        &mut self,
        relation: &Relation,
        before: &[Datum],
    ) -> Result<Vec<Row>> {
        match &relation.source {
            Source::Table { table, access, for_update } => {
                self.table_rows(table, access, *for_update, before)
            }
            Source::System(system) => {
                let settings = self.session.all();
                let around = crate::system::Surroundings {
                    user: &self.session.user,
                    database: &self.session.database,
                    settings,
                };
                Ok(system.rows(self.catalog, &around))
            }
            Source::Derived(select) => {
                // It stands beside the query's other sources, and sees those around the query.
                Ok(self.cached_select(select)?.to_vec())
            }
            Source::Series(bounds) => self.series(bounds),
        }
    }

    fn series(&mut self, bounds: &[Expr]) -> Result<Vec<Row>> {
        let bounds = self.eval_all(bounds, &[])?;
        let (from, to, step) = match &*bounds {
            [Datum::Int(from), Datum::Int(to)] => (*from, *to, 1),
            [Datum::Int(from), Datum::Int(to), Datum::Int(step)] => (*from, *to, *step),
            _ => return Ok(Vec::new()),
        };
        if step == 0 {
            let message = "step size cannot equal zero";
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
        let mut rows = Vec::new();
        let mut next = Some(from);
        while let Some(value) =
            next.filter(|&value| if step > 0 { value <= to } else { value >= to })
        {
            if rows.len() == MAX_SERIES {
                return Err(too_many("rows of generate_series", MAX_SERIES));
            }
            rows.push(vec![Datum::Int(value)]);
            next = value.checked_add(step);
        }
        Ok(rows)
    }

    fn table_rows(
        &mut self,
        table: &TableDef,
        access: &Access,
        for_update: bool,
        before: &[Datum],
    ) -> Result<Vec<Row>> {
        match access {
            Access::Points { index, keys } => {
                let (mut rows, mut seen) = (Vec::new(), HashSet::new());
                for exprs in keys {
                    let values = self.eval_all(exprs, before)?;
                    // Nothing is equal to null.
                    if values.iter().any(Datum::is_null) {
                        continue;
                    }
                    let number = index.map_or(table.number, |index| table.indexes[index].number);
                    let mut found = number.to_be_bytes().to_vec();
                    values.iter().for_each(|value| key::encode(value, &mut found));
                    if seen.insert(found.clone())
                        && let Some(row) = self.point(table, *index, &found, for_update)?
                    {
                        rows.push(row);
                    }
                }
                Ok(rows)
            }
            Access::Range(range) => match self.key_range(table, range, before)? {
                Some(keys) => self.range_rows(table, range.index, &keys, usize::MAX, for_update),
                None => Ok(Vec::new()),
            },
        }
    }

    fn point(
        &mut self,
        table: &TableDef,
        index: Option<usize>,
        key: &[u8],
        for_update: bool,
    ) -> Result<Option<Row>> {
        if key.len() > tombolo_database::MAX_KEY_BYTES {
            // No row has so long a key.
            return Ok(None);
        }
        let Some(index) = index else { return self.row(table, key, for_update) };
        let entries = table.indexes[index].table();
        let Some(rest) = self.work.get(entries, key, false)? else { return Ok(None) };
        let mut key = table.number.to_be_bytes().to_vec();
        key.extend(rest);
        self.row(table, &key, for_update)
    }

    /// The row with a key, and the key behind it.
    fn row(&mut self, table: &TableDef, key: &[u8], for_update: bool) -> Result<Option<Row>> {
        let Some(bytes) = self.work.get(table.table(), key, for_update)? else { return Ok(None) };
        let mut row = row::decode(&table.columns, bytes)?;
        row.push(Datum::Bytes(key.to_vec()));
        Ok(Some(row))
    }

    /// The keys of a range; `None` if it cannot have any.
    fn key_range(
        &mut self,
        table: &TableDef,
        range: &RangeAccess,
        before: &[Datum],
    ) -> Result<Option<KeyRange>> {
        let number = range.index.map_or(table.number, |index| table.indexes[index].number);
        let mut prefix = number.to_be_bytes().to_vec();
        for expr in &range.equal {
            let value = self.eval(expr, before)?;
            if value.is_null() {
                return Ok(None);
            }
            key::encode(&value, &mut prefix);
        }
        let mut keys = KeyRange { reverse: range.reverse, ..KeyRange::prefix(prefix.clone()) };
        let bound = |exec: &mut Self, expr: &Expr| -> Result<Option<Vec<u8>>> {
            let value = exec.eval(expr, before)?;
            let mut bytes = prefix.clone();
            key::encode(&value, &mut bytes);
            Ok((!value.is_null()).then_some(bytes))
        };
        if let Some((expr, included)) = &range.low {
            let Some(bytes) = bound(self, expr)? else { return Ok(None) };
            keys.low = match included {
                true => Bound::Included(bytes),
                false => match key::after_all(&bytes) {
                    Some(bytes) => Bound::Included(bytes),
                    None => return Ok(None),
                },
            };
        }
        match &range.high {
            Some((expr, included)) => {
                let Some(bytes) = bound(self, expr)? else { return Ok(None) };
                keys.high = match included {
                    true => key::after_all(&bytes).map_or(Bound::Unbounded, Bound::Excluded),
                    false => Bound::Excluded(bytes),
                };
            }
            // Null is behind all values, and greater than none.
            None if range.low.is_some() => {
                let mut bytes = prefix.clone();
                bytes.push(key::NULL);
                keys.high = Bound::Excluded(bytes);
            }
            None => {}
        }
        let limit = |bound: Bound<Vec<u8>>| {
            bound.map(|mut bytes| {
                // Keys are not longer than that, so the rest of a bound does not matter.
                bytes.truncate(tombolo_database::MAX_KEY_BYTES);
                bytes
            })
        };
        let longest = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.len(),
            Bound::Unbounded => 0,
        };
        if longest(&keys.high) > tombolo_database::MAX_KEY_BYTES {
            // Cut, it has to let through what begins like it.
            keys.high = match limit(keys.high) {
                Bound::Excluded(bytes) | Bound::Included(bytes) => {
                    key::after_all(&bytes).map_or(Bound::Unbounded, Bound::Excluded)
                }
                Bound::Unbounded => Bound::Unbounded,
            };
        }
        keys.low = limit(keys.low);
        Ok(Some(keys))
    }

    fn range_rows(
        &mut self,
        table: &TableDef,
        index: Option<usize>,
        keys: &KeyRange,
        limit: usize,
        for_update: bool,
    ) -> Result<Vec<Row>> {
        check_cancel(self.cancel)?;
        let Some(index) = index else {
            let pairs = self.work.scan(table.table(), keys, limit, for_update)?;
            return pairs
                .into_iter()
                .map(|(key, bytes)| {
                    let mut row = row::decode(&table.columns, &bytes)?;
                    row.push(Datum::Bytes(key));
                    Ok(row)
                })
                .collect();
        };
        let pairs = self.work.scan(table.indexes[index].table(), keys, limit, false)?;
        self.rows_of_entries(table, pairs, for_update)
    }

    fn rows_of_entries(
        &mut self,
        table: &TableDef,
        entries: Vec<Pair>,
        for_update: bool,
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(entries.len());
        for (number, (_, rest)) in entries.into_iter().enumerate() {
            if number % ROWS_BETWEEN_LOOKS == 0 {
                check_cancel(self.cancel)?;
            }
            let mut key = table.number.to_be_bytes().to_vec();
            key.extend(rest);
            // An entry and its row change together.
            rows.push(self.row(table, &key, for_update)?.ok_or_else(|| {
                let message = format!("an index of table \"{}\" has no row", table.name);
                SqlError::new(state::DATA_CORRUPTED, message)
            })?);
        }
        Ok(rows)
    }

    /// The first rows of a table for which its conditions hold, in the order of its access. Rows
    /// behind them are not locked, but for some of the last batch.
    pub(super) fn first_rows(&mut self, relation: &Relation, needed: usize) -> Result<Vec<Row>> {
        let Source::Table { table, access, for_update } = &relation.source else {
            return Err(SqlError::new(state::INTERNAL, "the source is no table"));
        };
        let Access::Range(range) = access else {
            let mut rows = self.source_rows(relation, &[])?;
            return self.keep(relation, &mut rows, needed);
        };
        let Some(mut keys) = self.key_range(table, range, &[])? else { return Ok(Vec::new()) };
        let (mut rows, mut batch) = (Vec::new(), needed.clamp(1, FIRST_BATCH));
        // Without conditions that are to be checked, so many rows suffice.
        if relation.on.is_empty() {
            batch = needed;
        }
        while rows.len() < needed {
            let entries = match range.index {
                Some(index) => table.indexes[index].table(),
                None => table.table(),
            };
            let from_rows = range.index.is_none() && *for_update;
            let pairs = self.work.scan(entries, &keys, batch, from_rows)?;
            let is_last = pairs.len() < batch;
            let Some((last, _)) = pairs.last() else { break };
            match range.reverse {
                true => keys.high = Bound::Excluded(last.clone()),
                false => keys.low = Bound::Excluded(last.clone()),
            }
            let mut found = match range.index {
                Some(_) => self.rows_of_entries(table, pairs, *for_update)?,
                None => {
                    let mut found = Vec::with_capacity(pairs.len());
                    for (key, bytes) in pairs {
                        let mut row = row::decode(&table.columns, &bytes)?;
                        row.push(Datum::Bytes(key));
                        found.push(row);
                    }
                    found
                }
            };
            let left = needed - rows.len();
            rows.extend(self.keep(relation, &mut found, left)?);
            if is_last {
                break;
            }
            batch = batch.saturating_mul(4);
        }
        Ok(rows)
    }

    /// The first rows for which the conditions hold.
    fn keep(&mut self, relation: &Relation, rows: &mut Vec<Row>, most: usize) -> Result<Vec<Row>> {
        let mut kept = Vec::new();
        for row in rows.drain(..) {
            if kept.len() == most {
                break;
            }
            if self.all_hold(&relation.on, &row)? {
                kept.push(row);
            }
        }
        Ok(kept)
    }
}

/// The key of a row as the last of its values.
pub(super) fn key_of(row: &[Datum]) -> Result<&[u8]> {
    match row.last() {
        Some(Datum::Bytes(key)) if key.len() > PREFIX => Ok(key),
        _ => Err(SqlError::new(state::INTERNAL, "a row without a key")),
    }
}
