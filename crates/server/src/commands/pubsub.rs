//! Publishing and subscribing.

use bytes::Bytes;

use super::{Context, Failure, Message, Outcome, is};
use crate::bus::Topic;
use crate::hear::{check_length, hear, publish as publish_to_all};
use crate::reply::Reply;
use crate::shared::Shared;
use crate::store::StoreError;
use crate::subscriptions::Kind;

const HELP: &[&str] = &[
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>], SHARDCHANNELS [<pattern>]",
    "    Return the channels to which clients of this host subscribe.",
    "NUMPAT",
    "    Count the patterns to which clients of this host subscribe.",
    "NUMSUB [<channel> ...], SHARDNUMSUB [<channel> ...]",
    "    Count the clients of this host that subscribe to channels.",
];

pub(super) fn publish(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    publish_as(context, Kind::Channel, args)
}

pub(super) fn spublish(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    publish_as(context, Kind::Shard, args)
}

/// A step may be done again, so messages are sent when it is through.
fn publish_as(context: &mut Context<'_>, kind: Kind, args: &[Bytes]) -> Outcome {
    let message = Message { kind, channel: args[1].clone(), payload: args[2].clone() };
    if context.view.is_none() {
        return Ok(Reply::Integer(send(context.shared, &message)?));
    }
    check_length(context.shared, &message.channel, &message.payload)?;
    let receivers = context.shared.subscriptions.receivers(kind, &message.channel);
    context.step.messages.push(message);
    Ok(Reply::Integer(receivers))
}

pub(super) fn send(shared: &Shared, message: &Message) -> Result<i64, StoreError> {
    publish_to_all(shared, message.kind, &message.channel, &message.payload)
}

pub(super) fn subscribe(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    add(context, Kind::Channel, "subscribe", &args[1..])
}

pub(super) fn psubscribe(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    add(context, Kind::Pattern, "psubscribe", &args[1..])
}

pub(super) fn ssubscribe(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    add(context, Kind::Shard, "ssubscribe", &args[1..])
}

pub(super) fn unsubscribe(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    remove(context, Kind::Channel, "unsubscribe", &args[1..])
}

pub(super) fn punsubscribe(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    remove(context, Kind::Pattern, "punsubscribe", &args[1..])
}

pub(super) fn sunsubscribe(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    remove(context, Kind::Shard, "sunsubscribe", &args[1..])
}

fn add(context: &mut Context<'_>, kind: Kind, title: &str, names: &[Bytes]) -> Outcome {
    let (shared, client) = (context.shared, context.session.client.clone());
    if let Some(bus) = shared.store.bus()? {
        // Messages that were published before are not for this client.
        hear(shared, bus);
        shared.hearing.set(bus, Topic::Published, || true);
    }
    let added = names.iter().map(|name| {
        shared.subscriptions.add(kind, name, &client);
        Reply::Push(vec![Reply::bulk(title), Reply::bulk(name), client.count_with(kind)])
    });
    let added = added.collect();
    context.session.is_subscriber = true;
    // Another client may have ended the last subscription meanwhile.
    shared.settle_subscriptions();
    Ok(Reply::Each(added))
}

fn remove(context: &mut Context<'_>, kind: Kind, title: &str, names: &[Bytes]) -> Outcome {
    let (shared, client) = (context.shared, context.session.client.clone());
    let own: Vec<Bytes> = client.subscribed()[kind as usize].iter().cloned().collect();
    let names = if names.is_empty() { &own[..] } else { names };
    let mut removed: Vec<Reply> = names
        .iter()
        .map(|name| {
            shared.subscriptions.remove(kind, name, &client);
            Reply::Push(vec![Reply::bulk(title), Reply::bulk(name), client.count_with(kind)])
        })
        .collect();
    context.session.is_subscriber = client.is_subscriber();
    if removed.is_empty() {
        removed.push(Reply::Push(vec![Reply::bulk(title), Reply::Null, client.count_with(kind)]));
    }
    // A host whose clients subscribe to nothing does not listen.
    shared.settle_subscriptions();
    Ok(Reply::Each(removed))
}

pub(super) fn pubsub(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let subscriptions = &context.shared.subscriptions;
    let name = args[1].to_ascii_lowercase();
    let kind = if name.starts_with(b"shard") { Kind::Shard } else { Kind::Channel };
    match (name.as_slice(), &args[2..]) {
        (b"channels" | b"shardchannels", pattern) if pattern.len() < 2 => {
            let names = subscriptions.names(kind, pattern.first().map(|pattern| &pattern[..]));
            Ok(Reply::Array(names.into_iter().map(Reply::bulk).collect()))
        }
        (b"numsub" | b"shardnumsub", names) => {
            let count = |name| Reply::Integer(subscriptions.count(kind, name) as i64);
            let pairs = names.iter().flat_map(|name| [Reply::bulk(name), count(name)]);
            Ok(Reply::Array(pairs.collect()))
        }
        (b"numpat", []) => Ok(Reply::Integer(subscriptions.name_count(Kind::Pattern) as i64)),
        (b"help", []) => Ok(super::help(HELP)),
        (b"channels" | b"shardchannels" | b"numpat" | b"help", _) => {
            Err(Failure::arity(&format!("pubsub|{}", super::printable(&name))))
        }
        _ => Err(Failure::subcommand("PUBSUB", &args[1])),
    }
}

/// The commands that a client of RESP2 may send while it subscribes to something: it takes
/// messages for replies.
const WHILE_SUBSCRIBED: [&str; 9] = [
    "subscribe",
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
    "ping",
    "quit",
    "reset",
];

/// The answer to a request that may not be sent while a client subscribes.
pub(super) fn refusal(name: &[u8]) -> Option<Reply> {
    if WHILE_SUBSCRIBED.into_iter().any(|allowed| is(name, allowed)) {
        return None;
    }
    let name = super::printable(&name.to_ascii_lowercase());
    Some(Reply::Error(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    )))
}
