//! Changes of rows.

use std::collections::HashSet;

use super::source::key_of;
use super::{Exec, Outcome, ROWS_BETWEEN_LOOKS};
use crate::catalog::{IndexDef, TableDef};
use crate::error::{Result, SqlError, state};
use crate::plan::{Insert, Modify, OnConflict, Returning};
use crate::store::{self, check_cancel};
use crate::types::{Datum, Row};

impl Exec<'_, '_> {
    pub(super) fn insert(&mut self, insert: &Insert) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let source = self.select(&insert.source)?;
        // Rows that this statement has inserted or changed: it does not change them again.
        let mut touched = HashSet::new();
        for (number, from) in source.into_iter().enumerate() {
            if number % ROWS_BETWEEN_LOOKS == 0 {
                check_cancel(self.cancel)?;
            }
            let row = self.eval_all(&insert.values, &from)?;
            let done = match &insert.on_conflict {
                OnConflict::Fail => {
                    store::insert(self.work, self.hidden, &insert.table, &row)?;
                    Some(row)
                }
                OnConflict::Nothing(index) => self.insert_or_nothing(&insert.table, *index, row)?,
                OnConflict::Update { .. } => self.insert_or_update(insert, row, &mut touched)?,
            };
            if let Some(row) = done {
                outcome.changed += 1;
                self.returned(insert.returning.as_ref(), row, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    fn returned(
        &mut self,
        returning: Option<&Returning>,
        mut row: Row,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if let Some(returning) = returning {
            // The hidden column of the key.
            row.push(Datum::Null);
            outcome.rows.push(self.eval_all(&returning.output, &row)?);
        }
        Ok(())
    }

    /// Inserts a row unless one is equal to it in an index, or in one of them: the row, if so.
    fn insert_or_nothing(
        &mut self,
        table: &TableDef,
        only: Option<usize>,
        row: Row,
    ) -> Result<Option<Row>> {
        for (number, index) in table.all_indexes().enumerate() {
            let is_asked = index.unique && only.is_none_or(|only| only == number);
            if is_asked && store::find_equal(self.work, table, index, &row)?.is_some() {
                return Ok(None);
            }
        }
        store::insert(self.work, self.hidden, table, &row)?;
        Ok(Some(row))
    }

    fn insert_or_update(
        &mut self,
        insert: &Insert,
        row: Row,
        touched: &mut HashSet<Vec<u8>>,
    ) -> Result<Option<Row>> {
        let OnConflict::Update { index, set, condition } = &insert.on_conflict else {
            return Err(SqlError::new(state::INTERNAL, "there is no update"));
        };
        let table = &insert.table;
        store::check_nulls(table, &row)?;
        let arbiter: &IndexDef =
            table.all_indexes().nth(*index).expect("the binder has found the index");
        let id =
            |row: &[Datum]| super::hash_key(arbiter.columns.iter().map(|&column| &row[column]));
        let Some((key, old)) = store::find_equal(self.work, table, arbiter, &row)? else {
            store::insert(self.work, self.hidden, table, &row)?;
            touched.insert(id(&row));
            return Ok(Some(row));
        };
        if !touched.insert(id(&row)) {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            return Err(SqlError::new(state::CARDINALITY_VIOLATION, message)
                .with_hint("Ensure that no rows proposed for insertion have duplicate values."));
        }
        // The row that is there, and behind it the one that was to be inserted.
        let mut both = old.clone();
        both.push(Datum::Bytes(key.clone()));
        both.extend(row);
        both.push(Datum::Null);
        if let Some(condition) = condition
            && !self.holds(condition, &both)?
        {
            return Ok(None);
        }
        let mut new = old.clone();
        for (column, value) in set {
            new[*column] = self.eval(value, &both)?;
        }
        store::update(self.work, table, &key, (&old, &new))?;
        Ok(Some(new))
    }

    pub(super) fn modify(&mut self, modify: &Modify) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if !self.all_hold(&modify.constant, &[])? {
            return Ok(outcome);
        }
        // All rows are found before the first one changes.
        let rows = self.join(&modify.relations, None)?;
        let columns = modify.table.columns.len();
        let mut changed = HashSet::new();
        for (number, mut row) in rows.into_iter().enumerate() {
            if number % ROWS_BETWEEN_LOOKS == 0 {
                check_cancel(self.cancel)?;
            }
            let key = key_of(&row[..=columns])?.to_vec();
            // A row that is joined with several others is changed once.
            if !changed.insert(key.clone()) {
                continue;
            }
            match &modify.set {
                None => store::delete(self.work, &modify.table, &key, &row[..columns])?,
                Some(set) => {
                    let old = row[..columns].to_vec();
                    let mut new = old.clone();
                    for (column, value) in set {
                        new[*column] = self.eval(value, &row)?;
                    }
                    store::update(self.work, &modify.table, &key, (&old, &new))?;
                    row[..columns].clone_from_slice(&new);
                }
            }
            outcome.changed += 1;
            if let Some(returning) = &modify.returning {
                outcome.rows.push(self.eval_all(&returning.output, &row)?);
            }
        }
        Ok(outcome)
    }
}
