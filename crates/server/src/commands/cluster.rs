//! `CLUSTER`: each host serves all keys, so it tells clients of clusters that it has all slots.
//! They are never sent elsewhere.

use bytes::Bytes;

use super::{Context, Failure, Outcome};
use crate::reply::Reply;

const SLOTS: i64 = 16384;

/// The name of this host's node, which clients tell nodes apart by.
fn node(context: &Context<'_>) -> String {
    let address = context.shared.address.to_string();
    let digits = format!("{:016x}", crc16(address.as_bytes()));
    format!("{digits}{:024x}", context.shared.address.port())
}

/// Where clients find this host; empty, if they know better, since they have come there.
fn endpoint(context: &Context<'_>) -> String {
    let ip = context.shared.address.ip();
    if ip.is_unspecified() { String::new() } else { ip.to_string() }
}

pub(super) fn cluster(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"slots", []) => Ok(slots(context)),
        (b"shards", []) => Ok(shards(context)),
        (b"nodes", []) => Ok(Reply::Text(nodes(context))),
        (b"info", []) => Ok(Reply::Text(info())),
        (b"myid", []) => Ok(Reply::bulk(node(context))),
        (b"keyslot", [key]) => Ok(Reply::Integer(slot(key))),
        (b"help", []) => Ok(super::help(&[
            "CLUSTER <subcommand> [<arg> ...]. Subcommands are:",
            "INFO, MYID, NODES, SHARDS, SLOTS",
            "    Tell that this host has all slots.",
            "KEYSLOT <key>",
            "    Tell the slot of a key.",
        ])),
        _ => Err(Failure::subcommand("CLUSTER", &args[1])),
    }
}

/// `READONLY`, `READWRITE` and `ASKING`, by which clients of clusters read from a replica, or go on
/// elsewhere: they change nothing here.
pub(super) fn nothing(_: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    Ok(Reply::OK)
}

fn slots(context: &Context<'_>) -> Reply {
    let port = i64::from(context.shared.address.port());
    let node = vec![
        Reply::bulk(endpoint(context)),
        Reply::Integer(port),
        Reply::bulk(node(context)),
        Reply::Array(Vec::new()),
    ];
    let range = vec![Reply::Integer(0), Reply::Integer(SLOTS - 1), Reply::Array(node)];
    Reply::Array(vec![Reply::Array(range)])
}

fn shards(context: &Context<'_>) -> Reply {
    let name = |name: &str| Reply::bulk(name);
    let (endpoint, port) = (endpoint(context), i64::from(context.shared.address.port()));
    let node = Reply::Map(vec![
        (name("id"), Reply::bulk(node(context))),
        (name("port"), Reply::Integer(port)),
        (name("ip"), Reply::bulk(&endpoint)),
        (name("endpoint"), Reply::bulk(&endpoint)),
        (name("role"), name("master")),
        (name("replication-offset"), Reply::Integer(0)),
        (name("health"), name("online")),
    ]);
    let slots = Reply::Array(vec![Reply::Integer(0), Reply::Integer(SLOTS - 1)]);
    let shard = vec![(name("slots"), slots), (name("nodes"), Reply::Array(vec![node]))];
    Reply::Array(vec![Reply::Map(shard)])
}

fn nodes(context: &Context<'_>) -> String {
    let (endpoint, port) = (endpoint(context), context.shared.address.port());
    let node = node(context);
    format!("{node} {endpoint}:{port}@0 myself,master - 0 0 1 connected 0-{}\n", SLOTS - 1)
}

fn info() -> String {
    let fields = [
        ("cluster_state", "ok"),
        ("cluster_slots_assigned", "16384"),
        ("cluster_slots_ok", "16384"),
        ("cluster_slots_pfail", "0"),
        ("cluster_slots_fail", "0"),
        ("cluster_known_nodes", "1"),
        ("cluster_size", "1"),
        ("cluster_current_epoch", "1"),
        ("cluster_my_epoch", "1"),
    ];
    fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
}

/// The slot of a key: that of what stands in its first braces, if something does.
fn slot(key: &[u8]) -> i64 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}').filter(|&close| close > 0)?;
        Some(&rest[..close])
    });
    i64::from(crc16(tag.unwrap_or(key))) % SLOTS
}

/// CRC-16 of XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    let bit = |sum: u16| if sum >> 15 == 1 { sum << 1 ^ 0x1021 } else { sum << 1 };
    bytes.iter().fold(0, |sum, byte| (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| bit(sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in [
            ("foo", 12182),
            ("", 0),
            ("{foo}bar", 12182),
            ("a{foo}b{c}", 12182),
            ("somekey", 11058),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_ne!(slot(b"{}a"), slot(b"{}b"));
    }
}
