//! A client that knows just enough of the protocol to tell where a reply ends.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
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

    /// The string that a command returns.
    pub(crate) fn bytes_of(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.send(&request(words));
        let reply = self.raw_reply();
        let head = reply.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        reply[head..reply.len() - 2].to_vec()
    }

    fn raw_reply(&mut self) -> Vec<u8> {
        let mut raw = Vec::new();
        self.read_reply(&mut raw);
        raw
    }

    /// Sends what may not be taken.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Whether the server ends the connection within a time; what it says until then is skipped.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        self.0.get_mut().set_read_timeout(Some(time)).unwrap();
        loop {
            match self.0.read(&mut [0; 100]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
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
            b'*' | b'~' | b'>' => (0..count).for_each(|_| self.read_reply(raw)),
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
