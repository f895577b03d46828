//! Expressions whose names and types are known.

use std::sync::Arc;

use crate::functions::Function;
use crate::plan::Select;
use crate::types::{DataType, Datum};

/// The kind of numbers that an operator works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Int(DataType),
    Numeric,
    Float(DataType),
}

/// An operator of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterEqual => order.is_ge(),
        }
    }

    /// The comparison that holds when its sides are exchanged.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            same => same,
        }
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
        }
    }
}

/// The use that is made of a subquery's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SubqueryUse {
    /// Its only value.
    Scalar,
    /// Whether it has rows.
    Exists,
    /// All of its values, as an array's text.
    Array(DataType),
    /// Whether a comparison holds for any of its rows, or for all.
    Compare { left: Vec<Expr>, comparison: Comparison, all: bool },
}

/// An expression. Rows that it reads are those of its query, and of the queries around it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Const(Datum),
    Column(usize),
    /// A column of the query so many levels out, from 1.
    Outer(usize, usize),
    Param(usize),
    /// The result of an aggregate, by its number; only between binding and grouping.
    Aggregate(usize),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    IsNull(Box<Expr>),
    /// Whether it is this value; null is not.
    IsBool(Box<Expr>, bool),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// Whether two values are distinct, null being equal to null.
    Distinct(Box<Expr>, Box<Expr>),
    Arithmetic(Arithmetic, Numbers, Box<Expr>, Box<Expr>),
    Negate(Numbers, Box<Expr>),
    Concat(Box<Expr>, Box<Expr>),
    Like {
        text: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<char>,
        ignores_case: bool,
    },
    Regex {
        text: Box<Expr>,
        pattern: Box<Expr>,
        ignores_case: bool,
    },
    In(Box<Expr>, Vec<Expr>),
    /// Whether a row of values is one of these.
    RowIn(Vec<Expr>, Vec<Vec<Expr>>),
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    Cast {
        value: Box<Expr>,
        from: DataType,
        to: DataType,
        explicit: bool,
    },
    Call {
        function: Function,
        args: Vec<Expr>,
        types: Vec<DataType>,
    },
    Subquery(Arc<Select>, SubqueryUse),
}

impl Expr {
    pub(crate) const NULL: Self = Self::Const(Datum::Null);

    pub(crate) fn boxed(self) -> Box<Self> {
        Box::new(self)
    }

    /// Calls `each` with its parts, but not those of subqueries.
    pub(crate) fn parts<'a>(&'a self, each: &mut dyn FnMut(&'a Expr)) {
        match self {
            Self::Const(_)
            | Self::Column(_)
            | Self::Outer(..)
            | Self::Param(_)
            | Self::Aggregate(_) => {}
            Self::Not(one)
            | Self::IsNull(one)
            | Self::IsBool(one, _)
            | Self::Negate(_, one)
            | Self::Cast { value: one, .. } => each(one),
            Self::And(one, other)
            | Self::Or(one, other)
            | Self::Compare(_, one, other)
            | Self::Distinct(one, other)
            | Self::Arithmetic(_, _, one, other)
            | Self::Concat(one, other)
            | Self::Like { text: one, pattern: other, .. }
            | Self::Regex { text: one, pattern: other, .. } => {
                each(one);
                each(other);
            }
            Self::In(one, many) => {
                each(one);
                many.iter().for_each(each);
            }
            Self::RowIn(row, rows) => {
                row.iter().for_each(&mut *each);
                rows.iter().flatten().for_each(each);
            }
            Self::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    each(condition);
                    each(value);
                }
                each(otherwise);
            }
            Self::Coalesce(many) | Self::Call { args: many, .. } => many.iter().for_each(each),
            Self::Subquery(_, SubqueryUse::Compare { left, .. }) => left.iter().for_each(each),
            Self::Subquery(..) => {}
        }
    }

    /// The same for changes.
    pub(crate) fn parts_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        match self {
            Self::Const(_)
            | Self::Column(_)
            | Self::Outer(..)
            | Self::Param(_)
            | Self::Aggregate(_) => {}
            Self::Not(one)
            | Self::IsNull(one)
            | Self::IsBool(one, _)
            | Self::Negate(_, one)
            | Self::Cast { value: one, .. } => each(one),
            Self::And(one, other)
            | Self::Or(one, other)
            | Self::Compare(_, one, other)
            | Self::Distinct(one, other)
            | Self::Arithmetic(_, _, one, other)
            | Self::Concat(one, other)
            | Self::Like { text: one, pattern: other, .. }
            | Self::Regex { text: one, pattern: other, .. } => {
                each(one);
                each(other);
            }
            Self::In(one, many) => {
                each(one);
                many.iter_mut().for_each(each);
            }
            Self::RowIn(row, rows) => {
                row.iter_mut().for_each(&mut *each);
                rows.iter_mut().flatten().for_each(each);
            }
            Self::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    each(condition);
                    each(value);
                }
                each(otherwise);
            }
            Self::Coalesce(many) | Self::Call { args: many, .. } => {
                many.iter_mut().for_each(each);
            }
            Self::Subquery(_, SubqueryUse::Compare { left, .. }) => {
                left.iter_mut().for_each(each);
            }
            Self::Subquery(..) => {}
        }
    }

    /// Whether it, or a part of it, is such.
    pub(crate) fn any(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = is(self);
        self.parts(&mut |part| found = found || part.any(is));
        found
    }

    /// Columns of its own query that it reads. A subquery may read any: `usize::MAX`.
    pub(crate) fn last_column(&self) -> Option<usize> {
        let mut last = match self {
            Self::Column(column) => Some(*column),
            Self::Subquery(..) => Some(usize::MAX),
            _ => None,
        };
        self.parts(&mut |part| last = last.max(part.last_column()));
        last
    }

    /// The conditions that all have to hold for it to hold.
    pub(crate) fn conjuncts(self) -> Vec<Expr> {
        let (mut found, mut left) = (Vec::new(), vec![self]);
        while let Some(expr) = left.pop() {
            match expr {
                Self::And(one, other) => left.extend([*other, *one]),
                expr => found.push(expr),
            }
        }
        found
    }
}

/// All of these conditions.
pub(crate) fn all_of(conditions: Vec<Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|one, other| Expr::And(one.boxed(), other.boxed()))
}
