//! The library of scripts besides Lua's own.

use mlua::{Lua, LuaString, Result, Table, Value};

use super::{json, name_of};

/// The version of Redis whose behaviour scripts may expect, as its text and as its number.
const VERSION: (&str, u32) = ("7.4.0", 0x0007_0400);

/// The functions that the prelude makes libraries of.
pub(super) fn native(lua: &Lua) -> Result<Table> {
    let native = lua.create_table()?;
    native.set("version", VERSION.0)?;
    native.set("version_number", VERSION.1)?;
    native
        .set("sha1hex", lua.create_function(|_, text: LuaString| Ok(name_of(&text.as_bytes())))?)?;
    native.set("cjson", cjson(lua)?)?;
    native.set("bit", bit(lua)?)?;
    Ok(native)
}

fn cjson(lua: &Lua) -> Result<Table> {
    let cjson = lua.create_table()?;
    cjson.set("null", Value::NULL)?;
    let encode = |lua: &Lua, value: Value| lua.create_string(json::encode(&value)?);
    cjson.set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: LuaString| json::decode(lua, &text.as_bytes());
    cjson.set("decode", lua.create_function(decode)?)?;
    Ok(cjson)
}

/// A number as the 32 bits that operations on bits are about.
fn bits(number: f64) -> u32 {
    number.round_ties_even().rem_euclid(4_294_967_296.0) as u32
}

fn number(bits: u32) -> f64 {
    f64::from(bits.cast_signed())
}

type Unary = fn(u32) -> u32;
type Binary = fn(u32, u32) -> u32;

/// Operations on 32 bits, as of the library BitOp.
fn bit(lua: &Lua) -> Result<Table> {
    let bit = lua.create_table()?;
    let folds: [(&str, Binary); 3] =
        [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, fold) in folds {
        let run = move |_: &Lua, (first, rest): (f64, mlua::Variadic<f64>)| {
            Ok(number(rest.iter().fold(bits(first), |all, &next| fold(all, bits(next)))))
        };
        bit.set(name, lua.create_function(run)?)?;
    }
    let shifts: [(&str, Binary); 5] = [
        ("lshift", |a, n| a << n),
        ("rshift", |a, n| a >> n),
        ("arshift", |a, n| (a.cast_signed() >> n).cast_unsigned()),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        let run = move |_: &Lua, (of, by): (f64, f64)| Ok(number(shift(bits(of), bits(by) & 31)));
        bit.set(name, lua.create_function(run)?)?;
    }
    let changes: [(&str, Unary); 3] =
        [("bnot", |a| !a), ("tobit", |a| a), ("bswap", u32::swap_bytes)];
    for (name, change) in changes {
        bit.set(name, lua.create_function(move |_, of: f64| Ok(number(change(bits(of)))))?)?;
    }
    let tohex = |_: &Lua, (of, digits): (f64, Option<i32>)| {
        let digits = digits.unwrap_or(8);
        let text = format!("{:08x}", bits(of));
        let text = text[8 - digits.unsigned_abs().min(8) as usize..].to_owned();
        Ok(if digits < 0 { text.to_uppercase() } else { text })
    };
    bit.set("tohex", lua.create_function(tohex)?)?;
    Ok(bit)
}
