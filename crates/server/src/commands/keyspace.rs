//! Commands on keys, whatever their values.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{Context, Failure, MANY, Modified, Outcome, integer, is, modify_in, patiently};
use crate::glob;
use crate::reply::Reply;
use crate::store::Store;

/// How many keys `SCAN` looks at unless told otherwise, and at most.
const SCAN_COUNT: usize = 10;
const MAX_SCAN_COUNT: i64 = 10_000;

pub(super) fn del(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let mut removed = 0;
    for key in &args[1..] {
        removed += i64::from(context.store().delete(key)?);
    }
    Ok(Reply::Integer(removed))
}

pub(super) fn exists(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let mut found = 0;
    for key in &args[1..] {
        found += i64::from(context.exists(key)?);
    }
    Ok(Reply::Integer(found))
}

pub(super) fn kind(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let found = context.exists(&args[1])?;
    Ok(Reply::Simple(if found { "string" } else { "none" }))
}

pub(super) fn copy(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (mut replace, mut to_database) = (false, context.session.database);
    let mut options = args[3..].iter();
    while let Some(option) = options.next() {
        if is(option, "replace") {
            replace = true;
        } else if is(option, "db") {
            let number = integer(options.next().ok_or_else(Failure::syntax)?)?;
            to_database = context.known_database(number)?;
        } else {
            return Err(Failure::syntax());
        }
    }
    let (from, to) = (&args[1], &args[2]);
    if from == to && to_database == context.session.database {
        return Err(Failure::new("ERR source and destination objects are the same"));
    }
    let target = context.database(to_database);
    if !replace && target.deadline(to)?.is_some() {
        return Ok(Reply::flag(false));
    }
    context.reserve_value(from)?;
    let Some(entry) = context.store().get(from)? else { return Ok(Reply::flag(false)) };
    modify_in(&target, to, |before| {
        let taken = before.is_some() && !replace;
        Ok(if taken { Modified::keep(false) } else { Modified::put(entry.clone(), true) })
    })
    .map(Reply::flag)
}

/// `MOVE`: gives the value of a key to that key in another database.
pub(super) fn move_to(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (key, number) = (&args[1], integer(&args[2])?);
    let number = context.known_database(number)?;
    if number == context.session.database {
        return Err(Failure::new("ERR source and destination objects are the same"));
    }
    let moved = context.in_one_step(|context| {
        let (source, target) = (context.store(), context.database(number));
        let Some(entry) = source.get(key)? else { return Ok(false) };
        if target.deadline(key)?.is_some() {
            return Ok(false);
        }
        source.delete(key)?;
        target.put(key, &entry)?;
        Ok(true)
    });
    moved.map(Reply::flag)
}

pub(super) fn rename(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    move_value(context, args, true).map(|_| Reply::OK)
}

pub(super) fn renamenx(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    move_value(context, args, false).map(Reply::flag)
}

/// Gives the value of a key to another; whether that could be.
fn move_value(context: &mut Context<'_>, args: &[Bytes], replace: bool) -> Result<bool, Failure> {
    let (from, to) = (&args[1], &args[2]);
    context.in_one_step(|context| {
        let found = context.store().get(from)?;
        let entry = found.ok_or_else(|| Failure::new("ERR no such key"))?;
        if from == to || !replace && context.exists(to)? {
            return Ok(replace);
        }
        context.store().delete(from)?;
        context.store().put(to, &entry)?;
        Ok(true)
    })
}

/// Some key: each call goes on where the last one was, and chooses one of several.
pub(super) fn random_key(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    let last = &context.shared.random_cursor;
    // Once to the end of the keys, and once through all of them.
    let mut ends = 0;
    while ends < 2 {
        let start = last.load(Ordering::Relaxed);
        let (next, keys) = patiently(|| context.store().scan(start, 1))?;
        last.store(next, Ordering::Relaxed);
        ends += u32::from(next == 0);
        if !keys.is_empty() {
            let chosen = RandomState::new().hash_one(next) as usize % keys.len();
            return Ok(Reply::bulk(&keys[chosen]));
        }
    }
    Ok(Reply::Null)
}

pub(super) fn dbsize(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    Ok(Reply::Integer(context.store().key_count()? as i64))
}

pub(super) fn flushall(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    flush(args, context.view.unwrap_or(&*context.shared.store))?;
    flushed(context)
}

pub(super) fn flushdb(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    flush(args, &context.store())?;
    flushed(context)
}

fn flush(args: &[Bytes], flushed: &dyn Store) -> Result<(), Failure> {
    if args[1..].iter().any(|arg| !is(arg, "async") && !is(arg, "sync")) || args.len() > 2 {
        return Err(Failure::syntax());
    }
    Ok(patiently(|| flushed.clear())?)
}

/// Tells that all keys have changed; within a step, when that is done.
fn flushed(context: &mut Context<'_>) -> Outcome {
    if context.view.is_some() {
        context.step.flushed = true;
    } else {
        context.shared.tell_change(b"", context.session.client.id);
    }
    Ok(Reply::OK)
}

pub(super) fn keys(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    // Walked through more than once, a key is still one key.
    let mut found = BTreeSet::new();
    patiently(|| {
        let mut cursor = 0;
        loop {
            let (next, keys) = context.store().scan(cursor, MANY)?;
            found.extend(keys.into_iter().filter(|key| glob::matches(&args[1], key)));
            cursor = next;
            if cursor == 0 {
                return Ok::<_, Failure>(());
            }
        }
    })?;
    Ok(Reply::Array(found.into_iter().map(Reply::Bulk).collect()))
}

pub(super) fn scan(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let cursor = std::str::from_utf8(&args[1]).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or_else(|| Failure::new("ERR invalid cursor"))?;
    let (options, rest) = args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::syntax());
    }
    let (mut pattern, mut count, mut strings) = (None, SCAN_COUNT, true);
    for [name, value] in options {
        if is(name, "match") {
            pattern = Some(value);
        } else if is(name, "count") {
            let wanted = integer(value)?;
            if wanted < 1 {
                return Err(Failure::syntax());
            }
            count = wanted.min(MAX_SCAN_COUNT) as usize;
        } else if is(name, "type") {
            strings = is(value, "string");
        } else {
            return Err(Failure::syntax());
        }
    }
    let scan = || context.store().scan(cursor, count);
    let (next, keys) = if count < MANY { scan() } else { patiently(scan) }?;
    let wanted = |key: &Vec<u8>| strings && pattern.is_none_or(|p| glob::matches(p, key));
    let keys = keys.into_iter().filter(wanted).map(Reply::Bulk).collect();
    Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(keys)]))
}
