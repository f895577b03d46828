//! Functions: replies as a Redis server's.

use std::net::SocketAddr;

use crate::against_redis::{Redis, compare_with_redis};
use crate::client::{Client, request, server};

const BOOKS: &str = "#!lua name=books
local function keep(keys, args)
  return redis.call('set', keys[1], args[1])
end
redis.register_function('keep', keep)
redis.register_function{
  function_name = 'find', callback = function(keys) return redis.call('get', keys[1]) end,
  flags = {'no-writes'}, description = 'Finds it.',
}
redis.register_function{
  function_name = 'quiet', flags = {'no-writes'}, callback = function(keys)
    local deleted = redis.call('del', keys[1])
    return deleted
  end,
}
redis.register_function('fail', function() return redis.call('incr', 'book') end)
redis.register_function('count', function(keys, args) return {#keys, #args} end)
";
const SONGS: &str = "#!lua name=songs\nredis.register_function('sing', function() return 'la' end)";
const CLASH: &str = "#!lua name=clash\nredis.register_function('sing', function() return 'lo' end)";

/// Requests; the last word of `LOAD` stands for a library.
const CONVERSATION: &[&str] = &[
    "FUNCTION LIST",
    "FCALL keep 1 book value",
    "FUNCTION LOAD BOOKS",
    "FUNCTION LOAD BOOKS",
    "FUNCTION LOAD REPLACE BOOKS",
    "FUNCTION LOAD OTHERWISE BOOKS",
    "FUNCTION LOAD SONGS",
    "FUNCTION LOAD CLASH",
    "FCALL keep 1 book value",
    "FCALL find 1 book",
    "FCALL_RO find 1 book",
    "FCALL_RO keep 1 book value",
    "FCALL quiet 1 book",
    "FCALL count 2 a b c d e",
    "FCALL count x",
    "FCALL count -1",
    "FCALL count 3 a",
    "FCALL none 0",
    "FCALL sing 0",
    "FCALL SING 0",
    "FUNCTION LIST LIBRARYNAME songs",
    "FUNCTION LIST LIBRARYNAME so* WITHCODE",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LIST MORE",
    "FUNCTION DELETE clash",
    "FUNCTION DELETE songs",
    "FCALL sing 0",
    "FUNCTION KILL",
    "FUNCTION FLUSH NOW",
    "MULTI",
    "FCALL find 1 book",
    "FCALL keep 1 book other",
    "FCALL find 1 book",
    "EXEC",
    "FLUSHALL",
    "FCALL find 1 book",
    "FCALL count 0",
    "FUNCTION FLUSH",
    "FUNCTION LIST",
    "FUNCTION STATS",
    "FUNCTION DUMP more",
    "FUNCTION RESTORE",
    "FUNCTION FLUSH ASYNC more",
    "FUNCTION NONE",
];

fn library(word: &str) -> &str {
    match word {
        "BOOKS" => BOOKS,
        "SONGS" => SONGS,
        "CLASH" => CLASH,
        word => word,
    }
}

fn talk(address: SocketAddr) -> Vec<String> {
    let mut client = Client::to(address);
    let said = CONVERSATION.iter().map(|line| {
        let words: Vec<&[u8]> = line.split(' ').map(|word| library(word).as_bytes()).collect();
        client.send(&request(&words));
        format!("{line}: {}", client.reply())
    });
    said.collect()
}

#[test]
fn functions_are_those_of_a_redis_server() {
    compare_with_redis(talk);
}

#[test]
fn libraries_go_to_a_redis_server_and_back() {
    let Some(redis) = Redis::start() else { return };
    let server = server(|_| ());
    // One restores a dump of the other.
    let mut clients = [Client::of(&server), Client::to(redis.address)];
    for from in 0..2 {
        clients.iter_mut().for_each(|client| _ = client.ask("FUNCTION FLUSH"));
        for text in [BOOKS, SONGS] {
            clients[from].send(&request(&[b"FUNCTION", b"LOAD", text.as_bytes()]));
            clients[from].reply();
        }
        let dumped = clients[from].bytes_of(&[b"FUNCTION", b"DUMP"]);
        let mut restore = |policy: &[u8]| {
            clients[1 - from].send(&request(&[b"FUNCTION", b"RESTORE", &dumped, policy]));
            clients[1 - from].reply()
        };
        assert_eq!(restore(b"APPEND"), "+OK\r\n");
        assert!(restore(b"APPEND").starts_with("-ERR Library "));
        assert_eq!(restore(b"REPLACE"), "+OK\r\n");
        assert_eq!(restore(b"FLUSH"), "+OK\r\n");
        assert!(restore(b"OTHERWISE").starts_with("-ERR Wrong restore policy"));
        assert_eq!(clients[1 - from].ask("FCALL sing 0"), "$2\r\nla\r\n");
    }
}

#[test]
fn a_function_fails_as_a_script_does() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.send(&request(&[b"FUNCTION", b"LOAD", BOOKS.as_bytes()]));
    client.reply();
    client.ask("SET book value");
    let failed = client.ask("FCALL fail 0");
    assert!(failed.starts_with("-ERR value is not an integer"), "{failed}");
    assert!(failed.contains("script: fail, on @user_function"), "{failed}");
    client.ask("MULTI");
    client.ask("FUNCTION FLUSH");
    assert!(client.ask("EXEC").contains("libraries are not changed in a transaction"));
    let endless = "#!lua name=endless\nwhile true do end";
    client.send(&request(&[b"FUNCTION", b"LOAD", endless.as_bytes()]));
    assert!(client.reply().contains("the script was ended"));
}
