//! Messages, scripts and kept values between clients of several hosts.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use redis::{Commands, cmd};

use crate::tombolo::{Servers, folder, output};

/// A client that subscribes, or keeps values: it reads lines.
struct Listener(BufReader<TcpStream>);

impl Listener {
    fn to(servers: &Servers, host: usize) -> Self {
        let stream = TcpStream::connect(servers.hosts[host].1).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads up to a line.
    fn await_line(&mut self, wanted: &str) {
        while self.line() != wanted {}
    }
}

#[test]
fn a_message_goes_to_clients_of_all_hosts() {
    let servers = Servers::start(3, &["--size", "128MiB", "--scr", "4MiB"], &[]);
    let mut listeners: Vec<_> = (0..3).map(|host| Listener::to(&servers, host)).collect();
    for listener in &mut listeners {
        listener.send("SUBSCRIBE news");
        listener.await_line(":1");
    }
    for host in 0..3 {
        let mut publisher = servers.connect(host);
        for number in 0..500 {
            let text = format!("{host}:{number}");
            let received: i64 = publisher.publish("news", &text).unwrap();
            assert_eq!(received, 1, "clients of one host are counted");
        }
        for listener in &mut listeners {
            (0..500).for_each(|number| listener.await_line(&format!("{host}:{number}")));
        }
    }
    let mut publisher = servers.connect(0);
    let long = vec![b'x'; 1 << 20];
    let refused = publisher.publish::<_, _, i64>("news", &long[..]).unwrap_err().to_string();
    assert!(refused.contains("too long"), "{refused}");
}

#[test]
fn events_of_all_hosts_are_told() {
    let servers = Servers::start(3, &["--size", "128MiB", "--scr", "4MiB"], &[]);
    let mut listener = Listener::to(&servers, 0);
    let [mut own, mut other] = [0, 1].map(|host| servers.connect(host));
    let () =
        cmd("CONFIG").arg("SET").arg("notify-keyspace-events").arg("KEA").exec(&mut own).unwrap();
    listener.send("PSUBSCRIBE __keyspace@*");
    listener.await_line(":1");
    // The other host has to hear that the first one listens.
    while cmd("PUBLISH").arg("__keyspace@none").arg("").query::<i64>(&mut own).unwrap() == 0 {}
    let mut awaits = |key: &str, event: &str| {
        listener.await_line(&format!("__keyspace@{key}"));
        listener.line();
        assert_eq!(listener.line(), event);
    };
    let () = other.set("key", 1).unwrap();
    awaits("0__:key", "set");
    let () = cmd("SELECT").arg(2).exec(&mut other).unwrap();
    let () = other.incr("key", 1).unwrap();
    awaits("2__:key", "incrby");
    let () = own.rename("key", "name").unwrap();
    awaits("0__:key", "rename_from");
    awaits("0__:name", "rename_to");
    let () = other.pset_ex("key", "short", 20).unwrap();
    awaits("2__:key", "set");
    awaits("2__:key", "expire");
    awaits("2__:key", "expired");
}

#[test]
fn functions_are_those_of_all_hosts() {
    let servers = Servers::start(2, &["--size", "128MiB", "--scr", "4MiB"], &[]);
    let [mut one, mut two] = [0, 1].map(|host| servers.connect(host));
    let library = |value: &str| {
        let code = format!(
            "redis.register_function('put', function(keys) return redis.call('set', keys[1], '{value}') end)"
        );
        format!("#!lua name=lib\n{code}")
    };
    for value in ["first", "second"] {
        let mut load = cmd("FUNCTION");
        let () = load.arg("LOAD").arg("REPLACE").arg(library(value)).exec(&mut one).unwrap();
        let () = cmd("FCALL").arg("put").arg(1).arg("key").exec(&mut two).unwrap();
        assert_eq!(one.get::<_, String>("key").unwrap(), value);
    }
    assert_eq!(cmd("DBSIZE").query::<i64>(&mut two).unwrap(), 1, "a library is no key");
    let () = cmd("FLUSHALL").exec(&mut two).unwrap();
    let () = cmd("FCALL").arg("put").arg(1).arg("key").exec(&mut one).unwrap();
    let () = cmd("FUNCTION").arg("FLUSH").exec(&mut one).unwrap();
    let gone = cmd("FCALL").arg("put").arg(1).arg("key").exec(&mut two).unwrap_err();
    assert!(gone.to_string().contains("Function not found"), "{gone}");
}

#[test]
fn databases_are_those_of_all_hosts() {
    let servers = Servers::start(2, &["--size", "128MiB", "--scr", "4MiB"], &[]);
    let [mut one, mut two] = [0, 1].map(|host| servers.connect(host));
    let count = |client: &mut redis::Connection| cmd("DBSIZE").query::<i64>(client).unwrap();
    let () = one.set("key", "zero").unwrap();
    assert_eq!(count(&mut two), 1);
    let () = cmd("SELECT").arg(1).exec(&mut one).unwrap();
    for number in 0..2500 {
        let () = one.set(number, "one").unwrap();
    }
    assert_eq!((count(&mut one), count(&mut two)), (2500, 1));
    let () = cmd("SELECT").arg(1).exec(&mut two).unwrap();
    assert_eq!(count(&mut two), 2500);
    assert_eq!(two.get::<_, String>(7).unwrap(), "one");
    let () = cmd("FLUSHDB").exec(&mut two).unwrap();
    let () = cmd("SELECT").arg(0).exec(&mut two).unwrap();
    assert_eq!((count(&mut one), count(&mut two)), (0, 1));
    assert_eq!(two.get::<_, String>("key").unwrap(), "zero");
}

#[test]
fn a_client_that_keeps_a_value_is_told_of_changes_by_any_host() {
    let servers = Servers::start(3, &["--size", "128MiB", "--scr", "4MiB"], &[]);
    let (mut keeps, mut all) = (Listener::to(&servers, 0), Listener::to(&servers, 1));
    for (listener, mode) in [(&mut keeps, ""), (&mut all, " BCAST PREFIX k")] {
        listener.send("HELLO 3");
        listener.send(&format!("CLIENT TRACKING on{mode}"));
        listener.await_line("+OK");
    }
    for host in 0..3 {
        keeps.send("GET key");
        // The value, or that there is none.
        while !keeps.line().starts_with(['$', '_']) {}
        let () = servers.connect(host).set("key", host).unwrap();
        for listener in [&mut keeps, &mut all] {
            listener.await_line("invalidate");
            listener.await_line("key");
        }
    }
    keeps.send("GET key");
    while !keeps.line().starts_with('$') {}
    let () = cmd("PEXPIRE").arg("key").arg(3000).query(&mut servers.connect(2)).unwrap();
    keeps.await_line("invalidate");
    keeps.send("GET key");
    // And again when it expires.
    keeps.await_line("invalidate");
}

/// A script with two keys.
fn eval(text: &str) -> redis::Cmd {
    cmd("EVAL").arg(text).arg(2).arg("one").arg("two").clone()
}

#[test]
fn scripts_of_all_hosts_are_steps() {
    let servers = Servers::start(3, &["--size", "128MiB", "--scr", "4MiB"], &[]);
    let text = "local n = (redis.call('get', KEYS[1]) or 0) + 1
                redis.call('set', KEYS[1], n)
                redis.call('set', KEYS[2], n)
                return n";
    thread::scope(|scope| {
        for host in 0..3 {
            let servers = &servers;
            scope.spawn(move || {
                let mut client = servers.connect(host);
                for _ in 0..200 {
                    let script = eval(text);
                    let _: i64 = script.query(&mut client).unwrap();
                }
            });
        }
        // Both numbers are the same at each moment.
        let mut client = servers.connect(0);
        let both = eval("return {redis.call('get', KEYS[1]), redis.call('get', KEYS[2])}");
        for _ in 0..100 {
            let found: (Option<u64>, Option<u64>) = both.query(&mut client).unwrap();
            assert_eq!(found.0, found.1);
        }
    });
    let count: u64 = servers.connect(1).get("two").unwrap();
    assert_eq!(count, 600);
}

#[test]
fn a_pod_without_room_for_messages_says_so() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let pod = pod.to_str().unwrap();
    assert!(output(&["pod", "create", pod, "--size", "16MiB", "--messages", "0"]).status.success());
    let info = String::from_utf8(output(&["pod", "info", pod]).stdout).unwrap();
    assert!(!info.contains("messages"), "{info}");
    assert!(output(&["pod", "create", pod, "--size", "16MiB", "--force"]).status.success());
    let info = String::from_utf8(output(&["pod", "info", pod]).stdout).unwrap();
    assert!(info.contains("messages"), "{info}");
}
