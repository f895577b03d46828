//! Commands on strings.

use std::ops::Range;

use bytes::Bytes;
use tombolo_kv::{Entry, Found};

use super::bits::Comparison;
use super::expiry::{Expire, deadline};
use super::{Context, Failure, Modified, Outcome, integer, is, modify};
use crate::decode::MAX_ARGUMENT_BYTES;
use crate::reply::Reply;
use crate::stats::add;
use crate::store::Store;

pub(super) fn get(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let mut replies = values(context, &args[1..=1])?;
    Ok(replies.pop().unwrap_or(Reply::Null))
}

/// The values of `keys`, if there is room for them.
fn values(context: &Context<'_>, keys: &[Bytes]) -> Result<Vec<Reply>, Failure> {
    let (mut replies, mut bytes, mut too_long) = (Vec::new(), 0, false);
    context.store().get_each(keys, context.room, &mut |found| match found {
        // After a value beyond the room, none is kept, and all are asked for again.
        _ if too_long => {}
        Found::Absent => replies.push(Reply::Null),
        Found::Longer => too_long = true,
        Found::Value(value) => {
            bytes += value.len() as u64;
            too_long = bytes > context.room;
            replies.push(Reply::bulk(value));
        }
    })?;
    if too_long {
        let bytes = |key: &Bytes| Ok(context.store().stat(key)?.map_or(0, |s| s.value_bytes));
        let sum = keys.iter().map(bytes).sum::<Result<u64, Failure>>()?;
        // It may have become less by now.
        return Err(Failure::Room(sum.max(context.room + 1)));
    }
    let misses = replies.iter().filter(|reply| **reply == Reply::Null).count();
    let counters = &context.shared.counters;
    add(&counters.hits, replies.len() - misses);
    add(&counters.misses, misses);
    Ok(replies)
}

/// Room beyond what is needed that is enough, wherever it is, and whatever others put meanwhile.
const SPARE_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

struct SetOptions {
    condition: Condition,
    comparison: Option<Comparison>,
    expire: Option<Expire>,
    keep_ttl: bool,
    get: bool,
}

