//! `CLIENT`: the connection, and those of others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::session::checked_name;
use super::{Context, Failure, Outcome, excerpt, integer, is, printable, tracking};
use crate::clients::Client;
use crate::pause::Paused;
use crate::reply::Reply;
use crate::session::Replies;

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME, GETREDIR, ID, INFO",
    "    Tell about this connection.",
    "KILL <ip:port> | <option> <value> ...",
    "    End connections, by ADDR, LADDR, ID, TYPE, USER, MAXAGE, SKIPME.",
    "LIST [TYPE normal] [ID <id> ...]",
    "    Tell about connections to this host.",
    "NO-EVICT | NO-TOUCH (ON|OFF)",
    "    Do nothing: no client is evicted.",
    "PAUSE <timeout> [WRITE|ALL], UNPAUSE",
    "    Have clients wait.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to this connection.",
    "TRACKING (ON|OFF) [<option> ...], TRACKINGINFO, CACHING (YES|NO)",
    "    Have this connection, or another one, told when keys change that it has read.",
    "SETINFO <option> <value>, SETNAME <name>",
    "    Say what this connection is.",
];

pub(super) fn client(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let name = args[1].to_ascii_lowercase();
    let own = context.session.client.clone();
    match (name.as_slice(), &args[2..]) {
        (b"id", []) => Ok(Reply::Integer(own.id as i64)),
        (b"getname", []) if own.said().name.is_empty() => Ok(Reply::Null),
        (b"getname", []) => Ok(Reply::bulk(&own.said().name)),
        (b"getredir", []) => Ok(Reply::Integer(tracking::redirect(context))),
        (b"setname", [name]) => {
            own.said().name = checked_name(name)?;
            Ok(Reply::OK)
        }
        (b"setinfo", [attribute, value]) => set_info(&own, attribute, value),
        (b"tracking", options) if !options.is_empty() => tracking::tracking(context, options),
        (b"trackinginfo", []) => Ok(tracking::info(context)),
        (b"caching", [_]) => tracking::caching(context, &args[2..]),
        (b"info", []) => Ok(Reply::Text(format!("{}\n", own.line(context.shared.address)))),
        (b"list", options) => list(context, options),
        (b"kill", [address]) => kill_address(context, address),
        (b"kill", options) if !options.is_empty() => kill(context, options),
        (b"no-evict" | b"no-touch", [flag]) if is(flag, "on") || is(flag, "off") => Ok(Reply::OK),
        (b"no-evict" | b"no-touch", [_]) => Err(Failure::syntax()),
        (b"reply", [mode]) => replies(context, mode),
        (b"pause", [timeout, mode @ ..]) if mode.len() < 2 => pause(context, timeout, mode),
        (b"unpause", []) => {
            context.shared.pause.end();
            Ok(Reply::OK)
        }
        (b"unblock", [_] | [_, _]) => Ok(Reply::Integer(0)),
        (b"help", []) => Ok(super::help(HELP)),
        (
            b"id" | b"getname" | b"getredir" | b"setname" | b"setinfo" | b"info" | b"kill"
            | b"tracking" | b"trackinginfo" | b"caching" | b"no-evict" | b"no-touch" | b"reply"
            | b"pause" | b"unpause" | b"unblock" | b"help",
            _,
        ) => Err(Failure::arity(&format!("client|{}", printable(&name)))),
        _ => Err(Failure::subcommand("CLIENT", &args[1])),
    }
}

fn set_info(client: &Client, attribute: &[u8], value: &[u8]) -> Outcome {
    let mut said = client.said();
    let field = if is(attribute, "lib-name") {
        &mut said.library
    } else if is(attribute, "lib-ver") {
        &mut said.library_version
    } else {
        let attribute = excerpt(attribute);
        return Err(Failure::new(format!("ERR Unrecognized option '{attribute}'")));
    };
    *field = checked_name(value).map_err(|_| {
        let attribute = printable(attribute).to_lowercase();
        Failure::new(format!(
            "ERR {attribute} cannot contain spaces, newlines or special characters."
        ))
    })?;
    Ok(Reply::OK)
}

