//! The figures of a host, as `/metrics` has them.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{compare, wrapped};
use crate::tombolo::{Running, folder, printed};

#[test]
fn metrics_are_those_of_a_server() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let pod = pod.to_str().unwrap();
    printed(&["pod", "create", pod, "--size", "16MiB", "--scr", "1MiB"]);
    let zero = "127.0.0.1:0";
    let mut host = Running::start(&["serve", "--pod", pod, "--listen", zero, "--metrics", zero]);
    let line = host.line_with("/metrics");
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = format!(
        "`/metrics` of a server has these figures. Those of the pod have its UUID as label. Those \
         of a\nhost have the host's number, too. A counter only grows.\n\
         [Monitoring](../book/monitoring.md) says which of them to watch.\n\n{}",
        figures(&answer).join("\n")
    );
    compare("metrics.md", "Metrics", &body);
}

fn figures(answer: &str) -> Vec<String> {
    let about = |mark: &str| {
        let lines = answer.lines().filter_map(|line| line.strip_prefix(mark));
        lines.map(|line| line.split_once(' ').unwrap()).collect::<Vec<_>>()
    };
    let (helps, types) = (about("# HELP "), about("# TYPE "));
    assert_eq!(helps.len(), types.len());
    let figure = |((name, help), (_, kind)): (&(&str, &str), &(&str, &str))| {
        wrapped("* ", &format!("`{name}`, a {kind}: {help}"))
    };
    helps.iter().zip(&types).map(figure).collect()
}
