//! Messages over a connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::{DecodeContext, Message, PgWireFrontendMessage, ProtocolVersion};
use tombolo_sql::SqlError;

/// Bytes of a message at most.
const MAX_MESSAGE: usize = 64 << 20;

/// Bytes that are read at once.
const READ: usize = 16 << 10;

/// Bytes that are kept before they are sent.
const SEND: usize = 64 << 10;

/// A connection, and what was read from it and is to be sent.
pub(crate) struct Wire {
    stream: TcpStream,
    input: BytesMut,
    output: BytesMut,
    context: DecodeContext,
}

fn invalid(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        Self { stream, input: BytesMut::new(), output: BytesMut::new(), context }
    }

    /// The beginning of the connection: whether encryption was asked for, and the first message.
    pub(crate) fn context(&mut self) -> &mut DecodeContext {
        &mut self.context
    }

    /// The next message; `None` at the end of the connection. Replies that wait are sent before.
    ///
    /// # Errors
    /// Of the connection; that it is no message, or too long.
    pub(crate) fn next(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        loop {
            self.check_length()?;
            if let Some(message) =
                PgWireFrontendMessage::decode(&mut self.input, &self.context).map_err(invalid)?
            {
                return Ok(Some(message));
            }
            self.flush()?;
            let mut bytes = [0; READ];
            let count = match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                return Ok(None);
            }
            self.input.extend_from_slice(&bytes[..count]);
        }
    }

    /// Whether a message that ends a run of messages is the next one, and was received already.
    pub(crate) fn is_sync_next(&self) -> bool {
        self.input.first() == Some(&b'S')
    }

    fn check_length(&self) -> io::Result<()> {
        // Before the first message is whole, its length comes first.
        let at = usize::from(!self.context.awaiting_frontend_startup);
        let Some(length) = self.input.get(at..at + 4) else { return Ok(()) };
        let length = u32::from_be_bytes(length.try_into().expect("4 bytes")) as usize;
        match length {
            4..=MAX_MESSAGE => Ok(()),
            _ => Err(invalid(format!("a message of {length} bytes"))),
        }
    }

    /// Sends a message, now or later.
    ///
    /// # Errors
    /// Of the connection.
    pub(crate) fn send<M: Message>(&mut self, message: &M) -> io::Result<()> {
        message.encode(&mut self.output).map_err(invalid)?;
        if self.output.len() >= SEND { self.flush() } else { Ok(()) }
    }

    /// Sends a byte that is no message.
    pub(crate) fn send_byte(&mut self, byte: u8) -> io::Result<()> {
        self.output.extend_from_slice(&[byte]);
        self.flush()
    }

    /// Sends what is to be sent. Blocks while the client does not read.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let output = self.output.split();
        self.stream.write_all(&output)?;
        self.stream.flush()
    }

    /// Sends an error, after which the connection goes on or, if it is fatal, ends.
    pub(crate) fn send_error(&mut self, error: &SqlError, fatal: bool) -> io::Result<()> {
        let severity = if fatal { "FATAL" } else { "ERROR" };
        let mut fields = fields_of(severity, error.state, &error.message);
        let more = [(b'D', &error.detail), (b'H', &error.hint)];
        fields.extend(more.into_iter().filter_map(|(tag, text)| Some((tag, text.clone()?))));
        self.send(&ErrorResponse::new(fields))
    }

    pub(crate) fn send_notice(
        &mut self,
        (is_warning, state, text): &(bool, &'static str, String),
    ) -> io::Result<()> {
        let severity = if *is_warning { "WARNING" } else { "NOTICE" };
        self.send(&NoticeResponse::new(fields_of(severity, state, text)))
    }
}

fn fields_of(severity: &str, state: &str, message: &str) -> Vec<(u8, String)> {
    [(b'S', severity), (b'V', severity), (b'C', state), (b'M', message)]
        .map(|(tag, text)| (tag, text.to_owned()))
        .to_vec()
}
