//! Numbers: exact where their type is, and an error where they do not fit.

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};

use crate::error::{Result, SqlError, state};
use crate::expr::{Arithmetic, Numbers};
use crate::text::{numeric_overflow, out_of_range};
use crate::types::{DataType, Datum};

fn division_by_zero() -> SqlError {
    SqlError::new(state::DIVISION_BY_ZERO, "division by zero")
}

/// The result of an operator on two numbers of one kind.
pub(crate) fn compute(
    operation: Arithmetic,
    numbers: Numbers,
    left: &Datum,
    right: &Datum,
) -> Result<Datum> {
    match (numbers, left, right) {
        (_, Datum::Null, _) | (_, _, Datum::Null) => Ok(Datum::Null),
        (Numbers::Int(ty), Datum::Int(left), Datum::Int(right)) => {
            let value = integers(operation, *left, *right)?.ok_or_else(|| out_of_range(ty))?;
            crate::text::fit(Datum::Int(value), ty)
        }
        (Numbers::Numeric, Datum::Numeric(left), Datum::Numeric(right)) => {
            numerics(operation, *left, *right).map(Datum::Numeric)
        }
        (Numbers::Float(ty), Datum::Float(left), Datum::Float(right)) => {
            floats(operation, *left, *right, ty).map(Datum::Float)
        }
        _ => Err(SqlError::new(state::INTERNAL, "an operator got values of two kinds")),
    }
}

fn integers(operation: Arithmetic, left: i64, right: i64) -> Result<Option<i64>> {
    Ok(match operation {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide | Arithmetic::Modulo if right == 0 => return Err(division_by_zero()),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Modulo => Some(left.wrapping_rem(right)),
        Arithmetic::And => Some(left & right),
        Arithmetic::Or => Some(left | right),
        Arithmetic::Xor => Some(left ^ right),
        Arithmetic::ShiftLeft => Some(left.wrapping_shl(right as u32)),
        Arithmetic::ShiftRight => Some(left.wrapping_shr(right as u32)),
    })
}

/// The sum of two exact numbers.
///
/// # Errors
/// That it has more digits than there can be.
pub(crate) fn add(left: Decimal, right: Decimal) -> Result<Decimal> {
    let scale = left.scale().max(right.scale());
    let mut sum = left.checked_add(right).ok_or_else(numeric_overflow)?;
    if sum.scale() < scale {
        // Digits were rounded away, unless they are zeros.
        sum.rescale(scale);
        if sum.scale() < scale {
            return Err(numeric_overflow());
        }
    }
    Ok(sum)
}

fn numerics(operation: Arithmetic, left: Decimal, right: Decimal) -> Result<Decimal> {
    match operation {
        Arithmetic::Add => add(left, right),
        Arithmetic::Subtract => add(left, -right),
        Arithmetic::Multiply => multiply(left, right),
        Arithmetic::Divide | Arithmetic::Modulo if right.is_zero() => Err(division_by_zero()),
        Arithmetic::Divide => divide(left, right),
        Arithmetic::Modulo => left.checked_rem(right).ok_or_else(numeric_overflow),
        _ => Err(SqlError::new(state::INTERNAL, "numerics have no bits")),
    }
}

fn multiply(left: Decimal, right: Decimal) -> Result<Decimal> {
    let scale = left.scale() + right.scale();
    let product = left.mantissa().checked_mul(right.mantissa());
    let exact = product.and_then(|product| Decimal::try_from_i128_with_scale(product, scale).ok());
    if let Some(exact) = exact {
        return Ok(exact);
    }
    // Zeros at the end need no room.
    let (left, right) = (left.normalize(), right.normalize());
    let product = left.mantissa().checked_mul(right.mantissa()).ok_or_else(numeric_overflow)?;
    let scale = left.scale() + right.scale();
    Decimal::try_from_i128_with_scale(product, scale).map_err(|_| numeric_overflow())
}

/// Digits of a quotient that count, as in PostgreSQL.
const SIGNIFICANT: i32 = 16;

/// Digits of PostgreSQL's base, which decides how many digits a quotient has.
const BASE_DIGITS: i32 = 4;

/// The quotient with as many digits as PostgreSQL gives it, as far as there is room.
pub(crate) fn divide(left: Decimal, right: Decimal) -> Result<Decimal> {
    let (left_weight, left_first) = leading(left);
    let (right_weight, right_first) = leading(right);
    let weight = left_weight - right_weight - i32::from(left_first <= right_first);
    let scale = (SIGNIFICANT - weight * BASE_DIGITS)
        .max(left.scale() as i32)
        .max(right.scale() as i32)
        .clamp(0, 28) as u32;
    let quotient = left.checked_div(right).ok_or_else(numeric_overflow)?;
    let strategy = RoundingStrategy::MidpointAwayFromZero;
    let mut quotient = quotient.round_dp_with_strategy(scale, strategy);
    quotient.rescale(scale);
    Ok(quotient)
}

