//! Statements as they are run.

use std::sync::Arc;

use crate::catalog::TableDef;
use crate::expr::Expr;
use crate::system::SystemTable;
use crate::types::DataType;

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: DataType,
    /// The table that it is a column of, by its number in PostgreSQL's catalog, and its place
    /// there from 1; zeros if it is none.
    pub origin: (u32, i16),
}

/// How rows of a table are found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Access {
    /// By all columns of the primary key, or of a unique index: a key for each of these.
    Points { index: Option<usize>, keys: Vec<Vec<Expr>> },
    /// By a stretch of the primary key or of an index.
    Range(RangeAccess),
}

/// A stretch of the primary key (`None`) or of an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RangeAccess {
    pub(crate) index: Option<usize>,
    /// Values of the first columns.
    pub(crate) equal: Vec<Expr>,
    /// Bounds of the next one, and whether they are part of the range.
    pub(crate) low: Option<(Expr, bool)>,
    pub(crate) high: Option<(Expr, bool)>,
    pub(crate) reverse: bool,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Table {
        table: Arc<TableDef>,
        access: Access,
        for_update: bool,
    },
    System(SystemTable),
    Derived(Box<Select>),
    /// Numbers from, to, by.
    Series(Vec<Expr>),
}

/// How a source's rows are joined with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
}

/// A source in a query. Its rows stand behind those of the sources before it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relation {
    pub(crate) source: Source,
    pub(crate) join: JoinKind,
    /// Columns, the hidden one of a table's key included.
    pub(crate) width: usize,
    /// Where its first column stands.
    pub(crate) offset: usize,
    /// Conditions of the join, and for an inner one those of the query that can be checked here.
    pub(crate) on: Vec<Expr>,
    /// Conditions of the query that are checked behind a left join.
    pub(crate) after: Vec<Expr>,
    /// Equal columns of the source, and expressions of the sources before it: for a hash table.
    pub(crate) hash: Vec<(Expr, Expr)>,
    /// Whether its rows differ with those before it.
    pub(crate) depends: bool,
    /// Its name in explanations.
    pub(crate) name: String,
}

/// A function of many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    CountAll,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    And,
    Or,
    StringAgg,
}

/// A call of a function of many rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunction,
    pub(crate) args: Vec<Expr>,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Expr>,
    /// The type of its argument, and of its result.
    pub(crate) types: (DataType, DataType),
}

/// Grouping: rows of groups have the values grouped by, and behind them the aggregates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grouping {
    pub(crate) by: Vec<Expr>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) having: Option<Expr>,
}

/// One expression to sort by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// The rows of one SELECT before they are sorted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Core {
    pub(crate) relations: Vec<Relation>,
    /// Conditions that read no column.
    pub(crate) constant: Vec<Expr>,
    pub(crate) grouping: Option<Grouping>,
    /// Expressions of the result, and behind them those that are only sorted by.
    pub(crate) output: Vec<Expr>,
    /// Columns of the result.
    pub(crate) width: usize,
    pub(crate) distinct: bool,
    /// The first so many expressions of `output` behind the result's by which rows are told apart.
    pub(crate) distinct_on: Option<Vec<usize>>,
    /// Whether rows come in the order that is asked for.
    pub(crate) is_sorted: bool,
}

/// The way in which two queries are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Except,
    Intersect,
}

/// Rows before they are sorted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Core(Box<Core>),
    Set { operation: SetOperation, all: bool, left: Box<Select>, right: Box<Select> },
    Values(Vec<Vec<Expr>>),
}

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) body: Body,
    /// Over the body's rows.
    pub(crate) sort: Vec<SortKey>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) columns: Vec<OutputColumn>,
    /// Whether it reads rows of queries around it.
    pub(crate) correlated: bool,
}

/// The action on a row that is there already.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OnConflict {
    Fail,
    /// `None`: whatever index it is in.
    Nothing(Option<usize>),
    /// Over the row that is there, and behind it the one that was to be inserted.
    Update {
        index: usize,
        set: Vec<(usize, Expr)>,
        condition: Option<Expr>,
    },
}

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub(crate) table: Arc<TableDef>,
    pub(crate) source: Select,
    /// For each column of the table its value, over the source's row.
    pub(crate) values: Vec<Expr>,
    pub(crate) on_conflict: OnConflict,
    pub(crate) returning: Option<Returning>,
}

/// RETURNING.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Returning {
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<OutputColumn>,
}

/// UPDATE or DELETE. The first relation is the table; its last column is the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Modify {
    pub(crate) table: Arc<TableDef>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) constant: Vec<Expr>,
    /// `None` to delete.
    pub(crate) set: Option<Vec<(usize, Expr)>>,
    pub(crate) returning: Option<Returning>,
}

/// A statement that reads and changes rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    Select(Box<Select>),
    Insert(Box<Insert>),
    Modify(Box<Modify>),
}

impl Plan {
    /// Columns of its result; empty if it has none.
    pub(crate) fn columns(&self) -> Option<&[OutputColumn]> {
        let returning = match self {
            Self::Select(select) => return Some(&select.columns),
            Self::Insert(insert) => &insert.returning,
            Self::Modify(modify) => &modify.returning,
        };
        returning.as_ref().map(|returning| &*returning.columns)
    }

    /// Whether it changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self, Self::Select(_))
    }
}
