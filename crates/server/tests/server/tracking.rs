//! Clients that keep values, and are told when those change: as a Redis server tells them.

use std::net::SocketAddr;

use crate::against_redis::compare_with_redis;
use crate::client::{Client, request, server};

/// Requests of clients A to C, and the clients that get something then, once for each letter.
const CONVERSATION: &[(&str, &str)] = &[
    ("A HELLO 3", "-"),
    ("C SET key 1", "C"),
    ("A CLIENT TRACKING on", "A"),
    ("A GET key", "A"),
    ("C SET key 2", "CA"),
    // It is told once, until it reads again.
    ("C SET key 3", "C"),
    ("A MGET key other", "A"),
    ("C SET other 1", "CA"),
    ("C DEL key", "CA"),
    ("A EXISTS key", "A"),
    ("C APPEND key x", "CA"),
    ("A GET key", "A"),
    ("C EXPIRE key 1000", "CA"),
    ("A GET key", "A"),
    ("A SET key own", "AA"),
    ("A CLIENT GETREDIR", "A"),
    ("A CLIENT TRACKINGINFO", "A"),
    ("A CLIENT TRACKING off", "A"),
    ("A CLIENT TRACKINGINFO", "A"),
    ("A GET key", "A"),
    ("C SET key 4", "C"),
    ("A CLIENT TRACKING on NOLOOP", "A"),
    ("A GET key", "A"),
    ("A SET key own", "A"),
    ("C SET key 5", "C"),
    ("A GET key", "A"),
    ("C SET key 6", "CA"),
    ("A CLIENT TRACKING off", "A"),
    ("A CLIENT TRACKING on OPTIN", "A"),
    ("A GET key", "A"),
    ("C SET key 7", "C"),
    ("A CLIENT CACHING yes", "A"),
    ("A GET key", "A"),
    ("C SET key 8", "CA"),
    ("A CLIENT CACHING no", "A"),
    ("A CLIENT TRACKING on OPTOUT", "A"),
    ("A CLIENT TRACKING on BCAST", "A"),
    ("A CLIENT TRACKING off", "A"),
    ("A CLIENT CACHING yes", "A"),
    ("A CLIENT TRACKING on OPTOUT", "A"),
    ("A CLIENT CACHING no", "A"),
    ("A GET key", "A"),
    ("C SET key 9", "C"),
    ("A GET key", "A"),
    ("C SET key 10", "CA"),
    ("A CLIENT TRACKING off", "A"),
    ("A CLIENT TRACKING on BCAST PREFIX user: PREFIX us", "A"),
    ("A CLIENT TRACKING on PREFIX user:", "A"),
    ("A CLIENT TRACKING on BCAST OPTIN", "A"),
    ("A CLIENT TRACKING on OPTIN OPTOUT", "A"),
    ("A CLIENT TRACKING on REDIRECT 123456", "A"),
    ("A CLIENT TRACKING on BCAST PREFIX user: PREFIX item:", "A"),
    ("A CLIENT TRACKINGINFO", "A"),
    ("C SET user:1 x", "CA"),
    ("C SET other x", "C"),
    ("C MSET item:1 x other y", "CA"),
    ("A SET item:2 x", "AA"),
    ("A CLIENT TRACKING off", "A"),
    ("A CLIENT TRACKING on BCAST NOLOOP", "A"),
    ("A SET item:2 x", "A"),
    ("C DEL item:2", "CA"),
    ("A CLIENT TRACKING off", "A"),
    ("A CLIENT TRACKING", "A"),
    ("A CLIENT TRACKING maybe", "A"),
    ("A CLIENT TRACKING on", "A"),
    ("A GET key", "A"),
    ("C FLUSHALL", "CA"),
];

fn talk(address: SocketAddr) -> Vec<String> {
    let mut clients = ["A", "B", "C"].map(|_| Client::to(address));
    let mut said = Vec::new();
    for (line, hearers) in CONVERSATION {
        let (sender, words) = line.split_at(1);
        let words: Vec<&[u8]> = words.trim().split(' ').map(str::as_bytes).collect();
        let at = |letter: u8| usize::from(letter - b'A');
        clients[at(sender.as_bytes()[0])].send(&request(&words));
        let mut got: Vec<String> = hearers
            .bytes()
            .filter(|&hearer| hearer != b'-')
            .map(|hearer| {
                format!("{line}: {} got {:?}", hearer as char, clients[at(hearer)].reply())
            })
            .collect();
        if *hearers == "-" {
            // Replies about a server differ.
            clients[at(sender.as_bytes()[0])].reply();
        }
        // An invalidation by the client's own command may come before the reply, or after it.
        got.sort();
        said.extend(got);
    }
    said
}

#[test]
fn invalidations_are_those_of_a_redis_server() {
    compare_with_redis(talk);
}

/// All keys are told to have changed when a transaction has removed them, and not before.
#[test]
fn a_flush_in_a_transaction_is_told_at_its_end() {
    let server = server(|_| ());
    let [mut told, mut other] = [(); 2].map(|()| Client::of(&server));
    told.ask("HELLO 3");
    told.ask("CLIENT TRACKING on BCAST");
    for (command, reply) in
        [("MULTI", "+OK"), ("FLUSHALL", "+QUEUED"), ("INCR n", "+QUEUED"), ("EXEC", "*2")]
    {
        assert!(other.ask(command).starts_with(reply), "{command}");
    }
    assert_eq!(told.reply(), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_eq!(told.reply(), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nn\r\n");
}

/// A client of RESP2 has another connection told.
#[test]
fn a_connection_is_told_for_another() {
    let server = server(|_| ());
    let [mut one, mut told, mut other] = ["", "", ""].map(|_| Client::of(&server));
    let id = told.ask("CLIENT ID").trim_end()[1..].to_owned();
    told.ask("SUBSCRIBE __redis__:invalidate");
    assert_eq!(one.ask(&format!("CLIENT TRACKING on REDIRECT {id}")), "+OK\r\n");
    assert_eq!(one.ask("CLIENT GETREDIR"), format!(":{id}\r\n"));
    one.ask("GET key");
    other.ask("SET key x");
    let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$3\r\nkey\r\n";
    assert_eq!(told.reply(), message);
    one.ask("GET key");
    other.ask("FLUSHALL");
    assert!(told.reply().ends_with("__redis__:invalidate\r\n$-1\r\n"));
}

/// Keys that a transaction and a script read are tracked, and what they change is told.
#[test]
fn transactions_and_scripts_are_tracked() {
    let server = server(|_| ());
    let [mut one, mut all, mut other] = ["", "", ""].map(|_| Client::of(&server));
    one.ask("HELLO 3");
    one.ask("CLIENT TRACKING on");
    all.ask("HELLO 3");
    all.ask("CLIENT TRACKING on BCAST");
    let told = |key: &str| format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len());
    for words in ["MULTI", "GET a", "EXEC", "EVAL return 1 b"] {
        // (A script with a space would be two words.)
        match words {
            "EVAL return 1 b" => {
                one.send(&request(&[b"EVAL", b"return redis.call('get', KEYS[1])", b"1", b"b"]));
                one.reply();
            }
            words => _ = one.ask(words),
        }
    }
    other.ask("MULTI");
    other.ask("SET a 1");
    other.ask("EXEC");
    assert_eq!(one.reply(), told("a"));
    assert_eq!(all.reply(), told("a"));
    other.send(&request(&[b"EVAL", b"redis.call('set', KEYS[1], 1)", b"1", b"b"]));
    other.reply();
    assert_eq!(one.reply(), told("b"));
    assert_eq!(all.reply(), told("b"));
}
