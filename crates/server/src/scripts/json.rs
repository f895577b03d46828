//! `cjson`: values of Lua as JSON.

use mlua::{Error, Lua, Result, Table, Value};
use serde_json::Value as Json;

/// Tables within tables, at most.
const MOST_DEPTH: usize = 1000;

pub(super) fn encode(value: &Value) -> Result<Vec<u8>> {
    let mut json = Vec::new();
    append(value, 0, &mut json)?;
    Ok(json)
}

fn append(value: &Value, depth: usize, json: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Boolean(flag) => json.extend(flag.to_string().bytes()),
        Value::Integer(number) => json.extend(number.to_string().bytes()),
        Value::Number(number) if number.is_finite() => json.extend(shortest(*number).bytes()),
        Value::Number(_) => {
            return Err(Error::runtime("Cannot serialise number: must not be NaN or Inf"));
        }
        Value::String(text) => append_text(&text.as_bytes(), json),
        Value::Table(_) if depth >= MOST_DEPTH => {
            return Err(Error::runtime("Cannot serialise, excessive depth"));
        }
        Value::Table(table) => append_table(table, depth, json)?,
        value if value.is_null() || value.is_nil() => json.extend(b"null"),
        other => {
            let kind = other.type_name();
            return Err(Error::runtime(format!("Cannot serialise {kind}: type not supported")));
        }
    }
    Ok(())
}

/// A number with 14 digits, as cjson has it.
fn shortest(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e14 {
        return format!("{number:.0}");
    }
    let rounded: f64 = format!("{number:.13e}").parse().unwrap_or(number);
    if (1e-5..1e14).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

fn append_text(text: &[u8], json: &mut Vec<u8>) {
    json.push(b'"');
    for &byte in text {
        match byte {
            b'"' => json.extend(b"\\\""),
            b'\\' => json.extend(b"\\\\"),
            b'/' => json.extend(b"\\/"),
            b'\n' => json.extend(b"\\n"),
            b'\r' => json.extend(b"\\r"),
            b'\t' => json.extend(b"\\t"),
            8 => json.extend(b"\\b"),
            12 => json.extend(b"\\f"),
            0..32 | 127 => json.extend(format!("\\u{byte:04x}").bytes()),
            // A byte that is no text stays as it is.
            byte => json.push(byte),
        }
    }
    json.push(b'"');
}

/// A table is an array if all of its names are numbers from 1 on.
fn append_table(table: &Table, depth: usize, json: &mut Vec<u8>) -> Result<()> {
    let count = table.raw_len();
    let names = table.pairs::<Value, Value>().count();
    if count > 0 && names == count {
        json.push(b'[');
        for at in 1..=count {
            if at > 1 {
                json.push(b',');
            }
            append(&table.raw_get(at)?, depth + 1, json)?;
        }
        json.push(b']');
        return Ok(());
    }
    json.push(b'{');
    for (place, pair) in table.pairs::<Value, Value>().enumerate() {
        let (name, value) = pair?;
        if place > 0 {
            json.push(b',');
        }
        match &name {
            Value::String(text) => append_text(&text.as_bytes(), json),
            Value::Integer(number) => append_text(number.to_string().as_bytes(), json),
            Value::Number(number) => append_text(shortest(*number).as_bytes(), json),
            _ => {
                let text = "Cannot serialise table: table key must be a number or string";
                return Err(Error::runtime(text));
            }
        }
        json.push(b':');
        append(&value, depth + 1, json)?;
    }
    json.push(b'}');
    Ok(())
}

pub(super) fn decode(lua: &Lua, text: &[u8]) -> Result<Value> {
    let json: Json =
        serde_json::from_slice(text).map_err(|error| Error::runtime(error.to_string()))?;
    to_lua(lua, &json)
}

/// (What is parsed nests no deeper than the parser allows: 128.)
fn to_lua(lua: &Lua, json: &Json) -> Result<Value> {
    Ok(match json {
        Json::Null => Value::NULL,
        Json::Bool(flag) => Value::Boolean(*flag),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let values = items.iter().map(|item| to_lua(lua, item));
            Value::Table(lua.create_sequence_from(values.collect::<Result<Vec<_>>>()?)?)
        }
        Json::Object(fields) => {
            let table = lua.create_table()?;
            for (name, value) in fields {
                table.raw_set(name.as_str(), to_lua(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}
