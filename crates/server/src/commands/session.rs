//! Commands about the connection itself.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Context, Failure, Outcome, REDIS_VERSION, excerpt, integer, is, printable};
use crate::reply::{Protocol, Reply};
use crate::session::Session;

pub(super) fn ping(_: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match &args[1..] {
        [] => Ok(Reply::Simple("PONG")),
        [text] => Ok(Reply::bulk(text)),
        _ => Err(Failure::arity("ping")),
    }
}

pub(super) fn echo(_: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    Ok(Reply::bulk(&args[1]))
}

pub(super) fn quit(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    context.session.closing = true;
    Ok(Reply::OK)
}

pub(super) fn reset(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    let open = context.shared.config.password().is_none();
    context.session.reset(open);
    Ok(Reply::Simple("RESET"))
}

pub(super) fn select(_: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match integer(&args[1]) {
        Ok(0) => Ok(Reply::OK),
        Ok(_) => Err(Failure::new("ERR DB index is out of range")),
        Err(failure) => Err(failure),
    }
}

pub(super) fn auth(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match &args[1..] {
        [_] if context.shared.config.password().is_none() => Err(Failure::new(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        )),
        [password] => authenticate(context, b"default", password),
        [user, password] => authenticate(context, user, password),
        _ => Err(Failure::syntax()),
    }
}

fn authenticate(context: &mut Context<'_>, user: &[u8], password: &[u8]) -> Outcome {
    let expected = context.shared.config.password();
    if user == b"default" && expected.is_none_or(|expected| same(expected.as_bytes(), password)) {
        context.session.authenticated = true;
        return Ok(Reply::OK);
    }
    Err(Failure::new("WRONGPASS invalid username-password pair or user is disabled."))
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let different = one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && different == 0
}

pub(super) fn hello(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let mut args: VecDeque<&Bytes> = args[1..].iter().collect();
    let protocol = args.pop_front().map(|version| protocol(version)).transpose()?;
    let mut name = None;
    while let Some(option) = args.pop_front() {
        if is(option, "auth") && args.len() >= 2 {
            let (user, password) = (args.pop_front(), args.pop_front());
            authenticate(context, user.map_or(b"", |b| b), password.map_or(b"", |b| b))?;
        } else if is(option, "setname") && !args.is_empty() {
            name = args.pop_front().map(|name| checked_name(name)).transpose()?;
        } else {
            let option = excerpt(option);
            return Err(Failure::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !context.session.authenticated {
        return Err(Failure::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    context.session.protocol = protocol.unwrap_or(context.session.protocol);
    if let Some(name) = name {
        context.session.name = name;
    }
    Ok(greeting(context.session))
}

fn protocol(version: &[u8]) -> Result<Protocol, Failure> {
    match integer(version) {
        Ok(2) => Ok(Protocol::Resp2),
        Ok(3) => Ok(Protocol::Resp3),
        Ok(_) => Err(Failure::new("NOPROTO unsupported protocol version")),
        Err(_) => Err(Failure::new("ERR Protocol version is not an integer or out of range")),
    }
}

fn greeting(session: &Session) -> Reply {
    let text = |name: &str, value: &str| (Reply::bulk(name), Reply::bulk(value));
    Reply::Map(vec![
        text("server", "redis"),
        text("version", REDIS_VERSION),
        (Reply::bulk("proto"), Reply::Integer(session.protocol.number())),
        (Reply::bulk("id"), Reply::Integer(session.id as i64)),
        text("mode", "standalone"),
        text("role", "master"),
        (Reply::bulk("modules"), Reply::Array(Vec::new())),
    ])
}

fn checked_name(name: &[u8]) -> Result<String, Failure> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(printable(name));
    }
    Err(Failure::new("ERR Client names cannot contain spaces, newlines or special characters."))
}

pub(super) fn client(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let session = &mut *context.session;
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"id", []) => Ok(Reply::Integer(session.id as i64)),
        (b"getname", []) if session.name.is_empty() => Ok(Reply::Null),
        (b"getname", []) => Ok(Reply::bulk(&session.name)),
        (b"setname", [name]) => {
            session.name = checked_name(name)?;
            Ok(Reply::OK)
        }
        (b"setinfo", [attribute, value]) => set_info(session, attribute, value),
        (b"info" | b"list", []) => Ok(Reply::Text(format!("{}\n", describe(session)))),
        (b"no-evict" | b"no-touch", [flag]) if is(flag, "on") || is(flag, "off") => Ok(Reply::OK),
        (b"no-evict" | b"no-touch", [_]) => Err(Failure::syntax()),
        (b"id" | b"getname" | b"setname" | b"setinfo" | b"info" | b"no-evict" | b"no-touch", _) => {
            let name = printable(&args[1]).to_lowercase();
            Err(Failure::arity(&format!("client|{name}")))
        }
        _ => Err(Failure::subcommand("CLIENT", &args[1])),
    }
}

fn set_info(session: &mut Session, attribute: &[u8], value: &[u8]) -> Outcome {
    let field = if is(attribute, "lib-name") {
        &mut session.library
    } else if is(attribute, "lib-ver") {
        &mut session.library_version
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

fn describe(session: &Session) -> String {
    format!(
        "id={} addr={} name={} age={} db=0 resp={} lib-name={} lib-ver={} user=default",
        session.id,
        session.peer,
        session.name,
        session.since.elapsed().as_secs(),
        session.protocol.number(),
        session.library,
        session.library_version
    )
}
