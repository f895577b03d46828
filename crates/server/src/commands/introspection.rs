//! `MEMORY`, `OBJECT`, `SLOWLOG`, `LATENCY` and `ACL`: what a server tells of itself and its keys.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{Context, Failure, Outcome, excerpt, integer, is, printable};
use crate::events::Chosen;
use crate::reply::Reply;
use crate::store::Store;
use crate::tally::Slow;

/// Bytes that a key takes in a pod besides key and value, about: its header, and its share of the
/// index.
const KEY_OVERHEAD_BYTES: u64 = 64;
/// Slow commands that `SLOWLOG GET` returns unless it is told otherwise.
const SLOW_SHOWN: usize = 10;
/// The longest string that Redis keeps beside its header.
const EMBEDDED_BYTES: u64 = 44;

/// An error for a subcommand that there is not, or that has other words.
fn unusual(command: &str, known: &[&str], name: &[u8]) -> Failure {
    if known.iter().any(|known| is(name, known)) {
        let name = printable(name).to_lowercase();
        return Failure::arity(&format!("{}|{name}", command.to_lowercase()));
    }
    Failure::subcommand(command, name)
}

pub(super) fn memory(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"usage", [key]) => memory_usage(context, key),
        (b"usage", [key, samples, count]) if is(samples, "samples") => {
            integer(count)?;
            memory_usage(context, key)
        }
        (b"usage", [_, _, ..]) => Err(Failure::syntax()),
        (b"doctor", []) => Ok(Reply::Text("Nothing is known to be wrong.".to_owned())),
        (b"purge", []) => Ok(Reply::OK),
        (b"help", []) => Ok(super::help(&[
            "MEMORY <subcommand> [<arg> ...]. Subcommands are:",
            "DOCTOR",
            "    Tell what is wrong with the use of memory.",
            "PURGE",
            "    Do nothing: what is free in a pod is free.",
            "USAGE <key> [SAMPLES <count>]",
            "    Tell about how many bytes of the pod a key takes.",
        ])),
        _ => Err(unusual("MEMORY", &["usage", "doctor", "purge", "help"], &args[1])),
    }
}

fn memory_usage(context: &Context<'_>, key: &Bytes) -> Outcome {
    let bytes = |value_bytes| value_bytes + key.len() as u64 + KEY_OVERHEAD_BYTES;
    let stat = context.store().stat(key)?;
    Ok(stat.map_or(Reply::Null, |stat| Reply::Integer(bytes(stat.value_bytes) as i64)))
}

pub(super) fn object(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let about = args[1].to_ascii_lowercase();
    match (about.as_slice(), &args[2..]) {
        (b"help", []) => Ok(super::help(&[
            "OBJECT <subcommand> [<arg> ...]. Subcommands are:",
            "ENCODING <key>",
            "    Tell how Redis would keep the value.",
            "FREQ | IDLETIME | REFCOUNT <key>",
            "    Not told of single keys.",
        ])),
        (b"encoding" | b"freq" | b"idletime" | b"refcount", [key]) => {
            let Some(stat) = context.store().stat(key)? else { return Ok(Reply::Null) };
            match about.as_slice() {
                b"encoding" => encoding(context, key, stat.value_bytes),
                b"refcount" => Ok(Reply::Integer(1)),
                b"idletime" => Ok(Reply::Integer(0)),
                _ => Err(Failure::new(
                    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
                )),
            }
        }
        _ => {
            let known = ["help", "encoding", "freq", "idletime", "refcount"];
            Err(unusual("OBJECT", &known, &args[1]))
        }
    }
}

fn encoding(context: &Context<'_>, key: &Bytes, value_bytes: u64) -> Outcome {
    if value_bytes > EMBEDDED_BYTES {
        return Ok(Reply::bulk("raw"));
    }
    let value = context.store().get(key)?.unwrap_or_default().value;
    let encoding = if integer(&value).is_ok() { "int" } else { "embstr" };
    Ok(Reply::bulk(encoding))
}

pub(super) fn slowlog(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let tallies = &context.shared.tallies;
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"get", rest @ ([] | [_])) => {
            let count = match rest {
                [] => SLOW_SHOWN as i64,
                [count, ..] => integer(count)?,
            };
            if count < -1 {
                return Err(Failure::new("ERR count should be greater than or equal to -1"));
            }
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            Ok(Reply::Array(tallies.slow().iter().take(count).map(describe_slow).collect()))
        }
        (b"len", []) => Ok(Reply::Integer(tallies.slow().len() as i64)),
        (b"reset", []) => {
            tallies.forget_slow();
            Ok(Reply::OK)
        }
        (b"help", []) => Ok(super::help(&[
            "SLOWLOG <subcommand> [<arg> ...]. Subcommands are:",
            "GET [<count>]",
            "    Return the last commands that took long.",
            "LEN",
            "    Return how many there are.",
            "RESET",
            "    Forget them.",
        ])),
        _ => Err(unusual("SLOWLOG", &["get", "len", "reset", "help"], &args[1])),
    }
}

fn describe_slow(slow: &Slow) -> Reply {
    Reply::Array(vec![
        Reply::Integer(slow.id as i64),
        Reply::Integer(slow.at_s as i64),
        Reply::Integer(slow.us as i64),
        Reply::Array(slow.words.iter().map(Reply::bulk).collect()),
        Reply::bulk(&slow.peer),
        Reply::bulk(&slow.name),
    ])
}

