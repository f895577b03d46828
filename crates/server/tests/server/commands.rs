//! Commands and their replies, which are those of Redis.

use crate::client::{Client, request, server};

/// Commands in order, each with its raw reply, without the line ends: `|` stands for them.
const SCRIPT: &[(&str, &str)] = &[
    ("PING", "+PONG"),
    ("ping hello", "$5|hello"),
    ("ECHO hi", "$2|hi"),
    ("GET nothing", "$-1"),
    ("SET k v", "+OK"),
    ("GET k", "$1|v"),
    ("SET k w NX", "$-1"),
    ("SET k w XX", "+OK"),
    ("SET k x GET", "$1|w"),
    ("SET fresh x NX GET", "$-1"),
    ("SET k v NX XX", "-ERR syntax error"),
    ("SET k v EX", "-ERR syntax error"),
    ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
    ("SET k v EX ten", "-ERR value is not an integer or out of range"),
    ("SET k v EX 10 PX 10", "-ERR syntax error"),
    ("SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
    ("SET k v EX 100", "+OK"),
    ("TTL k", ":100"),
    ("SET k w KEEPTTL", "+OK"),
    ("TTL k", ":100"),
    ("PERSIST k", ":1"),
    ("PERSIST k", ":0"),
    ("TTL k", ":-1"),
    ("TTL nothing", ":-2"),
    ("EXPIRE k 50 GT", ":0"),
    ("EXPIRE k 50 LT", ":1"),
    ("EXPIRE k 60 NX", ":0"),
    ("EXPIRE k 60 XX", ":1"),
    ("EXPIRE k 70 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
    ("EXPIRE k 70 SOON", "-ERR Unsupported option SOON"),
    ("PEXPIREAT k 4102444800000", ":1"),
    ("PEXPIRETIME k", ":4102444800000"),
    ("EXPIRETIME k", ":4102444800"),
    ("GETEX k PERSIST", "$1|w"),
    ("PTTL k", ":-1"),
    ("EXPIRE k -1", ":1"),
    ("EXISTS k", ":0"),
    ("EXPIRE k 10", ":0"),
    ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
    ("SETEX k 100 v", "+OK"),
    ("PSETEX k 100000 v", "+OK"),
    ("TTL k", ":100"),
    ("SETNX k z", ":0"),
    ("GETSET k z", "$1|v"),
    ("TTL k", ":-1"),
    ("GETDEL k", "$1|z"),
    ("GETDEL k", "$-1"),
    ("MSET a 1 b 2 c 3", "+OK"),
    ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
    ("MGET a nothing c", "*3|$1|1|$-1|$1|3"),
    ("EXISTS a a nothing b", ":3"),
    ("TOUCH a b", ":2"),
    ("TYPE a", "+string"),
    ("TYPE nothing", "+none"),
    ("INCR a", ":2"),
    ("INCRBY a 40", ":42"),
    ("DECRBY a 2", ":40"),
    ("DECR a", ":39"),
    ("INCR new", ":1"),
    ("INCRBY a x", "-ERR value is not an integer or out of range"),
    ("SET big 9223372036854775807", "+OK"),
    ("INCR big", "-ERR increment or decrement would overflow"),
    ("DECRBY a -9223372036854775808", "-ERR decrement would overflow"),
    ("SET text abc", "+OK"),
    ("INCR text", "-ERR value is not an integer or out of range"),
    ("INCRBYFLOAT text 1", "-ERR value is not a valid float"),
    ("INCRBYFLOAT f 10.5", "$4|10.5"),
    ("INCRBYFLOAT f 0.1", "$4|10.6"),
    ("INCRBYFLOAT f -5.6", "$1|5"),
    ("INCRBYFLOAT third 0.1", "$3|0.1"),
    ("INCRBYFLOAT third 0.2", "$3|0.3"),
    ("INCRBYFLOAT third -0.30000000000000001", "$20|-0.00000000000000001"),
    ("INCRBYFLOAT third +.5", "$19|0.49999999999999999"),
    ("INCRBYFLOAT third 5.", "$19|5.49999999999999999"),
    ("SET third 5.0e3", "+OK"),
    ("INCRBYFLOAT third 200", "$4|5200"),
    ("INCRBYFLOAT third -5200.0", "$1|0"),
    ("INCRBYFLOAT third .", "-ERR value is not a valid float"),
    ("INCRBYFLOAT third --1", "-ERR value is not a valid float"),
    ("INCRBYFLOAT third inf", "-ERR increment would produce NaN or Infinity"),
    ("APPEND text def", ":6"),
    ("APPEND fresh2 xy", ":2"),
    ("STRLEN text", ":6"),
    ("STRLEN nothing", ":0"),
    ("GETRANGE text 1 3", "$3|bcd"),
    ("GETRANGE text -3 -1", "$3|def"),
    ("GETRANGE text 0 100", "$6|abcdef"),
    ("GETRANGE text 4 2", "$0|"),
    ("GETRANGE text -1 -3", "$0|"),
    ("GETRANGE text -100 1", "$2|ab"),
    ("GETRANGE nothing 0 -1", "$0|"),
    ("SUBSTR text 0 0", "$1|a"),
    ("SETRANGE text 3 XY", ":6"),
    ("GET text", "$6|abcXYf"),
    ("SETRANGE text 8 !", ":9"),
    ("SETRANGE text -1 x", "-ERR offset is out of range"),
    ("SETRANGE text 600000000 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
    ("DEL a b nothing", ":2"),
    ("UNLINK c", ":1"),
    ("FLUSHALL", "+OK"),
    ("DBSIZE", ":0"),
    ("SET user:1 x", "+OK"),
    ("KEYS user:*", "*1|$6|user:1"),
    ("KEYS nobody:*", "*0"),
    ("SCAN 0", "*2|$1|0|*1|$6|user:1"),
    ("SCAN 0 MATCH x* COUNT 5", "*2|$1|0|*0"),
    ("SCAN 0 TYPE hash", "*2|$1|0|*0"),
    ("SCAN x", "-ERR invalid cursor"),
    ("SCAN 0 COUNT 0", "-ERR syntax error"),
    ("SCAN 0 MATCH", "-ERR syntax error"),
    ("FLUSHDB ASYNC", "+OK"),
    ("FLUSHALL NOW", "-ERR syntax error"),
    ("SELECT 0", "+OK"),
    ("SELECT 16", "-ERR DB index is out of range"),
    ("SELECT -1", "-ERR DB index is out of range"),
    ("SELECT x", "-ERR value is not an integer or out of range"),
    ("GET", "-ERR wrong number of arguments for 'get' command"),
    ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
    ("NONSENSE list x", "-ERR unknown command 'NONSENSE', with args beginning with: 'list' 'x' "),
    ("CLIENT SETNAME me", "+OK"),
    ("CLIENT GETNAME", "$2|me"),
    ("CLIENT SETINFO LIB-NAME test", "+OK"),
    ("CLIENT SETINFO LIB-COLOUR red", "-ERR Unrecognized option 'LIB-COLOUR'"),
    ("CLIENT TRACKS ON", "-ERR unknown subcommand 'TRACKS'. Try CLIENT HELP."),
    ("CLIENT NO-EVICT on", "+OK"),
    ("CLIENT NO-EVICT maybe", "-ERR syntax error"),
    ("CLIENT NO-EVICT", "-ERR wrong number of arguments for 'client|no-evict' command"),
    ("CONFIG GET save", "*2|$4|save|$0|"),
    ("CONFIG GET nothing", "*0"),
    ("COMMAND GETKEYS SET k v", "*1|$1|k"),
    ("COMMAND GETKEYS MSET a 1 b 2", "*2|$1|a|$1|b"),
    (
        "AUTH secret",
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
    ),
    ("AUTH default secret", "+OK"),
    ("HELLO 4", "-NOPROTO unsupported protocol version"),
    ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
    ("HELLO 2 FAST", "-ERR Syntax error in HELLO option 'FAST'"),
];

#[test]
fn replies_are_those_of_redis() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    for (command, expected) in SCRIPT {
        let reply = client.ask(command);
        let readable = reply.strip_suffix("\r\n").unwrap_or(&reply).replace("\r\n", "|");
        assert_eq!(readable, *expected, "{command}");
    }
}

#[test]
fn the_third_version_has_types_of_its_own() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let greeting = client.ask("HELLO 3 SETNAME me");
    assert!(greeting.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), "{greeting}");
    assert!(greeting.contains("$5\r\nproto\r\n:3\r\n"));
    assert_eq!(client.ask("GET nothing"), "_\r\n");
    assert_eq!(client.ask("MGET nothing"), "*1\r\n_\r\n");
    assert_eq!(client.ask("CONFIG GET save"), "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
    assert!(client.ask("INFO server").starts_with('='));
    assert_eq!(client.ask("CLIENT GETNAME"), "$2\r\nme\r\n");
    assert!(client.ask("HELLO 2").starts_with("*14\r\n"));
    assert_eq!(client.ask("GET nothing"), "$-1\r\n");
}

#[test]
fn keys_expire() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.ask("SET k v PX 30");
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n");
    std::thread::sleep(std::time::Duration::from_millis(40));
    assert_eq!(client.ask("GET k"), "$-1\r\n");
    assert_eq!(client.ask("TTL k"), ":-2\r\n");
    assert_eq!(client.ask("SET k v NX"), "+OK\r\n");
}

