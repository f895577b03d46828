//! Groups, and functions of many rows.

use std::collections::{HashMap, HashSet};

use rust_decimal::Decimal;

use super::{Exec, hash_key};
use crate::arithmetic;
use crate::error::Result;
use crate::plan::{Aggregate, AggregateFunction, Grouping};
use crate::text;
use crate::types::{DataType, Datum, Row};

/// A function's state over its rows.
struct State<'a> {
    aggregate: &'a Aggregate,
    seen: HashSet<Vec<u8>>,
    count: i64,
    /// The sum, the least or greatest value, or the text so far.
    value: Option<Datum>,
}

impl<'a> State<'a> {
    fn new(aggregate: &'a Aggregate) -> Self {
        Self { aggregate, seen: HashSet::new(), count: 0, value: None }
    }

    fn add(&mut self, args: Vec<Datum>) -> Result<()> {
        use AggregateFunction as Function;
        let function = self.aggregate.function;
        if function != Function::CountAll && args[0].is_null() {
            return Ok(());
        }
        if self.aggregate.distinct && !self.seen.insert(hash_key(args.iter())) {
            return Ok(());
        }
        self.count += 1;
        let mut args = args.into_iter();
        let Some(new) = args.next() else { return Ok(()) };
        let Some(old) = self.value.take() else {
            self.value = Some(new);
            return Ok(());
        };
        self.value = Some(match function {
            Function::CountAll | Function::Count => new,
            Function::Sum | Function::Avg => self.sum(old, new)?,
            Function::Min if new.order(&old).is_lt() => new,
            Function::Max if new.order(&old).is_gt() => new,
            Function::Min | Function::Max => old,
            Function::And => Datum::Bool(old == Datum::Bool(true) && new == Datum::Bool(true)),
            Function::Or => Datum::Bool(old == Datum::Bool(true) || new == Datum::Bool(true)),
            Function::StringAgg => match (old, args.next(), new) {
                (Datum::Text(old), Some(Datum::Text(between)), Datum::Text(new)) => {
                    Datum::Text(old + &between + &new)
                }
                (Datum::Text(old), _, Datum::Text(new)) => Datum::Text(old + &new),
                (old, ..) => old,
            },
        });
        Ok(())
    }

    fn sum(&self, old: Datum, new: Datum) -> Result<Datum> {
        Ok(match (old, new) {
            (Datum::Int(old), Datum::Int(new)) => {
                let overflow = || text::out_of_range(DataType::Int8);
                Datum::Int(old.checked_add(new).ok_or_else(overflow)?)
            }
            (Datum::Numeric(old), Datum::Numeric(new)) => {
                Datum::Numeric(arithmetic::add(old, new)?)
            }
            (Datum::Float(old), Datum::Float(new)) => {
                let were_finite = old.is_finite() && new.is_finite();
                let ty = self.aggregate.types.1;
                Datum::Float(arithmetic::check_float(old + new, were_finite, ty)?)
            }
            (old, _) => old,
        })
    }

    fn result(self) -> Result<Datum> {
        use AggregateFunction as Function;
        match self.aggregate.function {
            Function::CountAll | Function::Count => Ok(Datum::Int(self.count)),
            Function::Avg => Ok(match self.value {
                Some(Datum::Numeric(sum)) => {
                    Datum::Numeric(arithmetic::divide(sum, Decimal::from(self.count))?)
                }
                Some(Datum::Float(sum)) => Datum::Float(sum / self.count as f64),
                _ => Datum::Null,
            }),
            _ => Ok(self.value.unwrap_or(Datum::Null)),
        }
    }
}

impl Exec<'_, '_> {
    /// Rows of groups: the values that they are grouped by, and the results of functions.
    pub(super) fn group(&mut self, grouping: &Grouping, rows: &[Row]) -> Result<Vec<Row>> {
        let mut groups: Vec<(Row, Vec<State<'_>>)> = Vec::new();
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let new = |by: Row| (by, grouping.aggregates.iter().map(State::new).collect());
        if grouping.by.is_empty() {
            // All rows are one group, even if there are none.
            groups.push(new(Row::new()));
            places.insert(Vec::new(), 0);
        }
        for row in rows {
            let by = self.eval_all(&grouping.by, row)?;
            let place = *places.entry(hash_key(by.iter())).or_insert_with(|| {
                groups.push(new(by));
                groups.len() - 1
            });
            for state in &mut groups[place].1 {
                let aggregate = state.aggregate;
                if let Some(filter) = &aggregate.filter
                    && !self.holds(filter, row)?
                {
                    continue;
                }
                let args = self.eval_all(&aggregate.args, row)?;
                state.add(args)?;
            }
        }
        let mut found = Vec::with_capacity(groups.len());
        for (mut row, states) in groups {
            for state in states {
                row.push(state.result()?);
            }
            match &grouping.having {
                Some(having) if !self.holds(having, &row)? => {}
                _ => found.push(row),
            }
        }
        Ok(found)
    }
}
