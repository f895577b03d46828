//! The pages of a host: `/` for people, `/events` from which it is fed, `/metrics` as Prometheus
//! reads it, and `/healthz`, which says whether this host is in the pod.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use tombolo_memory::Mapped;
use tombolo_objects::Objects;

use super::journal::Journal;
use super::metrics;
use super::snapshot::snapshot;
use super::subject::Subject;
use super::watch::Observed;

/// The longest request that is read, and how long one may take, and its answer.
const MAX_REQUEST_BYTES: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections at a time.
const MAX_CONNECTIONS: usize = 32;

/// How often an open page gets the state of now.
const FRAME: Duration = Duration::from_millis(500);

const PAGE: &str = include_str!("page.html");
const UNAVAILABLE: &str = "503 Service Unavailable";
const AWAY: &str = "this host has left the pod, or is joining it\n";

/// Gets the host that is watched, while it is in the pod.
type Find = Box<dyn Fn() -> Option<Box<dyn Subject>> + Send>;

/// The sources of the pages.
struct Shown {
    watched: Mutex<Option<Find>>,
    observed: Arc<Mutex<Observed>>,
    journal: Arc<Journal>,
    connections: AtomicUsize,
}

/// The pages that are served over HTTP.
pub(crate) struct Pages {
    shown: Arc<Shown>,
    bound: SocketAddr,
}

impl Pages {
    /// Serves from now on, for as long as the process lives.
    pub(crate) fn serve(
        address: &str,
        observed: &Arc<Mutex<Observed>>,
        journal: &Arc<Journal>,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| {
            format!("cannot serve metrics on {address}; choose another --metrics")
        })?;
        let bound = listener.local_addr()?;
        let shown = Arc::new(Shown {
            watched: Mutex::default(),
            observed: observed.clone(),
            journal: journal.clone(),
            connections: AtomicUsize::new(0),
        });
        let answering = shown.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => answering.clone().take(stream),
                    // Descriptors take time to come back.
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                }
            }
        });
        Ok(Self { shown, bound })
    }

    /// Where.
    pub(crate) fn address(&self) -> SocketAddr {
        self.bound
    }

    /// From here on the pages are about the host that `find` gets, which is not kept from leaving.
    pub(crate) fn watch(&self, find: impl Fn() -> Option<Box<dyn Subject>> + Send + 'static) {
        *self.shown.watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(find));
    }
}

impl Shown {
    /// Answers in a thread of its own, unless too many are at that.
    fn take(self: Arc<Self>, stream: TcpStream) {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let shown = self.clone();
        let started = thread::Builder::new().name("tombolo-page".to_owned()).spawn(move || {
            let _ = shown.answer(stream);
            shown.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn watched(&self) -> Option<Box<dyn Subject>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?()
    }

    fn observed(&self) -> Observed {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(request) = read_request(&mut stream)? else { return Ok(()) };
        let mut words = request.split_whitespace();
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        if method != Some("GET") {
            return send(&mut stream, "405 Method Not Allowed", PLAIN, "only GET is answered\n");
        }
        let (status, kind, body) = match target.split('?').next().unwrap_or_default() {
            "/" => (OK, HTML, PAGE.to_owned()),
            "/events" => return self.feed(&mut stream),
            path @ ("/metrics" | "/healthz") => self.of_now(path),
            _ => ("404 Not Found", PLAIN, "see /, /metrics and /healthz\n".to_owned()),
        };
        send(&mut stream, status, kind, &body)
    }

    /// Status, content type and body of a page on the host's current state. The host is let go of
    /// before anything is sent.
    fn of_now(&self, path: &str) -> (&'static str, &'static str, String) {
        match (path, self.watched()) {
            (_, None) => (UNAVAILABLE, PLAIN, AWAY.to_owned()),
            ("/metrics", Some(subject)) => {
                (OK, METRICS, metrics::text(&*subject, &self.observed().hosts))
            }
            (_, Some(subject)) => {
                let (status, text) = health(subject.objects());
                (status, PLAIN, text)
            }
        }
    }

    /// Sends the state of now again and again, until the page is closed.
    fn feed(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
        )?;
        let mut last = 0;
        loop {
            let events = self.journal.after(last);
            // The host is let go of before this waits for the page, and for time to pass.
            let state =
                self.watched().map(|subject| snapshot(&*subject, &self.observed(), &events));
            match state {
                Some(state) => {
                    last = events.last().map_or(last, |event| event.number);
                    write!(stream, "data: {state}\n\n")?;
                }
                None => write!(stream, "event: away\ndata: {{}}\n\n")?,
            }
            stream.flush()?;
            thread::sleep(FRAME);
        }
    }
}

/// Whether this host is in the pod, in words.
fn health(objects: &Objects<Mapped>) -> (&'static str, String) {
    let seat = objects.seat();
    if seat.holds(objects.memory()) {
        (OK, format!("host {} is in the pod\n", seat.host()))
    } else {
        (UNAVAILABLE, format!("host {} was fenced\n", seat.host()))
    }
}

/// The head of a request; `None` if it takes too long, or is too long.
fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let started = Instant::now();
    let (mut head, mut room) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut room)?;
        head.extend_from_slice(&room[..read]);
        if read == 0 || head.len() > MAX_REQUEST_BYTES || started.elapsed() > PATIENCE {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

const OK: &str = "200 OK";
const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4";
/// The page may fetch from where it comes from, and from nowhere else.
const HTML: &str = "text/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn send(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nX-Content-Type-Options: nosniff\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
