//! Strings that are numbers.

use bytes::Bytes;
use tombolo_kv::Entry;

use super::{Context, Failure, Modified, Outcome, integer, modify};
use crate::decimal::{self, Parsed};
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
        Ok(Modified::put(Entry { value: sum.to_string().into_bytes(), ..entry }, sum))
    })
    .map(Reply::Integer)
}

pub(super) fn incrbyfloat(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let by = fraction(&args[2])?;
    modify(context, &args[1], |before| {
        let entry = before.unwrap_or_else(|| Entry::lasting("0"));
        let sum = match (fraction(&entry.value)?, &by) {
            (Parsed::Number(number), Parsed::Number(by)) => number.plus(by),
            _ => None,
        };
        let sum = sum
            .ok_or_else(|| Failure::new("ERR increment would produce NaN or Infinity"))?
            .text()
            .into_bytes();
        Ok(Modified::put(Entry { value: sum.clone(), ..entry }, sum))
    })
    .map(Reply::Bulk)
}

fn fraction(text: &[u8]) -> Result<Parsed, Failure> {
    decimal::parse(text).ok_or_else(|| Failure::new("ERR value is not a valid float"))
}
