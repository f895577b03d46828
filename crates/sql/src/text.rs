//! Values as text, and text as values.

use std::str::FromStr;

use rust_decimal::{Decimal, RoundingStrategy};

use crate::datetime;
use crate::error::{Result, SqlError, state};
use crate::types::{DataType, Datum};

fn invalid(ty: DataType, text: &str) -> SqlError {
    let message = format!("invalid input syntax for type {}: \"{text}\"", ty.base_name());
    SqlError::new(state::INVALID_TEXT, message)
}

pub(crate) fn out_of_range(ty: DataType) -> SqlError {
    SqlError::new(state::NUMERIC_OUT_OF_RANGE, format!("{} out of range", ty.base_name()))
}

/// The value of a type that a text stands for.
///
/// # Errors
/// That the text is none of the type, or the value does not fit.
pub fn parse(text: &str, ty: DataType) -> Result<Datum> {
    Ok(match ty {
        DataType::Bool => Datum::Bool(parse_bool(text).ok_or_else(|| invalid(ty, text))?),
        DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Oid => {
            parse_integer(text, ty)?
        }
        DataType::Numeric(_) => {
            return fit(Datum::Numeric(parse_numeric(text)?), ty);
        }
        DataType::Real | DataType::Double => Datum::Float(parse_float(text, ty)?),
        DataType::Text | DataType::Unknown | DataType::Name | DataType::Array => {
            Datum::Text(text.to_owned())
        }
        DataType::Varchar(_) | DataType::Char(_) => return fit(Datum::Text(text.to_owned()), ty),
        DataType::Date => Datum::Date(datetime::parse_date(text)?),
        DataType::Timestamp => Datum::Timestamp(datetime::parse_timestamp(text, false)?),
        DataType::Timestamptz => Datum::Timestamp(datetime::parse_timestamp(text, true)?),
        DataType::Bytea => Datum::Bytes(parse_bytes(text)?),
    })
}

fn parse_bool(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}

fn parse_integer(text: &str, ty: DataType) -> Result<Datum> {
    let trimmed = text.trim();
    let value: i64 = trimmed.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        match error.kind() {
            NegOverflow | PosOverflow => {
                let name = ty.base_name();
                let message = format!("value \"{text}\" is out of range for type {name}");
                SqlError::new(state::NUMERIC_OUT_OF_RANGE, message)
            }
            _ => invalid(ty, text),
        }
    })?;
    fit(Datum::Int(value), ty)
}

/// Reads a decimal number, with an exponent or without.
pub(crate) fn parse_numeric(text: &str) -> Result<Decimal> {
    let trimmed = text.trim();
    let ty = DataType::Numeric(None);
    let body = trimmed.trim_start_matches(['+', '-']);
    let is_number = body.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
        && body.bytes().any(|b| b.is_ascii_digit());
    if !is_number {
        return Err(match body.eq_ignore_ascii_case("nan") {
            true => SqlError::unsupported("a numeric that is not a number"),
            false => invalid(ty, text),
        });
    }
    let parsed = match trimmed.contains(['e', 'E']) {
        true => Decimal::from_scientific(trimmed),
        false => Decimal::from_str_exact(trimmed).or_else(|error| match error {
            // Digits behind the 28th are rounded away; digits before the point are not.
            rust_decimal::Error::Underflow => Decimal::from_str(trimmed),
            error => Err(error),
        }),
    };
    parsed.map_err(|error| match error {
        rust_decimal::Error::ErrorString(_) => invalid(ty, text),
        _ => numeric_overflow(),
    })
}

pub(crate) fn numeric_overflow() -> SqlError {
    SqlError::new(state::NUMERIC_OUT_OF_RANGE, "numeric field overflow")
        .with_detail("Numbers of type numeric have up to 28 digits.")
}

fn parse_float(text: &str, ty: DataType) -> Result<f64> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    let special = match lower.trim_start_matches(['+', '-']) {
        "nan" => Some(f64::NAN),
        "inf" | "infinity" => Some(f64::INFINITY),
        word if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => None,
        _ => return Err(invalid(ty, text)),
    };
    if let Some(special) = special {
        return Ok(if lower.starts_with('-') { -special } else { special });
    }
    let value: f64 = trimmed.parse().map_err(|_| invalid(ty, text))?;
    let value = if ty == DataType::Real { f64::from(value as f32) } else { value };
    if value.is_finite() { Ok(value) } else { Err(out_of_range(ty)) }
}

fn parse_bytes(text: &str) -> Result<Vec<u8>> {
    let wrong = || invalid(DataType::Bytea, text);
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let nibble = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
        let byte = |two: &[u8]| match two {
            [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
            _ => None,
        };
        return digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(wrong);
    }
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, left) = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), after)
            }
            (b'\\', _) => return Err(wrong()),
            plain => plain,
        };
        bytes.push(byte);
        rest = left;
    }
    Ok(bytes)
}

