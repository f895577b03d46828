//! Connections: pipelines, passwords, limits, ends.

use std::sync::Arc;

use tombolo_server::{Config, Server, ServerError};

use crate::client::{Client, request, server};
use crate::map::Map;

#[test]
fn a_pipeline_is_answered_in_order() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let mut bytes = Vec::new();
    for n in 0..1000 {
        bytes.extend(request(&[b"SET", b"k", n.to_string().as_bytes()]));
        bytes.extend(request(&[b"GET", b"k"]));
    }
    // In pieces that end anywhere.
    bytes.chunks(777).for_each(|piece| client.send(piece));
    for n in 0..1000 {
        assert_eq!(client.reply(), "+OK\r\n");
        let n = n.to_string();
        assert_eq!(client.reply(), format!("${}\r\n{n}\r\n", n.len()));
    }
}

#[test]
fn requests_of_one_kind_are_answered_in_order() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    let mut bytes = Vec::new();
    for n in 0..100 {
        bytes.extend(request(&[b"SET", format!("k{n}").as_bytes(), b"first"]));
        bytes.extend(request(&[b"SET", format!("k{n}").as_bytes(), n.to_string().as_bytes()]));
    }
    bytes.extend(request(&[b"SET", b"k0", b"0", b"NX"]));
    for n in 0..100 {
        bytes.extend(request(&[b"GET", format!("k{n}").as_bytes()]));
    }
    client.send(&bytes);
    (0..200).for_each(|_| assert_eq!(client.reply(), "+OK\r\n"));
    assert_eq!(client.reply(), "$-1\r\n");
    for n in 0..100 {
        let n = n.to_string();
        assert_eq!(client.reply(), format!("${}\r\n{n}\r\n", n.len()));
    }
}

#[test]
fn words_on_a_line_are_a_request_too() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.send(b"SET greeting \"hello world\"\r\nGET greeting\r\n");
    assert_eq!(client.reply(), "+OK\r\n");
    assert_eq!(client.reply(), "$11\r\nhello world\r\n");
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let server = server(|_| ());
    for (bytes, expected) in [
        (&b"*1\r\nPING\r\n"[..], "-ERR Protocol error: expected '$', got 'P'\r\n"),
        (b"*-x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
    ] {
        let mut client = Client::of(&server);
        client.send(bytes);
        assert_eq!(client.reply(), expected);
        assert!(client.is_ended());
    }
    assert_eq!(Client::of(&server).ask("PING"), "+PONG\r\n");
}

#[test]
fn nothing_goes_without_the_password() {
    let server = server(|config| config.password = Some("secret".to_owned()));
    let mut client = Client::of(&server);
    for command in ["GET k", "PING", "COMMAND", "NONSENSE"] {
        assert_eq!(client.ask(command), "-NOAUTH Authentication required.\r\n", "{command}");
    }
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(client.ask("AUTH wrong"), wrong);
    assert_eq!(client.ask("AUTH secret2"), wrong);
    assert_eq!(client.ask("AUTH other secret"), wrong);
    assert_eq!(client.ask("HELLO 3 AUTH default wrong"), wrong);
    assert_eq!(client.ask("AUTH secret"), "+OK\r\n");
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    assert_eq!(client.ask("RESET"), "+RESET\r\n");
    assert_eq!(client.ask("PING"), "-NOAUTH Authentication required.\r\n");
    assert!(client.ask("HELLO 3 AUTH default secret SETNAME me").starts_with('%'));
}

#[test]
fn little_is_taken_without_the_password() {
    let server = server(|config| config.password = Some("secret".to_owned()));
    let long = b"*2\r\n$3\r\nGET\r\n$20000\r\n";
    let mut client = Client::of(&server);
    client.send(long);
    assert_eq!(client.reply(), "-ERR Protocol error: unauthenticated bulk length\r\n");
    assert!(client.is_ended());

    let mut client = Client::of(&server);
    assert_eq!(client.ask("AUTH secret"), "+OK\r\n");
    client.send(long);
    client.send(&[b'k'; 20_000]);
    client.send(b"\r\n");
    assert_eq!(client.reply(), "$-1\r\n");

    client.ask("RESET");
    client.send(b"*11\r\n");
    assert_eq!(client.reply(), "-ERR Protocol error: unauthenticated multibulk length\r\n");
    assert!(client.is_ended());
}

#[test]
fn an_empty_password_is_none() {
    let server = server(|config| config.password = Some(String::new()));
    let mut client = Client::of(&server);
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    assert!(client.ask("AUTH x").starts_with("-ERR AUTH <password> called without any password"));
    assert_eq!(client.ask("RESET"), "+RESET\r\n");
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    let listen = "0.0.0.0:0".to_owned();
    let config = Config { listen, password: Some(String::new()), ..Config::default() };
    assert!(matches!(config.address(), Err(ServerError::Exposed { .. })));
}

