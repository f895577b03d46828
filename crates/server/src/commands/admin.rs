//! Commands about the server.

use std::fmt::Write;

use bytes::Bytes;

use super::table::{self, COMMANDS};
use super::{Command, Context, Failure, Outcome, REDIS_VERSION, is};
use crate::decode::MAX_ARGUMENT_BYTES;
use crate::glob;
use crate::reply::Reply;
use crate::store::InfoSection;

pub(super) fn time(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    let now_ms = context.store().now_ms();
    let (seconds, rest_us) = (now_ms / 1000, now_ms % 1000 * 1000);
    Ok(Reply::Array(vec![Reply::bulk(seconds.to_string()), Reply::bulk(rest_us.to_string())]))
}

pub(super) fn info(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let all = args.len() == 1
        || args[1..].iter().any(|arg| ["all", "default", "everything"].iter().any(|w| is(arg, w)));
    let mut text = String::new();
    for (title, fields) in sections(context)? {
        if !all && !args[1..].iter().any(|arg| is(arg, &title)) {
            continue;
        }
        if !text.is_empty() {
            text += "\r\n";
        }
        let _ = write!(text, "# {title}\r\n");
        for (name, value) in fields {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    Ok(Reply::Text(text))
}

fn sections(context: &Context<'_>) -> Result<Vec<InfoSection>, Failure> {
    let stats = context.shared.counters.snapshot();
    let section = |title: &str, fields: &[(&str, String)]| {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        (title.to_owned(), fields.collect())
    };
    let uptime = context.shared.started.elapsed().as_secs();
    let keys = context.store().key_count()?;
    let mut sections = vec![
        section(
            "Server",
            &[
                ("redis_version", REDIS_VERSION.to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("tombolo_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("process_id", std::process::id().to_string()),
                ("tcp_port", context.shared.address.port().to_string()),
                ("uptime_in_seconds", uptime.to_string()),
                ("uptime_in_days", (uptime / 86400).to_string()),
            ],
        ),
        section(
            "Clients",
            &[
                ("connected_clients", stats.clients.to_string()),
                ("maxclients", context.shared.config.max_clients.to_string()),
            ],
        ),
        section("Persistence", &[("loading", "0".to_owned())]),
        section(
            "Stats",
            &[
                ("total_connections_received", stats.connections.to_string()),
                ("rejected_connections", stats.rejected.to_string()),
                ("total_commands_processed", stats.commands.to_string()),
                ("total_error_replies", stats.errors.to_string()),
                ("total_net_input_bytes", stats.bytes_in.to_string()),
                ("total_net_output_bytes", stats.bytes_out.to_string()),
            ],
        ),
        section(
            "Replication",
            &[("role", "master".to_owned()), ("connected_slaves", "0".to_owned())],
        ),
        section("Cluster", &[("cluster_enabled", "0".to_owned())]),
    ];
    sections.extend(context.store().info());
    let keyspace = (keys > 0).then(|| ("db0", format!("keys={keys},expires=0,avg_ttl=0")));
    sections.push(section("Keyspace", keyspace.as_slice()));
    Ok(sections)
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
        b"set" => Err(Failure::new(
            "ERR CONFIG SET is not supported; restart the server with other options",
        )),
        _ => Err(Failure::subcommand("CONFIG", &args[1])),
    }
}

fn settings(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let config = &context.shared.config;
    vec![
        ("appendonly", "no".to_owned()),
        ("bind", context.shared.address.ip().to_string()),
        ("databases", "1".to_owned()),
        ("maxclients", config.max_clients.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", context.shared.address.port().to_string()),
        ("proto-max-bulk-len", MAX_ARGUMENT_BYTES.to_string()),
        ("save", String::new()),
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
        b"list" => Ok(Reply::Array(COMMANDS.iter().map(|c| Reply::bulk(c.name)).collect())),
        b"info" if named.is_empty() => Ok(Reply::Array(COMMANDS.iter().map(describe).collect())),
        b"info" => {
            let describe = |name: &Bytes| {
                table::find(name).map_or(Reply::Null, |number| describe(&COMMANDS[number]))
            };
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

fn keys(request: &[Bytes]) -> Outcome {
    let invalid = |text: &str| Failure::new(format!("ERR {text}"));
    let name = request.first().ok_or_else(|| Failure::arity("command|getkeys"))?;
    let number = table::find(name).ok_or_else(|| invalid("Invalid command specified"))?;
    let command = &COMMANDS[number];
    if !command.accepts(request.len()) {
        return Err(invalid("Invalid number of arguments specified for command"));
    }
    let (first, last, step) = command.keys;
    if first == 0 {
        return Err(invalid("The command has no key arguments"));
    }
    let last = if last < 0 { request.len() as i64 + last } else { last };
    let places = (first..=last).step_by(step as usize);
    Ok(Reply::Array(places.map(|at| Reply::bulk(&request[at as usize])).collect()))
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
        Reply::Set(Vec::new()),
        none(),
        none(),
        none(),
    ])
}

fn document(command: &Command) -> (Reply, Reply) {
    let text = |name: &str, value: &str| (Reply::bulk(name), Reply::bulk(value));
    let fields = vec![text("summary", command.summary), text("group", command.group)];
    (Reply::bulk(command.name), Reply::Map(fields))
}
