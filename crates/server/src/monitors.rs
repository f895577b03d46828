//! Clients that are shown all requests that this host executes (`MONITOR`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::clients::Client;
use crate::outbox::{Push, Taken};

/// Bytes of an argument that are shown.
const SHOWN_BYTES: usize = 4 << 10;

/// The clients that monitor.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    count: AtomicUsize,
}

impl Monitors {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn add(&self, client: &Arc<Client>) {
        let mut clients = self.lock();
        clients.insert(client.id, client.clone());
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, client: &Client) {
        if self.are_there() {
            let mut clients = self.lock();
            clients.remove(&client.id);
            self.count.store(clients.len(), Ordering::Relaxed);
        }
    }

    /// Shows a request on a database, which `from` has sent.
    pub(crate) fn show(&self, request: &[Bytes], database: u8, from: &str) {
        let line = Push::line(&line(request, database, from));
        for client in self.lock().values() {
            if client.outbox.add(&line) == Taken::TooSlow {
                client.kill();
            }
        }
    }
}

fn line(request: &[Bytes], database: u8, from: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, us) = (now.as_secs(), now.subsec_micros());
    let mut line = format!("{seconds}.{us:06} [{database} {from}]");
    for argument in request {
        line += " \"";
        let shown = &argument[..argument.len().min(SHOWN_BYTES)];
        shown.iter().for_each(|&byte| quote(byte, &mut line));
        line += if shown.len() < argument.len() { "...\"" } else { "\"" };
    }
    line
}

fn quote(byte: u8, line: &mut String) {
    match byte {
        b'"' | b'\\' => line.extend(['\\', char::from(byte)]),
        b'\n' => line.push_str("\\n"),
        b'\r' => line.push_str("\\r"),
        b'\t' => line.push_str("\\t"),
        0x07 => line.push_str("\\a"),
        0x08 => line.push_str("\\b"),
        b' '..=b'~' => line.push(char::from(byte)),
        _ => _ = write!(line, "\\x{byte:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_shown_in_quotes() {
        let request = [&b"set"[..], b"a \"b\"", b"\x00\n\xff"].map(Bytes::from_static);
        let line = line(&request, 3, "127.0.0.1:9");
        let (_, shown) = line.split_once(' ').unwrap();
        assert_eq!(shown, r#"[3 127.0.0.1:9] "set" "a \"b\"" "\x00\n\xff""#);
    }
}