#[test]
fn web_pages_execute_nothing() {
    let server = server(|_| ());
    for head in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut client = Client::of(&server);
        client.send(format!("{head}\r\nSET planted 1\r\n").as_bytes());
        let mut reply = client.reply();
        if reply.contains("wrong number of arguments for 'get'") {
            reply = client.reply();
        }
        assert_eq!(reply, "-ERR this is not an HTTP server\r\n");
        assert!(client.is_ended());
    }
    assert_eq!(Client::of(&server).ask("EXISTS planted"), ":0\r\n");
}

#[test]
fn there_are_only_so_many_clients() {
    let server = server(|config| config.max_clients = 2);
    let (mut first, mut second) = (Client::of(&server), Client::of(&server));
    first.ask("PING");
    second.ask("PING");
    assert_eq!(Client::of(&server).reply(), "-ERR max number of clients reached\r\n");
    assert_eq!(first.ask("QUIT"), "+OK\r\n");
    assert!(first.is_ended());
    while server.stats().clients > 1 {
        std::thread::yield_now();
    }
    assert_eq!(Client::of(&server).ask("PING"), "+PONG\r\n");
}

#[test]
fn many_clients_at_once() {
    let server = server(|_| ());
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut client = Client::of(&server);
                (0..100).for_each(|_| _ = client.ask("INCR counter"));
            });
        }
    });
    assert_eq!(Client::of(&server).ask("GET counter"), "$4\r\n2000\r\n");
    assert_eq!(server.stats().commands, 2001);
}

#[test]
fn stopping_ends_connections_and_frees_the_port() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.ask("PING");
    let listen = server.local_addr().to_string();
    server.shutdown();
    assert!(client.is_ended());
    let config = Config { listen, ..Config::default() };
    Server::start(config, Arc::new(Map::default())).unwrap();
}

#[test]
fn what_cannot_be_listened_on_is_said() {
    let first = server(|_| ());
    let start = |listen: &str| {
        let config = Config { listen: listen.to_owned(), ..Config::default() };
        Server::start(config, Arc::new(Map::default())).err().unwrap()
    };
    let taken = start(&first.local_addr().to_string());
    assert!(taken.to_string().contains("choose another port"), "{taken}");
    assert!(matches!(start("nowhere"), ServerError::Address { .. }));
    let exposed = start("0.0.0.0:0");
    assert!(exposed.to_string().contains("set a password"), "{exposed}");
}

/// Replies to 32 pipelined requests of a large value used to be held all at once.
#[test]
fn large_replies_wait_for_room() {
    let server = server(|config| config.reply_bytes = 1 << 20);
    let value = vec![b'v'; 3 << 20];
    let mut writer = Client::of(&server);
    writer.send(&request(&[b"SET", b"large", &value]));
    assert_eq!(writer.reply(), "+OK\r\n");
    writer.ask("SET small 1");
    let expected = format!("${}\r\n{}\r\n", value.len(), String::from_utf8(value).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::of(&server);
                let mut requests = Vec::new();
                for _ in 0..5 {
                    requests.extend(request(&[b"GET", b"small"]));
                    requests.extend(request(&[b"GET", b"large"]));
                    requests.extend(request(&[b"MGET", b"small", b"large"]));
                    requests.extend(request(&[b"GETRANGE", b"large", b"1", b"-1"]));
                }
                client.send(&requests);
                for _ in 0..5 {
                    assert_eq!(client.reply(), "$1\r\n1\r\n");
                    assert!(client.reply() == expected);
                    assert!(client.reply() == format!("*2\r\n$1\r\n1\r\n{expected}"));
                    assert_eq!(client.reply().len(), expected.len() - 1);
                }
            });
        }
    });
}

/// Small values of a pipeline are sent while it is being answered.
#[test]
fn a_long_pipeline_of_middling_values_is_answered_in_pieces() {
    let server = server(|_| ());
    let mut client = Client::of(&server);
    client.send(&request(&[b"SET", b"k", &[b'v'; 60_000]]));
    assert_eq!(client.reply(), "+OK\r\n");
    client.send(&request(&[b"GET", b"k"]).repeat(100));
    for _ in 0..100 {
        assert_eq!(client.reply().len(), 60_000 + 10);
    }
}

/// Arguments that arrive slowly used to be kept without a bound for all clients.
#[test]
fn requests_under_way_have_a_bound() {
    let server = server(|config| config.request_bytes = 4 << 20);
    let begin = || {
        let mut client = Client::of(&server);
        client.try_send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8388608\r\n");
        client.try_send(&vec![b'x'; 3 << 20]);
        client
    };
    let mut clients = [(); 4].map(|()| begin());
    let time = std::time::Duration::from_secs(2);
    let cut = clients.each_mut().map(|client| client.ends_within(time));
    assert!(cut.contains(&true) && cut.contains(&false), "{cut:?}");
    // The bytes that a client held count no more once it is gone.
    drop(clients);
    let is_alone = (0..2000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        server.stats().clients == 0
    });
    assert!(is_alone, "{} clients are left", server.stats().clients);
    let mut client = Client::of(&server);
    client.send(&request(&[b"SET", b"k", &vec![b'x'; 3 << 20]]));
    assert_eq!(client.reply(), "+OK\r\n");
}
