//! All commands, in alphabetical order.

use super::{
    Command, admin, bits, client, cluster, dump, expiry, functions, info, introspection, keyspace,
    numbers, pubsub, scripting, session, strings, transactions,
};

const READ: &[&str] = &["readonly", "fast"];
const READ_ALL: &[&str] = &["readonly"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const WRITE_ALL: &[&str] = &["write", "denyoom"];
const REMOVE: &[&str] = &["write", "fast"];
const ADMIN: &[&str] = &["admin", "loading", "stale"];
const MONITOR: &[&str] = &["admin", "noscript", "loading", "stale"];
const ANY: &[&str] = &["loading", "stale", "fast"];
const OPEN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];

const SCRIPT: &[&str] = &["noscript", "skip_monitor", "movablekeys"];
const SCRIPT_RO: &[&str] = &["readonly", "noscript", "skip_monitor", "movablekeys"];
const SCRIPTS: &[&str] = &["noscript"];
const QUIET: &[&str] = &["pubsub", "noscript", "loading", "stale"];
const CALM: &[&str] = &["pubsub", "loading", "stale", "fast"];
/// Of transactions.
const OPENED: &[&str] = &["noscript", "loading", "stale", "fast"];
const EXEC: &[&str] = &["noscript", "loading", "stale"];

const NONE: (i64, i64, i64) = (0, 0, 0);
const ONE: (i64, i64, i64) = (1, 1, 1);
const SECOND: (i64, i64, i64) = (2, 2, 1);
const TWO: (i64, i64, i64) = (1, 2, 1);
const ALL: (i64, i64, i64) = (1, -1, 1);
const REST: (i64, i64, i64) = (2, -1, 1);
const PAIRS: (i64, i64, i64) = (1, -1, 2);

macro_rules! commands {
    ($($name:literal $group:literal $arity:literal $flags:ident $keys:ident $run:path,
        $summary:literal;)*) => {
        pub(super) static COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            summary: $summary,
            group: $group,
            run: $run,
        }),*];
    };
}

