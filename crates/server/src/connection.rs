//! Serving one connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::commands::{self, Executed};
use crate::decode::{Decoder, Sender};
use crate::held::Held;
use crate::pipeline::Pipeline;
use crate::reply::Reply;
use crate::room::FREE_BYTES;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::add;

/// Room to read into, in bytes: at first, and as long as that is not filled.
const READ_BYTES: usize = 16 << 10;
/// The most that is made for a client that fills it.
const MOST_READ_BYTES: usize = 256 << 10;
/// Replies are sent once there are as many bytes of them, so that a client which does not read them
/// is not read from either.
pub(crate) const WRITE_BYTES: usize = 256 << 10;
/// Buffers that have held more do not keep their memory for as long as the connection lasts.
const KEEP_BYTES: usize = 4 * WRITE_BYTES;

/// A client that is sent a large reply, and takes none of it for so long, is cut off: others may
/// wait for the room.
const SLOW: Duration = Duration::from_secs(20);
/// How often a request is executed whose reply turns out larger than there is room for.
const TRIES: usize = 16;

/// A connection that is being served.
pub(crate) struct Connection {
    stream: TcpStream,
    session: Session,
    shared: Arc<Shared>,
    output: BytesMut,
}

/// Serves a client until it goes, or does something that cannot be understood. If the server stops,
/// its threads do not come back to this.
pub(crate) async fn serve(stream: TcpStream, session: Session, shared: Arc<Shared>) {
    let mut connection = Connection { stream, session, shared, output: BytesMut::new() };
    // An error here is a client that has gone.
    let _ = connection.serve().await;
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        let mut pipeline = Pipeline::default();
        let mut decoder = Decoder::default();
        let mut input = Input::default();
        let mut held = Held::new(self.shared.clone());
        // A request, or the lack of one, that was found behind others.
        let mut waiting = None;
        loop {
            let decoded = waiting.take();
            let sender = self.session.sender();
            match decoded.unwrap_or_else(|| decoder.next(&mut input.bytes, sender)) {
                Ok(Some(request)) if pipeline.takes(&request, &self.session) => {
                    if pipeline.add(request) {
                        continue;
                    }
                    self.answer_all(&mut pipeline).await?;
                }
                // Requests that came before are answered before.
                decoded if !pipeline.is_empty() => {
                    self.answer_all(&mut pipeline).await?;
                    waiting = Some(decoded);
                }
                Ok(Some(request)) => self.answer_one(&request).await?,
                Ok(None) if !held.set(decoder.held_bytes() + input.bytes.len()) => {
                    let text = "ERR too many bytes of requests are under way; try again later";
                    Reply::Error(text.to_owned()).encode(self.session.protocol, &mut self.output);
                    self.session.closing = true;
                }
                Ok(None) => {
                    self.session.client.outbox.take(&mut self.output);
                    self.send().await?;
                    let bytes = tokio::select! {
                        bytes = input.read(&mut self.stream) => bytes?,
                        () = self.session.client.outbox.filled() => continue,
                    };
                    self.session.client.is_active();
                    add(&self.shared.counters.bytes_in, bytes);
                    // A stranger gets no more than it needs.
                    if sender == Sender::Client {
                        input.room = next_room(input.room, bytes);
                    }
                }
                Err(error) => {
                    Reply::Error(format!("ERR {error}"))
                        .encode(self.session.protocol, &mut self.output);
                    self.session.closing = true;
                }
            }
            if self.session.closing || self.output.len() >= WRITE_BYTES {
                self.send().await?;
            }
            if self.session.closing {
                return self.stream.shutdown().await;
            }
        }
    }

    /// Answers requests that wait to be done together.
    async fn answer_all(&mut self, pipeline: &mut Pipeline) -> io::Result<()> {
        while !pipeline.is_empty() {
            if self.shared.pause.is_on() {
                self.shared.pause.wait(pipeline.writes()).await;
            }
            pipeline.answer(&mut self.session, &self.shared, &mut self.output);
            if let Some(request) = pipeline.next_alone() {
                self.answer_one(&request).await?;
            }
            if self.output.len() >= WRITE_BYTES {
                self.send().await?;
            }
        }
        Ok(())
    }

    /// Executes a request, and adds its reply to the output.
    async fn answer_one(&mut self, request: &[Bytes]) -> io::Result<()> {
        // Messages that came before the request are sent before its reply.
        self.session.client.outbox.take(&mut self.output);
        if self.shared.pause.is_on() {
            self.shared.pause.wait(commands::writes(request)).await;
        }
        match commands::execute(request, &mut self.session, &self.shared, FREE_BYTES) {
            Executed::Replied(reply) => {
                answer(&reply, &mut self.session, &self.shared, &mut self.output);
                Ok(())
            }
            // (Boxed: connections that never get there do without its room.)
            Executed::NeedsRoom(bytes) => Box::pin(self.answer_with_room(request, bytes)).await,
        }
    }

    /// Executes a request whose reply takes so many bytes, once there is room for that, and sends
    /// the reply before the room is given back.
    async fn answer_with_room(&mut self, request: &[Bytes], mut bytes: u64) -> io::Result<()> {
        self.send().await?;
        for _ in 0..TRIES {
            let room = self.shared.room.take(bytes).await;
            let Some(_room) = room else { return Err(io::ErrorKind::ConnectionAborted.into()) };
            match commands::execute(request, &mut self.session, &self.shared, bytes) {
                // A value has grown meanwhile.
                Executed::NeedsRoom(more) => bytes = more.max(bytes + bytes / 4),
                Executed::Replied(reply) => {
                    answer(&reply, &mut self.session, &self.shared, &mut self.output);
                    drop(reply);
                    return self.send_in_time().await;
                }
            }
        }
        let text = "TRYAGAIN the values grow faster than they can be read".to_owned();
        answer(&Reply::Error(text), &mut self.session, &self.shared, &mut self.output);
        Ok(())
    }

    async fn send(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        self.stream.write_all(&self.output).await?;
        self.sent();
        Ok(())
    }

    /// Sends to a client that has to take some of it every now and then.
    async fn send_in_time(&mut self) -> io::Result<()> {
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            let written = timeout(SLOW, self.stream.write(rest)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        self.sent();
        Ok(())
    }

    fn sent(&mut self) {
        add(&self.shared.counters.bytes_out, self.output.len());
        self.output.clear();
        if self.output.capacity() > KEEP_BYTES {
            self.output = BytesMut::new();
        }
    }
}

