//! Functions: `FCALL`, and the libraries that they are in.

use std::sync::Arc;

use bytes::Bytes;

use super::dump::{pack_libraries, unpack_libraries};
use super::scripting::{Code, run};
use super::{Context, Failure, Outcome, integer, is, printable};
use crate::functions::{Libraries, Library};
use crate::glob;
use crate::reply::Reply;
use crate::scripts::{Declared, name_of};

const HELP: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DELETE <library>, FLUSH [ASYNC|SYNC]",
    "    Remove a library, or all, for all hosts.",
    "DUMP, RESTORE <dumped> [FLUSH|APPEND|REPLACE]",
    "    Return all libraries, and bring them back.",
    "KILL",
    "    End the scripts and functions that run on this host; they change nothing.",
    "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
    "    Tell the libraries and their functions.",
    "LOAD [REPLACE] <code>",
    "    Keep a library for all hosts.",
    "STATS",
    "    Count libraries and functions.",
];

pub(super) fn fcall(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    call(context, args, false)
}

pub(super) fn fcall_ro(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    call(context, args, true)
}

fn call(context: &mut Context<'_>, args: &[Bytes], read_only: bool) -> Outcome {
    let (name, libraries) = (printable(&args[1]), libraries(context)?);
    let not_found = || Failure::new("ERR Function not found");
    let (library, function) = libraries.function(&name).ok_or_else(not_found)?;
    let bad_number = |_| Failure::new("ERR Bad number of keys provided");
    integer(&args[2]).map_err(bad_number)?;
    let writes_nothing = function.flags.iter().any(|flag| flag == "no-writes");
    if read_only && !writes_nothing {
        let text = "ERR Can not execute a script with write flag using *_ro command.";
        return Err(Failure::new(text));
    }
    let code =
        Code { name: &name_of(&library.text), text: &library.text, function: Some(&function.name) };
    run(context, &code, &args[2..], writes_nothing)
}

fn libraries(context: &Context<'_>) -> Result<Arc<Libraries>, Failure> {
    let shared = context.shared;
    Ok(shared.functions.now(&context.store(), &shared.scripts)?)
}

/// Changes the libraries for all hosts.
fn change<T>(
    context: &Context<'_>,
    change: impl FnMut(&mut Libraries) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if context.view.is_some() {
        return Err(Failure::new("ERR libraries are not changed in a transaction"));
    }
    let shared = context.shared;
    shared.functions.change(&*shared.store, &shared.scripts, change)
}

pub(super) fn function(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let name = args[1].to_ascii_lowercase();
    match (name.as_slice(), &args[2..]) {
        (b"load", [text]) => load(context, text, false),
        (b"load", [word, text]) if is(word, "replace") => load(context, text, true),
        (b"load", [word, _, ..]) => {
            let word = printable(word);
            Err(Failure::new(format!("ERR Unknown option given: {word}")))
        }
        (b"delete", [name]) => change(context, |libraries| {
            let removed = libraries.0.remove(&printable(name));
            removed.map(|_| Reply::OK).ok_or_else(|| Failure::new("ERR Library not found"))
        }),
        (b"flush", how) if how.len() < 2 => {
            if how.iter().any(|how| !is(how, "async") && !is(how, "sync")) {
                return Err(Failure::new("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
            }
            if !libraries(context)?.0.is_empty() {
                change(context, |libraries| {
                    libraries.0.clear();
                    Ok(())
                })?;
            }
            Ok(Reply::OK)
        }
        (b"list", options) => list(context, options),
        (b"stats", []) => Ok(stats(&*libraries(context)?)),
        (b"dump", []) => {
            let libraries = libraries(context)?;
            let texts = libraries.0.values().map(|library| &library.text[..]);
            Ok(Reply::Bulk(pack_libraries(texts)))
        }
        (b"restore", [dumped, policy @ ..]) if policy.len() < 2 => {
            restore(context, dumped, policy.first().map_or(b"append", |policy| policy))
        }
        (b"kill", []) if context.shared.scripts.kill() => Ok(Reply::OK),
        (b"kill", []) => Err(Failure::new("NOTBUSY No scripts in execution right now.")),
        (b"help", []) => Ok(super::help(HELP)),
        (b"flush", _) | (b"restore", [_, _, ..]) => {
            let name = printable(&args[1]);
            Err(Failure::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
            )))
        }
        (b"load" | b"delete" | b"stats" | b"dump" | b"restore" | b"kill" | b"help", _) => {
            Err(Failure::arity(&format!("function|{}", printable(&name))))
        }
        _ => Err(Failure::subcommand("FUNCTION", &args[1])),
    }
}

