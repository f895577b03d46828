//! Values of Lua as requests and replies, and the other way round, as Redis has them.

use bytes::Bytes;
use mlua::{Lua, Table, Value};

use crate::reply::Reply;

/// Tables within tables of a reply, at most.
const MOST_DEPTH: usize = 100;

/// A request whose words a script gives.
///
/// # Errors
/// The fault.
pub(super) fn request(words: &[Value]) -> Result<Vec<Bytes>, String> {
    if words.is_empty() {
        return Err("ERR Please specify at least one argument for this redis.call() call".into());
    }
    let word = |value: &Value| match value {
        Value::String(text) => Ok(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(number) => Ok(number.to_string().into()),
        Value::Number(number) => Ok(number_text(*number).into()),
        _ => Err("ERR Lua redis lib command arguments must be strings or integers".to_owned()),
    };
    words.iter().map(word).collect()
}

/// A number as Lua's `%.17g` has it, where that is no integer.
fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e17 {
        return format!("{number:.0}");
    }
    number.to_string()
}

pub(super) fn list(lua: &Lua, words: &[Bytes]) -> mlua::Result<Table> {
    lua.create_sequence_from(
        words.iter().map(|word| lua.create_string(word)).collect::<Result<Vec<_>, _>>()?,
    )
}

pub(super) fn error(lua: &Lua, text: &str) -> mlua::Result<Value> {
    field(lua, "err", text)
}

fn field(lua: &Lua, name: &str, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, text)?;
    Ok(Value::Table(table))
}

/// A reply, as a script gets it in RESP2.
pub(super) fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Simple(text) => field(lua, "ok", text)?,
        Reply::Status(text) => field(lua, "ok", text)?,
        Reply::Error(text) => error(lua, text)?,
        Reply::Integer(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::Null | Reply::NullArray => Value::Boolean(false),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Each(items) => {
            let values = items.iter().map(|item| to_lua(lua, item));
            Value::Table(lua.create_sequence_from(values.collect::<Result<Vec<_>, _>>()?)?)
        }
        Reply::Map(pairs) => {
            let values = pairs.iter().flat_map(|(name, value)| [name, value]);
            let values = values.map(|value| to_lua(lua, value)).collect::<Result<Vec<_>, _>>()?;
            Value::Table(lua.create_sequence_from(values)?)
        }
    })
}

/// A script's result, as its client gets it.
pub(super) fn to_reply(value: &Value, depth: usize) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(*number as i64),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(_) if depth >= MOST_DEPTH => {
            Reply::Error("ERR reached lua stack limit".to_owned())
        }
        Value::Table(table) => of_table(table, depth),
        _ => Reply::Null,
    }
}

fn of_table(table: &Table, depth: usize) -> Reply {
    let text = |name: &str| match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    };
    if let Some(text) = text("err") {
        return Reply::Error(text);
    }
    if let Some(text) = text("ok") {
        return Reply::Status(text);
    }
    let mut items = Vec::new();
    for at in 1_i64.. {
        match table.raw_get::<Value>(at) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(value) => items.push(to_reply(&value, depth + 1)),
        }
    }
    Reply::Array(items)
}