/// Bytes that a client has sent, and that are not a request yet.
struct Input {
    bytes: BytesMut,
    /// The most that `bytes` has held: its capacity does not tell what memory is behind it.
    held_bytes: usize,
    room: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self { bytes: BytesMut::new(), held_bytes: 0, room: READ_BYTES }
    }
}

impl Input {
    /// Reads what has come; how many bytes that is.
    async fn read(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        if self.held_bytes > KEEP_BYTES && self.bytes.len() < READ_BYTES {
            self.bytes = BytesMut::from(&self.bytes[..]);
            self.held_bytes = 0;
        }
        self.bytes.reserve(self.room);
        let read = stream.read_buf(&mut self.bytes).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.held_bytes = self.held_bytes.max(self.bytes.len());
        Ok(read)
    }
}

/// Room for what comes next, after so many bytes have come. Requests that are read at once are done
/// together, so who sends many at a time gets more of it.
fn next_room(room: usize, read_bytes: usize) -> usize {
    if read_bytes >= room {
        (2 * room).min(MOST_READ_BYTES)
    } else if read_bytes < room / 4 {
        (room / 2).max(READ_BYTES)
    } else {
        room
    }
}

/// Adds the reply to a request that was executed.
pub(crate) fn answer(reply: &Reply, session: &mut Session, shared: &Shared, output: &mut BytesMut) {
    add(&shared.counters.commands, 1);
    if let Reply::Error(text) = reply {
        add(&shared.counters.errors, 1);
        shared.tallies.error(text);
    }
    if session.wants_reply() {
        reply.encode(session.protocol, output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_what_a_client_sends_at_once() {
        let after =
            |room, reads: &[usize]| reads.iter().fold(room, |room, &bytes| next_room(room, bytes));
        assert_eq!(after(READ_BYTES, &[READ_BYTES, 1000]), 2 * READ_BYTES / 2);
        assert_eq!(after(READ_BYTES, &[READ_BYTES, 17 << 10, 17 << 10]), 2 * READ_BYTES);
        assert_eq!(after(READ_BYTES, &[usize::MAX; 20]), MOST_READ_BYTES);
        assert_eq!(after(MOST_READ_BYTES, &[1; 20]), READ_BYTES);
    }
}
