//! `tombolo up`.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use redis::Commands;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::tombolo::{Running, complaint, connect, folder, printed};

/// The first of some ports in a row that are free, and that no other test here is given, nor one of
/// the next process.
pub(crate) fn ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + (std::process::id() % 400 * 30) as u16;
    let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let first = start + NEXT.fetch_add(count, Ordering::Relaxed);
        if (first..first + count).all(free) {
            return first;
        }
    }
}

fn pod_of(line: &str) -> String {
    line.split(" in ").nth(1).unwrap().split(':').next().unwrap().to_owned()
}

const SMALL: [&str; 4] = ["--size", "64MiB", "--scr", "1MiB"];

#[test]
fn it_ends_by_itself_under_load_and_cleans_up() {
    let port = ports(2).to_string();
    let args = ["up", "--hosts", "2", "--port", &port, "--load", "a", "--seconds", "3"];
    let shown = printed(&[&args, &SMALL[..]].concat());
    assert!(shown.contains("2 hosts"), "{shown}");
    let operations: u64 = shown
        .lines()
        .find_map(|line| line.split_once(" operations in ")?.0.parse().ok())
        .expect("it says how many operations there were");
    assert!(operations > 1000, "{shown}");
    assert!(shown.contains("the pod is removed"));
    assert!(!Path::new(&pod_of(shown.lines().next().unwrap())).exists());
}

#[test]
fn a_load_that_fills_the_pod_goes_on_without_inserts() {
    let port = ports(2).to_string();
    let args = ["up", "--hosts", "2", "--port", &port, "--load", "d", "--seconds", "3"];
    let shown = printed(&[&args, &["--size", "8MiB", "--scr", "1MiB"][..]].concat());
    assert!(shown.contains("the pod is removed"), "{shown}");
}

#[test]
fn it_ends_when_told_to() {
    for signal in ["-INT", "-TERM"] {
        let port = ports(3);
        let mut up = Running::start(&[&["up", "--port", &port.to_string()], &SMALL[..]].concat());
        let pod = pod_of(&up.line_with("pod "));
        up.line_with("each serves every key");
        let mut first = connect(([127, 0, 0, 1], port).into());
        let mut last = connect(([127, 0, 0, 1], port + 2).into());
        let () = first.set("k", "v").unwrap();
        let got: String = last.get("k").unwrap();
        assert_eq!(got, "v");
        up.signal(signal);
        assert!(up.end().success());
        assert!(!Path::new(&pod).exists(), "{pod} is left behind");
    }
}

#[test]
fn a_port_in_use_ends_it() {
    let first = ports(3);
    let taken = TcpListener::bind(("127.0.0.1", first + 1)).unwrap();
    let said = complaint(&[&["up", "--port", &first.to_string()], &SMALL[..]].concat());
    assert!(said.contains("choose another port"), "{said}");
    drop(taken);
}

#[test]
fn its_hosts_want_the_password() {
    let port = ports(2);
    let number = port.to_string();
    let args = ["up", "--hosts", "2", "--port", &number, "--requirepass", "secret"];
    let mut up = Running::start(&[&args, &SMALL[..]].concat());
    up.line_with("each serves every key");
    let open = |url: String| redis::Client::open(url).unwrap().get_connection();
    let mut with = open(format!("redis://:secret@127.0.0.1:{}", port + 1)).unwrap();
    let () = with.set("k", "v").unwrap();
    let denied =
        open(format!("redis://127.0.0.1:{port}")).and_then(|mut c| c.get::<_, String>("k"));
    assert!(denied.is_err());
    // It asks its hosts itself, with the password.
    up.line_with("ops/s in all");
}

/// The process of the host that serves at a port.
fn pid_at(port: u16, pod: &str) -> String {
    let mut host = connect(([127, 0, 0, 1], port).into());
    let said: String = redis::cmd("INFO").arg("Tombolo").query(&mut host).unwrap();
    let seat: u64 =
        said.lines().find_map(|line| line.strip_prefix("host:")?.trim().parse().ok()).unwrap();
    let info: serde_json::Value =
        serde_json::from_str(&printed(&["pod", "info", pod, "--format", "json"])).unwrap();
    let host = info["hosts"].as_array().unwrap().iter().find(|host| host["host"] == seat).unwrap();
    host["pid"].to_string()
}

