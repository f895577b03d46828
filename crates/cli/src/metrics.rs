//! `/metrics`, as Prometheus reads it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tombolo::Store;
use tombolo_server::{Server, Stats};

use crate::served::figures;

/// The longest request that is read, and how long one may take.
const MAX_REQUEST_BYTES: u64 = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves metrics from now on, for as long as the process lives. Neither the store nor the server is
/// kept from ending.
pub(crate) fn serve(
    address: &str,
    store: &Arc<Store>,
    server: &Arc<Server>,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot serve metrics on {address}; choose another --metrics"))?;
    let bound = listener.local_addr()?;
    let (store, server) = (Arc::downgrade(store), Arc::downgrade(server));
    thread::spawn(move || {
        // One scraper at a time is enough, and a slow one is given up.
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, || {
                let (store, server) = (store.upgrade()?, server.upgrade()?);
                Some(text(&store, &server.stats()))
            });
        }
    });
    Ok(bound)
}

fn answer(mut stream: TcpStream, text: impl Fn() -> Option<String>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = BufReader::new((&stream).take(MAX_REQUEST_BYTES));
    let mut line = String::new();
    request.read_line(&mut line)?;
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    while line.trim_end() != "" {
        line.clear();
        request.read_line(&mut line)?;
    }
    let (status, body) = match path.split('?').next() {
        Some("/metrics") => match text() {
            Some(text) => ("200 OK", text),
            None => ("503 Service Unavailable", "this host is leaving the pod\n".to_owned()),
        },
        _ => ("404 Not Found", "see /metrics\n".to_owned()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn text(store: &Store, stats: &Stats) -> String {
    let mut text = String::new();
    let host = store.objects().seat().host();
    for figure in figures(store) {
        let (kind, suffix) = if figure.is_counter { ("counter", "_total") } else { ("gauge", "") };
        let name = format!("tombolo_{}{suffix}", figure.name);
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", figure.help);
        let _ = writeln!(text, "{name}{{host=\"{host}\"}} {}", figure.value);
    }
    let server = [
        ("clients", "gauge", "Connections that are open.", stats.clients),
        ("connections_total", "counter", "Connections there were.", stats.connections),
        ("commands_total", "counter", "Commands executed.", stats.commands),
        ("errors_total", "counter", "Replies that were errors.", stats.errors),
        ("received_bytes_total", "counter", "Bytes received.", stats.bytes_in),
        ("sent_bytes_total", "counter", "Bytes sent.", stats.bytes_out),
    ];
    for (name, kind, help, value) in server {
        let name = format!("tombolo_server_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let _ = writeln!(text, "{name}{{host=\"{host}\"}} {value}");
    }
    text
}