#[test]
fn bytes_of_any_kind_and_length() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    for length in [0, 1, 255, 70_000, 5 << 20] {
        let value: Vec<u8> = (0..length).map(|n| (n * 7 % 256) as u8).collect();
        client.send(&request(&[b"SET", b"\r\n\0key", &value]));
        assert_eq!(client.reply(), "+OK\r\n");
        client.send(&request(&[b"STRLEN", b"\r\n\0key"]));
        assert_eq!(client.reply(), format!(":{length}\r\n"));
        client.send(&request(&[b"GET", b"\r\n\0key"]));
        let expected = [format!("${length}\r\n").as_bytes(), &value, b"\r\n"].concat();
        assert_eq!(client.reply(), String::from_utf8_lossy(&expected));
    }
}

#[test]
fn errors_quote_only_so_much() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let (long, quoted) = ("x".repeat(300), "x".repeat(128));
    let expected = format!("-ERR unknown subcommand '{quoted}'. Try CLIENT HELP.\r\n");
    assert_eq!(client.ask(&format!("CLIENT {long}")), expected);
    let expected = format!("-ERR unknown command '{quoted}', with args beginning with: \r\n");
    assert_eq!(client.ask(&long), expected);
}

#[test]
fn requests_of_many_keys() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let pairs: Vec<String> = (0..3000).map(|n| format!("k{n} {n}")).collect();
    let names: Vec<String> = (0..3000).map(|n| format!("k{n}")).collect();
    assert_eq!(client.ask(&format!("MSET {}", pairs.join(" "))), "+OK\r\n");
    assert!(client.ask("SCAN 0 COUNT 5000").starts_with("*2\r\n$1\r\n0\r\n*3000\r\n"));
    assert_eq!(client.ask(&format!("DEL {}", names.join(" "))), ":3000\r\n");
}

