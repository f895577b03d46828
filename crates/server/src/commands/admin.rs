//! Commands about the server.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::table::{self, COMMANDS};
use super::{Command, Context, Failure, Outcome, introspection, is};
use crate::database::DATABASES;
use crate::decode::MAX_ARGUMENT_BYTES;
use crate::glob;
use crate::outbox::{MOST_BYTES, SOFT_BYTES, SOFT_TIME};
use crate::reply::Reply;
use crate::store::Store;

pub(super) fn time(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    let now_ms = context.store().now_ms();
    // The pod's clock has milliseconds, and this host's the rest.
    let own = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_micros());
    let (seconds, rest_us) = (now_ms / 1000, now_ms % 1000 * 1000 + u64::from(own) % 1000);
    Ok(Reply::Array(vec![Reply::bulk(seconds.to_string()), Reply::bulk(rest_us.to_string())]))
}

pub(super) fn monitor(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    context.shared.monitors.add(&context.session.client);
    Ok(Reply::OK)
}

pub(super) fn config(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match args[1].to_ascii_lowercase().as_slice() {
        b"get" if args.len() > 2 => {
            let settings = settings(context).into_iter().filter(|(name, _)| {
                let name = name.as_bytes();
                args[2..].iter().any(|arg| glob::matches(&arg.to_ascii_lowercase(), name))
            });
            let pair = |(name, value): (&str, String)| {
                (Reply::bulk(name), Reply::Bulk(value.into_bytes()))
            };
            Ok(Reply::Map(settings.map(pair).collect()))
        }
        b"get" => Err(Failure::arity("config|get")),
        b"set" => match args[2..].as_chunks::<2>() {
            (pairs, []) if !pairs.is_empty() => introspection::set_config(context, pairs),
            _ => Err(Failure::arity("config|set")),
        },
        b"resetstat" => {
            context.shared.counters.reset();
            context.shared.tallies.reset();
            Ok(Reply::OK)
        }
        b"rewrite" => Err(Failure::new("ERR The server is running without a config file")),
        _ => Err(Failure::subcommand("CONFIG", &args[1])),
    }
}

pub(super) fn settings(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let (config, tallies) = (&context.shared.config, &context.shared.tallies);
    let eviction = context.store().eviction();
    vec![
        ("appendonly", "no".to_owned()),
        ("bind", context.shared.address.ip().to_string()),
        (
            "client-output-buffer-limit",
            format!("normal 0 0 0 pubsub {MOST_BYTES} {SOFT_BYTES} {}", SOFT_TIME.as_secs()),
        ),
        ("databases", DATABASES.to_string()),
        ("maxclients", config.max_clients.to_string()),
        ("maxmemory", eviction.limit_bytes.unwrap_or(0).to_string()),
        ("maxmemory-policy", eviction.policy.to_string()),
        ("notify-keyspace-events", context.shared.events.chosen().to_string()),
        ("port", context.shared.address.port().to_string()),
        ("proto-max-bulk-len", MAX_ARGUMENT_BYTES.to_string()),
        ("save", String::new()),
        ("slowlog-log-slower-than", tallies.slow_us.load(Ordering::Relaxed).to_string()),
        ("slowlog-max-len", tallies.slow_most.load(Ordering::Relaxed).to_string()),
        ("timeout", "0".to_owned()),
    ]
}

pub(super) fn command(_: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let Some(subcommand) = args.get(1) else {
        return Ok(Reply::Array(COMMANDS.iter().map(describe).collect()));
    };
    let named = &args[2..];
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" => Ok(Reply::Integer(COMMANDS.len() as i64)),
        b"list" => list(named),
        b"info" if named.is_empty() => Ok(Reply::Array(COMMANDS.iter().map(describe).collect())),
        b"info" => {
            let describe = |name: &Bytes| table::find(name).map_or(Reply::Null, describe);
            Ok(Reply::Array(named.iter().map(describe).collect()))
        }
        b"docs" => {
            let wanted = |c: &&Command| named.is_empty() || named.iter().any(|n| is(n, c.name));
            Ok(Reply::Map(COMMANDS.iter().filter(wanted).map(document).collect()))
        }
        b"getkeys" => keys(named),
        _ => Err(Failure::subcommand("COMMAND", subcommand)),
    }
}

