//! Scripts: each runs in one step.

use bytes::Bytes;

use super::table::{self, COMMANDS};
use super::{Context, Failure, Outcome, integer, is, printable, tracking, unknown};
use crate::reply::Reply;
use crate::scripts::{self, Ended, Run, name_of};

const HELP: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "EXISTS <sha1> [<sha1> ...]",
    "    Tell which scripts this host has loaded.",
    "FLUSH [ASYNC|SYNC]",
    "    Forget the scripts that this host has loaded.",
    "KILL",
    "    End the scripts that run on this host; they change nothing.",
    "LOAD <script>",
    "    Load a script into this host without running it.",
];

pub(super) fn eval(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    with_text(context, args, false)
}

pub(super) fn eval_ro(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    with_text(context, args, true)
}

pub(super) fn evalsha(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    with_name(context, args, false)
}

pub(super) fn evalsha_ro(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    with_name(context, args, true)
}

fn with_text(context: &mut Context<'_>, args: &[Bytes], read_only: bool) -> Outcome {
    let name = name_of(&args[1]);
    context.shared.scripts.keep(&name, &args[1]);
    run(context, &Code { name: &name, text: &args[1], function: None }, &args[2..], read_only)
}

fn with_name(context: &mut Context<'_>, args: &[Bytes], read_only: bool) -> Outcome {
    let name = printable(&args[1].to_ascii_lowercase());
    let text = context.shared.scripts.text(&name);
    let text = text.ok_or_else(|| Failure::new("NOSCRIPT No matching script. Please use EVAL."))?;
    run(context, &Code { name: &name, text: &text, function: None }, &args[2..], read_only)
}

/// The text of a script, or a function of a library.
pub(super) struct Code<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a Bytes,
    pub(super) function: Option<&'a str>,
}

/// Runs a script with `args`, which begin with the number of its keys.
pub(super) fn run(
    context: &mut Context<'_>,
    code: &Code<'_>,
    args: &[Bytes],
    read_only: bool,
) -> Outcome {
    let &Code { name, text, function } = code;
    let count = integer(&args[0])?;
    let count =
        usize::try_from(count).map_err(|_| Failure::new("ERR Number of keys can't be negative"))?;
    let (keys, arguments) = args[1..]
        .split_at_checked(count)
        .ok_or_else(|| Failure::new("ERR Number of keys can't be greater than number of args"))?;
    let read_only = read_only || says_no_writes(text);
    // A script may read the keys that it is given.
    tracking::reads(keys.iter(), context.session, context.shared);
    let scripts = &context.shared.scripts;
    let database = context.session.database;
    let ran = context.in_one_step(|context| {
        let mut refused = None;
        let given = Run { scripts, name, text, function, keys, arguments };
        let outcome = scripts::run(&given, |request| match call(context, &request, read_only) {
            Ok(reply) => Some(reply),
            Err(failure) => {
                refused = Some(failure);
                None
            }
        });
        match (outcome, refused) {
            (_, Some(failure)) => Err(failure),
            (scripts::Outcome::Replied(reply), None) => {
                let bytes = reply.value_bytes();
                context.reserve(bytes).map(|()| reply)
            }
            (scripts::Outcome::Ended(ended), None) => Err(Failure::new(why(ended))),
        }
    });
    // A script chooses a database for itself alone.
    context.session.choose(database);
    ran
}

fn why(ended: Ended) -> &'static str {
    match ended {
        Ended::TooLong => {
            "ERR the script ran for more than 5 seconds and was ended; nothing was changed"
        }
        Ended::Killed => {
            "ERR Error running script: it was ended by SCRIPT KILL; nothing was changed"
        }
        Ended::ByCaller => "ERR the script was ended; nothing was changed",
    }
}

/// Whether the first line of a script says that it changes nothing: `#!lua flags=no-writes`.
fn says_no_writes(text: &[u8]) -> bool {
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    first.starts_with(b"#!") && printable(first).contains("no-writes")
}

/// Executes a command of a script; its reply, which may be an error.
///
/// # Errors
/// There is too little room for the reply.
fn call(context: &mut Context<'_>, request: &[Bytes], read_only: bool) -> Result<Reply, Failure> {
    let refused = |text: &str| Ok(Reply::Error(text.to_owned()));
    let Some(place) = table::place(&request[0]) else {
        let Reply::Error(text) = unknown(request) else { return refused("ERR unknown command") };
        let is_type = text.contains("values are strings");
        return refused(if is_type {
            &text
        } else {
            "ERR Unknown Redis command called from script"
        });
    };
    let command = &COMMANDS[place];
    if command.flags.contains(&"noscript") || command.flags.contains(&"admin") {
        return refused("ERR This Redis command is not allowed from script");
    }
    if !command.accepts(request.len()) {
        return refused("ERR Wrong number of args calling Redis command from script");
    }
    if read_only && command.flags.contains(&"write") {
        return refused("ERR Write commands are not allowed from read-only scripts.");
    }
    if context.shared.monitors.are_there() {
        context.shared.monitors.show(request, context.session.database, "lua");
    }
    context.call(request)
}

pub(super) fn script(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let scripts = &context.shared.scripts;
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"load", [text]) => {
            let name = name_of(text);
            if let Err(error) = scripts::check(&name, text) {
                return Err(Failure::new(error));
            }
            scripts.keep(&name, text);
            Ok(Reply::bulk(name))
        }
        (b"exists", names) if !names.is_empty() => {
            let is_there = |name: &Bytes| {
                let name = printable(&name.to_ascii_lowercase());
                Reply::flag(scripts.text(&name).is_some())
            };
            Ok(Reply::Array(names.iter().map(is_there).collect()))
        }
        (b"flush", how) if how.len() < 2 => {
            if how.iter().any(|how| !is(how, "async") && !is(how, "sync")) {
                let text = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
                return Err(Failure::new(text));
            }
            scripts.forget_all();
            Ok(Reply::OK)
        }
        (b"kill", []) if scripts.kill() => Ok(Reply::OK),
        (b"kill", []) => Err(Failure::new("NOTBUSY No scripts in execution right now.")),
        (b"help", []) => Ok(super::help(HELP)),
        (b"load" | b"exists" | b"flush" | b"kill" | b"help", _) => {
            let name = printable(&args[1].to_ascii_lowercase());
            Err(Failure::arity(&format!("script|{name}")))
        }
        _ => Err(Failure::subcommand("SCRIPT", &args[1])),
    }
}
