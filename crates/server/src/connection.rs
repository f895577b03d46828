//! Serving one connection.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::commands;
use crate::decode::{Decoder, Sender};
use crate::pipeline::Pipeline;
use crate::reply::Reply;
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

/// Serves a client until it goes, or does something that cannot be understood. If the server stops,
/// its threads do not come back to this.
pub(crate) async fn serve(mut stream: TcpStream, mut session: Session, shared: Arc<Shared>) {
    let mut pipeline = Pipeline::default();
    let mut decoder = Decoder::default();
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    // The most that `input` has held: its capacity does not tell what memory is behind it.
    let mut held_bytes = 0;
    let mut room = READ_BYTES;
    // A request, or the lack of one, that was found behind others.
    let mut waiting = None;
    loop {
        let decoded = waiting.take();
        match decoded.unwrap_or_else(|| decoder.next(&mut input, session.sender())) {
            Ok(Some(request)) if pipeline.takes(&request, &session) => {
                if pipeline.add(request) {
                    continue;
                }
                pipeline.answer(&mut session, &shared, &mut output);
            }
            // What was asked for before is answered before.
            decoded if !pipeline.is_empty() => {
                pipeline.answer(&mut session, &shared, &mut output);
                waiting = Some(decoded);
            }
            Ok(Some(request)) => execute(&request, &mut session, &shared, &mut output),
            Ok(None) => {
                if send(&mut stream, &mut output, &shared).await.is_err() {
                    return;
                }
                if held_bytes > KEEP_BYTES && input.len() < READ_BYTES {
                    input = BytesMut::from(&input[..]);
                    held_bytes = 0;
                }
                input.reserve(room);
                match stream.read_buf(&mut input).await {
                    Ok(bytes) if bytes > 0 => {
                        add(&shared.counters.bytes_in, bytes);
                        // A stranger gets no more than it needs.
                        if session.sender() == Sender::Client {
                            room = next_room(room, bytes);
                        }
                    }
                    _ => return,
                }
                held_bytes = held_bytes.max(input.len());
            }
            Err(error) => {
                Reply::Error(format!("ERR {error}")).encode(session.protocol, &mut output);
                session.closing = true;
            }
        }
        if (session.closing || output.len() >= WRITE_BYTES)
            && send(&mut stream, &mut output, &shared).await.is_err()
        {
            return;
        }
        if session.closing {
            let _ = stream.shutdown().await;
            return;
        }
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

/// Executes a request, and adds the reply to `output`.
pub(crate) fn execute(
    request: &[Bytes],
    session: &mut Session,
    shared: &Shared,
    output: &mut BytesMut,
) {
    let reply = commands::execute(request, session, shared);
    answer(&reply, session, shared, output);
}

/// Adds the reply to a request that was executed.
pub(crate) fn answer(reply: &Reply, session: &Session, shared: &Shared, output: &mut BytesMut) {
    add(&shared.counters.commands, 1);
    if matches!(reply, Reply::Error(_)) {
        add(&shared.counters.errors, 1);
    }
    reply.encode(session.protocol, output);
}

async fn send(
    stream: &mut TcpStream,
    output: &mut BytesMut,
    shared: &Shared,
) -> std::io::Result<()> {
    if output.is_empty() {
        return Ok(());
    }
    stream.write_all(output).await?;
    add(&shared.counters.bytes_out, output.len());
    output.clear();
    if output.capacity() > KEEP_BYTES {
        *output = BytesMut::new();
    }
    Ok(())
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
