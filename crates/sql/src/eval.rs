//! The values of expressions.

use std::cmp::Ordering;

use crate::arithmetic;
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;
use crate::expr::{Comparison, Expr, SubqueryUse};
use crate::plan::Select;
use crate::text;
use crate::types::{DataType, Datum, Family, Row};

fn truth(value: Option<bool>) -> Datum {
    value.map_or(Datum::Null, Datum::Bool)
}

/// Whether a value is true, false, or not known.
fn bool_of(value: &Datum) -> Option<bool> {
    match value {
        Datum::Bool(value) => Some(*value),
        _ => None,
    }
}

/// Whether a comparison holds; not known if a side is null.
fn compare(comparison: Comparison, left: &Datum, right: &Datum) -> Option<bool> {
    (!left.is_null() && !right.is_null()).then(|| comparison.holds(left.order(right)))
}

/// Whether two rows are equal: known to be different if any of their values are.
fn rows_equal(left: &[Datum], right: &[Datum]) -> Option<bool> {
    let mut equal = Some(true);
    for (left, right) in left.iter().zip(right) {
        match compare(Comparison::Equal, left, right) {
            Some(false) => return Some(false),
            None => equal = None,
            Some(true) => {}
        }
    }
    equal
}

impl Exec<'_, '_> {
    /// Whether a condition is known to hold.
    pub(crate) fn holds(&mut self, condition: &Expr, row: &[Datum]) -> Result<bool> {
        Ok(self.eval(condition, row)? == Datum::Bool(true))
    }

