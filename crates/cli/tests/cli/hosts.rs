//! Hosts that are processes, through a Redis client.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use redis::{Commands, Connection, cmd};
use serde_json::Value;
use tombolo_verify::history::Recorder;
use tombolo_verify::linearizability::{Verdict, check};
use tombolo_verify::models::{KeyValue, Operation, Result as Answer};
use tombolo_workloads::{check_value, fill_value};

use crate::tombolo::{Running, Servers, complaint, folder, output, printed};

const OPERATIONS: u64 = 1_000_000;
const KEYS: u64 = 600;

/// Mostly short values, some of up to 1 MiB.
fn random_value(dice: &mut SmallRng) -> Vec<u8> {
    let most_bits = match dice.random_range(0..1000) {
        0..900 => 9,
        900..996 => 14,
        _ => 20,
    };
    let bits = dice.random_range(0..=most_bits);
    let length = dice.random_range(1..=1usize << bits);
    let mut value = vec![0; length];
    dice.fill_bytes(&mut value);
    value
}

/// One client at a time does a million operations, each through any host; what it has set through
/// one, it gets from every other.
#[test]
fn what_one_host_has_set_every_other_gets() {
    let servers = Servers::start(3, &["--size", "1GiB", "--scr", "4MiB"], &[]);
    let mut hosts: Vec<Connection> = (0..3).map(|host| servers.connect(host)).collect();
    let mut model: HashMap<String, Vec<u8>> = HashMap::new();
    let mut dice = SmallRng::seed_from_u64(1);
    let mut done = 0;
    while done < OPERATIONS {
        let key = format!("key:{}", dice.random_range(0..KEYS));
        let host = dice.random_range(0..3);
        let with = &mut hosts[host];
        match dice.random_range(0..20) {
            0..8 => {
                let value = random_value(&mut dice);
                let () = with.set(&key, &value).unwrap();
                for other in [(host + 1) % 3, (host + 2) % 3] {
                    let got: Vec<u8> = hosts[other].get(&key).unwrap();
                    assert!(got == value, "host {other} has other bytes than host {host} set");
                    done += 1;
                }
                model.insert(key, value);
            }
            8..15 => {
                let got: Option<Vec<u8>> = with.get(&key).unwrap();
                assert!(got.as_ref() == model.get(&key), "get {key} through host {host}");
            }
            15 => {
                let removed: bool = with.del(&key).unwrap();
                assert_eq!(removed, model.remove(&key).is_some());
            }
            16 => {
                let more = random_value(&mut dice);
                let value = model.entry(key.clone()).or_default();
                value.extend(more.iter().take(4096));
                let length: usize = with.append(&key, &more[..more.len().min(4096)]).unwrap();
                assert_eq!(length, value.len());
                // Lest values grow without bound.
                if value.len() > 1 << 20 {
                    let () = with.del(&key).unwrap();
                    model.remove(&key);
                }
            }
            17 => {
                let length: usize = with.strlen(&key).unwrap();
                assert_eq!(length, model.get(&key).map_or(0, Vec::len));
            }
            18 => {
                let at: i32 = dice.random_range(0..2000);
                let got: Vec<u8> = with.getrange(&key, at as isize, at as isize + 99).unwrap();
                let value = model.get(&key).map_or(&[][..], Vec::as_slice);
                let (at, end) = (at as usize, value.len().min(at as usize + 100));
                assert!(got == value.get(at..end).unwrap_or_default());
            }
            _ => {
                let there: bool = with.exists(&key).unwrap();
                assert_eq!(there, model.contains_key(&key));
            }
        }
        done += 1;
    }
    for host in &mut hosts {
        let count: usize = cmd("DBSIZE").query(host).unwrap();
        assert_eq!(count, model.len());
    }
}