/// Latencies are not watched, as in a Redis whose threshold is 0.
pub(super) fn latency(_: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"latest", []) | (b"history", [_]) => Ok(Reply::Array(Vec::new())),
        (b"histogram", _) => Ok(Reply::Map(Vec::new())),
        (b"reset", _) => Ok(Reply::Integer(0)),
        (b"doctor", []) => {
            let text = "Latencies are not watched; SLOWLOG has the commands that took long.";
            Ok(Reply::Text(text.to_owned()))
        }
        (b"graph", [event]) => {
            let event = excerpt(event);
            Err(Failure::new(format!("ERR No samples available for event '{event}'")))
        }
        (b"help", []) => Ok(super::help(&[
            "LATENCY <subcommand> [<arg> ...]. Subcommands are:",
            "DOCTOR, GRAPH, HISTOGRAM, HISTORY, LATEST, RESET",
            "    Nothing: latencies are not watched.",
        ])),
        _ => {
            let known = ["latest", "history", "doctor", "graph", "help"];
            Err(unusual("LATENCY", &known, &args[1]))
        }
    }
}

const CATEGORIES: &[&str] =
    &["keyspace", "read", "write", "string", "bitmap", "connection", "admin"];

/// There is one user, who may do all.
pub(super) fn acl(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"whoami", []) => Ok(Reply::bulk("default")),
        (b"users", []) => Ok(Reply::Array(vec![Reply::bulk("default")])),
        (b"list", []) => {
            let password = context.shared.config.password().is_some();
            let password = if password { "sanitize-payload #(hidden)" } else { "nopass" };
            let user = format!("user default on {password} ~* &* +@all");
            Ok(Reply::Array(vec![Reply::bulk(user)]))
        }
        (b"cat", []) => Ok(Reply::Array(CATEGORIES.iter().map(Reply::bulk).collect())),
        (b"help", []) => Ok(super::help(&[
            "ACL <subcommand>. Subcommands are:",
            "CAT, LIST, USERS, WHOAMI",
            "    Tell about the one user there is.",
        ])),
        _ => Err(unusual("ACL", &["whoami", "users", "list", "cat", "help"], &args[1])),
    }
}

pub(super) fn module(_: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match &args[1..] {
        [list] if is(list, "list") => Ok(Reply::Array(Vec::new())),
        _ => Err(unusual("MODULE", &["list"], &args[1])),
    }
}

pub(super) fn role(_: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    let replicas = Reply::Array(Vec::new());
    Ok(Reply::Array(vec![Reply::bulk("master"), Reply::Integer(0), replicas]))
}

/// All hosts see what was written, and none of them is a replica.
pub(super) fn wait(_: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    integer(&args[1])?;
    let timeout = integer(&args[2])
        .map_err(|_| Failure::new("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Failure::new("ERR timeout is negative"));
    }
    Ok(Reply::Integer(0))
}

/// `CONFIG SET`. Of a server that runs, only the settings of the slow log can be changed.
pub(super) fn set_config(context: &Context<'_>, pairs: &[[Bytes; 2]]) -> Outcome {
    let tallies = &context.shared.tallies;
    let settings = super::admin::settings(context);
    let (mut changes, mut eviction) = (Vec::new(), context.store().eviction());
    let events = &context.shared.events;
    let mut chosen = events.chosen();
    for [name, value] in pairs {
        let refused = |why: &str| {
            let name = excerpt(name);
            let text =
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
            Failure::new(text)
        };
        let number =
            || integer(value).map_err(|_| refused("argument couldn't be parsed into an integer"));
        let known = settings.iter().find(|(known, _)| is(name, known));
        match known {
            Some(("slowlog-log-slower-than", _)) => changes.push((true, number()?)),
            Some(("slowlog-max-len", _)) => {
                let number = number()?;
                if number < 0 {
                    return Err(refused(
                        "argument must be between 0 and 9223372036854775807 inclusive",
                    ));
                }
                changes.push((false, number));
            }
            Some(("maxmemory", _)) => {
                let bytes = memory_bytes(value)
                    .ok_or_else(|| refused("argument must be a memory value such as 100mb"))?;
                eviction.limit_bytes = Some(bytes).filter(|&bytes| bytes > 0);
            }
            Some(("maxmemory-policy", _)) => {
                let text = String::from_utf8_lossy(value).to_lowercase();
                eviction.policy = text.parse().map_err(|why: String| refused(&why))?;
            }
            Some(("notify-keyspace-events", _)) => {
                chosen = Chosen::parse(value).ok_or_else(|| {
                    refused("Invalid event class character. Use 'Ag$lshzxetdKE'.")
                })?;
            }
            // To ask for what there is changes nothing.
            Some((_, now)) if now.as_bytes() == value => {}
            Some(_) => return Err(refused("restart the server with other options")),
            None => {
                let name = excerpt(name);
                let text = "ERR Unknown option or number of arguments for CONFIG SET";
                return Err(Failure::new(format!("{text} - '{name}'")));
            }
        }
    }
    context.store().set_eviction(eviction)?;
    events.choose(chosen);
    context.shared.settle_subscriptions();
    for (threshold, number) in changes {
        if threshold {
            tallies.slow_us.store(number, Ordering::Relaxed);
        } else {
            tallies.slow_most.store(number as u64, Ordering::Relaxed);
        }
    }
    Ok(Reply::OK)
}

/// A number of bytes as Redis takes it: a kb is 1024 bytes, and a k is 1000.
fn memory_bytes(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[number.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
