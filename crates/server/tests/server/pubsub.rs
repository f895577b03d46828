//! Publishing and subscribing: what clients get, as from a Redis server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::against_redis::compare_with_redis;
use crate::client::{Client, request, server};

/// Requests of clients A to C, and the clients that get something then, once for each letter.
const CONVERSATION: &[(&str, &str)] = &[
    ("A SUBSCRIBE news sport", "AA"),
    ("A PING", "A"),
    ("A PING hello", "A"),
    ("A GET key", "A"),
    ("B PSUBSCRIBE n* ?ews", "BB"),
    ("C PUBLISH news first", "ABBC"),
    ("C PUBLISH none second", "BC"),
    ("C PUBLISH quiet third", "C"),
    ("A SUBSCRIBE news", "A"),
    ("A UNSUBSCRIBE other", "A"),
    ("A UNSUBSCRIBE news", "A"),
    ("C PUBLISH news fourth", "BBC"),
    ("A SSUBSCRIBE shard", "A"),
    ("C SPUBLISH shard fifth", "AC"),
    ("C PUBLISH shard sixth", "C"),
    ("C PUBSUB SHARDCHANNELS", "C"),
    ("C PUBSUB SHARDNUMSUB shard none", "C"),
    ("A SUNSUBSCRIBE", "A"),
    ("C PUBSUB CHANNELS", "C"),
    ("C PUBSUB CHANNELS s*", "C"),
    ("C PUBSUB CHANNELS x*", "C"),
    ("C PUBSUB NUMSUB sport news", "C"),
    ("C PUBSUB NUMSUB", "C"),
    ("C PUBSUB NUMPAT", "C"),
    ("C PUBSUB NUMPAT more", "C"),
    ("A UNSUBSCRIBE", "A"),
    ("A UNSUBSCRIBE", "A"),
    ("A PUNSUBSCRIBE", "A"),
    ("A GET key", "A"),
    ("B PUNSUBSCRIBE n*", "B"),
    ("B RESET", "B"),
    ("B PING", "B"),
    ("C PUBSUB NUMPAT", "C"),
    ("C PUBLISH news seventh", "C"),
    // With RESP3 messages are no replies, and a client may go on to ask.
    ("A HELLO 3", "-"),
    ("A SUBSCRIBE news", "A"),
    ("A SET key value", "A"),
    ("A GET key", "A"),
    ("A PING", "A"),
    ("B PUBLISH news eighth", "AB"),
    ("A PUBLISH other ninth", "A"),
    ("A PSUBSCRIBE *", "A"),
    ("C PUBLISH news tenth", "AAC"),
    ("A SUBSCRIBE", "A"),
    ("A PUBLISH news", "A"),
];

fn talk(address: SocketAddr) -> Vec<String> {
    let mut clients = ["A", "B", "C"].map(|_| Client::to(address));
    let mut said = Vec::new();
    for (line, hearers) in CONVERSATION {
        let (sender, words) = line.split_at(1);
        let words: Vec<&[u8]> = words.trim().split(' ').map(str::as_bytes).collect();
        let at = |letter: u8| usize::from(letter - b'A');
        clients[at(sender.as_bytes()[0])].send(&request(&words));
        if *hearers == "-" {
            // Replies about a server differ.
            clients[at(sender.as_bytes()[0])].reply();
            continue;
        }
        let first = said.len();
        for hearer in hearers.bytes() {
            said.push(format!("{line}: {} got {:?}", hearer as char, clients[at(hearer)].reply()));
        }
        if words[0] == b"PUBLISH" {
            // The order of patterns that match is a server's own choice.
            said[first..].sort();
        }
    }
    said
}

#[test]
fn messages_are_those_of_a_redis_server() {
    compare_with_redis(talk);
}

/// The messages of one publisher come in their order, to clients that read while they are sent and
/// to clients that pipeline requests.
#[test]
fn messages_come_in_order() {
    let server = server(|_| ());
    let mut subscriber = Client::of(&server);
    subscriber.ask("SUBSCRIBE numbers");
    let mut publisher = Client::of(&server);
    let requests: Vec<u8> = (0..5000)
        .flat_map(|n: u32| request(&[b"PUBLISH", b"numbers", n.to_string().as_bytes()]))
        .collect();
    publisher.send(&requests);
    for number in 0..5000 {
        assert_eq!(publisher.reply(), ":1\r\n");
        let message = subscriber.reply();
        assert!(message.ends_with(&format!("\r\n{number}\r\n")), "{message:?} for {number}");
    }
}

/// A client that does not read what it subscribes to is cut off, and others are not.
#[test]
fn a_slow_subscriber_is_cut_off() {
    let server = server(|_| ());
    let (mut slow, mut publisher) = (Client::of(&server), Client::of(&server));
    slow.ask("SUBSCRIBE large");
    let large = vec![b'x'; 1 << 20];
    let mut received = 1;
    for _ in 0..200 {
        publisher.send(&request(&[b"PUBLISH", b"large", &large]));
        received = publisher.reply().trim_end()[1..].parse::<i32>().unwrap();
        if received == 0 {
            break;
        }
    }
    assert_eq!(received, 0, "200 MiB wait for a client that reads nothing");
    assert!(slow.ends_within(Duration::from_secs(20)));
    assert_eq!(publisher.ask("PUBSUB CHANNELS"), "*0\r\n");
}

#[test]
fn a_client_that_goes_subscribes_no_longer() {
    let server = server(|_| ());
    let mut other = Client::of(&server);
    {
        let mut one = Client::of(&server);
        one.ask("SUBSCRIBE news");
        assert!(other.ask("CLIENT LIST TYPE pubsub").contains("flags=P db=0 sub=1 psub=0"));
        assert!(other.ask("INFO stats").contains("pubsub_channels:1\r\n"));
        one.ask("QUIT");
    }
    let is_gone = |other: &mut Client| other.ask("PUBLISH news x") == ":0\r\n";
    assert!((0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        is_gone(&mut other)
    }));
}
