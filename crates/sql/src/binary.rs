//! Values in PostgreSQL's binary format.

use rust_decimal::Decimal;

use crate::error::{Result, SqlError, state};
use crate::text::{fit, numeric_overflow};
use crate::types::{DataType, Datum};

/// Digits of a binary numeric stand by four.
const BASE: i128 = 10_000;

/// The bytes of a value, which is not null.
pub fn encode(value: &Datum, ty: DataType) -> Vec<u8> {
    match (value, ty) {
        (Datum::Null, _) => Vec::new(),
        (Datum::Bool(value), _) => vec![u8::from(*value)],
        (Datum::Int(value), DataType::Int2) => (*value as i16).to_be_bytes().to_vec(),
        (Datum::Int(value), DataType::Int8) => value.to_be_bytes().to_vec(),
        (Datum::Int(value), _) => (*value as i32).to_be_bytes().to_vec(),
        (Datum::Numeric(value), _) => encode_numeric(value),
        (Datum::Float(value), DataType::Real) => (*value as f32).to_be_bytes().to_vec(),
        (Datum::Float(value), _) => value.to_be_bytes().to_vec(),
        (Datum::Text(text), DataType::Char(length)) => crate::text::pad(text, length).into_bytes(),
        (Datum::Text(text), _) => text.clone().into_bytes(),
        (Datum::Date(days), _) => days.to_be_bytes().to_vec(),
        (Datum::Timestamp(micros), _) => micros.to_be_bytes().to_vec(),
        (Datum::Bytes(bytes), _) => bytes.clone(),
    }
}

/// The value of a type that bytes stand for.
///
/// # Errors
/// That the bytes are none of the type.
pub fn decode(bytes: &[u8], ty: DataType) -> Result<Datum> {
    let wrong = || {
        let message = format!("incorrect binary data format of type {}", ty.base_name());
        SqlError::new(state::INVALID_BINARY, message)
    };
    let four = || <[u8; 4]>::try_from(bytes).map_err(|_| wrong());
    let eight = || <[u8; 8]>::try_from(bytes).map_err(|_| wrong());
    let value = match ty {
        DataType::Bool => match bytes {
            [byte] => Datum::Bool(*byte != 0),
            _ => return Err(wrong()),
        },
        DataType::Int2 => {
            let two = <[u8; 2]>::try_from(bytes).map_err(|_| wrong())?;
            Datum::Int(i16::from_be_bytes(two).into())
        }
        DataType::Int4 => Datum::Int(i32::from_be_bytes(four()?).into()),
        DataType::Oid => Datum::Int(u32::from_be_bytes(four()?).into()),
        DataType::Int8 => Datum::Int(i64::from_be_bytes(eight()?)),
        DataType::Numeric(_) => Datum::Numeric(decode_numeric(bytes).ok_or_else(wrong)??),
        DataType::Real => Datum::Float(f32::from_be_bytes(four()?).into()),
        DataType::Double => Datum::Float(f64::from_be_bytes(eight()?)),
        DataType::Date => Datum::Date(i32::from_be_bytes(four()?)),
        DataType::Timestamp | DataType::Timestamptz => {
            Datum::Timestamp(i64::from_be_bytes(eight()?))
        }
        DataType::Bytea => Datum::Bytes(bytes.to_vec()),
        DataType::Text
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Name
        | DataType::Array
        | DataType::Unknown => Datum::Text(String::from_utf8(bytes.to_vec()).map_err(|_| wrong())?),
    };
    fit(value, ty)
}