/// Several clients at once: each key behaves as if there were one copy of it.
#[test]
fn concurrent_clients_see_one_copy() {
    let servers = Servers::start(3, &["--size", "64MiB", "--scr", "1MiB", "--records", "4"], &[]);
    let recorder: Recorder<u64, Operation<u64>, Answer<u64>> = Recorder::new();
    let tags = AtomicU64::new(1);
    thread::scope(|scope| {
        for client in 0..6 {
            let (scribe, tags) = (recorder.client(client as u32), &tags);
            let mut with = servers.connect(client % 3);
            scope.spawn(move || {
                let mut dice = SmallRng::seed_from_u64(client as u64);
                for _ in 0..5000 {
                    let number = dice.random_range(0..8);
                    let key = format!("key:{number}");
                    let fresh = tags.fetch_add(1, Ordering::Relaxed);
                    match dice.random_range(0..10) {
                        0..5 => {
                            let began = scribe.invoke(number, Operation::Get);
                            let got: Option<Vec<u8>> = with.get(&key).unwrap();
                            scribe.returned(began, Answer::Value(got.map(|value| tag(&value))));
                        }
                        5..8 => {
                            let began = scribe.invoke(number, Operation::Put(fresh));
                            let () = with.set(&key, value(fresh)).unwrap();
                            scribe.returned(began, Answer::Done);
                        }
                        8 => {
                            let began = scribe.invoke(number, Operation::Delete);
                            let removed: bool = with.del(&key).unwrap();
                            scribe.returned(began, Answer::Flag(removed));
                        }
                        _ => {
                            let began = scribe.invoke(number, Operation::Update(fresh));
                            let old: Option<Vec<u8>> = with.getset(&key, value(fresh)).unwrap();
                            scribe.returned(began, Answer::Value(old.map(|value| tag(&value))));
                        }
                    }
                }
            });
        }
    });
    let verdict = check(&KeyValue::default(), &recorder.history(), 20_000_000);
    assert!(matches!(verdict, Verdict::Linearizable { .. }), "{verdict}");
}

/// A value that tells which write made it, of a length that differs from write to write, and that
/// shows when it is torn.
fn value(tag: u64) -> Vec<u8> {
    let mut value = vec![0; [16, 24, 80, 560, 4800, 72_000][(tag % 6) as usize]];
    fill_value(0, tag, &mut value);
    value
}

fn tag(bytes: &[u8]) -> u64 {
    check_value(0, bytes).unwrap()
}

#[test]
fn counters_lose_nothing() {
    let servers = Servers::start(3, &["--size", "16MiB", "--scr", "1MiB"], &[]);
    thread::scope(|scope| {
        for client in 0..6 {
            let mut with = servers.connect(client % 3);
            scope.spawn(move || {
                for _ in 0..2000 {
                    let _: i64 = with.incr("counter", 1).unwrap();
                }
            });
        }
    });
    for host in 0..3 {
        let sum: i64 = servers.connect(host).get("counter").unwrap();
        assert_eq!(sum, 12_000);
    }
}