fn load(context: &Context<'_>, text: &Bytes, replace: bool) -> Outcome {
    let scripts = &context.shared.scripts;
    let loaded =
        change(context, |libraries| libraries.add(text, replace, scripts).map_err(Failure::Error));
    loaded.map(Reply::bulk)
}

fn list(context: &Context<'_>, mut options: &[Bytes]) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    while let Some((option, rest)) = options.split_first() {
        options = rest;
        if is(option, "withcode") && !with_code {
            with_code = true;
        } else if is(option, "libraryname") && pattern.is_none() {
            let (name, rest) = rest
                .split_first()
                .ok_or_else(|| Failure::new("ERR library name argument was not given"))?;
            (pattern, options) = (Some(name), rest);
        } else {
            let option = printable(option);
            return Err(Failure::new(format!("ERR Unknown argument {option}")));
        }
    }
    let libraries = libraries(context)?;
    let wanted =
        |name: &String| pattern.is_none_or(|pattern| glob::matches(pattern, name.as_bytes()));
    let shown = libraries.0.iter().filter(|(name, _)| wanted(name));
    let shown = shown.map(|(name, library)| shown_library(name, library, with_code));
    Ok(Reply::Array(shown.collect()))
}

fn shown_library(name: &str, library: &Library, with_code: bool) -> Reply {
    let functions = library.functions.iter().map(shown_function).collect();
    let mut fields = vec![
        (Reply::bulk("library_name"), Reply::bulk(name)),
        (Reply::bulk("engine"), Reply::bulk("LUA")),
        (Reply::bulk("functions"), Reply::Array(functions)),
    ];
    if with_code {
        fields.push((Reply::bulk("library_code"), Reply::bulk(&library.text)));
    }
    Reply::Map(fields)
}

fn shown_function(function: &Declared) -> Reply {
    let description = match function.description.as_str() {
        "" => Reply::Null,
        text => Reply::bulk(text),
    };
    let flags = function.flags.iter().map(Reply::bulk).collect();
    Reply::Map(vec![
        (Reply::bulk("name"), Reply::bulk(&function.name)),
        (Reply::bulk("description"), description),
        (Reply::bulk("flags"), Reply::Set(flags)),
    ])
}

fn stats(libraries: &Libraries) -> Reply {
    let functions: usize = libraries.0.values().map(|library| library.functions.len()).sum();
    let count = |name: &str, count: usize| (Reply::bulk(name), Reply::Integer(count as i64));
    let lua =
        vec![count("libraries_count", libraries.0.len()), count("functions_count", functions)];
    Reply::Map(vec![
        // A script that runs holds up no other client, so nobody has to know it.
        (Reply::bulk("running_script"), Reply::Null),
        (Reply::bulk("engines"), Reply::Map(vec![(Reply::bulk("LUA"), Reply::Map(lua))])),
    ])
}

fn restore(context: &Context<'_>, dumped: &[u8], policy: &[u8]) -> Outcome {
    let (flush, replace) = match policy.to_ascii_lowercase().as_slice() {
        b"append" => (false, false),
        b"replace" => (false, true),
        b"flush" => (true, false),
        _ => {
            let text =
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
            return Err(Failure::new(text));
        }
    };
    let texts = unpack_libraries(dumped)?;
    let scripts = &context.shared.scripts;
    change(context, |libraries| {
        if flush {
            libraries.0.clear();
        }
        for text in &texts {
            let text = Bytes::copy_from_slice(text);
            libraries.add(&text, replace, scripts).map_err(Failure::Error)?;
        }
        Ok(Reply::OK)
    })
}