fn encode_numeric(value: &Decimal) -> Vec<u8> {
    let scale = value.scale();
    let mut rest = value.mantissa().unsigned_abs() as i128;
    // The point stands between two digits of the base.
    let fractions = scale.div_ceil(4);
    let missing = fractions * 4 - scale;
    let (mut digits, mut position) = (Vec::new(), 0);
    let mut carry_scale = 10i128.pow(missing);
    while rest != 0 {
        // The last digit has fewer decimals than four, the others four.
        let take = if position == 0 { BASE / carry_scale } else { BASE };
        digits.push((rest % take * carry_scale) as u16);
        rest /= take;
        carry_scale = 1;
        position += 1;
    }
    let weight = digits.len() as i32 - fractions as i32 - 1;
    digits.reverse();
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let weight = if digits.is_empty() { 0 } else { weight };
    let sign: u16 = if value.is_sign_negative() && !digits.is_empty() { 0x4000 } else { 0 };
    let mut bytes = Vec::with_capacity(8 + 2 * digits.len());
    bytes.extend((digits.len() as u16).to_be_bytes());
    bytes.extend((weight as i16).to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend((scale as u16).to_be_bytes());
    digits.iter().for_each(|digit| bytes.extend(digit.to_be_bytes()));
    bytes
}

/// `None` if the bytes are no numeric.
fn decode_numeric(bytes: &[u8]) -> Option<Result<Decimal>> {
    let mut words = bytes.chunks(2).map(|two| two.try_into().ok().map(u16::from_be_bytes));
    let count = words.next()??;
    let weight = i32::from(words.next()?? as i16);
    let sign = words.next()??;
    let scale = u32::from(words.next()??);
    let digits: Vec<u16> = words.collect::<Option<_>>()?;
    if digits.len() != usize::from(count) || digits.iter().any(|&digit| digit >= 10_000) {
        return None;
    }
    match sign {
        0 | 0x4000 => {}
        0xc000 | 0xd000 | 0xf000 => {
            return Some(Err(SqlError::unsupported("a numeric that is not a number")));
        }
        _ => return None,
    }
    Some(assemble(&digits, weight, scale, sign != 0).ok_or_else(numeric_overflow))
}

fn assemble(digits: &[u16], weight: i32, scale: u32, is_negative: bool) -> Option<Decimal> {
    let mut mantissa: i128 = 0;
    for &digit in digits {
        mantissa = mantissa.checked_mul(BASE)?.checked_add(digit.into())?;
    }
    // The last digit counts 10 to the power of `exponent`.
    let exponent = 4 * (weight - digits.len() as i32 + 1);
    if !(-60..=28).contains(&exponent) {
        return (mantissa == 0).then(|| Decimal::new(0, scale.min(28)));
    }
    let mut places = -exponent;
    while places < scale.min(28) as i32 {
        mantissa = mantissa.checked_mul(10)?;
        places += 1;
    }
    while places > scale as i32 && mantissa % 10 == 0 {
        mantissa /= 10;
        places -= 1;
    }
    let mantissa = if is_negative { -mantissa } else { mantissa };
    Decimal::try_from_i128_with_scale(mantissa, u32::try_from(places).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numerics_read_back(mantissa in -(1i128 << 95)..1i128 << 95, scale in 0..=28u32) {
            let value = Datum::Numeric(Decimal::from_i128_with_scale(mantissa, scale));
            let ty = DataType::Numeric(None);
            let read = decode(&encode(&value, ty), ty).unwrap();
            prop_assert_eq!(crate::text::format(&read, ty), crate::text::format(&value, ty));
        }

        #[test]
        fn any_bytes_are_values_or_errors(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            for ty in [DataType::Numeric(None), DataType::Int4, DataType::Text, DataType::Date] {
                let _ = decode(&bytes, ty);
            }
        }
    }

    #[test]
    fn numerics_are_as_postgres_writes_them() {
        let encode = |text: &str| encode_numeric(&text.parse().unwrap());
        assert_eq!(encode("0"), [0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encode("1.50"), [0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88]);
        assert_eq!(encode("-10000"), [0, 1, 0, 1, 0x40, 0, 0, 0, 0, 1]);
        assert_eq!(encode("0.0001"), [0, 1, 0xff, 0xff, 0, 0, 0, 4, 0, 1]);
    }
}
