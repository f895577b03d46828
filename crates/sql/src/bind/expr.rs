//! Expressions.

use std::sync::Arc;

use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

use super::cast::{Use, common};
use super::{Binder, name_of, parts_of};
use crate::error::{Result, SqlError, state};
use crate::expr::{Arithmetic, Comparison, Expr, Numbers, SubqueryUse};
use crate::functions::{Field, Function};
use crate::text;
use crate::types::{DataType, Datum, Family};

type Typed = (Expr, DataType);

impl Binder<'_> {
    /// Binds an expression: it, and its type.
    pub(crate) fn expr(&mut self, expr: &ast::Expr) -> Result<Typed> {
        self.deeper(|binder| binder.expr_here(expr))
    }

    fn expr_here(&mut self, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as Ast;
        match expr {
            Ast::Identifier(ident) => self.identifier(ident),
            Ast::CompoundIdentifier(parts) => self.compound(parts),
            Ast::Value(value) => self.value(&value.value),
            Ast::TypedString(typed) => {
                let ty = super::data_type(&typed.data_type)?;
                let (literal, from) = self.value(&typed.value.value)?;
                Ok((self.converted(literal, from, ty, Use::Explicit)?, ty))
            }
            Ast::Nested(inner) => self.expr(inner),
            Ast::UnaryOp { op, expr } => self.unary(*op, expr),
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right),
            Ast::IsNull(inner) => self.is_null(inner, false),
            Ast::IsNotNull(inner) => self.is_null(inner, true),
            Ast::IsTrue(inner) => self.is_bool(inner, true, false),
            Ast::IsNotTrue(inner) => self.is_bool(inner, true, true),
            Ast::IsFalse(inner) => self.is_bool(inner, false, false),
            Ast::IsNotFalse(inner) => self.is_bool(inner, false, true),
            Ast::IsUnknown(inner) => self.is_null(inner, false),
            Ast::IsNotUnknown(inner) => self.is_null(inner, true),
            Ast::IsDistinctFrom(left, right) => self.distinct(left, right, false),
            Ast::IsNotDistinctFrom(left, right) => self.distinct(left, right, true),
            Ast::Between { expr, negated, low, high } => {
                let low = self.compare(Comparison::GreaterEqual, expr, low)?;
                let high = self.compare(Comparison::LessEqual, expr, high)?;
                Ok(negate_if(*negated, Expr::And(low.boxed(), high.boxed())))
            }
            Ast::In { expr, target, negated, .. } => {
                let found = match target {
                    ast::InTarget::List(list) => self.in_list(expr, list)?,
                    ast::InTarget::Subquery(query) => {
                        self.compare_query(expr, Comparison::Equal, query, false)?
                    }
                    other => {
                        return Err(SqlError::unsupported(format_args!("IN {other}")));
                    }
                };
                Ok(negate_if(*negated, found))
            }
            Ast::Like { negated, any: false, expr, pattern, escape_char } => {
                let like = self.like(expr, pattern, escape_char.as_deref(), false)?;
                Ok(negate_if(*negated, like))
            }
            Ast::ILike { negated, any: false, expr, pattern, escape_char } => {
                let like = self.like(expr, pattern, escape_char.as_deref(), true)?;
                Ok(negate_if(*negated, like))
            }
            Ast::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => self.cast(expr, data_type),
            Ast::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Ast::Exists { subquery, negated } => {
                let plan = self.query(subquery)?;
                let exists = Expr::Subquery(Arc::new(plan), SubqueryUse::Exists);
                Ok(negate_if(*negated, exists))
            }
            Ast::Subquery(query) => {
                let plan = self.query(query)?;
                let [column] = &*plan.columns else {
                    let message = "subquery must return only one column";
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                };
                let ty = column.ty;
                Ok((Expr::Subquery(Arc::new(plan), SubqueryUse::Scalar), ty))
            }
            Ast::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, right, false)
            }
            Ast::AllOp { left, compare_op, right } => {
                self.quantified(left, compare_op, right, true)
            }
            Ast::Function(function) => self.function(function),
            Ast::Extract { field, expr, .. } => {
                let field = Field::named(&field.to_string())?;
                let (value, from) = self.expr(expr)?;
                let value = self.converted(value, from, DataType::Timestamp, Use::Implicit)?;
                Ok(call(Function::Extract(field), vec![value], DataType::Numeric(None)))
            }
            Ast::Position { expr, r#in } => self.call("strpos", &[&**r#in, &**expr]),
            Ast::Substring { expr, substring_from, substring_for, .. } => {
                let one = ast::Expr::Value(ast::Value::Number("1".to_owned(), false).into());
                let from = substring_from.as_deref().unwrap_or(&one);
                match substring_for.as_deref() {
                    Some(length) => self.call("substr", &[&**expr, from, length]),
                    None => self.call("substr", &[&**expr, from]),
                }
            }
            Ast::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let listed = trim_characters.as_ref().and_then(|all| all.first());
                match trim_what.as_deref().or(listed) {
                    Some(what) => self.call(name, &[&**expr, what]),
                    None => self.call(name, &[&**expr]),
                }
            }
            Ast::Ceil { expr, .. } => self.call("ceil", &[&**expr]),
            Ast::Floor { expr, .. } => self.call("floor", &[&**expr]),
            Ast::Collate { expr, collation } => self.collate(expr, collation),
            Ast::AtTimeZone { timestamp, time_zone } => self.at_time_zone(timestamp, time_zone),
            Ast::CompoundFieldAccess { root, .. } => match self.expr(root)? {
                // Arrays of the catalog are null.
                (_, DataType::Array) => Ok((Expr::NULL, DataType::Int2)),
                _ => Err(SqlError::unsupported("a subscript")),
            },
            Ast::Tuple(_) => Err(SqlError::unsupported("a row as a value")),
            other => {
                let text: String = other.to_string().chars().take(60).collect();
                Err(SqlError::unsupported(format_args!("the expression {text}")))
            }
        }
    }

    fn identifier(&mut self, ident: &ast::Ident) -> Result<Typed> {
        let found = self.column(None, &name_of(ident));
        match found {
            Err(error) if error.state == state::UNDEFINED_COLUMN && ident.quote_style.is_none() => {
                // Some functions are called without parentheses.
                let name = ident.value.to_lowercase();
                let is_call = name.starts_with("current_")
                    || name.ends_with("_user")
                    || name == "user"
                    || name == "localtimestamp";
                match is_call {
                    true => self.call_named(&name, Vec::new()).map_err(|_| error),
                    false => Err(error),
                }
            }
            found => found,
        }
    }

    fn compound(&mut self, parts: &[ast::Ident]) -> Result<Typed> {
        let names: Vec<String> = parts.iter().map(name_of).collect();
        match &*names {
            [.., relation, column] => self.column(Some(relation), column),
            _ => Err(SqlError::unsupported("such a name")),
        }
    }

    fn value(&mut self, value: &ast::Value) -> Result<Typed> {
        use ast::Value as Ast;
        let literal = |text: &str| (Expr::Const(Datum::Text(text.to_owned())), DataType::Unknown);
        Ok(match value {
            Ast::Number(digits, false) => return number(digits),
            Ast::SingleQuotedString(text)
            | Ast::EscapedStringLiteral(text)
            | Ast::UnicodeStringLiteral(text)
            | Ast::NationalStringLiteral(text) => literal(text),
            Ast::DollarQuotedString(text) => literal(&text.value),
            Ast::Boolean(value) => (Expr::Const(Datum::Bool(*value)), DataType::Bool),
            Ast::Null => (Expr::NULL, DataType::Unknown),
            Ast::Placeholder(name) => return self.param(name),
            other => return Err(SqlError::unsupported(format_args!("the literal {other}"))),
        })
    }

    fn unary(&mut self, op: UnaryOperator, inner: &ast::Expr) -> Result<Typed> {
        if op == UnaryOperator::Not {
            let inner = self.condition(inner)?;
            return Ok((Expr::Not(inner.boxed()), DataType::Bool));
        }
        // The least integer has no positive counterpart.
        if let (UnaryOperator::Minus, ast::Expr::Value(value)) = (op, inner)
            && let ast::Value::Number(digits, false) = &value.value
        {
            return number(&format!("-{digits}"));
        }
        let (value, ty) = self.expr(inner)?;
        let ty = if ty == DataType::Unknown { DataType::Double } else { ty };
        let value = self.converted(value, ty, ty, Use::Implicit)?;
        let Some(numbers) = numbers_of(ty) else {
            return Err(no_operator(format_args!("{op} {ty}")));
        };
        match op {
            UnaryOperator::Plus => Ok((value, ty)),
            UnaryOperator::Minus => Ok((Expr::Negate(numbers, value.boxed()), ty)),
            UnaryOperator::PGAbs => self.call("abs", &[inner]),
            other => Err(SqlError::unsupported(format_args!("the operator {other}"))),
        }
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed> {
        use BinaryOperator as Op;
        if let Some(comparison) = comparison_of(op) {
            return Ok((self.compare(comparison, left, right)?, DataType::Bool));
        }
        let boolean = |expr: Expr| (expr, DataType::Bool);
        match op {
            Op::And => {
                let (left, right) = (self.condition(left)?, self.condition(right)?);
                Ok(boolean(Expr::And(left.boxed(), right.boxed())))
            }
            Op::Or => {
                let (left, right) = (self.condition(left)?, self.condition(right)?);
                Ok(boolean(Expr::Or(left.boxed(), right.boxed())))
            }
            Op::StringConcat => self.concat(left, right),
            Op::PGRegexMatch => Ok(boolean(self.regex(left, right, false)?)),
            Op::PGRegexIMatch => Ok(boolean(self.regex(left, right, true)?)),
            Op::PGRegexNotMatch => Ok(negate_if(true, self.regex(left, right, false)?)),
            Op::PGRegexNotIMatch => Ok(negate_if(true, self.regex(left, right, true)?)),
            Op::PGLikeMatch => Ok(boolean(self.like(left, right, None, false)?)),
            Op::PGNotLikeMatch => Ok(negate_if(true, self.like(left, right, None, false)?)),
            Op::PGILikeMatch => Ok(boolean(self.like(left, right, None, true)?)),
            Op::PGNotILikeMatch => Ok(negate_if(true, self.like(left, right, None, true)?)),
            Op::PGExp => self.call("power", &[left, right]),
            Op::PGCustomBinaryOperator(parts) => {
                let plain = match parts.last().map(String::as_str) {
                    Some("~") => Op::PGRegexMatch,
                    Some("!~") => Op::PGRegexNotMatch,
                    Some("=") => Op::Eq,
                    _ => return Err(SqlError::unsupported(format_args!("the operator {op}"))),
                };
                self.binary(left, &plain, right)
            }
            _ => self.arithmetic(left, op, right),
        }
    }

    fn arithmetic(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed> {
        if let Some(moved) = self.interval(left, op, right)? {
            return Ok(moved);
        }
        let operation = match op {
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            BinaryOperator::Modulo => Arithmetic::Modulo,
            BinaryOperator::BitwiseAnd => Arithmetic::And,
            BinaryOperator::BitwiseOr => Arithmetic::Or,
            BinaryOperator::PGBitwiseXor => Arithmetic::Xor,
            BinaryOperator::PGBitwiseShiftLeft => Arithmetic::ShiftLeft,
            BinaryOperator::PGBitwiseShiftRight => Arithmetic::ShiftRight,
            other => return Err(SqlError::unsupported(format_args!("the operator {other}"))),
        };
        let ((left, left_ty), (right, right_ty)) = (self.expr(left)?, self.expr(right)?);
        if let Some(days) = days(operation, (&left, left_ty), (&right, right_ty)) {
            let args =
                if left_ty == DataType::Date { vec![left, right] } else { vec![right, left] };
            return Ok(call(days.0, args, days.1));
        }
        let wrong = || no_operator(format_args!("{left_ty} {op} {right_ty}"));
        let ty = common(left_ty, right_ty).ok_or_else(wrong)?;
        let ty = if ty == DataType::Unknown { DataType::Int4 } else { ty };
        let numbers = numbers_of(ty).ok_or_else(wrong)?;
        let is_bitwise = !matches!(
            operation,
            Arithmetic::Add
                | Arithmetic::Subtract
                | Arithmetic::Multiply
                | Arithmetic::Divide
                | Arithmetic::Modulo
        );
        let is_float = matches!(numbers, Numbers::Float(_));
        if is_bitwise && !ty.is_integer() || operation == Arithmetic::Modulo && is_float {
            return Err(wrong());
        }
        let left = self.converted(left, left_ty, ty, Use::Implicit)?;
        let right = self.converted(right, right_ty, ty, Use::Implicit)?;
        Ok((Expr::Arithmetic(operation, numbers, left.boxed(), right.boxed()), ty))
    }

    /// A moment with an interval added, if it is that.
    fn interval(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Option<Typed>> {
        let (moment, interval) = match (left, op, right) {
            (
                moment,
                BinaryOperator::Plus | BinaryOperator::Minus,
                ast::Expr::Interval(interval),
            )
            | (ast::Expr::Interval(interval), BinaryOperator::Plus, moment) => (moment, interval),
            _ => return Ok(None),
        };
        let (mut months, mut micros) = super::call::interval(interval)?;
        if *op == BinaryOperator::Minus {
            (months, micros) = (-months, -micros);
        }
        let (value, from) = self.expr(moment)?;
        let ty = match from.family() {
            Family::Timestamp => from,
            Family::Date | Family::Unknown => DataType::Timestamp,
            _ => return Err(no_operator(format_args!("{from} {op} interval"))),
        };
        let value = self.converted(value, from, ty, Use::Implicit)?;
        Ok(Some(call(Function::AddInterval { months, micros }, vec![value], ty)))
    }

    /// Two values as those of one type.
    fn same(&mut self, what: &str, left: Typed, right: Typed) -> Result<(Expr, Expr)> {
        let ((left, left_ty), (right, right_ty)) = (left, right);
        let ty = common(left_ty, right_ty)
            .ok_or_else(|| no_operator(format_args!("{left_ty} {what} {right_ty}")))?;
        let ty = if ty == DataType::Unknown { DataType::Text } else { ty };
        let left = self.converted(left, left_ty, ty, Use::Implicit)?;
        Ok((left, self.converted(right, right_ty, ty, Use::Implicit)?))
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Result<Expr> {
        if let (ast::Expr::Tuple(left), ast::Expr::Tuple(right)) = (unnest(left), unnest(right)) {
            return self.compare_rows(comparison, left, right);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right) = self.same(comparison.symbol(), left, right)?;
        Ok(Expr::Compare(comparison, left.boxed(), right.boxed()))
    }

    fn compare_rows(
        &mut self,
        comparison: Comparison,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> Result<Expr> {
        if left.len() != right.len() {
            let message = "unequal number of entries in row expressions";
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        let pairs: Vec<(Expr, Expr)> = left
            .iter()
            .zip(right)
            .map(|(left, right)| {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.same("=", left, right)
            })
            .collect::<Result<_>>()?;
        let one = |comparison, (left, right): (Expr, Expr)| {
            Expr::Compare(comparison, left.boxed(), right.boxed())
        };
        let all = |exprs: Vec<Expr>| crate::expr::all_of(exprs).expect("rows are not empty");
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {
                let equal =
                    all(pairs.into_iter().map(|pair| one(Comparison::Equal, pair)).collect());
                Ok(match comparison {
                    Comparison::Equal => equal,
                    _ => Expr::Not(equal.boxed()),
                })
            }
            // The first values that differ decide.
            _ => {
                let strict = match comparison {
                    Comparison::LessEqual => Comparison::Less,
                    Comparison::GreaterEqual => Comparison::Greater,
                    other => other,
                };
                let mut pairs = pairs.into_iter().rev();
                let last = one(comparison, pairs.next().expect("rows are not empty"));
                Ok(pairs.fold(last, |rest, pair| {
                    let equal = one(Comparison::Equal, pair.clone());
                    let rest = Expr::And(equal.boxed(), rest.boxed());
                    Expr::Or(one(strict, pair).boxed(), rest.boxed())
                }))
            }
        }
    }

    fn distinct(&mut self, left: &ast::Expr, right: &ast::Expr, negated: bool) -> Result<Typed> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right) = self.same("=", left, right)?;
        Ok(negate_if(negated, Expr::Distinct(left.boxed(), right.boxed())))
    }

    fn is_null(&mut self, inner: &ast::Expr, negated: bool) -> Result<Typed> {
        let (inner, _) = self.expr(inner)?;
        Ok(negate_if(negated, Expr::IsNull(inner.boxed())))
    }

    fn is_bool(&mut self, inner: &ast::Expr, value: bool, negated: bool) -> Result<Typed> {
        let inner = self.condition(inner)?;
        Ok(negate_if(negated, Expr::IsBool(inner.boxed(), value)))
    }

    /// Binds an expression that is true or false.
    pub(crate) fn condition(&mut self, expr: &ast::Expr) -> Result<Expr> {
        let (expr, ty) = self.expr(expr)?;
        match ty {
            DataType::Bool | DataType::Unknown => {
                self.converted(expr, ty, DataType::Bool, Use::Implicit)
            }
            other => {
                let message = format!("argument must be type boolean, not type {other}");
                Err(SqlError::new(state::DATATYPE_MISMATCH, message))
            }
        }
    }

    fn in_list(&mut self, expr: &ast::Expr, list: &[ast::Expr]) -> Result<Expr> {
        if let ast::Expr::Tuple(columns) = unnest(expr) {
            return self.row_in(columns, list);
        }
        let first = self.expr(expr)?;
        let mut all = vec![first];
        for item in list {
            all.push(self.expr(item)?);
        }
        let (mut all, _) = self.unify("IN", all)?;
        let rest = all.split_off(1);
        Ok(Expr::In(all.remove(0).boxed(), rest))
    }

    fn row_in(&mut self, columns: &[ast::Expr], list: &[ast::Expr]) -> Result<Expr> {
        let columns: Vec<Typed> =
            columns.iter().map(|column| self.expr(column)).collect::<Result<_>>()?;
        let mut rows = Vec::with_capacity(list.len());
        for item in list {
            let ast::Expr::Tuple(values) = unnest(item) else {
                let message = "unequal number of entries in row expressions";
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            };
            if values.len() != columns.len() {
                let message = "unequal number of entries in row expressions";
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            let mut row = Vec::with_capacity(values.len());
            for (value, (_, ty)) in values.iter().zip(&columns) {
                let (value, from) = self.expr(value)?;
                // All integers are compared as they are; else the column's type decides.
                let to = match ty.is_integer() && from.is_integer() {
                    true => from,
                    false => common(*ty, *ty).unwrap_or(*ty),
                };
                row.push(self.converted(value, from, to, Use::Implicit)?);
            }
            rows.push(row);
        }
        // Values of rows are compared as those of the widest type.
        let columns = columns.into_iter().map(|(column, ty)| {
            let to = common(ty, ty).unwrap_or(ty);
            self.converted(column, ty, to, Use::Implicit)
        });
        Ok(Expr::RowIn(columns.collect::<Result<_>>()?, rows))
    }

    fn quantified(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
    ) -> Result<Typed> {
        let Some(comparison) = comparison_of(op) else {
            return Err(SqlError::unsupported(format_args!("{op} ANY")));
        };
        let ast::Expr::Subquery(query) = unnest(right) else {
            return self.array_has(left, comparison, right, all);
        };
        Ok((self.compare_query(left, comparison, query, all)?, DataType::Bool))
    }

    /// Whether a value is an element of an array of the catalog.
    fn array_has(
        &mut self,
        left: &ast::Expr,
        comparison: Comparison,
        right: &ast::Expr,
        all: bool,
    ) -> Result<Typed> {
        let ((left, ty), (array, array_ty)) = (self.expr(left)?, self.expr(right)?);
        if array_ty != DataType::Array || comparison != Comparison::Equal || all {
            return Err(SqlError::unsupported("ANY or ALL of an array"));
        }
        let ty = if ty == DataType::Unknown { DataType::Text } else { ty };
        let (function, args) = (Function::ArrayHas, vec![left, array]);
        Ok((Expr::Call { function, args, types: vec![ty] }, DataType::Bool))
    }

    fn compare_query(
        &mut self,
        left: &ast::Expr,
        comparison: Comparison,
        query: &ast::Query,
        all: bool,
    ) -> Result<Expr> {
        let left = match unnest(left) {
            ast::Expr::Tuple(parts) => parts.iter().collect(),
            one => vec![one],
        };
        let left: Vec<Typed> = left.into_iter().map(|one| self.expr(one)).collect::<Result<_>>()?;
        let mut plan = self.query(query)?;
        if plan.columns.len() != left.len() {
            let message = "subquery has too many or too few columns";
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        if left.len() > 1 && comparison != Comparison::Equal {
            return Err(SqlError::unsupported("a comparison of rows with a query, but by =,"));
        }
        let mut values = Vec::with_capacity(left.len());
        let mut wanted = Vec::with_capacity(left.len());
        for ((value, ty), column) in left.into_iter().zip(&plan.columns) {
            let to = common(ty, column.ty)
                .ok_or_else(|| no_operator(format_args!("{ty} = {}", column.ty)))?;
            values.push(self.converted(value, ty, to, Use::Implicit)?);
            wanted.push(to);
        }
        super::select::convert(&mut plan, &wanted)?;
        let used = SubqueryUse::Compare { left: values, comparison, all };
        Ok(Expr::Subquery(Arc::new(plan), used))
    }

    fn text(&mut self, expr: &ast::Expr) -> Result<Expr> {
        let (value, ty) = self.expr(expr)?;
        match ty.family() {
            Family::Text | Family::Unknown => {
                self.converted(value, ty, DataType::Text, Use::Implicit)
            }
            _ => Err(no_operator(format_args!("{ty} ~~ unknown"))),
        }
    }

    fn like(
        &mut self,
        left: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        ignores_case: bool,
    ) -> Result<Expr> {
        let escape = match escape {
            None => Some('\\'),
            Some(escape) => {
                let text = match escape {
                    ast::Expr::Value(value) => value.value.clone().into_string(),
                    _ => None,
                };
                let text = text.ok_or_else(|| SqlError::unsupported("such an ESCAPE"))?;
                let mut chars = text.chars();
                let first = chars.next();
                if chars.next().is_some() {
                    let message = "invalid escape string: it must be empty or one character";
                    return Err(SqlError::new(state::INVALID_ESCAPE, message));
                }
                first
            }
        };
        let (text, pattern) = (self.text(left)?.boxed(), self.text(pattern)?.boxed());
        Ok(Expr::Like { text, pattern, escape, ignores_case })
    }

    fn regex(&mut self, left: &ast::Expr, pattern: &ast::Expr, ignores_case: bool) -> Result<Expr> {
        let (text, pattern) = (self.text(left)?.boxed(), self.text(pattern)?.boxed());
        Ok(Expr::Regex { text, pattern, ignores_case })
    }

    fn concat(&mut self, left: &ast::Expr, right: &ast::Expr) -> Result<Typed> {
        let ((left, left_ty), (right, right_ty)) = (self.expr(left)?, self.expr(right)?);
        if (left_ty, right_ty) == (DataType::Bytea, DataType::Bytea) {
            return Ok((Expr::Concat(left.boxed(), right.boxed()), DataType::Bytea));
        }
        let is_text = |ty: DataType| matches!(ty.family(), Family::Text | Family::Unknown);
        if !is_text(left_ty) && !is_text(right_ty) {
            return Err(no_operator(format_args!("{left_ty} || {right_ty}")));
        }
        let left = self.converted(left, left_ty, DataType::Text, Use::Assignment)?;
        let right = self.converted(right, right_ty, DataType::Text, Use::Assignment)?;
        Ok((Expr::Concat(left.boxed(), right.boxed()), DataType::Text))
    }

    fn cast(&mut self, inner: &ast::Expr, to: &ast::DataType) -> Result<Typed> {
        let (value, from) = self.expr(inner)?;
        let name = to.to_string().to_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        match (name, from.family()) {
            ("regclass", Family::Text | Family::Unknown) => {
                let value = self.converted(value, from, DataType::Text, Use::Implicit)?;
                return Ok(call(Function::RegclassOf, vec![value], DataType::Oid));
            }
            ("regclass", Family::Number) => {
                return Ok(call(Function::RegclassName, vec![value], DataType::Text));
            }
            ("regnamespace", Family::Number) => {
                return Ok(call(Function::NamespaceName, vec![value], DataType::Text));
            }
            (name, Family::Array) if name.ends_with("[]") => return Ok((value, from)),
            ("regtype", Family::Number) => {
                return Ok(call(Function::RegtypeName, vec![value], DataType::Text));
            }
            _ => {}
        }
        let to = super::data_type(to)?;
        Ok((self.converted(value, from, to, Use::Explicit)?, to))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let (mut tests, mut values) = (Vec::new(), Vec::new());
        for ast::CaseWhen { condition, result } in conditions {
            tests.push(match operand {
                Some(operand) => self.compare(Comparison::Equal, operand, condition)?,
                None => self.condition(condition)?,
            });
            values.push(self.expr(result)?);
        }
        values.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => (Expr::NULL, DataType::Unknown),
        });
        let (mut values, ty) = self.unify("CASE", values)?;
        let otherwise = values.pop().expect("it was pushed").boxed();
        let branches = tests.into_iter().zip(values).collect();
        Ok((Expr::Case { branches, otherwise }, ty))
    }

    fn collate(&mut self, inner: &ast::Expr, collation: &ast::ObjectName) -> Result<Typed> {
        let name = parts_of(collation)?.pop().unwrap_or_default();
        match name.to_lowercase().as_str() {
            "default" | "c" | "posix" | "ucs_basic" => self.expr(inner),
            other => Err(SqlError::unsupported(format_args!("the collation {other}"))),
        }
    }

    fn at_time_zone(&mut self, moment: &ast::Expr, zone: &ast::Expr) -> Result<Typed> {
        let is_utc = match zone {
            ast::Expr::Value(value) => value.value.clone().into_string().is_some_and(|zone| {
                ["utc", "gmt", "etc/utc"].contains(&zone.to_lowercase().as_str())
            }),
            _ => false,
        };
        if !is_utc {
            return Err(SqlError::unsupported("a time zone other than UTC"));
        }
        let (value, from) = self.expr(moment)?;
        // Both kinds of moments are counted in UTC.
        let to = match from {
            DataType::Timestamptz => DataType::Timestamp,
            _ => DataType::Timestamptz,
        };
        Ok((self.converted(value, from, to, Use::Implicit)?, to))
    }
}

/// The expression without parentheses.
fn unnest(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

fn negate_if(negated: bool, expr: Expr) -> Typed {
    (if negated { Expr::Not(expr.boxed()) } else { expr }, DataType::Bool)
}

/// A call of a function whose arguments have the types that it wants.
pub(super) fn call(function: Function, args: Vec<Expr>, result: DataType) -> Typed {
    (Expr::Call { function, args, types: vec![result] }, result)
}

/// A literal number.
fn number(digits: &str) -> Result<Typed> {
    if let Ok(value) = digits.parse::<i64>() {
        let ty = if i32::try_from(value).is_ok() { DataType::Int4 } else { DataType::Int8 };
        return Ok((Expr::Const(Datum::Int(value)), ty));
    }
    Ok((Expr::Const(Datum::Numeric(text::parse_numeric(digits)?)), DataType::Numeric(None)))
}

/// How numbers of a type are computed with.
fn numbers_of(ty: DataType) -> Option<Numbers> {
    Some(match ty {
        DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Oid => Numbers::Int(ty),
        DataType::Numeric(_) => Numbers::Numeric,
        DataType::Real | DataType::Double => Numbers::Float(ty),
        _ => return None,
    })
}

fn comparison_of(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterEqual,
        _ => return None,
    })
}

/// The function that computes with days, if the operator does.
fn days(
    operation: Arithmetic,
    (_, left): (&Expr, DataType),
    (_, right): (&Expr, DataType),
) -> Option<(Function, DataType)> {
    match (operation, left, right) {
        (Arithmetic::Add, DataType::Date, other) | (Arithmetic::Add, other, DataType::Date)
            if other.is_integer() =>
        {
            Some((Function::AddDays, DataType::Date))
        }
        (Arithmetic::Subtract, DataType::Date, other) if other.is_integer() => {
            Some((Function::SubtractDays, DataType::Date))
        }
        (Arithmetic::Subtract, DataType::Date, DataType::Date) => {
            Some((Function::DaysBetween, DataType::Int4))
        }
        _ => None,
    }
}

fn no_operator(what: std::fmt::Arguments<'_>) -> SqlError {
    SqlError::new(state::UNDEFINED_FUNCTION, format!("operator does not exist: {what}"))
        .with_hint("No operator matches these types. You might need to add explicit type casts.")
}