fn set_options(context: &Context<'_>, args: &[Bytes]) -> Result<SetOptions, Failure> {
    let mut options = SetOptions {
        condition: Condition::Always,
        comparison: None,
        expire: None,
        keep_ttl: false,
        get: false,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let free = options.expire.is_none() && !options.keep_ttl;
        let compares = options.comparison.is_some();
        if is(arg, "nx") && options.condition != Condition::IfPresent && !compares {
            options.condition = Condition::IfAbsent;
        } else if is(arg, "xx") && options.condition != Condition::IfAbsent && !compares {
            options.condition = Condition::IfPresent;
        } else if is(arg, "get") {
            options.get = true;
        } else if is(arg, "keepttl") && options.expire.is_none() {
            options.keep_ttl = true;
        } else if (is(arg, "ifeq") || is(arg, "ifne"))
            && options.condition == Condition::Always
            && !compares
        {
            let value = args.next().ok_or_else(Failure::syntax)?;
            options.comparison = Comparison::parse(arg, value);
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
    let conditional = options.condition != Condition::Always || options.comparison.is_some();
    if !conditional && !options.get && !options.keep_ttl {
        context.store().put(&args[1], &new)?;
        return Ok(Reply::OK);
    }
    if !options.get && options.condition != Condition::Always {
        // To find that nothing is to be done takes no value.
        let exists = context.exists(&args[1])?;
        if exists == (options.condition == Condition::IfAbsent) {
            return Ok(Reply::Null);
        }
    }
    if options.get {
        context.reserve_value(&args[1])?;
    }
    let (before, done) = modify(context, &args[1], |before| {
        let allowed = match options.condition {
            Condition::Always => true,
            Condition::IfAbsent => before.is_none(),
            Condition::IfPresent => before.is_some(),
        } && options.comparison.as_ref().is_none_or(|comparison| match &before {
            Some(entry) => comparison.holds(&entry.value),
            None => matches!(comparison, Comparison::Different(_)),
        });
        let mut entry = new.clone();
        if options.keep_ttl {
            entry.deadline_ms = before.as_ref().and_then(|entry| entry.deadline_ms);
        }
        let answer = (before.map(|entry| entry.value), allowed);
        Ok(if allowed { Modified::put(entry, answer) } else { Modified::keep(answer) })
    })?;
    Ok(match (options.get, done) {
        (true, _) => Reply::bulk_or_null(before),
        (false, true) => Reply::OK,
        (false, false) => Reply::Null,
    })
}

pub(super) fn setnx(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    if context.exists(&args[1])? {
        return Ok(Reply::flag(false));
    }
    modify(context, &args[1], |before| {
        let entry = Entry::lasting(args[2].to_vec());
        Ok(if before.is_some() { Modified::keep(false) } else { Modified::put(entry, true) })
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
    context.reserve_value(&args[1])?;
    modify(context, &args[1], |before| {
        let old = before.map(|entry| entry.value);
        Ok(Modified::put(Entry::lasting(args[2].to_vec()), old))
    })
    .map(Reply::bulk_or_null)
}

pub(super) fn getdel(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    context.reserve_value(&args[1])?;
    modify(context, &args[1], |before| Ok(Modified::delete(before.map(|entry| entry.value))))
        .map(Reply::bulk_or_null)
}

pub(super) fn getex(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let change = match &args[2..] {
        [] => return get(context, args),
        [word] if is(word, "persist") => None,
        [unit, amount] => {
            let unit = Expire::unit(unit).ok_or_else(Failure::syntax)?;
            if !context.exists(&args[1])? {
                return Ok(Reply::Null);
            }
            Some(Expire::positive(context, unit, amount, "getex")?)
        }
        _ => return Err(Failure::syntax()),
    };
    context.reserve_value(&args[1])?;
    modify(context, &args[1], |before| {
        let Some(entry) = before else { return Ok(Modified::keep(None)) };
        let answer = Some(entry.value.clone());
        Ok(Modified::put(Entry { deadline_ms: deadline(change), ..entry }, answer))
    })
    .map(Reply::bulk_or_null)
}

pub(super) fn mget(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    values(context, &args[1..]).map(Reply::Array)
}

pub(super) fn mset(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (pairs, rest) = args[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::arity("mset"));
    }
    let pairs: Vec<_> = pairs.iter().map(|[key, value]| (key.clone(), value.clone())).collect();
    pairs.iter().try_for_each(|(key, _)| context.store().check_key(key))?;
    let bytes = |(key, value): &(Bytes, Bytes)| (key.len() + value.len()) as u64;
    let needed: u64 = pairs.iter().map(bytes).sum();
    if needed.saturating_mul(2) + SPARE_BYTES > context.store().room() {
        return set_all(context, &pairs);
    }
    context.store().put_each(&pairs).into_iter().collect::<Result<(), _>>()?;
    Ok(Reply::OK)
}

pub(super) fn msetnx(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (pairs, rest) = args[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::arity("msetnx"));
    }
    let set = context.in_one_step(|context| {
        for [key, _] in pairs {
            if context.exists(key)? {
                return Ok(false);
            }
        }
        for [key, value] in pairs {
            context.store().put(key, &Entry::lasting(value.to_vec()))?;
        }
        Ok(true)
    });
    set.map(Reply::flag)
}

/// Sets keys where there may be no room: those that were set before one could not be get their old
/// values again, unless others have set them since.
fn set_all(context: &Context<'_>, pairs: &[(Bytes, Bytes)]) -> Outcome {
    let mut before = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let set = modify(context, key, |before| {
            Ok(Modified::put(Entry::lasting(value.to_vec()), before))
        });
        match set {
            Ok(old) => before.push(old),
            Err(failure) => {
                let set = pairs.iter().zip(before).rev();
                set.for_each(|((key, value), old)| restore(context, key, value, old));
                return Err(failure);
            }
        }
    }
    Ok(Reply::OK)
}

fn restore(context: &Context<'_>, key: &Bytes, value: &Bytes, old: Option<Entry>) {
    // The old value has been there, so there is room for it, or the store cannot be reached.
    let _ = modify(context, key, |now| {
        let is_own = now.is_some_and(|now| now.value == *value && now.deadline_ms.is_none());
        Ok(match &old {
            _ if !is_own => Modified::keep(()),
            Some(old) => Modified::put(old.clone(), ()),
            None => Modified::delete(()),
        })
    });
}

pub(super) fn strlen(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let stat = context.store().stat(&args[1])?;
    Ok(Reply::Integer(stat.map_or(0, |stat| stat.value_bytes as i64)))
}

pub(super) fn append(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let stat = context.store().stat(&args[1])?;
    if let Some(stat) = stat.filter(|_| args[2].is_empty()) {
        context.store().rewritten(&args[1]);
        return Ok(Reply::Integer(stat.value_bytes as i64));
    }
    modify(context, &args[1], |before| {
        let mut entry = before.unwrap_or_default();
        check_length(entry.value.len() + args[2].len())?;
        entry.value.extend_from_slice(&args[2]);
        let length = entry.value.len() as i64;
        Ok(Modified::put(entry, length))
    })
    .map(Reply::Integer)
}

pub(super) fn getrange(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    let choose = |length: u64| range(start, end, length as i64);
    let wanted = choose(context.store().stat(&args[1])?.map_or(0, |stat| stat.value_bytes));
    if wanted.is_empty() {
        return Ok(Reply::bulk(b""));
    }
    context.reserve(wanted.end - wanted.start)?;
    Ok(Reply::Bulk(context.store().get_range(&args[1], &choose)?.unwrap_or_default()))
}

/// Which of `length` bytes are from `start` to `end`, both included, where negative numbers count
/// from the end.
fn range(start: i64, end: i64, length: i64) -> Range<u64> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_end = |at: i64| if at < 0 { (at.saturating_add(length)).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start > end { 0..0 } else { start as u64..end as u64 + 1 }
}

pub(super) fn setrange(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let start = usize::try_from(integer(&args[2])?)
        .map_err(|_| Failure::new("ERR offset is out of range"))?;
    let bytes = &args[3];
    if bytes.is_empty() {
        return strlen(context, args);
    }
    if let Some(length) = context.store().set_range(&args[1], start as u64, bytes)? {
        return Ok(Reply::Integer(length as i64));
    }
    modify(context, &args[1], |before| {
        let end = start.saturating_add(bytes.len());
        check_length(end)?;
        let mut entry = before.unwrap_or_default();
        entry.value.resize(entry.value.len().max(end), 0);
        entry.value[start..end].copy_from_slice(bytes);
        let length = entry.value.len() as i64;
        Ok(Modified::put(entry, length))
    })
    .map(Reply::Integer)
}

fn check_length(bytes: usize) -> Result<(), Failure> {
    if bytes <= MAX_ARGUMENT_BYTES {
        return Ok(());
    }
    Err(Failure::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"))
}
