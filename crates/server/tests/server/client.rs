//! A client that knows just enough of the protocol to tell where a reply ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tombolo_server::{Config, Server};

use crate::map::Map;

pub(crate) fn server(change: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config { listen: "127.0.0.1:0".to_owned(), workers: 2, ..Config::default() };
    change(&mut config);
    Server::start(config, Arc::new(Map::default())).unwrap()
}

pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn of(server: &Server) -> Self {
        Self::to(server.local_addr())
    }

    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Sends a command, given as words, and returns its reply as the server wrote it.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.send(&request(&words));
        self.reply()
    }

    /// The next reply, in raw form.
    pub(crate) fn reply(&mut self) -> String {
        String::from_utf8_lossy(&self.raw_reply()).into_owned()
    }

    pub(crate) fn raw_reply(&mut self) -> Vec<u8> {
        let mut raw = Vec::new();
        self.read_reply(&mut raw);
        raw
    }

    fn read_reply(&mut self, raw: &mut Vec<u8>) {
        let start = raw.len();
        self.0.read_until(b'\n', raw).unwrap();
        let line = std::str::from_utf8(&raw[start..]).unwrap().trim_end().to_owned();
        assert!(!line.is_empty(), "the connection ended");
        let count = line[1..].parse::<i64>().unwrap_or(0).max(0);
        match line.as_bytes()[0] {
            b'$' | b'=' if line != "$-1" => {
                let mut bytes = vec![0; count as usize + 2];
                self.0.read_exact(&mut bytes).unwrap();
                raw.extend(bytes);
            }
            b'*' | b'~' => (0..count).for_each(|_| self.read_reply(raw)),
            b'%' => (0..2 * count).for_each(|_| self.read_reply(raw)),
            _ => {}
        }
    }

    /// Whether the server has ended the connection, once everything before was read.
    pub(crate) fn is_ended(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

pub(crate) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}