#[test]
fn the_server_describes_itself() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.ask("SET k v");
    let info = client.ask("INFO");
    for line in ["redis_version:7", "redis_mode:standalone", "# Map", "kind:tree", "db0:keys=1"] {
        assert!(info.contains(line), "{line} in {info}");
    }
    let part = client.ask("INFO keyspace");
    assert!(part.contains("# Keyspace") && !part.contains("# Server"), "{part}");
    let count: usize = client.ask("COMMAND COUNT").trim_matches([':', '\r', '\n']).parse().unwrap();
    assert!(client.ask("COMMAND").starts_with(&format!("*{count}\r\n")));
    assert!(client.ask("COMMAND DOCS get").contains("summary"));
    assert!(client.ask("COMMAND INFO get nothing").ends_with("$-1\r\n"));
    assert!(client.ask("TIME").starts_with("*2\r\n"));
}

/// Requests and their replies, in several connections: `2 GET k` is one of the second.
const TRANSACTIONS: &[(&str, &str)] = &[
    ("EXEC", "-ERR EXEC without MULTI"),
    ("DISCARD", "-ERR DISCARD without MULTI"),
    ("MULTI", "+OK"),
    ("SET a 1", "+QUEUED"),
    ("INCR a", "+QUEUED"),
    ("GET a", "+QUEUED"),
    ("2 GET a", "$-1"),
    ("EXEC", "*3|+OK|:2|$1|2"),
    ("2 GET a", "$1|2"),
    ("MULTI", "+OK"),
    ("MULTI", "-ERR MULTI calls can not be nested"),
    ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
    ("EXEC", "*0"),
    // A fault of a request is found when it is queued, or only when it is executed.
    ("MULTI", "+OK"),
    ("SET a 7", "+QUEUED"),
    ("GET", "-ERR wrong number of arguments for 'get' command"),
    ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
    ("MULTI", "+OK"),
    ("NOTHING", "-ERR unknown command 'NOTHING', with args beginning with: "),
    ("DISCARD", "+OK"),
    ("SET text abc", "+OK"),
    ("MULTI", "+OK"),
    ("INCR text", "+QUEUED"),
    ("SET a 8", "+QUEUED"),
    ("EXEC", "*2|-ERR value is not an integer or out of range|+OK"),
    ("MULTI", "+OK"),
    ("SET a 9", "+QUEUED"),
    ("RESET", "+RESET"),
    ("GET a", "$1|8"),
    // A change by another connection meanwhile.
    ("WATCH a b", "+OK"),
    ("MULTI", "+OK"),
    ("SET c 1", "+QUEUED"),
    ("EXEC", "*1|+OK"),
    ("WATCH a b", "+OK"),
    ("2 SET b 1", "+OK"),
    ("MULTI", "+OK"),
    ("SET c 2", "+QUEUED"),
    ("EXEC", "*-1"),
    ("GET c", "$1|1"),
    ("WATCH b", "+OK"),
    ("2 DEL b", ":1"),
    ("UNWATCH", "+OK"),
    ("MULTI", "+OK"),
    ("DEL c nothing", "+QUEUED"),
    ("KEYS *", "+QUEUED"),
    ("DBSIZE", "+QUEUED"),
    ("EXEC", "*3|:1|*2|$1|a|$4|text|:2"),
    ("WATCH a", "+OK"),
    ("2 EXPIRE a 100", ":1"),
    ("MULTI", "+OK"),
    ("EXEC", "*-1"),
    ("WATCH a", "+OK"),
    ("2 FLUSHALL", "+OK"),
    ("MULTI", "+OK"),
    ("EXEC", "*-1"),
    // Several keys in one step.
    ("MSETNX a 1 b 2", ":1"),
    ("MSETNX b 3 c 3", ":0"),
    ("MSETNX b 3 c", "-ERR wrong number of arguments for 'msetnx' command"),
    ("MGET a b c", "*3|$1|1|$1|2|$-1"),
    ("EXPIRE a 100", ":1"),
    ("RENAME a b", "+OK"),
    ("TTL b", ":100"),
    ("MGET a b", "*2|$-1|$1|1"),
    ("RENAME a b", "-ERR no such key"),
    ("RENAMENX a b", "-ERR no such key"),
    ("RENAME b b", "+OK"),
    ("RENAMENX b b", ":0"),
    ("SET c 3", "+OK"),
    ("RENAMENX b c", ":0"),
    ("RENAMENX b d", ":1"),
    ("MGET b c d", "*3|$-1|$1|3|$1|1"),
    ("MULTI", "+OK"),
    ("RENAME d e", "+QUEUED"),
    ("GET e", "+QUEUED"),
    ("FLUSHALL", "+QUEUED"),
    ("DBSIZE", "+QUEUED"),
    ("SET e 5", "+QUEUED"),
    ("EXEC", "*5|+OK|$1|1|+OK|:0|+OK"),
    ("2 KEYS *", "*1|$1|e"),
];

