//! Calls of functions.

use sqlparser::ast;

use super::cast::Use;
use super::expr::call;
use super::{Binder, relation_of};
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::functions::{self, Function};
use crate::plan::{Aggregate, AggregateFunction};
use crate::types::{DataType, Family};

type Typed = (Expr, DataType);

impl Binder<'_> {
    pub(super) fn function(&mut self, function: &ast::Function) -> Result<Typed> {
        let (schema, name) = relation_of(&function.name)?;
        if schema.is_some_and(|schema| schema != "pg_catalog") {
            let message = format!("function {} does not exist", function.name);
            return Err(SqlError::new(state::UNDEFINED_FUNCTION, message));
        }
        if function.over.is_some() {
            return Err(SqlError::unsupported("a window function"));
        }
        let is_plain = function.within_group.is_empty() && function.null_treatment.is_none();
        let (args, duplicates, clauses) = match &function.args {
            ast::FunctionArguments::None => (&[][..], None, &[][..]),
            ast::FunctionArguments::List(list) => {
                (&*list.args, list.duplicate_treatment, &*list.clauses)
            }
            ast::FunctionArguments::Subquery(query) if name == "array" => {
                let plan = self.query(query)?;
                let Some(ty) = plan.columns.first().map(|column| column.ty) else {
                    return Err(SqlError::new(state::SYNTAX_ERROR, "ARRAY of no column"));
                };
                let used = crate::expr::SubqueryUse::Array(ty);
                return Ok((Expr::Subquery(plan.into(), used), DataType::Array));
            }
            ast::FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported("a query as an argument"));
            }
        };
        if !is_plain || !clauses.is_empty() {
            return Err(SqlError::unsupported(format_args!("such a call of {name}")));
        }
        let distinct = matches!(duplicates, Some(ast::DuplicateTreatment::Distinct));
        if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] = args {
            if name != "count" {
                let message = format!("{name}(*) does not exist");
                return Err(SqlError::new(state::UNDEFINED_FUNCTION, message));
            }
            let filter = function.filter.as_deref();
            return self.aggregate(&name, AggregateFunction::CountAll, &[], distinct, filter);
        }
        let args: Vec<&ast::Expr> = args
            .iter()
            .map(|arg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
                other => Err(SqlError::unsupported(format_args!("the argument {other}"))),
            })
            .collect::<Result<_>>()?;
        if let Some(aggregate) = aggregate_named(&name) {
            let filter = function.filter.as_deref();
            return self.aggregate(&name, aggregate, &args, distinct, filter);
        }
        if distinct || function.filter.is_some() {
            let message = format!("{name} is no function of many rows");
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        self.call(&name, &args)
    }

    /// Binds a call of a function of single rows.
    pub(super) fn call(&mut self, name: &str, args: &[&ast::Expr]) -> Result<Typed> {
        let args: Vec<Typed> = args.iter().map(|arg| self.expr(arg)).collect::<Result<_>>()?;
        self.call_named(name, args)
    }

    pub(super) fn call_named(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        match name {
            "coalesce" if !args.is_empty() => {
                let (args, ty) = self.unify("COALESCE", args)?;
                return Ok((Expr::Coalesce(args), ty));
            }
            "nullif" | "greatest" | "least" if !args.is_empty() => {
                let (args, ty) = self.unify(name, args)?;
                let function = match name {
                    "nullif" if args.len() == 2 => Function::NullIf,
                    "greatest" => Function::Greatest,
                    "least" => Function::Least,
                    _ => {
                        return Err(SqlError::new(state::SYNTAX_ERROR, "NULLIF has two arguments"));
                    }
                };
                return Ok(call(function, args, ty));
            }
            _ => {}
        }
        let types: Vec<DataType> = args.iter().map(|(_, ty)| *ty).collect();
        let signature = functions::find(name, &types)?;
        let mut exprs = Vec::with_capacity(args.len());
        for ((arg, from), to) in args.into_iter().zip(&signature.args) {
            let is_any = matches!(signature.function, Function::Concat | Function::ConcatWith);
            let why = match is_any || to.family() == Family::Number {
                true => Use::Assignment,
                false => Use::Implicit,
            };
            exprs.push(self.converted(arg, from, *to, why)?);
        }
        let types = match signature.function {
            // They show their arguments.
            Function::Concat | Function::ConcatWith | Function::ToText => signature.args,
            _ => vec![signature.result],
        };
        Ok((Expr::Call { function: signature.function, args: exprs, types }, signature.result))
    }

    fn aggregate(
        &mut self,
        name: &str,
        function: AggregateFunction,
        args: &[&ast::Expr],
        distinct: bool,
        filter: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let Some(found) = self.scope_if_any().and_then(|scope| scope.aggregates.take()) else {
            let message = "aggregate functions are not allowed here, nor within each other";
            return Err(SqlError::new(state::GROUPING_ERROR, message));
        };
        // None can stand within another one.
        let bound = self.aggregate_of(name, function, args, distinct, filter);
        let scope = self.scope();
        let mut found = found;
        let aggregate = match bound {
            Ok(aggregate) => aggregate,
            Err(error) => {
                scope.aggregates = Some(found);
                return Err(error);
            }
        };
        let ty = aggregate.types.1;
        let number = found.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
            found.push(aggregate);
            found.len() - 1
        });
        scope.aggregates = Some(found);
        Ok((Expr::Aggregate(number), ty))
    }

    fn aggregate_of(
        &mut self,
        name: &str,
        function: AggregateFunction,
        args: &[&ast::Expr],
        distinct: bool,
        filter: Option<&ast::Expr>,
    ) -> Result<Aggregate> {
        let mut args: Vec<Typed> = args.iter().map(|arg| self.expr(arg)).collect::<Result<_>>()?;
        let filter = filter.map(|filter| self.condition(filter)).transpose()?;
        let wanted = match function {
            AggregateFunction::CountAll => 0,
            AggregateFunction::StringAgg => 2,
            _ => 1,
        };
        let given: Vec<String> = args.iter().map(|(_, ty)| ty.to_string()).collect();
        let wrong = || {
            let message = format!("function {name}({}) does not exist", given.join(", "));
            SqlError::new(state::UNDEFINED_FUNCTION, message)
        };
        if args.len() != wanted {
            return Err(wrong());
        }
        if function == AggregateFunction::CountAll {
            let types = (DataType::Int8, DataType::Int8);
            return Ok(Aggregate { function, args: Vec::new(), distinct, filter, types });
        }
        let separator = (wanted == 2).then(|| args.remove(1));
        let (arg, from) = args.remove(0);
        let (to, result) = aggregate_types(function, from).ok_or_else(wrong)?;
        let mut args = vec![self.converted(arg, from, to, Use::Implicit)?];
        if let Some((separator, from)) = separator {
            args.push(self.converted(separator, from, DataType::Text, Use::Implicit)?);
        }
        Ok(Aggregate { function, args, distinct, filter, types: (to, result) })
    }

    fn scope_if_any(&mut self) -> Option<&mut super::Scope> {
        self.scopes.last_mut()
    }
}