/// The power of the base that the first digit counts, and that digit.
fn leading(value: Decimal) -> (i32, u128) {
    let mantissa = value.mantissa().unsigned_abs();
    if mantissa == 0 {
        return (0, 0);
    }
    let exponent = mantissa.ilog10() as i32 - value.scale() as i32;
    let weight = exponent.div_euclid(BASE_DIGITS);
    // The digits of the mantissa down to the place of that power.
    let places = value.scale() as i32 + weight * BASE_DIGITS;
    let first = match u32::try_from(places) {
        Ok(places) => mantissa / 10u128.pow(places),
        Err(_) => mantissa * 10u128.pow(places.unsigned_abs().min(4)),
    };
    (weight, first)
}

fn floats(operation: Arithmetic, left: f64, right: f64, ty: DataType) -> Result<f64> {
    let value = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide if right == 0.0 => return Err(division_by_zero()),
        Arithmetic::Divide => left / right,
        _ => return Err(SqlError::new(state::INTERNAL, "floating-point numbers have no bits")),
    };
    check_float(value, left.is_finite() && right.is_finite(), ty)
}

/// The value as one of the type, if it is finite as its arguments are.
pub(crate) fn check_float(value: f64, were_finite: bool, ty: DataType) -> Result<f64> {
    let value = if ty == DataType::Real { f64::from(value as f32) } else { value };
    match were_finite && !value.is_finite() {
        true => {
            let message = "value out of range: overflow";
            Err(SqlError::new(state::NUMERIC_OUT_OF_RANGE, message))
        }
        false => Ok(value),
    }
}

/// The number with the other sign.
pub(crate) fn negate(numbers: Numbers, value: &Datum) -> Result<Datum> {
    Ok(match (numbers, value) {
        (_, Datum::Null) => Datum::Null,
        (Numbers::Int(ty), Datum::Int(value)) => {
            let negated = value.checked_neg().ok_or_else(|| out_of_range(ty))?;
            crate::text::fit(Datum::Int(negated), ty)?
        }
        (_, Datum::Numeric(value)) => {
            Datum::Numeric(if value.is_zero() { *value } else { -*value })
        }
        (_, Datum::Float(value)) => Datum::Float(-value),
        _ => return Err(SqlError::new(state::INTERNAL, "the sign of something without one")),
    })
}

/// A floating-point number as an exact one, with the digits that PostgreSQL shows.
pub(crate) fn numeric_of_float(value: f64, ty: DataType) -> Result<Decimal> {
    if !value.is_finite() {
        return Err(SqlError::unsupported("a numeric that is not a number"));
    }
    let digits = if ty == DataType::Real { 5 } else { 14 };
    let text = format!("{value:.digits$e}");
    Ok(Decimal::from_scientific(&text).map_err(|_| numeric_overflow())?.normalize())
}

/// An exact number as the nearest floating-point one.
pub(crate) fn float_of(value: Decimal) -> f64 {
    // Its text reads as the nearest number; the crate's own conversion may be one off.
    value.to_string().parse().ok().or_else(|| value.to_f64()).unwrap_or(f64::NAN)
}

/// An exact number rounded to an integer.
pub(crate) fn integer_of(value: Decimal, ty: DataType) -> Result<i64> {
    let rounded = value.round_dp_with_strategy(0, RoundingStrategy::MidpointAwayFromZero);
    rounded.to_i64().ok_or_else(|| out_of_range(ty))
}

/// A floating-point number rounded to an integer, halves to even ones.
pub(crate) fn integer_of_float(value: f64, ty: DataType) -> Result<i64> {
    let rounded = value.round_ties_even();
    // The greatest floating-point numbers below the bounds of 64 bits.
    let fits = rounded >= -(2f64.powi(63)) && rounded < 2f64.powi(63);
    if fits { Ok(rounded as i64) } else { Err(out_of_range(ty)) }
}

/// The sign of an exact number.
pub(crate) fn sign(value: Decimal) -> Decimal {
    match (value.is_zero(), value.is_sign_negative()) {
        (true, _) => Decimal::ZERO,
        (false, true) => Decimal::NEGATIVE_ONE,
        (false, false) => Decimal::ONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn quotients_have_the_digits_that_postgres_gives_them() {
        for (left, right, quotient) in [
            ("1", "3", "0.33333333333333333333"),
            ("10", "3", "3.3333333333333333"),
            ("5", "2", "2.5000000000000000"),
            ("100", "7", "14.2857142857142857"),
            ("1.5", "2", "0.75000000000000000000"),
        ] {
            let found = divide(number(left), number(right)).unwrap().to_string();
            assert_eq!(found, quotient, "{left} / {right}");
        }
    }

    #[test]
    fn products_and_sums_are_exact_or_refused() {
        let product = multiply(number("12345678901234.5"), number("1.0000000000001")).unwrap();
        assert_eq!(product.to_string(), "12345678901235.73456789012345");
        let long = number("1234567890123456789.123456789");
        assert_eq!(multiply(long, long).unwrap_err().state, state::NUMERIC_OUT_OF_RANGE);
        let small = number("0.0000000000000000000000000001");
        assert!(add(number("79228162514264337593543950335"), small).is_err());
        assert_eq!(add(number("1.10"), number("2.205")).unwrap().to_string(), "3.305");
    }
}