/// `MULTI` used to be refused, and the commands after it executed.
#[test]
fn transactions_are_those_of_redis() {
    let server = server(|_| ());
    let mut clients = [Client::of(&server), Client::of(&server)];
    for &(request, expected) in TRANSACTIONS {
        let (client, request) = match request.strip_prefix("2 ") {
            Some(request) => (&mut clients[1], request),
            None => (&mut clients[0], request),
        };
        let reply = client.ask(request).replace("\r\n", "|");
        assert_eq!(reply.strip_suffix('|').unwrap(), expected, "{request}");
    }
}

/// A value that there is no room for at once is in the reply all the same, and a transaction that
/// is sent in one piece is one.
#[test]
fn a_transaction_waits_for_room_for_its_replies() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let long = vec![b'x'; 1 << 20];
    let requests: [&[&[u8]]; 6] = [
        &[b"MULTI"],
        &[b"SET", b"long", &long],
        &[b"GET", b"long"],
        &[b"GET", b"long"],
        &[b"INCR", b"n"],
        &[b"EXEC"],
    ];
    client.send(&requests.map(request).concat());
    assert_eq!(client.reply(), "+OK\r\n");
    (0..4).for_each(|_| assert_eq!(client.reply(), "+QUEUED\r\n"));
    let reply = client.reply();
    assert!(reply.starts_with("*4\r\n+OK\r\n$1048576\r\nx") && reply.ends_with("x\r\n:1\r\n"));
}

