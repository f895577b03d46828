//! Names of types.

use sqlparser::ast::{self, CharacterLength, ExactNumberInfo, TimezoneInfo};

use crate::error::{Result, SqlError, state};
use crate::types::DataType;

/// Digits of exact numbers at most.
const MAX_PRECISION: u64 = 28;

/// Characters of text with a length at most, as in PostgreSQL.
const MAX_LENGTH: u64 = 10_485_760;

/// The type that a name stands for.
pub(crate) fn data_type(ty: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Ast;
    Ok(match ty {
        Ast::Bool | Ast::Boolean => DataType::Bool,
        Ast::SmallInt(None) | Ast::Int2(None) => DataType::Int2,
        Ast::Int(None) | Ast::Int4(None) | Ast::Integer(None) => DataType::Int4,
        Ast::BigInt(None) | Ast::Int8(None) => DataType::Int8,
        Ast::Numeric(info) | Ast::Decimal(info) | Ast::Dec(info) => numeric(*info)?,
        Ast::Real | Ast::Float4 => DataType::Real,
        Ast::Float(ExactNumberInfo::Precision(1..=24)) => DataType::Real,
        Ast::Double(_) | Ast::DoublePrecision | Ast::Float8 | Ast::Float(_) => DataType::Double,
        Ast::Text => DataType::Text,
        Ast::Varchar(length) | Ast::CharacterVarying(length) | Ast::CharVarying(length) => {
            DataType::Varchar(length.as_ref().map(of_length).transpose()?)
        }
        Ast::Char(length) | Ast::Character(length) => {
            DataType::Char(length.as_ref().map_or(Ok(1), of_length)?)
        }
        Ast::Date => DataType::Date,
        Ast::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp
        }
        Ast::Timestamp(..) => DataType::Timestamptz,
        Ast::Bytea => DataType::Bytea,
        Ast::Custom(name, modifiers) => return custom(ty, name, modifiers),
        other => return Err(SqlError::unsupported(format_args!("the type {other}"))),
    })
}

fn custom(
    ty: &ast::DataType,
    name: &ast::ObjectName,
    modifiers: &[ast::TypeModifier],
) -> Result<DataType> {
    let (schema, name) = super::relation_of(name)?;
    if schema.is_some_and(|schema| schema != "pg_catalog") {
        return Err(SqlError::unsupported(format_args!("the type {ty}")));
    }
    let length = modifiers.first().and_then(|modifier| modifier.to_string().parse().ok());
    Ok(match name.as_str() {
        "oid" => DataType::Oid,
        "name" => DataType::Name,
        "bool" => DataType::Bool,
        "int2" => DataType::Int2,
        "int4" => DataType::Int4,
        "int8" => DataType::Int8,
        "float4" => DataType::Real,
        "float8" => DataType::Double,
        "text" => DataType::Text,
        "varchar" => DataType::Varchar(length),
        "bpchar" => DataType::Char(length.unwrap_or(0)),
        "char" if ty.to_string().contains('"') => DataType::Text,
        "char" => DataType::Char(length.unwrap_or(1)),
        "numeric" => DataType::Numeric(None),
        "timestamptz" => DataType::Timestamptz,
        "timestamp" => DataType::Timestamp,
        "date" => DataType::Date,
        "bytea" => DataType::Bytea,
        "serial" | "bigserial" | "smallserial" | "serial4" | "serial8" => {
            return Err(SqlError::unsupported(format_args!("the type {name}"))
                .with_hint("There are no sequences; give the values, or have no such column."));
        }
        _ => {
            let known = ["json", "jsonb", "uuid", "time", "timetz", "interval", "inet", "xml"];
            if known.contains(&name.as_str()) {
                return Err(SqlError::unsupported(format_args!("the type {name}")));
            }
            let message = format!("type \"{name}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
    })
}

fn numeric(info: ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(DataType::Numeric(None)),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let invalid = |message: String| Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    match (precision, u64::try_from(scale)) {
        (1..=MAX_PRECISION, Ok(scale)) if scale <= precision => {
            Ok(DataType::Numeric(Some((precision as u8, scale as u8))))
        }
        (1..=MAX_PRECISION, _) => {
            invalid(format!("NUMERIC scale {scale} must be between 0 and precision {precision}"))
        }
        (29..=1000, _) => Err(SqlError::unsupported(format_args!(
            "a numeric of {precision} digits; {MAX_PRECISION} are the most, so it"
        ))),
        _ => invalid(format!("NUMERIC precision {precision} must be between 1 and 28")),
    }
}

fn of_length(length: &CharacterLength) -> Result<u32> {
    match length {
        CharacterLength::IntegerLength { length: length @ 1..=MAX_LENGTH, .. } => {
            Ok(*length as u32)
        }
        CharacterLength::IntegerLength { .. } => {
            let message = format!("length of text must be between 1 and {MAX_LENGTH}");
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        }
        CharacterLength::Max => Err(SqlError::unsupported("a length of MAX")),
    }
}
