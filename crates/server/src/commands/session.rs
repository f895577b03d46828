//! Commands about the connection itself.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Context, Failure, Outcome, REDIS_VERSION, excerpt, integer, is, printable};
use crate::reply::{Protocol, Reply};
use crate::session::Session;

pub(super) fn ping(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match &args[1..] {
        [] | [_] if context.session.awaits_messages() => {
            let text = args.get(1).map_or(Reply::bulk(""), Reply::bulk);
            Ok(Reply::Array(vec![Reply::bulk("pong"), text]))
        }
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
    context.shared.subscriptions.forget(&context.session.client);
    context.shared.monitors.remove(&context.session.client);
    context.shared.settle_subscriptions();
    super::tracking::stop(context.session, context.shared);
    context.session.reset(open);
    Ok(Reply::Simple("RESET"))
}

pub(super) fn select(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let database = context.known_database(integer(&args[1])?)?;
    context.session.choose(database);
    Ok(Reply::OK)
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
    if let Some(protocol) = protocol {
        context.session.speak(protocol);
    }
    if let Some(name) = name {
        context.session.client.said().name = name;
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
        (Reply::bulk("id"), Reply::Integer(session.client.id as i64)),
        text("mode", "standalone"),
        text("role", "master"),
        (Reply::bulk("modules"), Reply::Array(Vec::new())),
    ])
}

pub(super) fn checked_name(name: &[u8]) -> Result<String, Failure> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(printable(name));
    }
    Err(Failure::new("ERR Client names cannot contain spaces, newlines or special characters."))
}
