//! `tombolo up`.

use std::net::TcpListener;
use std::path::Path;

use redis::Commands;

use crate::tombolo::{Running, complaint, connect, printed};

/// The first of some ports in a row that are free.
fn ports(count: u16) -> u16 {
    let start = 20_000 + (std::process::id() % 20_000) as u16;
    (start..start + 5000)
        .step_by(usize::from(count))
        .find(|&first| {
            (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        })
        .expect("there are free ports")
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
