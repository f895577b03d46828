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

pub(super) fn incrbyfloat(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let by = float(&args[2])?;
    modify(context, &args[1], |before| {
        let entry = before.unwrap_or_else(|| Entry::lasting("0"));
        let sum = float(&entry.value)? + by;
        if !sum.is_finite() {
            return Err(Failure::new("ERR increment would produce NaN or Infinity"));
        }
        let text = sum.to_string().into_bytes();
        Ok(Step::put(Entry { value: text.clone(), ..entry }, text))
    })
    .map(Reply::Bulk)
}

fn float(text: &[u8]) -> Result<f64, Failure> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty());
    let number = text.and_then(|text| text.parse::<f64>().ok()).filter(|number| !number.is_nan());
    number.ok_or_else(|| Failure::new("ERR value is not a valid float"))
}
