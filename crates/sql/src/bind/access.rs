//! How rows are found: by keys where conditions allow it.

use crate::catalog::{IndexDef, TableDef};
use crate::expr::{Comparison, Expr};
use crate::plan::{Access, JoinKind, RangeAccess, Relation, SortKey, Source};
use crate::types::DataType;

/// Puts each condition of WHERE and of inner joins where it can first be checked, and chooses how
/// rows are found. Returns conditions that read no column.
pub(super) fn place(relations: &mut [Relation], conditions: Vec<Expr>) -> Vec<Expr> {
    let mut constant = Vec::new();
    for condition in conditions {
        if super::select::is_true(&condition) {
            continue;
        }
        let Some(last) = condition.last_column() else {
            constant.push(condition);
            continue;
        };
        let behind = relations.iter().rposition(|relation| relation.offset <= last);
        let Some(relation) = behind.map(|at| &mut relations[at]) else {
            constant.push(condition);
            continue;
        };
        match relation.join {
            JoinKind::Inner => relation.on.push(condition),
            JoinKind::Left => relation.after.push(condition),
        }
    }
    for relation in &mut *relations {
        choose(relation);
    }
    constant
}

fn choose(relation: &mut Relation) {
    let (offset, width) = (relation.offset, relation.width);
    if let Source::Table { table, access, .. } = &mut relation.source
        && let Some(best) = best_access(table, &relation.on, offset, width)
    {
        *access = best;
        let Source::Table { access, .. } = &relation.source else { return };
        relation.depends = reads_columns(access);
    }
    if relation.depends || offset == 0 {
        return;
    }
    // Columns of this source alone, and of those before it alone.
    let own = |expr: &Expr| {
        expr.last_column().is_some_and(|last| last != usize::MAX)
            && !expr.any(&|part| matches!(part, Expr::Column(column) if *column < offset))
    };
    let before = |expr: &Expr| expr.last_column().is_some_and(|last| last < offset);
    for condition in &relation.on {
        if let Expr::Compare(Comparison::Equal, one, other) = condition {
            if own(one) && before(other) {
                relation.hash.push(((**one).clone(), (**other).clone()));
            } else if own(other) && before(one) {
                relation.hash.push(((**other).clone(), (**one).clone()));
            }
        }
    }
}

fn reads_columns(access: &Access) -> bool {
    let reads = |expr: &Expr| expr.last_column().is_some();
    match access {
        Access::Points { keys, .. } => keys.iter().flatten().any(reads),
        Access::Range(range) => {
            let bounds = range.low.iter().chain(&range.high).map(|(expr, _)| expr);
            range.equal.iter().chain(bounds).any(reads)
        }
    }
}

/// The facts that conditions tell of a table's columns.
struct Facts<'a> {
    conditions: &'a [Expr],
    offset: usize,
    width: usize,
}

impl<'a> Facts<'a> {
    /// The column of the table that an expression is, if it is one.
    fn column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(column) => {
                let place = column.checked_sub(self.offset)?;
                (place + 1 < self.width).then_some(place)
            }
            // Values of both types are the same, so keys are.
            Expr::Cast { value, from, to, .. } => {
                let is_same = from.is_integer() && to.is_integer() && from.width() <= to.width()
                    || matches!((from, to), (DataType::Char(_), DataType::Char(0)))
                    || matches!((from, to), (DataType::Real, DataType::Double));
                is_same.then(|| self.column(value)).flatten()
            }
            _ => None,
        }
    }

    /// Whether an expression is known before a row of the table is read.
    fn is_known(&self, expr: &Expr) -> bool {
        expr.last_column().is_none_or(|last| last < self.offset)
    }

    /// The comparisons of a column with a known value.
    fn comparisons(&self, column: usize) -> impl Iterator<Item = (Comparison, &'a Expr)> {
        self.conditions.iter().filter_map(move |condition| {
            let Expr::Compare(comparison, one, other) = condition else { return None };
            if self.column(one) == Some(column) && self.is_known(other) {
                return Some((*comparison, &**other));
            }
            if self.column(other) == Some(column) && self.is_known(one) {
                return Some((comparison.mirrored(), &**one));
            }
            None
        })
    }

    fn equal(&self, column: usize) -> Option<&'a Expr> {
        let mut found = self.comparisons(column);
        found.find(|(comparison, _)| *comparison == Comparison::Equal).map(|(_, expr)| expr)
    }

    /// The values that a column is one of.
    fn one_of(&self, column: usize) -> Option<&'a [Expr]> {
        self.conditions.iter().find_map(|condition| match condition {
            Expr::In(one, values) if self.column(one) == Some(column) => {
                values.iter().all(|value| self.is_known(value)).then_some(&**values)
            }
            _ => None,
        })
    }

    /// The bound of a column from below, or from above.
    fn bound(&self, column: usize, low: bool) -> Option<(Expr, bool)> {
        self.comparisons(column).find_map(|(comparison, expr)| {
            let (is_it, included) = match comparison {
                Comparison::Greater => (low, false),
                Comparison::GreaterEqual => (low, true),
                Comparison::Less => (!low, false),
                Comparison::LessEqual => (!low, true),
                _ => (false, false),
            };
            is_it.then(|| (expr.clone(), included))
        })
    }

    /// A key for each of the values that columns can have, if all columns are known.
    fn keys(&self, columns: &[usize]) -> Option<Vec<Vec<Expr>>> {
        if let Some(keys) = self.row_keys(columns) {
            return Some(keys);
        }
        let mut keys = vec![Vec::with_capacity(columns.len())];
        for &column in columns {
            if let Some(value) = self.equal(column) {
                keys.iter_mut().for_each(|key| key.push(value.clone()));
                continue;
            }
            let values = self.one_of(column).filter(|_| keys.len() == 1)?;
            let start = keys.remove(0);
            keys = values
                .iter()
                .map(|value| [&*start, std::slice::from_ref(value)].concat())
                .collect();
        }
        Some(keys)
    }

    /// The same for a row of columns that is one of many rows.
    fn row_keys(&self, columns: &[usize]) -> Option<Vec<Vec<Expr>>> {
        self.conditions.iter().find_map(|condition| {
            let Expr::RowIn(row, rows) = condition else { return None };
            if !rows.iter().flatten().all(|value| self.is_known(value)) {
                return None;
            }
            let places: Vec<Option<usize>> = row.iter().map(|one| self.column(one)).collect();
            let of = |values: &Vec<Expr>, column: usize| {
                let place = places.iter().position(|place| *place == Some(column));
                place.map(|place| values[place].clone()).or_else(|| self.equal(column).cloned())
            };
            let key =
                |values: &Vec<Expr>| columns.iter().map(|&column| of(values, column)).collect();
            rows.iter().map(key).collect::<Option<Vec<_>>>()
        })
    }
}