/// One host that was killed was the end of all, and of the pod with what was in it.
#[test]
fn a_host_that_is_killed_is_started_again_and_the_others_go_on() {
    let port = ports(2);
    let number = port.to_string();
    let mut up = Running::start(&[&["up", "--hosts", "2", "--port", &number], &SMALL[..]].concat());
    let pod = pod_of(&up.line_with("pod "));
    up.line_with("each serves every key");
    let mut other = connect(([127, 0, 0, 1], port + 1).into());
    let () = other.set("key", 7).unwrap();
    let killed = Command::new("kill").args(["-KILL", &pid_at(port, &pod)]).status().unwrap();
    assert!(killed.success());
    up.line_with("is not there");
    let got: u32 = other.get("key").unwrap();
    assert_eq!(got, 7);
    let addresses = [port, port + 1].map(|port| ([127, 0, 0, 1], port).into());
    let serves = |address| {
        let client = redis::Client::open(format!("redis://{address}")).unwrap();
        client.get_connection().is_ok_and(|mut with| with.get::<_, u32>("key") == Ok(7))
    };
    let serves_all = || addresses.iter().all(|address: &std::net::SocketAddr| serves(*address));
    while !serves_all() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    up.signal("-TERM");
    assert!(up.end().success());
    assert!(!Path::new(&pod).exists());
}

/// A host that lived and did not answer was never started again.
#[test]
fn a_host_that_stands_still_is_started_again_and_the_others_go_on() {
    let port = ports(2);
    let number = port.to_string();
    let args = ["up", "--hosts", "2", "--port", &number, "--answer-within", "3"];
    let mut up = Running::start(&[&args, &SMALL[..]].concat());
    let pod = pod_of(&up.line_with("pod "));
    up.line_with("each serves every key");
    let mut other = connect(([127, 0, 0, 1], port + 1).into());
    let () = other.set("key", 7).unwrap();
    let stopped = Command::new("kill").args(["-STOP", &pid_at(port, &pod)]).status().unwrap();
    assert!(stopped.success());
    up.line_with("does not answer");
    for number in 0..100 {
        let () = other.set("key", number).unwrap();
    }
    up.line_with("is not there");
    let serves = || {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        client.get_connection().is_ok_and(|mut with| with.get::<_, u32>("key") == Ok(99))
    };
    while !serves() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let got: u32 = other.get("key").unwrap();
    assert_eq!(got, 99, "the other host is the same as ever");
    up.signal("-TERM");
    assert!(up.end().success());
    assert!(!Path::new(&pod).exists());
}

/// 10,000 connections to one port ended all hosts and removed the pod.
#[test]
fn connections_to_one_host_leave_the_others_alone() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let port = ports(2);
    let number = port.to_string();
    let args = ["up", "--hosts", "2", "--port", &number];
    let mut up = Running::start(&[&args, &SMALL[..]].concat());
    let pod = pod_of(&up.line_with("pod "));
    up.line_with("each serves every key");
    let mut other = connect(([127, 0, 0, 1], port + 1).into());
    let () = other.set("key", 0).unwrap();
    // As many as this process may have open, beside what other tests do.
    let wanted = 10_000.min(most.saturating_sub(500));
    let mut open = Vec::new();
    for _ in 0..wanted {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => open.push(stream),
            Err(_) => break,
        }
    }
    for number in 1..5 {
        let () = other.set("key", number).unwrap();
        up.line_with("ops/s in all");
    }
    let got: u32 = other.get("key").unwrap();
    assert_eq!(got, 4, "the other host is the same as ever");
    drop(open);
    let serves = || {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        client.get_connection().is_ok_and(|mut with| with.get::<_, u32>("key") == Ok(4))
    };
    while !serves() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    up.signal("-TERM");
    assert!(up.end().success());
    assert!(!Path::new(&pod).exists());
}

/// In the background, it drew over what its terminal was used for.
#[test]
fn in_the_background_it_does_not_draw() {
    let folder = folder();
    let port = ports(2).to_string();
    let script = format!(
        "set -m; {} up --hosts 2 --port {port} --size 64MiB --scr 1MiB --seconds 3 & \
         sleep 1; echo typed; wait",
        env!("CARGO_BIN_EXE_tombolo")
    );
    let typescript = folder.path().join("typescript");
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &format!("bash -c '{script}'")]).arg(&typescript);
    let Ok(status) = terminal.stdin(Stdio::null()).stdout(Stdio::null()).status() else {
        eprintln!("skipped: there is no script");
        return;
    };
    assert!(status.success());
    let drawn = std::fs::read_to_string(&typescript).unwrap();
    assert!(drawn.contains("typed") && drawn.contains("the pod is removed"), "{drawn:?}");
    assert!(!drawn.contains('\u{1b}'), "{drawn:?}");
}