fn aggregate_named(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Avg,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "bool_and" | "every" => AggregateFunction::And,
        "bool_or" => AggregateFunction::Or,
        "string_agg" => AggregateFunction::StringAgg,
        _ => return None,
    })
}

/// The types of the argument and of the result.
fn aggregate_types(function: AggregateFunction, from: DataType) -> Option<(DataType, DataType)> {
    use AggregateFunction as Function;
    let numeric = DataType::Numeric(None);
    Some(match function {
        Function::CountAll | Function::Count => {
            let from = if from == DataType::Unknown { DataType::Text } else { from };
            (from, DataType::Int8)
        }
        Function::Min | Function::Max => {
            let from = match from {
                DataType::Unknown | DataType::Varchar(_) | DataType::Name => DataType::Text,
                DataType::Bool | DataType::Bytea => return None,
                DataType::Numeric(_) => numeric,
                other => other,
            };
            (from, from)
        }
        Function::Sum => match from {
            DataType::Int2 | DataType::Int4 => (from, DataType::Int8),
            DataType::Int8 | DataType::Numeric(_) => (numeric, numeric),
            DataType::Real | DataType::Double => (from, from),
            _ => return None,
        },
        Function::Avg => match from {
            DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Numeric(_) => {
                (numeric, numeric)
            }
            DataType::Real | DataType::Double => (DataType::Double, DataType::Double),
            _ => return None,
        },
        Function::And | Function::Or => match from {
            DataType::Bool | DataType::Unknown => (DataType::Bool, DataType::Bool),
            _ => return None,
        },
        Function::StringAgg => match from.family() {
            Family::Text | Family::Unknown => (DataType::Text, DataType::Text),
            _ => return None,
        },
    })
}

/// Months and microseconds of an interval that is written out.
pub(super) fn interval(interval: &ast::Interval) -> Result<(i32, i64)> {
    let text = match &*interval.value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => Some(digits.clone()),
            value => value.clone().into_string(),
        },
        _ => None,
    };
    let text = text.ok_or_else(|| SqlError::unsupported("an interval that is no literal"))?;
    let wrong = || {
        let message = format!("invalid input syntax for type interval: \"{text}\"");
        SqlError::new(state::INVALID_DATETIME, message)
    };
    let unit = interval.leading_field.as_ref().map(ToString::to_string);
    let mut words: Vec<&str> = text.split_whitespace().collect();
    if let (Some(unit), [_]) = (&unit, &*words) {
        words.push(unit);
    }
    if words.is_empty() || words.len() % 2 == 1 {
        return Err(wrong());
    }
    let (mut months, mut micros) = (0i32, 0i64);
    for pair in words.chunks(2) {
        let count: i64 = pair[0].parse().map_err(|_| wrong())?;
        let unit = pair[1].to_lowercase();
        let per_unit = match unit.trim_end_matches('s') {
            "year" => (12, 0),
            "month" | "mon" => (1, 0),
            "week" => (0, 7 * crate::datetime::DAY),
            "day" => (0, crate::datetime::DAY),
            "hour" => (0, 3_600_000_000),
            "minute" | "min" => (0, 60_000_000),
            "second" | "sec" => (0, 1_000_000),
            "millisecond" => (0, 1000),
            "microsecond" => (0, 1),
            _ => return Err(wrong()),
        };
        let too_large = || SqlError::new(state::DATETIME_OVERFLOW, "interval out of range");
        let more = i32::try_from(count).ok().and_then(|count| count.checked_mul(per_unit.0));
        months = match per_unit.0 {
            0 => months,
            _ => more.and_then(|more| months.checked_add(more)).ok_or_else(too_large)?,
        };
        let more = count.checked_mul(per_unit.1);
        micros = more.and_then(|more| micros.checked_add(more)).ok_or_else(too_large)?;
    }
    Ok((months, micros))
}
