//! Connections that one thread uses at the same time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The command that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Get,
    Set,
}

impl Command {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Set => "SET",
        }
    }
}

/// Clients, and what they ask for.
pub(crate) struct Load {
    /// Connections.
    pub(crate) clients: usize,
    pub(crate) keys: u64,
    pub(crate) value_bytes: usize,
}

pub(crate) struct Clients {
    streams: Vec<TcpStream>,
    keys: u64,
    value: Vec<u8>,
    /// Decides which keys come next.
    state: u64,
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Clients {
    pub(crate) fn connect(address: SocketAddr, load: &Load) -> Result<Self> {
        let connect = || -> Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let streams: Result<Vec<TcpStream>> = (0..load.clients).map(|_| connect()).collect();
        Ok(Self {
            streams: streams.with_context(|| format!("cannot connect to {address}"))?,
            keys: load.keys,
            value: vec![b'v'; load.value_bytes],
            state: 1,
            requests: Vec::new(),
            replies: Vec::new(),
        })
    }

    /// Sets all keys.
    pub(crate) fn load(&mut self) -> Result<()> {
        for first in (0..self.keys).step_by(64) {
            self.requests.clear();
            let numbers = first..(first + 64).min(self.keys);
            let replies = Command::Set.reply_bytes(&self.value) * numbers.clone().count();
            numbers.for_each(|number| self.request(Command::Set, number));
            self.send(0)?;
            self.expect(0, Command::Set, replies)?;
        }
        Ok(())
    }

    /// Does at least so many operations, so many of them at a time on each connection; how many it
    /// were.
    pub(crate) fn run(
        &mut self,
        command: Command,
        pipeline: usize,
        operations: u64,
    ) -> Result<u64> {
        let replies = command.reply_bytes(&self.value) * pipeline;
        let mut done = 0;
        while done < operations {
            for stream in 0..self.streams.len() {
                self.requests.clear();
                for _ in 0..pipeline {
                    let number = self.some_number();
                    self.request(command, number);
                }
                self.send(stream)?;
            }
            for stream in 0..self.streams.len() {
                self.expect(stream, command, replies)?;
                done += pipeline as u64;
            }
        }
        Ok(done)
    }

    fn some_number(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.state >> 33) % self.keys
    }

    fn request(&mut self, command: Command, number: u64) {
        let out = &mut self.requests;
        let key = format!("user{number:020}");
        match command {
            Command::Get => out.extend(format!("*2\r\n$3\r\nGET\r\n$24\r\n{key}\r\n").bytes()),
            Command::Set => {
                let bytes = self.value.len();
                out.extend(format!("*3\r\n$3\r\nSET\r\n$24\r\n{key}\r\n${bytes}\r\n").bytes());
                out.extend(&self.value);
                out.extend(b"\r\n");
            }
        }
    }

    fn send(&mut self, stream: usize) -> Result<()> {
        self.streams[stream].write_all(&self.requests).context("the server does not listen")
    }

    /// Reads replies of so many bytes, as they are if all goes well.
    fn expect(&mut self, stream: usize, command: Command, bytes: usize) -> Result<()> {
        self.replies.resize(bytes, 0);
        let read = self.streams[stream].read_exact(&mut self.replies);
        let (kind, end) = (self.replies.first(), self.replies.last());
        if read.is_err() || kind != Some(&command.reply_kind()) || end != Some(&b'\n') {
            let start = String::from_utf8_lossy(&self.replies[..bytes.min(80)]).into_owned();
            bail!("the server does not answer as it should to {}: {start:?}", command.name());
        }
        Ok(())
    }
}

impl Command {
    fn reply_kind(self) -> u8 {
        match self {
            Self::Get => b'$',
            Self::Set => b'+',
        }
    }

    /// Bytes of a reply.
    fn reply_bytes(self, value: &[u8]) -> usize {
        match self {
            Self::Get => format!("${}\r\n\r\n", value.len()).len() + value.len(),
            Self::Set => "+OK\r\n".len(),
        }
    }
}
