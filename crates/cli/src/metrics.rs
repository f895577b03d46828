//! `/metrics`, as Prometheus reads it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tombolo_server::{Server, Stats};

use crate::served::{Served, figures};

/// The longest request that is read, and how long one may take.
const MAX_REQUEST_BYTES: u64 = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves metrics from now on, for as long as the process lives.
pub(crate) fn serve(
    address: &str,
    store: Served,
    stats: impl Fn() -> Stats + Send + 'static,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot serve metrics on {address}; choose another --metrics"))?;
    let bound = listener.local_addr()?;
    thread::spawn(move || {
        // One scraper at a time is enough, and a slow one is given up.
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, || text(&store, &stats()));
        }
    });
    Ok(bound)
}

fn answer(mut stream: TcpStream, text: impl Fn() -> String) -> std::io::Result<()> {
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
        Some("/metrics") => ("200 OK", text()),
        _ => ("404 Not Found", "see /metrics\n".to_owned()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn text(store: &Served, stats: &Stats) -> String {
    let mut text = String::new();
    let host = store.0.objects().seat().host();
    for figure in figures(&store.0) {
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

/// The counters of a server, for as long as it runs.
pub(crate) fn stats_of(server: &Arc<Server>) -> impl Fn() -> Stats + Send + use<> {
    let server = Arc::downgrade(server);
    move || server.upgrade().map(|server| server.stats()).unwrap_or_default()
}