#[test]
fn keys_expire_for_all_hosts() {
    let servers = Servers::start(3, &["--size", "16MiB", "--scr", "1MiB"], &[]);
    let mut hosts: Vec<Connection> = (0..3).map(|host| servers.connect(host)).collect();
    let () = hosts[0].pset_ex("short", "x", 50).unwrap();
    let () = hosts[0].set_ex("long", "x", 100).unwrap();
    let () = hosts[0].set("lasting", "x").unwrap();
    thread::sleep(Duration::from_millis(60));
    for host in &mut hosts {
        let (short, long): (Option<String>, i64) =
            (host.get("short").unwrap(), host.ttl("long").unwrap());
        assert_eq!(short, None);
        assert!((98..=100).contains(&long));
        let lasting: i64 = host.ttl("lasting").unwrap();
        assert_eq!(lasting, -1);
    }
    // Nobody asks for it any more, and it goes all the same.
    let () = hosts[1].pset_ex("forgotten", "x", 1).unwrap();
    while cmd("DBSIZE").query::<i64>(&mut hosts[2]).unwrap() > 2 {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn pipelines_reach_every_host() {
    let servers = Servers::start(2, &["--size", "64MiB", "--scr", "1MiB"], &[]);
    let (mut first, mut second) = (servers.connect(0), servers.connect(1));
    let mut writes = redis::pipe();
    (0..2000).for_each(|n| _ = writes.set(format!("k{n}"), n).ignore());
    let () = writes.query(&mut first).unwrap();
    let mut reads = redis::pipe();
    (0..2000).for_each(|n| _ = reads.get(format!("k{n}")));
    let values: Vec<i64> = reads.query(&mut second).unwrap();
    assert_eq!(values, (0..2000).collect::<Vec<_>>());
    let keys: std::collections::HashSet<String> =
        second.scan_match::<_, String>("k*").unwrap().map(Result::unwrap).collect();
    assert_eq!(keys.len(), 2000);
    let () = cmd("FLUSHALL").query(&mut first).unwrap();
    assert_eq!(cmd("DBSIZE").query::<i64>(&mut second).unwrap(), 0);
}

#[test]
fn a_full_pod_says_so_and_goes_on() {
    let servers = Servers::start(2, &["--size", "8MiB", "--scr", "1MiB"], &[]);
    let (mut first, mut second) = (servers.connect(0), servers.connect(1));
    let value = vec![1; 100_000];
    let mut made = 0;
    let error = loop {
        match first.set::<_, _, ()>(format!("k{made}"), &value) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("full"), "{error}");
    assert!(made > 30, "only {made}");
    let too_large = first.set::<_, _, ()>("huge", vec![1; 20 << 20]).unwrap_err();
    assert!(too_large.to_string().contains("larger pod"), "{too_large}");
    let got: Vec<u8> = second.get("k0").unwrap();
    assert!(got == value);
    for n in 0..made {
        let () = second.del(format!("k{n}")).unwrap();
    }
    let () = first.set("again", &value).unwrap();
}

#[test]
fn nobody_comes_in_without_the_password() {
    let servers =
        Servers::start(1, &["--size", "16MiB", "--scr", "1MiB"], &["--requirepass", "xyz"]);
    let address = servers.hosts[0].1;
    let open = |url: String| redis::Client::open(url).unwrap().get_connection();
    let mut with = open(format!("redis://:xyz@{address}")).unwrap();
    let () = with.set("k", "v").unwrap();
    assert!(open(format!("redis://:wrong@{address}")).is_err());
    let denied = open(format!("redis://{address}")).and_then(|mut c| c.get::<_, String>("k"));
    assert!(denied.unwrap_err().to_string().contains("Authentication"));
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A host that was fenced answered PING and nothing else, for ever, and nobody was told.
#[test]
fn a_host_that_was_fenced_joins_again_if_it_may() {
    let with = ["--rejoin", "--metrics", "127.0.0.1:0"];
    let mut servers = Servers::start(2, &["--size", "64MiB", "--scr", "4MiB"], &with);
    let line = servers.hosts[1].0.line_with("metrics on");
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200"));
    let mut client = servers.connect(1);
    let () = client.set("key", 7).unwrap();
    printed(&["pod", "fence", &servers.spec(), "1"]);
    assert!(
        servers.hosts[1].0.line_with("listening on").ends_with(&servers.hosts[1].1.to_string())
    );
    assert!(client.get::<_, u32>("key").is_err(), "the connection has ended");
    assert_eq!(servers.connect(1).get::<_, u32>("key").unwrap(), 7);
    servers.hosts[1].0.line_with("metrics on");
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200"));
    while seats(&servers) != (2, 0) {
        thread::yield_now();
    }
}

/// The seats of a pod by `pod info`: how many are taken, and how many are fenced.
fn seats(servers: &Servers) -> (usize, usize) {
    let info = printed(&["pod", "info", &servers.spec(), "--format", "json"]);
    let info: Value = serde_json::from_str(&info).unwrap();
    let count = |list: &str| info[list].as_array().unwrap().len();
    (count("hosts"), count("fenced"))
}

/// Two hosts set and get what a third may have been at, and may be still unless they are `alone`.
fn go_on(servers: &Servers, alone: bool) {
    let mut hosts = [0, 1].map(|host| servers.connect(host));
    for n in 0..400u32 {
        let key = format!("key:{}", n % 40);
        let () = hosts[0].set(&key, n).unwrap();
        let got: u32 = hosts[1].get(&key).unwrap();
        assert!(got == n || !alone, "{got} instead of {n}");
    }
}

/// Has host 2 set keys without end, until it is disturbed.
fn keep_busy(servers: &Servers) -> thread::JoinHandle<()> {
    let mut victim = servers.connect(2);
    let busy = thread::spawn(move || {
        for n in 0u32.. {
            if victim.set::<_, _, ()>(format!("key:{}", n % 40), n).is_err() {
                break;
            }
        }
    });
    go_on(servers, false);
    busy
}

/// Sets and deletes keys through two hosts for as long as that works.
fn come_and_go(servers: &Servers) -> thread::JoinHandle<()> {
    let mut hosts = [0, 1].map(|host| servers.connect(host));
    thread::spawn(move || {
        for n in 0u32.. {
            let (key, value) = (format!("other:{}", n % 16), vec![b'x'; (n as usize * 37) % 3000]);
            let with = &mut hosts[n as usize / 3 % 2];
            let done = if n % 3 == 2 { with.del(&key) } else { with.set::<_, _, ()>(&key, value) };
            if done.is_err() {
                break;
            }
        }
    })
}

#[test]
fn others_clear_up_after_a_host_that_was_killed() {
    let mut servers = Servers::start(3, &["--size", "64MiB", "--scr", "4MiB"], &[]);
    let busy = keep_busy(&servers);
    servers.hosts[2].0.signal("-KILL");
    go_on(&servers, false);
    servers.hosts[2].0.end();
    go_on(&servers, true);
    busy.join().unwrap();
    while seats(&servers) != (2, 0) {
        go_on(&servers, true);
    }
}

#[test]
fn all_hosts_are_killed_and_the_pod_lives_on() {
    let mut servers = Servers::start(2, &["--size", "64MiB", "--scr", "4MiB"], &[]);
    for round in 0..5u32 {
        let mut hosts = [0, 1].map(|host| servers.connect(host));
        for n in 0..400u32 {
            let () = hosts[n as usize % 2].set(format!("key:{n}"), n + round).unwrap();
        }
        let busy = come_and_go(&servers);
        let () = hosts[0].del("key:7").unwrap();
        thread::sleep(Duration::from_millis(20 + u64::from(round)));
        servers.hosts.iter_mut().for_each(|(host, _)| host.signal("-KILL"));
        for (host, _) in &mut servers.hosts {
            host.end();
        }
        busy.join().unwrap();
        if round % 2 == 0 {
            let left = output(&["pod", "check", &servers.spec()]);
            assert_eq!(left.status.code(), Some(3), "{}", String::from_utf8_lossy(&left.stdout));
            let mended = printed(&["pod", "check", &servers.spec(), "--repair"]);
            assert!(mended.contains("no problems"), "{mended}");
        }
        servers.restart(2);
        let mut hosts = [0, 1].map(|host| servers.connect(host));
        for n in 0..400u32 {
            let got: Option<u32> = hosts[n as usize % 2].get(format!("key:{n}")).unwrap();
            assert_eq!(got, (n != 7).then_some(n + round), "key:{n} in round {round}");
        }
    }
    let refused = complaint(&["pod", "check", &servers.spec(), "--repair"]);
    assert!(refused.contains("is in the pod"), "{refused}");
}

#[test]
fn a_host_that_was_fenced_finds_out() {
    let mut servers = Servers::start(3, &["--size", "64MiB", "--scr", "4MiB"], &[]);
    let busy = keep_busy(&servers);
    servers.hosts[2].0.signal("-STOP");
    let fenced = printed(&["pod", "fence", &servers.spec(), "2"]);
    assert!(fenced.contains("fenced, not known to be gone"), "{fenced}");
    go_on(&servers, true);
    assert_eq!(seats(&servers), (2, 1));
    servers.hosts[2].0.signal("-CONT");
    // Its client's connection ends, and so does it, with an exit code of its own. It served errors
    // for ever.
    busy.join().unwrap();
    assert_eq!(servers.hosts[2].0.end().code(), Some(5));
    go_on(&servers, true);
    while seats(&servers) != (2, 0) {
        go_on(&servers, true);
    }
    let refused = complaint(&["pod", "fence", &servers.spec(), "2"]);
    assert!(refused.contains("host 2 is not in the pod"), "{refused}");
}

/// The limit of open files used to stay as it was, and the client that was one too many hung.
#[test]
fn there_are_as_many_clients_as_files_may_be_open() {
    let folder = folder();
    let path = folder.path().join("pod");
    let path = path.to_str().unwrap();
    printed(&["pod", "create", path, "--size", "16MiB", "--scr", "1MiB"]);
    let within = ["sh", "-c", "ulimit -Sn 60 && ulimit -Hn 120 && exec \"$@\"", "sh"];
    let serve = ["serve", "--pod", path, "--listen", "127.0.0.1:0"];
    let mut host = Running::start_within(&within, &serve);
    let line = host.lines.next().unwrap().unwrap();
    let address = line.split_whitespace().last().unwrap();
    let mut clients = Vec::new();
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    while let Ok(connection) = client.get_connection() {
        clients.push(connection);
        assert!(clients.len() < 120, "there is a limit");
    }
    // A client that has sent nothing is told why: what it sends may reset the connection first.
    let mut refusal = String::new();
    let mut silent = std::net::TcpStream::connect(address).unwrap();
    std::io::Read::read_to_string(&mut silent, &mut refusal).unwrap();
    assert!(refusal.contains("max number of clients"), "{refusal}");
    assert!(clients.len() > 40, "{} clients", clients.len());
    let asked: String = redis::cmd("PING").query(&mut clients[0]).unwrap();
    assert_eq!(asked, "PONG");
}
