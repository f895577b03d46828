//! Scripts: their replies, as a Redis server's, and scripts of libraries that clients use.

use std::thread;

use crate::against_redis::Redis;
use crate::client::{Client, request, server};

/// Scripts with the number of keys, and keys and arguments.
const SCRIPTS: &[(&str, &str)] = &[
    ("return 1", "0"),
    ("return {1, 2, {3, 'x'}}", "0"),
    ("return 3.999", "0"),
    ("return -3.999", "0"),
    ("return nil", "0"),
    ("return true", "0"),
    ("return false", "0"),
    ("return {1, nil, 3}", "0"),
    ("return {ok='FINE'}", "0"),
    ("return redis.status_reply('FINE')", "0"),
    ("return redis.error_reply('MY error')", "0"),
    ("return redis.error_reply('alone')", "0"),
    ("return {err='ERR x'}", "0"),
    ("return KEYS", "2 a b c"),
    ("return ARGV", "2 a b c d"),
    ("return {KEYS[1], ARGV[1], #KEYS, #ARGV}", "1 k v"),
    ("return redis.call('set', KEYS[1], ARGV[1])", "1 k v"),
    ("return redis.call('get', KEYS[1])", "1 k"),
    ("return redis.call('get', KEYS[1])", "1 none"),
    ("return redis.call('get', 'none') == false", "0"),
    ("return redis.call('incr', 'n')", "0"),
    ("return redis.call('incrby', 'n', 10)", "0"),
    ("return redis.pcall('incr', 'k')['err']", "0"),
    ("return type(redis.call('ping')) .. redis.call('ping')['ok']", "0"),
    ("return redis.call('mget', 'k', 'none', 'n')", "0"),
    ("return redis.call('set', 'k', 'other', 'NX')", "0"),
    ("return redis.sha1hex('some text')", "0"),
    ("return tostring(redis.call('ttl', 'k'))", "0"),
    ("return string.format('%d %s', 7, 'x')", "0"),
    ("local t = {3, 1, 2} table.sort(t) return t", "0"),
    ("return {tostring(tonumber('0x10')), math.max(1, 5), ('ab'):rep(3)}", "0"),
    ("return cjson.encode({a=1})", "0"),
    ("return cjson.encode({1, 2, 'x/y', true})", "0"),
    ("return cjson.decode('{\"a\": [1, 2, {\"b\": \"c\"}]}')['a'][3]['b']", "0"),
    ("return cjson.encode(cjson.decode('[1, 2.5, null, \"\\\\u00e9\"]'))", "0"),
    ("return {bit.band(6, 3), bit.bor(6, 3), bit.bxor(6, 3), bit.lshift(1, 4)}", "0"),
    ("return bit.tohex(65535)", "0"),
    ("return 1", "-1"),
    ("return 1", "3 a"),
    ("return 1", "x"),
];

#[test]
fn replies_are_those_of_a_redis_server() {
    let Some(redis) = Redis::start() else {
        eprintln!("there is no redis-server to compare with");
        return;
    };
    let server = server(|_| ());
    let mut clients = [Client::of(&server), Client::to(redis.address)];
    for (text, rest) in SCRIPTS {
        let mut words: Vec<&[u8]> = vec![b"EVAL", text.as_bytes()];
        words.extend(rest.split(' ').map(str::as_bytes));
        let [here, there] = clients.each_mut().map(|client| {
            client.send(&request(&words));
            client.reply()
        });
        assert_eq!(here, there, "{text} with {rest}");
    }
}

#[test]
fn scripts_are_loaded_and_forgotten() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.send(&request(&[b"SCRIPT", b"LOAD", b"return ARGV[1]"]));
    let name = client.reply()[5..45].to_owned();
    assert_eq!(client.ask(&format!("EVALSHA {name} 0 x")), "$1\r\nx\r\n");
    assert_eq!(client.ask(&format!("EVALSHA {} 0 x", name.to_uppercase())), "$1\r\nx\r\n");
    assert_eq!(client.ask(&format!("SCRIPT EXISTS {name} 00")), "*2\r\n:1\r\n:0\r\n");
    assert_eq!(client.ask("SCRIPT FLUSH"), "+OK\r\n");
    assert!(client.ask(&format!("EVALSHA {name} 0 x")).starts_with("-NOSCRIPT "));
    client.send(&request(&[b"SCRIPT", b"LOAD", b"return ("]));
    assert!(client.reply().starts_with("-ERR Error compiling script"));
    assert!(client.ask("SCRIPT KILL").starts_with("-NOTBUSY "));
    client.send(&request(&[b"EVAL_RO", b"return redis.call('set', 'k', 'v')", b"0"]));
    assert!(client.reply().starts_with("-ERR Write commands are not allowed from read-only"));
    client.send(&request(&[b"EVAL", b"return redis.call('subscribe', 'k')", b"0"]));
    assert!(client.reply().starts_with("-ERR This Redis command is not allowed from script"));
}

/// A script that fails in the middle keeps what it has changed, as in Redis; one that is ended
/// changes nothing.
#[test]
fn a_script_that_is_ended_changes_nothing() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.send(&request(&[b"EVAL", b"redis.call('set', 'k', 'v') error('enough')", b"0"]));
    assert!(client.reply().contains("enough"));
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n");
    client.send(&request(&[b"EVAL", b"redis.call('set', 'k', 'w') while true do end", b"0"]));
    assert!(client.reply().contains("nothing was changed"));
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n");
}

/// Scripts of libraries for locks, and a limiter of rates.
const UNLOCK: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                      return redis.call('del', KEYS[1]) else return 0 end";
const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                      return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";
const LIMIT: &str = "local tokens = tonumber(redis.call('get', KEYS[1]) or ARGV[1]) \
                     if tokens < 1 then return 0 end \
                     redis.call('set', KEYS[1], tokens - 1, 'PX', ARGV[2]) return 1";

#[test]
fn locks_and_limiters_work() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let mut eval = |script: &str, words: &[&[u8]]| {
        client.send(&request(&[&[b"EVAL", script.as_bytes(), b"1"], words].concat()));
        client.reply()
    };
    let taken = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30000)";
    assert_eq!(eval(taken, &[b"lock", b"one"]), "+OK\r\n");
    assert_eq!(eval(taken, &[b"lock", b"two"]), "$-1\r\n");
    assert_eq!(eval(UNLOCK, &[b"lock", b"two"]), ":0\r\n");
    assert_eq!(eval(EXTEND, &[b"lock", b"one", b"60000"]), ":1\r\n");
    assert_eq!(eval(UNLOCK, &[b"lock", b"one"]), ":1\r\n");
    assert_eq!(eval(UNLOCK, &[b"lock", b"one"]), ":0\r\n");
    let let_through = (0..10).filter(|_| eval(LIMIT, &[b"bucket", b"4", b"60000"]) == ":1\r\n");
    assert_eq!(let_through.count(), 4);
}

/// Clients that count by a script lose nothing.
#[test]
fn counters_are_right() {
    let server = server(|_| ());
    let count = "redis.call('set', KEYS[1], (redis.call('get', KEYS[1]) or 0) + 1)";
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::of(&server);
                for _ in 0..250 {
                    client.send(&request(&[b"EVAL", count.as_bytes(), b"1", b"count"]));
                    assert_eq!(client.reply(), "$-1\r\n");
                }
            });
        }
    });
    assert_eq!(Client::of(&server).ask("GET count"), "$4\r\n1000\r\n");
}
