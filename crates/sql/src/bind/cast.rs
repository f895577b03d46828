//! Values of one type where another one is asked for.

use super::Binder;
use crate::error::{Result, SqlError, state};
use crate::eval;
use crate::expr::Expr;
use crate::text;
use crate::types::{DataType, Datum, Family};

/// Why a value is to have another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// An operator or a function wants it.
    Implicit,
    /// It goes into a column.
    Assignment,
    /// The statement says so.
    Explicit,
}

/// Whether values of one type can become those of another.
fn is_allowed(from: DataType, to: DataType, why: Use) -> bool {
    let (source, target) = (from.family(), to.family());
    match (source, target) {
        _ if from == to => true,
        (Family::Number, Family::Number) => {
            from.width() <= to.width() || why >= Use::Assignment || to == DataType::Real
        }
        (one, other) if one == other => true,
        (Family::Date, Family::Timestamp) => true,
        (Family::Timestamp, Family::Date) => why >= Use::Assignment,
        (Family::Array, _) | (_, Family::Array) => false,
        (_, Family::Text) => why >= Use::Assignment,
        (Family::Text, _) => why >= Use::Explicit,
        (Family::Bool, Family::Number) | (Family::Number, Family::Bool) => {
            why >= Use::Explicit && (from == DataType::Int4 || to == DataType::Int4)
        }
        _ => false,
    }
}

/// The expression as one of type `to`.
///
/// # Errors
/// That there is no such conversion, or a constant cannot be converted.
pub(crate) fn coerce(expr: Expr, from: DataType, to: DataType, why: Use) -> Result<Expr> {
    if to == DataType::Unknown || (from == to && !has_limit(to)) {
        return Ok(expr);
    }
    if from == DataType::Unknown {
        return match expr {
            Expr::Const(Datum::Text(literal)) => Ok(Expr::Const(text::parse(&literal, to)?)),
            null @ Expr::Const(Datum::Null) => Ok(null),
            other => Ok(cast(other, DataType::Text, to, why)),
        };
    }
    if !is_allowed(from, to, why) {
        return Err(match why {
            Use::Explicit => {
                let message = format!("cannot cast type {from} to {to}");
                SqlError::new(state::CANNOT_COERCE, message)
            }
            _ => {
                let message = format!("expression is of type {from}, and {to} is needed");
                SqlError::new(state::DATATYPE_MISMATCH, message)
                    .with_hint("You will need to rewrite or cast the expression.")
            }
        });
    }
    Ok(match cast(expr, from, to, why) {
        Expr::Cast { value, .. } if matches!(*value, Expr::Const(_)) => {
            let Expr::Const(constant) = *value else { unreachable!("it is a constant") };
            Expr::Const(eval::cast(constant, from, to, why == Use::Explicit)?)
        }
        expr => expr,
    })
}

fn has_limit(ty: DataType) -> bool {
    matches!(ty, DataType::Varchar(Some(_)) | DataType::Char(_) | DataType::Numeric(Some(_)))
}

fn cast(value: Expr, from: DataType, to: DataType, why: Use) -> Expr {
    let is_same = match (from, to) {
        (DataType::Text | DataType::Varchar(_) | DataType::Name, DataType::Text)
        | (DataType::Numeric(_), DataType::Numeric(None))
        | (DataType::Text | DataType::Varchar(_), DataType::Varchar(None)) => true,
        (one, other) => one == other && !has_limit(one),
    };
    match is_same {
        true => value,
        false => Expr::Cast { value: value.boxed(), from, to, explicit: why == Use::Explicit },
    }
}

/// The type that two values are compared as.
pub(crate) fn common(one: DataType, other: DataType) -> Option<DataType> {
    let plain = |ty: DataType| match ty.family() {
        Family::Text if matches!(ty, DataType::Char(_)) => DataType::Char(0),
        Family::Text => DataType::Text,
        Family::Number if matches!(ty, DataType::Numeric(_)) => DataType::Numeric(None),
        _ => ty,
    };
    let (one, other) = (plain(one), plain(other));
    match (one.family(), other.family()) {
        (Family::Unknown, _) => Some(other),
        (_, Family::Unknown) => Some(one),
        (Family::Number, Family::Number) => {
            Some(if one.width() >= other.width() { one } else { other })
        }
        (Family::Text, Family::Text) => {
            // Blanks at the end of CHAR do not matter, unless it is compared with other text.
            Some(if one == other { one } else { DataType::Text })
        }
        (Family::Timestamp, Family::Timestamp) if one == other => Some(one),
        (Family::Timestamp, Family::Timestamp) => Some(DataType::Timestamptz),
        (Family::Date, Family::Timestamp) => Some(other),
        (Family::Timestamp, Family::Date) => Some(one),
        (one_family, other_family) => (one_family == other_family).then_some(one),
    }
}

impl Binder<'_> {
    /// As [`coerce`]; a parameter whose type is not known gets this one.
    pub(super) fn converted(
        &mut self,
        expr: Expr,
        from: DataType,
        to: DataType,
        why: Use,
    ) -> Result<Expr> {
        if let (Expr::Param(number), DataType::Unknown) = (&expr, from) {
            let known = &mut self.params[*number];
            if *known == DataType::Unknown {
                *known = match to {
                    DataType::Varchar(_) => DataType::Varchar(None),
                    DataType::Numeric(_) => DataType::Numeric(None),
                    DataType::Char(_) => DataType::Char(0),
                    other => other,
                };
            }
            let known = *known;
            return coerce(expr, known, to, why.max(Use::Assignment));
        }
        coerce(expr, from, to, why)
    }

    /// Several values as those of one type.
    pub(super) fn unify(
        &mut self,
        what: &str,
        values: Vec<(Expr, DataType)>,
    ) -> Result<(Vec<Expr>, DataType)> {
        let mut ty = DataType::Unknown;
        for (_, other) in &values {
            if *other == ty {
                continue;
            }
            ty = common(ty, *other).ok_or_else(|| {
                let message = format!("{what} types {ty} and {other} cannot be matched");
                SqlError::new(state::DATATYPE_MISMATCH, message)
            })?;
        }
        let ty = if ty == DataType::Unknown { DataType::Text } else { ty };
        let values = values.into_iter();
        let same = values.map(|(value, from)| self.converted(value, from, ty, Use::Implicit));
        Ok((same.collect::<Result<_>>()?, ty))
    }
}
