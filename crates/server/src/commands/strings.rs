//! Commands on strings.

use bytes::Bytes;
use tombolo_kv::Entry;

use super::expiry::{Expire, deadline};
use super::{Context, Failure, Outcome, Step, integer, is, modify};
use crate::decode::MAX_ARGUMENT_BYTES;
use crate::reply::Reply;

pub(super) fn get(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    Ok(Reply::bulk_or_null(context.store().get(&args[1])?.map(|entry| entry.value)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

struct SetOptions {
    condition: Condition,
    expire: Option<Expire>,
    keep_ttl: bool,
    get: bool,
}

fn set_options(context: &Context<'_>, args: &[Bytes]) -> Result<SetOptions, Failure> {
    let mut options =
        SetOptions { condition: Condition::Always, expire: None, keep_ttl: false, get: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let free = options.expire.is_none() && !options.keep_ttl;
        if is(arg, "nx") && options.condition != Condition::IfPresent {
            options.condition = Condition::IfAbsent;
        } else if is(arg, "xx") && options.condition != Condition::IfAbsent {
            options.condition = Condition::IfPresent;
        } else if is(arg, "get") {
            options.get = true;
        } else if is(arg, "keepttl") && options.expire.is_none() {
            options.keep_ttl = true;
        } else if let Some(unit) = Expire::unit(arg).filter(|_| free) {
            let amount = args.next().ok_or_else(Failure::syntax)?;
            options.expire = Some(Expire::positive(context, unit, amount, "set")?);
        } else {
            return Err(Failure::syntax());
        }
    }
    Ok(options)
}

pub(super) fn set(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let options = set_options(context, &args[3..])?;
    let new = Entry { value: args[2].to_vec(), deadline_ms: deadline(options.expire) };
    if options.condition == Condition::Always && !options.get && !options.keep_ttl {
        context.store().put(&args[1], &new)?;
        return Ok(Reply::OK);
    }
    let (before, done) = modify(context, &args[1], |before| {
        let allowed = match options.condition {
            Condition::Always => true,
            Condition::IfAbsent => before.is_none(),
            Condition::IfPresent => before.is_some(),
        };
        let mut entry = new.clone();
        if options.keep_ttl {
            entry.deadline_ms = before.as_ref().and_then(|entry| entry.deadline_ms);
        }
        let answer = (before.map(|entry| entry.value), allowed);
        Ok(if allowed { Step::put(entry, answer) } else { Step::keep(answer) })
    })?;
    Ok(match (options.get, done) {
        (true, _) => Reply::bulk_or_null(before),
        (false, true) => Reply::OK,
        (false, false) => Reply::Null,
    })
}

pub(super) fn setnx(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    modify(context, &args[1], |before| {
        let entry = Entry::lasting(args[2].to_vec());
        Ok(if before.is_some() { Step::keep(false) } else { Step::put(entry, true) })
    })
    .map(Reply::flag)
}

pub(super) fn setex(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    set_with_ttl(context, args, "ex", "setex")
}

pub(super) fn psetex(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    set_with_ttl(context, args, "px", "psetex")
}

fn set_with_ttl(context: &Context<'_>, args: &[Bytes], unit: &str, command: &str) -> Outcome {
    let unit = Expire::unit(unit.as_bytes()).ok_or_else(Failure::syntax)?;
    let expire = Expire::positive(context, unit, &args[2], command)?;
    let entry = Entry { value: args[3].to_vec(), deadline_ms: deadline(Some(expire)) };
    context.store().put(&args[1], &entry)?;
    Ok(Reply::OK)
}

pub(super) fn getset(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    modify(context, &args[1], |before| {
        let old = before.map(|entry| entry.value);
        Ok(Step::put(Entry::lasting(args[2].to_vec()), old))
    })
    .map(Reply::bulk_or_null)
}

pub(super) fn getdel(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    modify(context, &args[1], |before| Ok(Step::delete(before.map(|entry| entry.value))))
        .map(Reply::bulk_or_null)
}

pub(super) fn getex(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let change = match &args[2..] {
        [] => return get(context, args),
        [word] if is(word, "persist") => None,
        [unit, amount] => {
            let unit = Expire::unit(unit).ok_or_else(Failure::syntax)?;
            Some(Expire::positive(context, unit, amount, "getex")?)
        }
        _ => return Err(Failure::syntax()),
    };
    modify(context, &args[1], |before| {
        let Some(entry) = before else { return Ok(Step::keep(None)) };
        let answer = Some(entry.value.clone());
        Ok(Step::put(Entry { deadline_ms: deadline(change), ..entry }, answer))
    })
    .map(Reply::bulk_or_null)
}

pub(super) fn mget(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let mut values = Vec::new();
    context.store().get_each(&args[1..], &mut |value| {
        values.push(Reply::bulk_or_null(value.map(<[u8]>::to_vec)));
    })?;
    Ok(Reply::Array(values))
}

pub(super) fn mset(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (pairs, rest) = args[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::arity("mset"));
    }
    let pairs: Vec<_> = pairs.iter().map(|[key, value]| (key.clone(), value.clone())).collect();
    context.store().put_each(&pairs).into_iter().collect::<Result<(), _>>()?;
    Ok(Reply::OK)
}

pub(super) fn strlen(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let entry = context.store().get(&args[1])?;
    Ok(Reply::Integer(entry.map_or(0, |entry| entry.value.len() as i64)))
}

pub(super) fn append(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    modify(context, &args[1], |before| {
        let mut entry = before.unwrap_or_default();
        check_length(entry.value.len() + args[2].len())?;
        entry.value.extend_from_slice(&args[2]);
        let length = entry.value.len() as i64;
        Ok(Step::put(entry, length))
    })
    .map(Reply::Integer)
}

pub(super) fn getrange(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    let value = context.store().get(&args[1])?.unwrap_or_default().value;
    let length = value.len() as i64;
    let from_end = |at: i64| if at < 0 { (at.saturating_add(length)).max(0) } else { at };
    if start < 0 && end < 0 && start > end {
        return Ok(Reply::bulk(b""));
    }
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    Ok(Reply::bulk(range.and_then(|(start, end)| value.get(start..=end)).unwrap_or_default()))
}

pub(super) fn setrange(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let start = usize::try_from(integer(&args[2])?)
        .map_err(|_| Failure::new("ERR offset is out of range"))?;
    let bytes = &args[3];
    modify(context, &args[1], |before| {
        if bytes.is_empty() {
            return Ok(Step::keep(before.map_or(0, |entry| entry.value.len() as i64)));
        }
        let end = start.saturating_add(bytes.len());
        check_length(end)?;
        let mut entry = before.unwrap_or_default();
        entry.value.resize(entry.value.len().max(end), 0);
        entry.value[start..end].copy_from_slice(bytes);
        let length = entry.value.len() as i64;
        Ok(Step::put(entry, length))
    })
    .map(Reply::Integer)
}

fn check_length(bytes: usize) -> Result<(), Failure> {
    if bytes <= MAX_ARGUMENT_BYTES {
        return Ok(());
    }
    Err(Failure::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"))
}