    /// Whether all conditions are known to hold.
    pub(crate) fn all_hold(&mut self, conditions: &[Expr], row: &[Datum]) -> Result<bool> {
        for condition in conditions {
            if !self.holds(condition, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn eval_all(&mut self, exprs: &[Expr], row: &[Datum]) -> Result<Row> {
        exprs.iter().map(|expr| self.eval(expr, row)).collect()
    }

    /// The value of an expression for a row.
    pub(crate) fn eval(&mut self, expr: &Expr, row: &[Datum]) -> Result<Datum> {
        Ok(match expr {
            Expr::Const(value) => value.clone(),
            Expr::Column(column) => row[*column].clone(),
            Expr::Outer(level, column) => self.outer[self.outer.len() - level][*column].clone(),
            Expr::Param(number) => match self.params.get(*number) {
                Some(value) => value.clone(),
                None => {
                    let message = format!("there is no value for parameter ${}", number + 1);
                    return Err(SqlError::new(state::UNDEFINED_PARAMETER, message));
                }
            },
            Expr::Aggregate(_) => {
                return Err(SqlError::new(state::INTERNAL, "an aggregate without groups"));
            }
            Expr::Not(inner) => truth(bool_of(&self.eval(inner, row)?).map(|value| !value)),
            Expr::And(left, right) => match bool_of(&self.eval(left, row)?) {
                Some(false) => Datum::Bool(false),
                left => match (left, bool_of(&self.eval(right, row)?)) {
                    (_, Some(false)) => Datum::Bool(false),
                    (Some(true), Some(true)) => Datum::Bool(true),
                    _ => Datum::Null,
                },
            },
            Expr::Or(left, right) => match bool_of(&self.eval(left, row)?) {
                Some(true) => Datum::Bool(true),
                left => match (left, bool_of(&self.eval(right, row)?)) {
                    (_, Some(true)) => Datum::Bool(true),
                    (Some(false), Some(false)) => Datum::Bool(false),
                    _ => Datum::Null,
                },
            },
            Expr::IsNull(inner) => Datum::Bool(self.eval(inner, row)?.is_null()),
            Expr::IsBool(inner, value) => {
                Datum::Bool(self.eval(inner, row)? == Datum::Bool(*value))
            }
            Expr::Compare(comparison, left, right) => {
                let (left, right) = (self.eval(left, row)?, self.eval(right, row)?);
                truth(compare(*comparison, &left, &right))
            }
            Expr::Distinct(left, right) => {
                let (left, right) = (self.eval(left, row)?, self.eval(right, row)?);
                Datum::Bool(left.order(&right) != Ordering::Equal)
            }
            Expr::Arithmetic(operation, numbers, left, right) => {
                let (left, right) = (self.eval(left, row)?, self.eval(right, row)?);
                arithmetic::compute(*operation, *numbers, &left, &right)?
            }
            Expr::Negate(numbers, inner) => arithmetic::negate(*numbers, &self.eval(inner, row)?)?,
            Expr::Concat(left, right) => match (self.eval(left, row)?, self.eval(right, row)?) {
                (Datum::Text(left), Datum::Text(right)) => Datum::Text(left + &right),
                (Datum::Bytes(left), Datum::Bytes(right)) => Datum::Bytes([left, right].concat()),
                _ => Datum::Null,
            },
            Expr::Like { text, pattern, escape, ignores_case } => {
                match (self.eval(text, row)?, self.eval(pattern, row)?) {
                    (Datum::Text(text), Datum::Text(pattern)) => {
                        Datum::Bool(crate::patterns::like(&text, &pattern, *escape, *ignores_case)?)
                    }
                    _ => Datum::Null,
                }
            }
            Expr::Regex { text, pattern, ignores_case } => {
                match (self.eval(text, row)?, self.eval(pattern, row)?) {
                    (Datum::Text(text), Datum::Text(pattern)) => {
                        let pattern = self.patterns.regex(&pattern, *ignores_case)?;
                        Datum::Bool(pattern.is_match(&text))
                    }
                    _ => Datum::Null,
                }
            }
            Expr::In(inner, values) => {
                let value = self.eval(inner, row)?;
                let mut found = Some(false);
                for other in values {
                    let other = self.eval(other, row)?;
                    match compare(Comparison::Equal, &value, &other) {
                        Some(true) => return Ok(Datum::Bool(true)),
                        None => found = None,
                        Some(false) => {}
                    }
                }
                truth(found)
            }
            Expr::RowIn(columns, rows) => {
                let columns = self.eval_all(columns, row)?;
                let mut found = Some(false);
                for values in rows {
                    let values = self.eval_all(values, row)?;
                    match rows_equal(&columns, &values) {
                        Some(true) => return Ok(Datum::Bool(true)),
                        None => found = None,
                        Some(false) => {}
                    }
                }
                truth(found)
            }
            Expr::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    if self.holds(condition, row)? {
                        return self.eval(value, row);
                    }
                }
                self.eval(otherwise, row)?
            }
            Expr::Coalesce(values) => {
                for value in values {
                    let value = self.eval(value, row)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            Expr::Cast { value, from, to, explicit } => {
                cast(self.eval(value, row)?, *from, *to, *explicit)?
            }
            Expr::Call { function, args, types } => {
                let args = self.eval_all(args, row)?;
                self.call(*function, &args, types)?
            }
            Expr::Subquery(select, used) => self.subquery(select, used, row)?,
        })
    }

    fn subquery(&mut self, select: &Select, used: &SubqueryUse, row: &[Datum]) -> Result<Datum> {
        let left = match used {
            SubqueryUse::Compare { left, .. } => self.eval_all(left, row)?,
            _ => Vec::new(),
        };
        self.outer.push(row.to_vec());
        let rows = self.cached_select(select);
        self.outer.pop();
        let rows = rows?;
        match used {
            SubqueryUse::Array(ty) => {
                let texts = rows.iter().map(|row| match &row[0] {
                    Datum::Null => "NULL".to_owned(),
                    value => text::format(value, *ty),
                });
                Ok(Datum::Text(format!("{{{}}}", texts.collect::<Vec<_>>().join(","))))
            }
            SubqueryUse::Exists => Ok(Datum::Bool(!rows.is_empty())),
            SubqueryUse::Scalar => match &**rows {
                [] => Ok(Datum::Null),
                [row] => Ok(row[0].clone()),
                _ => {
                    let message = "more than one row returned by a subquery used as an expression";
                    Err(SqlError::new(state::CARDINALITY_VIOLATION, message))
                }
            },
            SubqueryUse::Compare { comparison, all, .. } => {
                let mut known = true;
                for row in rows.iter() {
                    let holds = match comparison {
                        Comparison::Equal => rows_equal(&left, row),
                        other => compare(*other, &left[0], &row[0]),
                    };
                    match holds {
                        Some(holds) if holds != *all => return Ok(Datum::Bool(!*all)),
                        Some(_) => {}
                        None => known = false,
                    }
                }
                Ok(if known { Datum::Bool(*all) } else { Datum::Null })
            }
        }
    }
}

/// A value of one type as one of another.
///
/// # Errors
/// That it does not fit, or its text is none of the type.
pub(crate) fn cast(value: Datum, from: DataType, to: DataType, explicit: bool) -> Result<Datum> {
    let value = match (value, to.family()) {
        (Datum::Null, _) => return Ok(Datum::Null),
        (Datum::Text(text), Family::Text) => {
            let text = match (from, to) {
                // A text that is cast is cut to its length, and one that is assigned has to fit.
                (_, DataType::Varchar(Some(length))) if explicit => cut(&text, length),
                (_, DataType::Char(length)) if explicit && length > 0 => cut(&text, length),
                _ => text,
            };
            Datum::Text(text)
        }
        (Datum::Text(text), _) => return text::parse(&text, to),
        (Datum::Bool(value), Family::Text) => {
            Datum::Text(if value { "true" } else { "false" }.to_owned())
        }
        (value, Family::Text) => {
            let text = text::format(&value, from);
            return text::fit(Datum::Text(text), to);
        }
        (Datum::Bool(value), Family::Number) => Datum::Int(value.into()),
        (Datum::Int(value), Family::Bool) => Datum::Bool(value != 0),
        (value, Family::Number) => cast_number(value, from, to)?,
        (Datum::Date(days), Family::Timestamp) => {
            Datum::Timestamp(i64::from(days) * crate::datetime::DAY)
        }
        (Datum::Timestamp(micros), Family::Date) => {
            Datum::Date(micros.div_euclid(crate::datetime::DAY) as i32)
        }
        (value, _) => value,
    };
    text::fit(value, to)
}

fn cast_number(value: Datum, from: DataType, to: DataType) -> Result<Datum> {
    Ok(match (value, to) {
        (Datum::Int(value), DataType::Numeric(_)) => Datum::Numeric(value.into()),
        (Datum::Int(value), DataType::Real) => Datum::Float(f64::from(value as f32)),
        (Datum::Int(value), DataType::Double) => Datum::Float(value as f64),
        (Datum::Numeric(value), DataType::Real | DataType::Double) => {
            let value = arithmetic::float_of(value);
            Datum::Float(if to == DataType::Real { f64::from(value as f32) } else { value })
        }
        (Datum::Numeric(value), ty) if ty.is_integer() => {
            Datum::Int(arithmetic::integer_of(value, ty)?)
        }
        (Datum::Float(value), DataType::Numeric(_)) => {
            Datum::Numeric(arithmetic::numeric_of_float(value, from)?)
        }
        (Datum::Float(value), DataType::Real) => {
            Datum::Float(arithmetic::check_float(value, value.is_finite(), to)?)
        }
        (Datum::Float(value), ty) if ty.is_integer() => {
            Datum::Int(arithmetic::integer_of_float(value, ty)?)
        }
        (value, _) => value,
    })
}

fn cut(text: &str, length: u32) -> String {
    text.chars().take(length as usize).collect()
}
