//! Runs plans.

mod aggregate;
mod modify;
mod source;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use crate::catalog::Catalog;
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::patterns::Patterns;
use crate::plan::{Body, Core, Plan, Relation, Select, SetOperation, SortKey, Source};
use crate::settings::Facts;
use crate::store::{HiddenKeys, Work, check_cancel};
use crate::types::{Datum, Row};

/// How many rows are worked on between two looks whether the statement is cancelled.
const ROWS_BETWEEN_LOOKS: usize = 256;

/// A statement that runs.
pub(crate) struct Exec<'x, 'e> {
    pub(crate) work: &'x mut Work<'e>,
    pub(crate) catalog: &'x Catalog,
    pub(crate) params: &'x [Datum],
    /// Rows of the queries around the one that runs.
    pub(crate) outer: Vec<Row>,
    /// When the transaction began.
    pub(crate) now: i64,
    pub(crate) session: &'x Facts,
    pub(crate) patterns: &'x mut Patterns,
    pub(crate) cancel: &'x AtomicBool,
    pub(crate) hidden: &'x HiddenKeys,
    /// Rows of subqueries that read nothing around them, by where their plans lie.
    pub(crate) cache: HashMap<usize, Rc<Vec<Row>>>,
}

/// The outcome of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Rows that it returns.
    pub(crate) rows: Vec<Row>,
    /// Rows that it has changed.
    pub(crate) changed: u64,
}

impl Exec<'_, '_> {
    /// Runs a plan.
    pub(crate) fn run(&mut self, plan: &Plan) -> Result<Outcome> {
        match plan {
            Plan::Select(select) => Ok(Outcome { rows: self.select(select)?, changed: 0 }),
            Plan::Insert(insert) => self.insert(insert),
            Plan::Modify(modify) => self.modify(modify),
        }
    }

    /// The rows of a subquery, which are kept if they do not depend on the rows around it.
    pub(crate) fn cached_select(&mut self, select: &Select) -> Result<Rc<Vec<Row>>> {
        if select.correlated {
            return Ok(Rc::new(self.select(select)?));
        }
        let at = std::ptr::from_ref(select) as usize;
        if let Some(rows) = self.cache.get(&at) {
            return Ok(Rc::clone(rows));
        }
        let rows = Rc::new(self.select(select)?);
        self.cache.insert(at, Rc::clone(&rows));
        Ok(rows)
    }

    fn count(&mut self, expr: Option<&Expr>, what: &str) -> Result<Option<usize>> {
        let Some(expr) = expr else { return Ok(None) };
        match self.eval(expr, &[])? {
            Datum::Null => Ok(None),
            Datum::Int(count @ 0..) => Ok(Some(count as usize)),
            _ => {
                let message = format!("{what} must not be negative");
                Err(SqlError::new("2201W", message))
            }
        }
    }

