//! Strings that are numbers.

use bytes::Bytes;
use tombolo_kv::Entry;

use super::{Context, Failure, Outcome, Step, integer, modify};
use crate::reply::Reply;

pub(super) fn incr(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    add(context, &args[1], 1)
}

pub(super) fn decr(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    add(context, &args[1], -1)
}

pub(super) fn incrby(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    add(context, &args[1], integer(&args[2])?)
}

pub(super) fn decrby(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let by = integer(&args[2])?.checked_neg();
    add(context, &args[1], by.ok_or_else(|| Failure::new("ERR decrement would overflow"))?)
}

fn add(context: &Context<'_>, key: &[u8], by: i64) -> Outcome {
    modify(context, key, |before| {
        let entry = before.unwrap_or_else(|| Entry::lasting("0"));
        let sum = integer(&entry.value)?.checked_add(by);
        let sum = sum.ok_or_else(|| Failure::new("ERR increment or decrement would overflow"))?;
        Ok(Step::put(Entry { value: sum.to_string().into_bytes(), ..entry }, sum))
    })
    .map(Reply::Integer)
}

/// Digits after the point up to which fractions are exact.
const DECIMALS: usize = 17;
const ONE: i128 = 10_i128.pow(DECIMALS as u32);

/// A number with a fraction.
struct Fraction {
    nearest: f64,
    /// The number itself, in units of 10^-17, unless it has an exponent or too many digits.
    exact: Option<i128>,
}

pub(super) fn incrbyfloat(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let by = Fraction::parse(&args[2])?;
    modify(context, &args[1], |before| {
        let entry = before.unwrap_or_else(|| Entry::lasting("0"));
        let text = Fraction::parse(&entry.value)?.plus(&by)?.into_bytes();
        Ok(Step::put(Entry { value: text.clone(), ..entry }, text))
    })
    .map(Reply::Bulk)
}

impl Fraction {
    fn parse(text: &[u8]) -> Result<Self, Failure> {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let nearest = text.parse::<f64>().ok().filter(|number| !number.is_nan());
        let nearest = nearest.ok_or_else(|| Failure::new("ERR value is not a valid float"))?;
        Ok(Self { nearest, exact: exact(text) })
    }

    /// The sum, as text. Where that is possible, 0.1 and 0.2 are 0.3.
    fn plus(&self, other: &Self) -> Result<String, Failure> {
        let exact = self.exact.zip(other.exact).and_then(|(one, two)| one.checked_add(two));
        if let Some(sum) = exact {
            return Ok(decimal(sum));
        }
        let sum = self.nearest + other.nearest;
        if !sum.is_finite() {
            return Err(Failure::new("ERR increment would produce NaN or Infinity"));
        }
        Ok(sum.to_string())
    }
}

fn exact(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.len() > DECIMALS || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let units: i128 = format!("{whole}{fraction:0<DECIMALS$}").parse().ok()?;
    Some(if text.starts_with('-') { -units } else { units })
}

fn decimal(units: i128) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let (whole, fraction) =
        (units.unsigned_abs() / ONE as u128, units.unsigned_abs() % ONE as u128);
    let text = format!("{sign}{whole}.{fraction:0DECIMALS$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
