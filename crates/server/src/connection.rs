//! Serving one connection.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::commands;
use crate::decode::Decoder;
use crate::pipeline::Pipeline;
use crate::reply::Reply;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::add;

/// Room to read into, at least, in bytes.
const READ_BYTES: usize = 16 << 10;
/// Replies are sent once there are as many bytes of them, so that a client which does not read them
/// is not read from either.
pub(crate) const WRITE_BYTES: usize = 256 << 10;
/// Buffers that have held more do not keep their memory for as long as the connection lasts.
const KEEP_BYTES: usize = 4 * WRITE_BYTES;

/// Serves a client until it goes, or does something that cannot be understood. If the server stops, its threads
/// do not come back to this.
pub(crate) async fn serve(mut stream: TcpStream, mut session: Session, shared: Arc<Shared>) {
    let mut pipeline = Pipeline::default();
    let mut decoder = Decoder::default();
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    // The most that `input` has held: its capacity does not tell what memory is behind it.
    let mut held_bytes = 0;
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
                input.reserve(READ_BYTES);
                match stream.read_buf(&mut input).await {
                    Ok(bytes) if bytes > 0 => add(&shared.counters.bytes_in, bytes),
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