/// `MSET` in a store without room for all used to set the first keys.
#[test]
fn mset_sets_all_or_nothing() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.ask("MSET a 1 b 2");
    client.ask("PEXPIREAT b 4102444800000");
    let long = vec![b'x'; 64 << 20 | 1];
    client.send(&request(&[b"MSET", b"a", b"new", b"b", b"new", b"c", b"new", b"d", &long]));
    assert!(client.reply().starts_with("-OOM "));
    assert_eq!(client.ask("MGET a b c d"), "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n$-1\r\n");
    assert_eq!(client.ask("PEXPIRETIME b"), ":4102444800000\r\n");
}

#[test]
fn commands_on_other_types_are_refused_in_a_sentence() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let reply = client.ask("HGETALL k");
    let expected = "-ERR unknown command 'HGETALL': it is for hashes, and values are strings here";
    assert_eq!(reply.trim_end(), expected);
}

/// Commands that a Redis of the seventh version does not know, or answers at random.
#[test]
fn databases_are_apart() {
    let server = server(|_| ());
    let (mut client, mut other) = (Client::of(&server), Client::of(&server));
    for (command, expected) in [
        ("SET key zero", "+OK"),
        ("SELECT 3", "+OK"),
        ("GET key", "$-1"),
        ("MSET key three more three", "+OK"),
        ("MGET key more none", "*3|$5|three|$5|three|$-1"),
        ("DBSIZE", ":2"),
        ("COPY key key DB 4", ":1"),
        ("COPY key key", "-ERR source and destination objects are the same"),
        ("MOVE more 4", ":1"),
        ("MOVE more 4", ":0"),
        ("MOVE key 4", ":0"),
        ("MOVE key 3", "-ERR source and destination objects are the same"),
        ("MOVE key 16", "-ERR DB index is out of range"),
        ("KEYS *", "*1|$3|key"),
        ("RANDOMKEY", "$3|key"),
        ("SCAN 0", "*2|$1|0|*1|$3|key"),
        ("EVAL return{redis.call('select',4),redis.call('get','more')} 0", "*2|+OK|$5|three"),
        ("GET more", "$-1"),
        ("MULTI", "+OK"),
        ("SELECT 4", "+QUEUED"),
        ("SET key four", "+QUEUED"),
        ("EXEC", "*2|+OK|+OK"),
        ("GET key", "$4|four"),
        ("DBSIZE", ":2"),
        ("SELECT 0", "+OK"),
        ("DBSIZE", ":1"),
        ("FLUSHDB", "+OK"),
        ("DBSIZE", ":0"),
        ("SELECT 4", "+OK"),
        ("DBSIZE", ":2"),
        ("RESET", "+RESET"),
        ("GET key", "$-1"),
    ] {
        let reply = client.ask(command).trim_end().replace("\r\n", "|");
        assert_eq!(reply, expected, "{command}");
    }
    client.ask("SELECT 4");
    assert!(client.ask("CLIENT INFO").contains(" db=4 "));
    assert!(other.ask("INFO keyspace").contains("db3:keys=1,expires=0"));
    // A key is watched in one database.
    assert_eq!(client.ask("WATCH key"), "+OK\r\n");
    assert_eq!(other.ask("SET key zero"), "+OK\r\n");
    client.ask("MULTI");
    client.ask("GET key");
    assert_eq!(client.ask("EXEC"), "*1\r\n$4\r\nfour\r\n");
    assert_eq!(other.ask("FLUSHALL"), "+OK\r\n");
    assert_eq!(client.ask("DBSIZE"), ":0\r\n");
}

