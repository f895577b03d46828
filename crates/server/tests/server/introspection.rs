//! Information from a server about itself, its clients and its keys.

use std::time::{Duration, Instant};

use crate::client::{Client, request, server};

fn info(client: &mut Client, section: &str) -> Vec<(String, String)> {
    let text = client.ask(&format!("INFO {section}"));
    let pair = |line: &str| {
        line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

fn field(client: &mut Client, section: &str, name: &str) -> String {
    let fields = info(client, section);
    let found = fields.iter().find(|(field, _)| field == name);
    found.unwrap_or_else(|| panic!("{name} in {fields:?}")).1.clone()
}

#[test]
fn what_was_done_is_counted() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.ask("SET k v");
    for command in ["GET k", "GET none", "MGET k none", "INCR k", "GET k extra", "NONSENSE"] {
        client.ask(command);
    }
    assert_eq!(field(&mut client, "stats", "keyspace_hits"), "2");
    assert_eq!(field(&mut client, "stats", "keyspace_misses"), "2");
    let tally = |client: &mut Client, name: &str| field(client, "commandstats", name);
    assert!(tally(&mut client, "cmdstat_get").starts_with("calls=2,usec="));
    assert!(tally(&mut client, "cmdstat_get").ends_with("rejected_calls=1,failed_calls=0"));
    assert!(tally(&mut client, "cmdstat_incr").ends_with("rejected_calls=0,failed_calls=1"));
    assert_eq!(field(&mut client, "errorstats", "errorstat_ERR"), "count=3");
    for name in ["used_memory", "used_memory_rss", "maxmemory"] {
        field(&mut client, "memory", name);
    }
    assert!(!client.ask("INFO").contains("cmdstat_"));
    assert!(client.ask("INFO everything").contains("cmdstat_"));
    assert_eq!(client.ask("CONFIG RESETSTAT"), "+OK\r\n");
    assert_eq!(field(&mut client, "stats", "keyspace_hits"), "0");
    assert_eq!(field(&mut client, "clients", "connected_clients"), "1");
    assert!(info(&mut client, "errorstats").is_empty());
}

#[test]
fn clients_are_listed_and_ended() {
    let server = server(|_| ());
    let [mut one, mut two, mut three] = [(); 3].map(|()| Client::of(&server));
    one.ask("CLIENT SETNAME first");
    two.ask("HELLO 3 SETNAME second");
    three.ask("CLIENT SETINFO LIB-NAME third-library");
    let list = one.ask("CLIENT LIST");
    for text in ["name=first", "name=second", "resp=3", "lib-name=third-library", "laddr=127.0.0.1"]
    {
        assert!(list.contains(text), "{text} in {list}");
    }
    assert!(one.ask("CLIENT INFO").contains("name=first"));
    assert!(!one.ask("CLIENT LIST TYPE pubsub").contains("id="));
    assert!(one.ask("CLIENT LIST TYPE odd").starts_with("-ERR Unknown client type"));
    let id = two.ask("CLIENT ID").trim_matches([':', '\r', '\n']).to_owned();
    let listed = one.ask(&format!("CLIENT LIST ID {id}"));
    assert!(listed.contains("name=second") && !listed.contains("name=first"), "{listed}");
    assert_eq!(one.ask(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert!(two.is_ended());
    assert_eq!(one.ask("CLIENT KILL TYPE normal SKIPME yes"), ":1\r\n");
    assert!(three.is_ended());
    assert_eq!(one.ask("CLIENT KILL 127.0.0.1:1"), "-ERR No such client\r\n");
    assert_eq!(one.ask("CLIENT KILL SKIPME no"), ":1\r\n");
    assert!(one.is_ended());
    for _ in 0..2000 {
        if server.stats().clients == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} clients are left", server.stats().clients);
}

#[test]
fn replies_can_be_turned_off() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let requests: [&[&[u8]]; 7] = [
        &[b"CLIENT", b"REPLY", b"OFF"],
        &[b"SET", b"k", b"v"],
        &[b"GET", b"k"],
        &[b"CLIENT", b"REPLY", b"ON"],
        &[b"CLIENT", b"REPLY", b"SKIP"],
        &[b"GET", b"k"],
        &[b"STRLEN", b"k"],
    ];
    client.send(&requests.map(request).concat());
    assert_eq!(client.reply(), "+OK\r\n");
    assert_eq!(client.reply(), ":1\r\n");
}

#[test]
fn clients_can_be_paused() {
    let server = server(|_| ());
    let [mut one, mut two] = [(); 2].map(|()| Client::of(&server));
    assert_eq!(one.ask("CLIENT PAUSE 300 WRITE"), "+OK\r\n");
    let start = Instant::now();
    assert_eq!(two.ask("GET k"), "$-1\r\n");
    assert_eq!(two.ask("SET k v"), "+OK\r\n");
    assert!(start.elapsed() > Duration::from_millis(200));
    assert_eq!(one.ask("CLIENT PAUSE 1000000 WRITE"), "+OK\r\n");
    assert_eq!(one.ask("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(two.ask("INCR n"), ":1\r\n");
    assert_eq!(one.ask("CLIENT PAUSE -1"), "-ERR timeout is negative\r\n");
}

#[test]
fn slow_commands_are_kept() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    assert_eq!(client.ask("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2"), "+OK\r\n");
    client.ask("CLIENT SETNAME me");
    client.ask("INCR a");
    client.ask("INCR b");
    assert_eq!(client.ask("CONFIG SET slowlog-log-slower-than -1"), "+OK\r\n");
    let slow = client.ask("SLOWLOG GET");
    assert!(slow.starts_with("*2\r\n*6\r\n"), "{slow}");
    assert!(slow.contains("$4\r\nINCR\r\n$1\r\nb\r\n") && slow.contains("$2\r\nme\r\n"), "{slow}");
    assert_eq!(client.ask("SLOWLOG LEN"), ":2\r\n");
    assert_eq!(client.ask("SLOWLOG RESET"), "+OK\r\n");
    assert_eq!(client.ask("SLOWLOG GET -1"), "*0\r\n");
    assert_eq!(
        client.ask("CONFIG GET slowlog-max-len"),
        "*2\r\n$15\r\nslowlog-max-len\r\n$1\r\n2\r\n"
    );
    assert_eq!(client.ask("CONFIG SET databases 16"), "+OK\r\n");
    assert!(client.ask("CONFIG SET databases 1").starts_with("-ERR CONFIG SET failed"));
    assert!(client.ask("CONFIG SET nonsense 1").starts_with("-ERR Unknown option"));
    assert!(client.ask("CONFIG SET databases").starts_with("-ERR wrong number of arguments"));
}

#[test]
fn keys_and_commands_are_described() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.ask("MSET number 123 short hello");
    client.ask(&format!("SET long {}", "x".repeat(45)));
    for (command, expected) in [
        ("OBJECT ENCODING number", "$3|int"),
        ("OBJECT ENCODING short", "$6|embstr"),
        ("OBJECT ENCODING long", "$3|raw"),
        ("OBJECT ENCODING none", "$-1"),
        ("OBJECT REFCOUNT short", ":1"),
        ("OBJECT IDLETIME short", ":0"),
        ("OBJECT NONSENSE short", "-ERR unknown subcommand 'NONSENSE'. Try OBJECT HELP."),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command"),
        ("MEMORY USAGE none", "$-1"),
        ("MEMORY USAGE number", ":73"),
        ("ROLE", "*3|$6|master|:0|*0"),
        ("WAIT 0 100", ":0"),
        ("WAIT 0 -1", "-ERR timeout is negative"),
        ("MODULE LIST", "*0"),
        ("LATENCY LATEST", "*0"),
        ("LATENCY RESET", ":0"),
        ("ACL WHOAMI", "$7|default"),
        ("ACL LIST", "*1|$34|user default on nopass ~* &* +@all"),
        ("COMMAND LIST FILTERBY PATTERN getr*", "*1|$8|getrange"),
        ("COMMAND LIST FILTERBY ACLCAT bitmap", "*7|"),
        ("COMMAND LIST FILTERBY MODULE x", "*0"),
        ("COMMAND LIST NONSENSE", "-ERR syntax error"),
    ] {
        let reply = client.ask(command).trim_end().replace("\r\n", "|");
        let matches =
            if expected.ends_with('|') { reply.starts_with(expected) } else { reply == expected };
        assert!(matches, "{command}: {reply}");
    }
    let described = client.ask("COMMAND INFO bitop");
    for text in ["@bitmap", "@write", "begin_search", "find_keys", "keystep"] {
        assert!(described.contains(text), "{text} in {described}");
    }
}

/// Clients of clusters find all slots here, and are sent nowhere else.
#[test]
fn a_host_looks_like_a_cluster_of_one() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let port = server.local_addr().port();
    let slots = client.ask("CLUSTER SLOTS");
    let start = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$40\r\n");
    assert!(slots.starts_with(&start), "{slots}");
    let id = client.ask("CLUSTER MYID");
    assert!(slots.contains(&id), "{id} in {slots}");
    assert!(client.ask("CLUSTER NODES").contains(" myself,master - 0 0 1 connected 0-16383\n"));
    assert!(client.ask("CLUSTER SHARDS").contains("$6\r\nonline\r\n"));
    assert!(client.ask("CLUSTER INFO").contains("cluster_state:ok\r\n"));
    assert_eq!(client.ask("CLUSTER KEYSLOT foo"), ":12182\r\n");
    assert_eq!(client.ask("READONLY"), "+OK\r\n");
    assert!(client.ask("CLUSTER FORGET x").starts_with("-ERR unknown subcommand"));
}