/// The value as one of a type of the same kind: within its range, rounded to its digits, cut or
/// padded to its length.
///
/// # Errors
/// That it does not fit.
pub(crate) fn fit(value: Datum, ty: DataType) -> Result<Datum> {
    Ok(match (value, ty) {
        (Datum::Int(value), DataType::Int2) => {
            Datum::Int(i16::try_from(value).map_err(|_| out_of_range(ty))?.into())
        }
        (Datum::Int(value), DataType::Int4) => {
            Datum::Int(i32::try_from(value).map_err(|_| out_of_range(ty))?.into())
        }
        (Datum::Int(value), DataType::Oid) => {
            Datum::Int(u32::try_from(value).map_err(|_| out_of_range(ty))?.into())
        }
        (Datum::Numeric(value), DataType::Numeric(Some((precision, scale)))) => {
            Datum::Numeric(fit_numeric(value, precision, scale)?)
        }
        (Datum::Text(text), DataType::Varchar(Some(length))) => Datum::Text(cut(text, length, ty)?),
        (Datum::Text(text), DataType::Char(length)) if length > 0 => {
            let text = cut(text, length, ty)?;
            // Blanks at the end do not matter; they are added when the value is shown.
            Datum::Text(text.trim_end_matches(' ').to_owned())
        }
        (Datum::Text(text), DataType::Char(_)) => {
            Datum::Text(text.trim_end_matches(' ').to_owned())
        }
        (value, _) => value,
    })
}

fn fit_numeric(value: Decimal, precision: u8, scale: u8) -> Result<Decimal> {
    let scale = u32::from(scale);
    let mut value = value.round_dp_with_strategy(scale, RoundingStrategy::MidpointAwayFromZero);
    let digits = value.trunc().mantissa().unsigned_abs().checked_ilog10().map_or(0, |n| n + 1);
    if digits > u32::from(precision) - scale {
        return Err(SqlError::new(state::NUMERIC_OUT_OF_RANGE, "numeric field overflow")
            .with_detail(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute \
                 value less than 10^{}.",
                u32::from(precision) - scale
            )));
    }
    value.rescale(scale);
    Ok(value)
}

/// Text of at most `length` characters; blanks behind that are cut, and nothing else.
fn cut(text: String, length: u32, ty: DataType) -> Result<String> {
    let Some((at, _)) = text.char_indices().nth(length as usize) else { return Ok(text) };
    if text[at..].bytes().all(|byte| byte == b' ') {
        return Ok(text[..at].to_owned());
    }
    Err(SqlError::new(state::STRING_TOO_LONG, format!("value too long for type {ty}")))
}

/// The text of a value, which is not null.
pub fn format(value: &Datum, ty: DataType) -> String {
    match value {
        Datum::Null => String::new(),
        Datum::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
        Datum::Int(value) => value.to_string(),
        Datum::Numeric(value) => value.to_string(),
        Datum::Float(value) => format_float(*value, ty),
        Datum::Text(text) => match ty {
            DataType::Char(length) => pad(text, length),
            _ => text.clone(),
        },
        Datum::Date(days) => datetime::format_date(*days),
        Datum::Timestamp(micros) => {
            datetime::format_timestamp(*micros, ty == DataType::Timestamptz)
        }
        Datum::Bytes(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            format!("\\x{}", digits.collect::<String>())
        }
    }
}

/// Text with blanks up to a length.
pub(crate) fn pad(text: &str, length: u32) -> String {
    let missing = (length as usize).saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

fn format_float(value: f64, ty: DataType) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // The shortest digits that read back; an exponent where PostgreSQL has one.
    let scientific = match ty {
        DataType::Real => format!("{:e}", value as f32),
        _ => format!("{value:e}"),
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let most = if ty == DataType::Real { 6 } else { 15 };
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    match ty {
        DataType::Real => (value as f32).to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, ty: DataType) -> String {
        format(&parse(text, ty).unwrap(), ty)
    }

    #[test]
    fn values_read_back() {
        for (text, ty) in [
            ("-32768", DataType::Int2),
            ("9223372036854775807", DataType::Int8),
            ("12345678901234567890.12345678", DataType::Numeric(None)),
            ("1.50", DataType::Numeric(None)),
            ("1e+20", DataType::Double),
            ("0.0001", DataType::Double),
            ("3.14", DataType::Real),
            ("NaN", DataType::Double),
            ("-Infinity", DataType::Real),
            ("\\x00ff10", DataType::Bytea),
        ] {
            assert_eq!(round_trip(text, ty), text);
        }
        assert_eq!(round_trip("1.005", DataType::Numeric(Some((5, 2)))), "1.01");
        assert_eq!(round_trip("7", DataType::Numeric(Some((5, 2)))), "7.00");
        assert_eq!(round_trip("a", DataType::Char(3)), "a  ");
        assert_eq!(round_trip("ab   ", DataType::Varchar(Some(3))), "ab ");
        assert_eq!(round_trip("a\\000\\\\", DataType::Bytea), "\\x61005c");
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        for (text, ty, code) in [
            ("32768", DataType::Int2, state::NUMERIC_OUT_OF_RANGE),
            ("99999999999999999999", DataType::Int8, state::NUMERIC_OUT_OF_RANGE),
            ("1000", DataType::Numeric(Some((5, 2))), state::NUMERIC_OUT_OF_RANGE),
            ("1e400", DataType::Double, state::NUMERIC_OUT_OF_RANGE),
            ("abcd", DataType::Varchar(Some(3)), state::STRING_TOO_LONG),
            ("1x", DataType::Int4, state::INVALID_TEXT),
            ("maybe", DataType::Bool, state::INVALID_TEXT),
            ("\\xf", DataType::Bytea, state::INVALID_TEXT),
            ("1-1", DataType::Numeric(None), state::INVALID_TEXT),
        ] {
            assert_eq!(parse(text, ty).unwrap_err().state, code, "{text}");
        }
    }
}