    /// The rows of a query.
    pub(crate) fn select(&mut self, select: &Select) -> Result<Vec<Row>> {
        let limit = self.count(select.limit.as_ref(), "LIMIT")?;
        let offset = self.count(select.offset.as_ref(), "OFFSET")?.unwrap_or(0);
        let needed = limit.map(|limit| limit.saturating_add(offset));
        if needed == Some(0) {
            return Ok(Vec::new());
        }
        let (mut rows, width) = match &select.body {
            Body::Core(core) => {
                let needed = needed.filter(|_| core.is_sorted && select.sort.is_empty());
                (self.core(core, needed)?, core.width)
            }
            Body::Values(values) => {
                let rows = values.iter().map(|row| self.eval_all(row, &[]));
                (rows.collect::<Result<Vec<_>>>()?, select.columns.len().max(1))
            }
            Body::Set { operation, all, left, right } => {
                (self.set(*operation, *all, left, right)?, select.columns.len())
            }
        };
        sort(&mut rows, &select.sort);
        if let Body::Core(core) = &select.body
            && let Some(on) = &core.distinct_on
        {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(hash_key(on.iter().map(|&place| &row[place]))));
        }
        if offset > 0 {
            rows.drain(..offset.min(rows.len()));
        }
        if let Some(limit) = limit {
            rows.truncate(limit);
        }
        if matches!(select.body, Body::Core(_)) {
            rows.iter_mut().for_each(|row| row.truncate(width));
        }
        Ok(rows)
    }

    fn set(
        &mut self,
        operation: SetOperation,
        all: bool,
        left: &Select,
        right: &Select,
    ) -> Result<Vec<Row>> {
        let (mut rows, others) = (self.select(left)?, self.select(right)?);
        let key = |row: &Row| hash_key(row.iter());
        let mut seen = HashSet::new();
        match operation {
            SetOperation::Union => {
                rows.extend(others);
                if !all {
                    rows.retain(|row| seen.insert(key(row)));
                }
            }
            SetOperation::Except | SetOperation::Intersect => {
                let is_wanted = operation == SetOperation::Intersect;
                let others: HashSet<Vec<u8>> = others.iter().map(key).collect();
                rows.retain(|row| {
                    let key = key(row);
                    others.contains(&key) == is_wanted && seen.insert(key)
                });
            }
        }
        Ok(rows)
    }

    /// Rows before they are sorted, of which `needed` suffice.
    fn core(&mut self, core: &Core, needed: Option<usize>) -> Result<Vec<Row>> {
        let is_plain = core.grouping.is_none() && !core.distinct && core.distinct_on.is_none();
        let rows = match self.all_hold(&core.constant, &[])? {
            true => self.join(&core.relations, needed.filter(|_| is_plain))?,
            false => Vec::new(),
        };
        let rows = match &core.grouping {
            None => rows,
            Some(grouping) => self.group(grouping, &rows)?,
        };
        let mut output = Vec::with_capacity(rows.len());
        for row in rows {
            output.push(self.eval_all(&core.output, &row)?);
        }
        if core.distinct {
            let mut seen = HashSet::new();
            output.retain(|row| seen.insert(hash_key(row.iter())));
        }
        Ok(output)
    }

    /// Rows of all sources, joined, of which `needed` suffice.
    pub(crate) fn join(
        &mut self,
        relations: &[Relation],
        needed: Option<usize>,
    ) -> Result<Vec<Row>> {
        let mut rows = vec![Row::new()];
        if let ([relation], Some(needed)) = (relations, needed)
            && matches!(relation.source, Source::Table { .. })
            && relation.after.is_empty()
        {
            return self.first_rows(relation, needed);
        }
        for relation in relations {
            if rows.is_empty() {
                break;
            }
            rows = self.join_one(relation, rows)?;
        }
        Ok(rows)
    }

    fn join_one(&mut self, relation: &Relation, before: Vec<Row>) -> Result<Vec<Row>> {
        let is_left = relation.join == crate::plan::JoinKind::Left;
        let found = match relation.depends {
            true => Vec::new(),
            false => self.source_rows(relation, &[])?,
        };
        let table = match relation.depends || relation.hash.is_empty() {
            true => None,
            false => Some(self.hash_table(relation, &found)?),
        };
        let mut rows = Vec::new();
        for (number, left) in before.into_iter().enumerate() {
            if number % ROWS_BETWEEN_LOOKS == 0 {
                check_cancel(self.cancel)?;
            }
            let own;
            let candidates: Box<dyn Iterator<Item = &Row>> = if relation.depends {
                own = self.source_rows(relation, &left)?;
                Box::new(own.iter())
            } else if let Some(table) = &table {
                let values = relation.hash.iter().map(|(_, before)| before);
                let values =
                    values.map(|expr| self.eval(expr, &left)).collect::<Result<Vec<_>>>()?;
                let matches = table.get(&hash_key(values.iter()));
                Box::new(matches.into_iter().flatten().map(|&at| &found[at]))
            } else {
                Box::new(found.iter())
            };
            let mut has_match = false;
            for candidate in candidates {
                let mut row = left.clone();
                row.extend_from_slice(candidate);
                if self.all_hold(&relation.on, &row)? {
                    has_match = true;
                    if self.all_hold(&relation.after, &row)? {
                        rows.push(row);
                    }
                }
            }
            if is_left && !has_match {
                let mut row = left;
                row.resize(relation.offset + relation.width, Datum::Null);
                if self.all_hold(&relation.after, &row)? {
                    rows.push(row);
                }
            }
        }
        Ok(rows)
    }

    /// Places of rows by the values that they are joined by.
    fn hash_table(
        &mut self,
        relation: &Relation,
        found: &[Row],
    ) -> Result<HashMap<Vec<u8>, Vec<usize>>> {
        let mut table: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        // Expressions count columns of all sources.
        let mut row = vec![Datum::Null; relation.offset];
        for (at, candidate) in found.iter().enumerate() {
            row.truncate(relation.offset);
            row.extend_from_slice(candidate);
            let values = relation.hash.iter().map(|(own, _)| self.eval(own, &row));
            let values = values.collect::<Result<Vec<_>>>()?;
            if !values.iter().any(Datum::is_null) {
                table.entry(hash_key(values.iter())).or_default().push(at);
            }
        }
        Ok(table)
    }
}

/// Bytes that are equal for rows of equal values.
pub(crate) fn hash_key<'a>(values: impl Iterator<Item = &'a Datum>) -> Vec<u8> {
    let mut key = Vec::new();
    values.for_each(|value| value.hash_key(&mut key));
    key
}

/// Sorts rows. Rows that are equal stay in their order.
pub(crate) fn sort(rows: &mut [Row], keys: &[SortKey]) {
    if keys.is_empty() {
        return;
    }
    rows.sort_by(|one, other| {
        let orders = keys.iter().map(|key| {
            let Expr::Column(place) = key.expr else { return std::cmp::Ordering::Equal };
            let (one, other) = (&one[place], &other[place]);
            match (one.is_null(), other.is_null()) {
                (true, true) => std::cmp::Ordering::Equal,
                (true, false) if key.nulls_first => std::cmp::Ordering::Less,
                (true, false) => std::cmp::Ordering::Greater,
                (false, true) if key.nulls_first => std::cmp::Ordering::Greater,
                (false, true) => std::cmp::Ordering::Less,
                (false, false) if key.descending => other.order(one),
                (false, false) => one.order(other),
            }
        });
        orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
}

/// That a statement returns more rows, or larger ones, than can be held.
pub(crate) fn too_many(what: &str, most: usize) -> SqlError {
    SqlError::new(state::PROGRAM_LIMIT, format!("{what}: more than {most}"))
}