fn replies(context: &mut Context<'_>, mode: &[u8]) -> Outcome {
    context.session.replies = match mode.to_ascii_lowercase().as_slice() {
        b"on" => Replies::On,
        b"off" => Replies::Off,
        b"skip" if context.session.replies == Replies::Off => Replies::Off,
        b"skip" => Replies::SkipThisAndNext,
        _ => return Err(Failure::syntax()),
    };
    Ok(Reply::OK)
}

fn pause(context: &Context<'_>, timeout: &[u8], mode: &[Bytes]) -> Outcome {
    let kind = match mode {
        [] => Paused::All,
        [mode] if is(mode, "all") => Paused::All,
        [mode] if is(mode, "write") => Paused::Writes,
        _ => return Err(Failure::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let failure = || Failure::new("ERR timeout is not an integer or out of range");
    let ms = integer(timeout).map_err(|_| failure())?;
    let ms = u64::try_from(ms).map_err(|_| Failure::new("ERR timeout is negative"))?;
    context.shared.pause.begin(kind, Duration::from_millis(ms));
    Ok(Reply::OK)
}

fn list(context: &Context<'_>, options: &[Bytes]) -> Outcome {
    let mut clients = context.shared.clients.all();
    match options {
        [] => {}
        [word, kind] if is(word, "type") => retain_type(&mut clients, kind)?,
        [word, ids @ ..] if is(word, "id") && !ids.is_empty() => {
            let wanted = |id: &Bytes| integer(id).ok().and_then(|id| u64::try_from(id).ok());
            let ids: Option<Vec<u64>> = ids.iter().map(wanted).collect();
            let ids = ids.ok_or_else(|| Failure::new("ERR Invalid client ID"))?;
            clients.retain(|client| ids.contains(&client.id));
        }
        _ => return Err(Failure::syntax()),
    }
    let line = |client: &Arc<Client>| format!("{}\n", client.line(context.shared.address));
    Ok(Reply::Text(clients.iter().map(line).collect()))
}

/// There are normal clients and those that subscribe.
fn retain_type(clients: &mut Vec<Arc<Client>>, kind: &[u8]) -> Result<(), Failure> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => clients.retain(|client| !client.is_subscriber()),
        b"pubsub" => clients.retain(|client| client.is_subscriber()),
        b"master" | b"replica" | b"slave" => clients.clear(),
        _ => {
            let kind = excerpt(kind);
            return Err(Failure::new(format!("ERR Unknown client type '{kind}'")));
        }
    }
    Ok(())
}

fn kill_address(context: &mut Context<'_>, address: &[u8]) -> Outcome {
    let all = context.shared.clients.all();
    let found = all.iter().find(|client| client.peer.to_string().as_bytes() == address);
    let client = found.ok_or_else(|| Failure::new("ERR No such client"))?;
    end(context, client);
    Ok(Reply::OK)
}

fn kill(context: &mut Context<'_>, options: &[Bytes]) -> Outcome {
    let (pairs, rest) = options.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::syntax());
    }
    let mut clients = context.shared.clients.all();
    let (own, server) = (context.session.client.id, context.shared.address.to_string());
    let mut spare_own = true;
    for [name, value] in pairs {
        match name.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = integer(value).ok().filter(|&id| id > 0);
                let text = "ERR client-id should be greater than 0";
                let id = id.ok_or_else(|| Failure::new(text))?;
                clients.retain(|client| client.id == id as u64);
            }
            b"addr" => clients.retain(|client| client.peer.to_string().as_bytes() == value),
            b"laddr" if value != server.as_bytes() => clients.clear(),
            b"laddr" => {}
            b"type" => retain_type(&mut clients, value)?,
            b"user" if value == "default" => {}
            b"user" => {
                let user = excerpt(value);
                return Err(Failure::new(format!("ERR No such user '{user}'")));
            }
            b"maxage" => {
                let age = integer(value)?;
                clients.retain(|client| client.since.elapsed().as_secs() as i64 >= age);
            }
            b"skipme" if is(value, "yes") => spare_own = true,
            b"skipme" if is(value, "no") => spare_own = false,
            _ => return Err(Failure::syntax()),
        }
    }
    clients.retain(|client| !spare_own || client.id != own);
    clients.iter().for_each(|client| end(context, client));
    Ok(Reply::Integer(clients.len() as i64))
}

fn end(context: &mut Context<'_>, client: &Client) {
    if client.id == context.session.client.id {
        context.session.closing = true;
    } else {
        client.kill();
    }
}
