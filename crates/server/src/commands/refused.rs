//! Commands of Redis that are refused: transactions, and those on other types than strings.

use bytes::Bytes;

use super::{Failure, error_of, is};
use crate::reply::Reply;
use crate::session::Session;

const REFUSED: &str = "ERR transactions are not supported: MULTI is refused, and nothing is executed \
                       up to the next EXEC or DISCARD";
const NOT_EXECUTED: &str = "ERR not executed, since MULTI was refused; send EXEC or DISCARD first";
const DISCARDED: &str = "EXECABORT Transaction discarded because of previous errors.";

/// The answer to a request about transactions, or to one that belongs to a transaction.
///
/// A client that sends `MULTI` sends the commands of the transaction without looking at the reply,
/// and relies on it that all are executed or none. So none is.
pub(super) fn reply(request: &[Bytes], session: &mut Session) -> Option<Reply> {
    if !session.authenticated {
        return None;
    }
    let name = &request[0];
    let error = |text: &str| Some(Reply::Error(text.to_owned()));
    let in_transaction = session.refused_transaction;
    let about = ["multi", "exec", "discard", "watch", "unwatch"];
    let Some(about) = about.into_iter().find(|about| is(name, about)) else {
        let ends = is(name, "reset") || is(name, "quit");
        return if in_transaction && !ends { error(NOT_EXECUTED) } else { None };
    };
    if (about == "watch") != (request.len() > 1) {
        return Some(error_of(Failure::arity(about)));
    }
    match about {
        "multi" => {
            session.refused_transaction = true;
            error(REFUSED)
        }
        "exec" | "discard" if !in_transaction => {
            error(&format!("ERR {} without MULTI", about.to_uppercase()))
        }
        "exec" => {
            session.refused_transaction = false;
            error(DISCARDED)
        }
        "discard" => {
            session.refused_transaction = false;
            Some(Reply::OK)
        }
        _ if in_transaction => error(NOT_EXECUTED),
        "unwatch" => Some(Reply::OK),
        _ => error("ERR transactions are not supported, so WATCH is refused"),
    }
}

/// Types of values that there are not, and the commands on them.
const TYPES: [(&str, &[&str]); 7] = [
    (
        "lists",
        &[
            "blmove",
            "blmpop",
            "blpop",
            "brpop",
            "brpoplpush",
            "lindex",
            "linsert",
            "llen",
            "lmove",
            "lmpop",
            "lpop",
            "lpos",
            "lpush",
            "lpushx",
            "lrange",
            "lrem",
            "lset",
            "ltrim",
            "rpop",
            "rpoplpush",
            "rpush",
            "rpushx",
            "sort",
            "sort_ro",
        ],
    ),
    (
        "hashes",
        &[
            "hdel",
            "hexists",
            "hexpire",
            "hexpireat",
            "hexpiretime",
            "hget",
            "hgetall",
            "hgetdel",
            "hgetex",
            "hincrby",
            "hincrbyfloat",
            "hkeys",
            "hlen",
            "hmget",
            "hmset",
            "hpersist",
            "hpexpire",
            "hpexpireat",
            "hpexpiretime",
            "hpttl",
            "hrandfield",
            "hscan",
            "hset",
            "hsetex",
            "hsetnx",
            "hstrlen",
            "httl",
            "hvals",
        ],
    ),
    (
        "sets",
        &[
            "sadd",
            "scard",
            "sdiff",
            "sdiffstore",
            "sinter",
            "sintercard",
            "sinterstore",
            "sismember",
            "smembers",
            "smismember",
            "smove",
            "spop",
            "srandmember",
            "srem",
            "sscan",
            "sunion",
            "sunionstore",
        ],
    ),
    (
        "sorted sets",
        &[
            "bzmpop",
            "bzpopmax",
            "bzpopmin",
            "zadd",
            "zcard",
            "zcount",
            "zdiff",
            "zdiffstore",
            "zincrby",
            "zinter",
            "zintercard",
            "zinterstore",
            "zlexcount",
            "zmpop",
            "zmscore",
            "zpopmax",
            "zpopmin",
            "zrandmember",
            "zrange",
            "zrangebylex",
            "zrangebyscore",
            "zrangestore",
            "zrank",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
            "zrevrange",
            "zrevrangebylex",
            "zrevrangebyscore",
            "zrevrank",
            "zscan",
            "zscore",
            "zunion",
            "zunionstore",
        ],
    ),
    (
        "streams",
        &[
            "xack",
            "xackdel",
            "xadd",
            "xautoclaim",
            "xclaim",
            "xdel",
            "xdelex",
            "xgroup",
            "xinfo",
            "xlen",
            "xpending",
            "xrange",
            "xread",
            "xreadgroup",
            "xrevrange",
            "xsetid",
            "xtrim",
        ],
    ),
    (
        "positions on the globe",
        &[
            "geoadd",
            "geodist",
            "geohash",
            "geopos",
            "georadius",
            "georadius_ro",
            "georadiusbymember",
            "georadiusbymember_ro",
            "geosearch",
            "geosearchstore",
        ],
    ),
    ("counters of distinct elements", &["pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest"]),
];

/// The type of values that a command is for, if there are none such.
pub(super) fn type_of(name: &[u8]) -> Option<&'static str> {
    let found = TYPES.iter().find(|(_, commands)| commands.iter().any(|command| is(name, command)));
    found.map(|(kind, _)| *kind)
}