/// The names of all commands, or of those that a filter lets through.
fn list(filter: &[Bytes]) -> Outcome {
    let wanted: Box<dyn Fn(&Command) -> bool> = match filter {
        [] => Box::new(|_| true),
        [by, kind, value] if is(by, "filterby") => match kind.to_ascii_lowercase().as_slice() {
            b"pattern" => {
                let pattern = value.to_ascii_lowercase();
                Box::new(move |command| glob::matches(&pattern, command.name.as_bytes()))
            }
            b"aclcat" => Box::new(|command| command.is_of(value)),
            // There are no modules.
            b"module" => Box::new(|_| false),
            _ => return Err(Failure::syntax()),
        },
        _ => return Err(Failure::syntax()),
    };
    let names = COMMANDS.iter().filter(|command| wanted(command));
    Ok(Reply::Array(names.map(|command| Reply::bulk(command.name)).collect()))
}

fn keys(request: &[Bytes]) -> Outcome {
    let invalid = |text: &str| Failure::new(format!("ERR {text}"));
    let name = request.first().ok_or_else(|| Failure::arity("command|getkeys"))?;
    let command = table::find(name).ok_or_else(|| invalid("Invalid command specified"))?;
    if !command.accepts(request.len()) {
        return Err(invalid("Invalid number of arguments specified for command"));
    }
    if command.keys.0 == 0 {
        return Err(invalid("The command has no key arguments"));
    }
    Ok(Reply::Array(command.keys_of(request).map(Reply::bulk).collect()))
}

fn describe(command: &Command) -> Reply {
    let flags = command.flags.iter().map(|flag| Reply::Simple(flag)).collect();
    let (first, last, step) = command.keys;
    let none = || Reply::Array(Vec::new());
    Reply::Array(vec![
        Reply::bulk(command.name),
        Reply::Integer(i64::from(command.arity)),
        Reply::Set(flags),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        Reply::Set(command.categories().map(|name| Reply::bulk(format!("@{name}"))).collect()),
        none(),
        Reply::Array(key_specification(command).into_iter().collect()),
        none(),
    ])
}

/// Where the keys are in a request, and what is done with them.
fn key_specification(command: &Command) -> Option<Reply> {
    let (first, last, step) = command.keys;
    if first == 0 {
        return None;
    }
    let name = |name: &str| Reply::bulk(name);
    let number = Reply::Integer;
    let spec = |kind: &str, fields: Vec<(Reply, Reply)>| {
        Reply::Map(vec![(name("type"), name(kind)), (name("spec"), Reply::Map(fields))])
    };
    let flags = if command.flags.contains(&"write") { ["RW", "UPDATE"] } else { ["RO", "ACCESS"] };
    let flags = flags.map(Reply::Simple).to_vec();
    let last = if last < 0 { last } else { last - first };
    let range = vec![
        (name("lastkey"), number(last)),
        (name("keystep"), number(step)),
        (name("limit"), number(0)),
    ];
    Some(Reply::Map(vec![
        (name("flags"), Reply::Set(flags)),
        (name("begin_search"), spec("index", vec![(name("index"), number(first))])),
        (name("find_keys"), spec("range", range)),
    ]))
}

fn document(command: &Command) -> (Reply, Reply) {
    let text = |name: &str, value: &str| (Reply::bulk(name), Reply::bulk(value));
    let fields = vec![text("summary", command.summary), text("group", command.group)];
    (Reply::bulk(command.name), Reply::Map(fields))
}
