//! `/metrics`, as Prometheus reads it, and `/healthz`, which says whether this host is in the pod.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tombolo::Store;
use tombolo_server::{Server, Stats};

use crate::served::figures;

/// The longest request that is read, and how long one may take.
const MAX_REQUEST_BYTES: u64 = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// The store and the server that are watched, as long as there are such.
type Watched = Arc<Mutex<(Weak<Store>, Weak<Server>)>>;

/// The pages that are served over HTTP.
pub(crate) struct Metrics {
    watched: Watched,
    bound: SocketAddr,
}

impl Metrics {
    /// Serves from now on, for as long as the process lives.
    pub(crate) fn serve(address: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| {
            format!("cannot serve metrics on {address}; choose another --metrics")
        })?;
        let bound = listener.local_addr()?;
        let watched = Watched::default();
        let answered = watched.clone();
        thread::spawn(move || {
            // One scraper at a time is enough, and a slow one is given up.
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &answered);
            }
        });
        Ok(Self { watched, bound })
    }

    /// Where.
    pub(crate) fn address(&self) -> SocketAddr {
        self.bound
    }

    /// From here on this is about a store and its server, neither of which is kept from ending.
    pub(crate) fn watch(&self, store: &Arc<Store>, server: &Arc<Server>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) =
            (Arc::downgrade(store), Arc::downgrade(server));
    }
}

fn watched(watched: &Watched) -> Option<(Arc<Store>, Arc<Server>)> {
    let watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
    watched.0.upgrade().zip(watched.1.upgrade())
}

/// Whether this host is in the pod, in words.
fn health(store: &Store) -> (&'static str, String) {
    let seat = store.objects().seat();
    if seat.holds(store.objects().memory()) {
        ("200 OK", format!("host {} is in the pod\n", seat.host()))
    } else {
        (UNAVAILABLE, format!("host {} was fenced\n", seat.host()))
    }
}

const UNAVAILABLE: &str = "503 Service Unavailable";

fn answer(mut stream: TcpStream, of: &Watched) -> std::io::Result<()> {
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
    let (status, body) = match (path.split('?').next(), watched(of)) {
        (Some("/metrics"), Some((store, server))) => ("200 OK", text(&store, &server.stats())),
        (Some("/healthz"), Some((store, _))) => health(&store),
        (Some("/metrics" | "/healthz"), None) => {
            (UNAVAILABLE, "this host has left the pod, or is joining it\n".to_owned())
        }
        _ => ("404 Not Found", "see /metrics and /healthz\n".to_owned()),
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