/// The best way to find rows of a table; `None` if all have to be read.
fn best_access(
    table: &TableDef,
    conditions: &[Expr],
    offset: usize,
    width: usize,
) -> Option<Access> {
    let facts = Facts { conditions, offset, width };
    let primary = table.primary.iter().map(|primary| (None, primary));
    let indexes = (0..).zip(&table.indexes).map(|(number, index)| (Some(number), index));
    let mut best: Option<(usize, Access)> = None;
    for (number, index) in primary.chain(indexes) {
        let Some((score, access)) = access_by(&facts, number, index) else { continue };
        // The primary key comes first, and needs no second look.
        if best.as_ref().is_none_or(|(other, _)| score > *other) {
            best = Some((score, access));
        }
    }
    best.map(|(_, access)| access)
}

/// How good a way is to find rows, and the way.
fn access_by(
    facts: &Facts<'_>,
    number: Option<usize>,
    index: &IndexDef,
) -> Option<(usize, Access)> {
    if index.unique
        && let Some(keys) = facts.keys(&index.columns)
    {
        return Some((1000, Access::Points { index: number, keys }));
    }
    let known = index.columns.iter().map_while(|&column| facts.equal(column));
    let equal: Vec<Expr> = known.cloned().collect();
    let next = index.columns.get(equal.len());
    let low = next.and_then(|&column| facts.bound(column, true));
    let high = next.and_then(|&column| facts.bound(column, false));
    let score = 10 * equal.len() + 3 * usize::from(low.is_some()) + 3 * usize::from(high.is_some());
    let range = RangeAccess { index: number, equal, low, high, reverse: false };
    (score > 0).then_some((score, Access::Range(range)))
}

/// Has rows of a query come in the order that is asked for, if they can.
pub(super) fn follow_order(
    relations: &mut [Relation],
    sort: &[SortKey],
    output: &[Expr],
    has_limit: bool,
) -> bool {
    let [relation] = relations else { return false };
    let Source::Table { table, access, .. } = &mut relation.source else { return false };
    let range = match access {
        Access::Points { keys, .. } => return keys.len() == 1,
        Access::Range(range) => range,
    };
    let mut columns = Vec::with_capacity(sort.len());
    for key in sort {
        let Expr::Column(place) = key.expr else { return false };
        let Expr::Column(column) = output[place] else { return false };
        columns.push(column);
    }
    let descending = sort[0].descending;
    let is_index_order =
        |key: &SortKey| key.descending == descending && key.nulls_first == descending;
    if !sort.iter().all(is_index_order) {
        return false;
    }
    let is_all = range.equal.is_empty() && range.low.is_none() && range.high.is_none();
    let current = match range.index {
        Some(number) => Some(&table.indexes[number]),
        None => table.primary.as_ref(),
    };
    if current.is_some_and(|index| gives_order(index, range.equal.len(), &columns)) {
        range.reverse = descending;
        return true;
    }
    if !is_all || !has_limit {
        return false;
    }
    let other = table.indexes.iter().position(|index| gives_order(index, 0, &columns));
    if let Some(number) = other {
        *range = RangeAccess { index: Some(number), reverse: descending, ..Default::default() };
    }
    other.is_some()
}

/// Whether entries of an index, the first columns of which are equal, stand in the order of these
/// columns.
fn gives_order(index: &IndexDef, equal: usize, columns: &[usize]) -> bool {
    let (constant, rest) = index.columns.split_at(equal);
    let mut rest = rest.iter();
    columns.iter().all(|column| constant.contains(column) || rest.next() == Some(column))
}