commands! {
    "acl" "server" -2 ADMIN NONE introspection::acl, "Tells about the one user.";
    "append" "string" 3 WRITE ONE strings::append, "Appends to the value of a key.";
    "asking" "cluster" 1 ANY NONE cluster::nothing, "Does nothing.";
    "auth" "connection" -2 OPEN NONE session::auth, "Authenticates the connection.";
    "bitcount" "bitmap" -2 READ_ALL ONE bits::bitcount, "Counts the bits that are set in a string.";
    "bitfield" "bitmap" -2 WRITE ONE bits::bitfield, "Reads and changes integers within a string.";
    "bitfield_ro" "bitmap" -2 READ ONE bits::bitfield_ro, "Reads integers within a string.";
    "bitop" "bitmap" -4 WRITE_ALL REST bits::bitop, "Combines the bits of strings into another one.";
    "bitpos" "bitmap" -3 READ_ALL ONE bits::bitpos, "Finds the first bit that is set, or clear.";
    "client" "connection" -2 ANY NONE client::client, "Tells or sets properties of the connection.";
    "cluster" "cluster" -2 ANY NONE cluster::cluster, "Tells that this host has all slots.";
    "command" "server" -1 ANY NONE admin::command, "Describes the commands.";
    "config" "server" -2 ADMIN NONE admin::config, "Tells how the server is configured.";
    "copy" "generic" -3 WRITE_ALL TWO keyspace::copy, "Copies the value of a key to another.";
    "dbsize" "server" 1 READ NONE keyspace::dbsize, "Counts the keys.";
    "decr" "string" 2 WRITE ONE numbers::decr, "Subtracts one from the number at a key.";
    "decrby" "string" 3 WRITE ONE numbers::decrby, "Subtracts from the number at a key.";
    "del" "generic" -2 REMOVE ALL keyspace::del, "Removes keys.";
    "delex" "string" -2 REMOVE ONE bits::delex, "Removes a key if its value is, or is not, what is given.";
    "discard" "transactions" 1 OPENED NONE transactions::discard, "Forgets the commands since MULTI.";
    "dump" "generic" 2 READ_ALL ONE dump::dump, "Returns the value of a key as Redis' files have it.";
    "echo" "connection" 2 ANY NONE session::echo, "Returns what it is given.";
    "eval" "scripting" -3 SCRIPT NONE scripting::eval, "Runs a script in one step.";
    "eval_ro" "scripting" -3 SCRIPT_RO NONE scripting::eval_ro, "Runs a script that changes nothing.";
    "evalsha" "scripting" -3 SCRIPT NONE scripting::evalsha, "Runs a script that was loaded.";
    "evalsha_ro" "scripting" -3 SCRIPT_RO NONE scripting::evalsha_ro, "Runs a script that was loaded and changes nothing.";
    "exec" "transactions" 1 EXEC NONE transactions::exec, "Executes the commands since MULTI in one step.";
    "exists" "generic" -2 READ ALL keyspace::exists, "Counts which of the keys there are.";
    "expire" "generic" -3 REMOVE ONE expiry::expire, "Makes a key expire after some seconds.";
    "expireat" "generic" -3 REMOVE ONE expiry::expireat, "Makes a key expire at a time in seconds.";
    "expiretime" "generic" 2 READ ONE expiry::expiretime, "Tells when a key expires, in seconds.";
    "fcall" "scripting" -3 SCRIPT NONE functions::fcall, "Runs a function in one step.";
    "fcall_ro" "scripting" -3 SCRIPT_RO NONE functions::fcall_ro, "Runs a function that changes nothing.";
    "flushall" "server" -1 REMOVE NONE keyspace::flushall, "Removes all keys of all databases.";
    "flushdb" "server" -1 REMOVE NONE keyspace::flushdb, "Removes all keys of the database.";
    "function" "scripting" -2 SCRIPTS NONE functions::function, "Loads, lists and removes libraries of functions.";
    "get" "string" 2 READ ONE strings::get, "Returns the value of a key.";
    "getbit" "bitmap" 3 READ ONE bits::getbit, "Returns a bit of a string.";
    "getdel" "string" 2 REMOVE ONE strings::getdel, "Returns the value of a key and removes it.";
    "getex" "string" -2 REMOVE ONE strings::getex, "Returns the value of a key and sets when it expires.";
    "getrange" "string" 4 READ ONE strings::getrange, "Returns part of the value of a key.";
    "getset" "string" 3 WRITE ONE strings::getset, "Sets the value of a key and returns the old one.";
    "hello" "connection" -1 OPEN NONE session::hello, "Begins to speak a version of the protocol.";
    "incr" "string" 2 WRITE ONE numbers::incr, "Adds one to the number at a key.";
    "incrby" "string" 3 WRITE ONE numbers::incrby, "Adds to the number at a key.";
    "incrbyfloat" "string" 3 WRITE ONE numbers::incrbyfloat, "Adds to the fraction at a key.";
    "info" "server" -1 ANY NONE info::info, "Tells about the server and the pod.";
    "keys" "generic" 2 READ_ALL NONE keyspace::keys, "Returns all keys that match a pattern.";
    "latency" "server" -2 ADMIN NONE introspection::latency, "Tells that latencies are not watched.";
    "lcs" "string" -3 READ_ALL TWO bits::lcs, "Finds the longest common subsequence of two strings.";
    "memory" "server" -2 READ_ALL SECOND introspection::memory, "Tells how many bytes a key takes.";
    "mget" "string" -2 READ ALL strings::mget, "Returns the values of keys.";
    "module" "server" -2 ADMIN NONE introspection::module, "Tells that there are no modules.";
    "monitor" "server" 1 MONITOR NONE admin::monitor, "Shows the requests that this host executes.";
    "move" "generic" 3 REMOVE ONE keyspace::move_to, "Gives a key to another database.";
    "mset" "string" -3 WRITE PAIRS strings::mset, "Sets the values of keys, all or none.";
    "msetnx" "string" -3 WRITE PAIRS strings::msetnx, "Sets the values of keys, if none of them has one.";
    "multi" "transactions" 1 OPENED NONE transactions::multi, "Begins a transaction.";
    "object" "generic" -2 READ_ALL SECOND introspection::object, "Tells how a value is kept.";
    "persist" "generic" 2 REMOVE ONE expiry::persist, "Makes a key last.";
    "pexpire" "generic" -3 REMOVE ONE expiry::pexpire, "Makes a key expire after some milliseconds.";
    "pexpireat" "generic" -3 REMOVE ONE expiry::pexpireat, "Makes a key expire at a time in milliseconds.";
    "pexpiretime" "generic" 2 READ ONE expiry::pexpiretime, "Tells when a key expires, in milliseconds.";
    "ping" "connection" -1 ANY NONE session::ping, "Answers.";
    "psetex" "string" 4 WRITE ONE strings::psetex, "Sets the value of a key for some milliseconds.";
    "psubscribe" "pubsub" -2 QUIET NONE pubsub::psubscribe, "Subscribes to channels that match patterns.";
    "pttl" "generic" 2 READ ONE expiry::pttl, "Tells how many milliseconds a key has left.";
    "publish" "pubsub" 3 CALM NONE pubsub::publish, "Sends a message to clients of all hosts.";
    "pubsub" "pubsub" -2 QUIET NONE pubsub::pubsub, "Tells about subscriptions of this host's clients.";
    "punsubscribe" "pubsub" -1 QUIET NONE pubsub::punsubscribe, "Ends subscriptions to patterns.";
    "quit" "connection" -1 OPEN NONE session::quit, "Ends the connection.";
    "randomkey" "generic" 1 READ_ALL NONE keyspace::random_key, "Returns some key.";
    "readonly" "cluster" 1 ANY NONE cluster::nothing, "Does nothing.";
    "readwrite" "cluster" 1 ANY NONE cluster::nothing, "Does nothing.";
    "rename" "generic" 3 REMOVE TWO keyspace::rename, "Gives the value of a key to another, and removes it.";
    "renamenx" "generic" 3 REMOVE TWO keyspace::renamenx, "Renames a key, if the new name has no value.";
    "reset" "connection" 1 OPEN NONE session::reset, "Forgets what the connection was told.";
    "restore" "generic" -4 WRITE_ALL ONE dump::restore, "Gives a key a value that DUMP has returned.";
    "role" "server" 1 ANY NONE introspection::role, "Tells that the server is no replica.";
    "scan" "generic" -2 READ_ALL NONE keyspace::scan, "Walks through the keys.";
    "script" "scripting" -2 SCRIPTS NONE scripting::script, "Loads, forgets and ends scripts.";
    "select" "connection" 2 ANY NONE session::select, "Chooses one of 16 databases.";
    "set" "string" -3 WRITE ONE strings::set, "Sets the value of a key.";
    "setbit" "bitmap" 4 WRITE ONE bits::setbit, "Sets or clears a bit of a string.";
    "setex" "string" 4 WRITE ONE strings::setex, "Sets the value of a key for some seconds.";
    "setnx" "string" 3 WRITE ONE strings::setnx, "Sets the value of a key that has none.";
    "setrange" "string" 4 WRITE ONE strings::setrange, "Overwrites part of the value of a key.";
    "slowlog" "server" -2 ADMIN NONE introspection::slowlog, "Returns the commands that took long.";
    "spublish" "pubsub" 3 CALM ONE pubsub::spublish, "Sends a message to clients of all hosts.";
    "ssubscribe" "pubsub" -2 QUIET ALL pubsub::ssubscribe, "Subscribes to channels of shards.";
    "strlen" "string" 2 READ ONE strings::strlen, "Returns the length of the value of a key.";
    "subscribe" "pubsub" -2 QUIET NONE pubsub::subscribe, "Subscribes to channels.";
    "substr" "string" 4 READ ONE strings::getrange, "Returns part of the value of a key.";
    "sunsubscribe" "pubsub" -1 QUIET ALL pubsub::sunsubscribe, "Ends subscriptions to channels of shards.";
    "time" "server" 1 ANY NONE admin::time, "Returns the time by which keys expire.";
    "touch" "generic" -2 READ ALL keyspace::exists, "Counts which of the keys there are.";
    "ttl" "generic" 2 READ ONE expiry::ttl, "Tells how many seconds a key has left.";
    "type" "generic" 2 READ ONE keyspace::kind, "Tells the type of the value of a key.";
    "unlink" "generic" -2 REMOVE ALL keyspace::del, "Removes keys.";
    "unsubscribe" "pubsub" -1 QUIET NONE pubsub::unsubscribe, "Ends subscriptions to channels.";
    "unwatch" "transactions" 1 OPENED NONE transactions::unwatch, "Forgets the keys that are watched.";
    "wait" "generic" 3 ANY NONE introspection::wait, "Tells how many replicas there are: none.";
    "watch" "transactions" -2 OPENED ALL transactions::watch, "Has EXEC do nothing if these keys change.";
}

/// The place of the command called `name`, in any case.
pub(super) fn place(name: &[u8]) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(&name)).ok()
}

/// The command called `name`, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    place(name).map(|place| &COMMANDS[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_found() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        for command in COMMANDS {
            let upper = command.name.to_uppercase();
            let found = find(upper.as_bytes()).map(|command| command.name);
            assert_eq!(found, Some(command.name));
        }
        assert!(find(b"lpush").is_none());
    }
}