#[test]
fn requests_are_shown_to_clients_that_monitor() {
    let server = server(|config| config.password = Some("secret".to_owned()));
    let [mut monitor, mut client] = [(); 2].map(|()| Client::of(&server));
    for client in [&mut monitor, &mut client] {
        assert_eq!(client.ask("AUTH secret"), "+OK\r\n");
    }
    assert_eq!(monitor.ask("MONITOR"), "+OK\r\n");
    client.ask("AUTH secret");
    client.ask("SELECT 2");
    client.ask("SET key \"value\"");
    client.ask("SELECT 0");
    client.ask("GET key");
    client.ask("EVAL return{redis.call('get','k')} 0");
    let mut shown = || {
        let line = monitor.reply();
        let (_, request) = line.trim_end().split_once("] ").unwrap();
        let (_, database) = line.split_once('[').unwrap();
        format!("{} {request}", &database[..1])
    };
    for expected in [
        r#"0 "SELECT" "2""#,
        r#"2 "SET" "key" "\"value\"""#,
        r#"2 "SELECT" "0""#,
        r#"0 "GET" "key""#,
        r#"0 "EVAL" "return{redis.call('get','k')}" "0""#,
        r#"0 "get" "k""#,
    ] {
        assert_eq!(shown(), expected);
    }
    assert_eq!(monitor.ask("RESET"), "+RESET\r\n");
    client.ask("GET key");
    assert_eq!(monitor.ask("PING"), "-NOAUTH Authentication required.\r\n");
}

#[test]
fn newer_commands_and_those_on_whole_values() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    for (command, expected) in [
        ("RANDOMKEY", "$-1"),
        ("SET k v IFEQ w", "$-1"),
        ("SET k v IFNE w", "+OK"),
        ("SET k w IFEQ v", "+OK"),
        ("SET k x IFEQ v GET", "$1|w"),
        ("SET k x IFNE w", "$-1"),
        ("SET k x IFEQ w NX", "-ERR syntax error"),
        ("DELEX k IFEQ v", ":0"),
        ("DELEX k IFNE w", ":0"),
        ("RANDOMKEY", "$1|k"),
        ("DELEX k IFEQ w", ":1"),
        ("DELEX k IFEQ w", ":0"),
        ("DELEX k IFSAME w", "-ERR Invalid condition 'IFSAME'"),
        ("SET from 12345 EX 100", "+OK"),
        ("COPY from to", ":1"),
        ("TTL to", ":100"),
        ("COPY from to DB 16", "-ERR DB index is out of range"),
    ] {
        let reply = client.ask(command).trim_end().replace("\r\n", "|");
        assert_eq!(reply, expected, "{command}");
    }
    let dumped = client.bytes_of(&[b"DUMP", b"from"]);
    let mut restore = |ttl: &str, options: &[&[u8]]| {
        let words: [&[u8]; 4] = [b"RESTORE", b"again", ttl.as_bytes(), &dumped];
        client.send(&request(&[&words[..], options].concat()));
        client.reply()
    };
    assert_eq!(restore("0", &[]), "+OK\r\n");
    assert_eq!(restore("0", &[]), "-BUSYKEY Target key name already exists.\r\n");
    assert_eq!(restore("100000", &[b"REPLACE"]), "+OK\r\n");
    assert_eq!(restore("-1", &[b"REPLACE"]), "-ERR Invalid TTL value, must be >= 0\r\n");
    assert_eq!(client.ask("GET again"), "$5\r\n12345\r\n");
    assert_eq!(client.ask("TTL again"), ":100\r\n");
}
