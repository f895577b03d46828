//! COPY: rows that a client sends, or gets.

use pgwire::messages::PgWireFrontendMessage as Incoming;
use pgwire::messages::copy::{CopyData, CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::response::CommandComplete;
use tombolo_database::Engine;
use tombolo_sql::{CopyPlan, Row, Session, SqlError, Status, state};

use crate::connection::Failure;
use crate::wire::Wire;

/// Rows that are inserted at once in a transaction.
const BATCH: usize = 1000;

/// Bytes that a COPY outside of a transaction takes at most: it is run again after conflicts.
const MAX_BYTES: usize = 256 << 20;

/// Inserts the rows that a client sends.
pub(crate) fn take<E: Engine>(
    wire: &mut Wire,
    session: &mut Session<'_, E>,
    plan: &CopyPlan,
) -> Result<(), Failure> {
    let columns = plan.width();
    wire.send(&CopyInResponse::new(0, columns as i16, vec![0; columns]))?;
    let in_transaction = session.status() == Status::InTransaction;
    let mut reader = plan.reader();
    let (mut rows, mut count, mut bytes) = (Vec::<Row>::new(), 0, 0);
    loop {
        match wire.next()? {
            Some(Incoming::CopyData(data)) => {
                bytes += data.data.len();
                if !in_transaction && bytes > MAX_BYTES {
                    let message = format!("COPY of more than {MAX_BYTES} bytes");
                    let error = SqlError::new(state::PROGRAM_LIMIT, message);
                    return Err(error.with_hint("Begin a transaction before it.").into());
                }
                rows.extend(reader.feed(&data.data)?);
                if in_transaction && rows.len() >= BATCH {
                    count += session.copy_in(plan, &rows)?;
                    rows.clear();
                }
            }
            Some(Incoming::CopyDone(_)) => break,
            Some(Incoming::CopyFail(fail)) => {
                let message = format!("COPY from stdin failed: {}", fail.message);
                return Err(SqlError::new(state::QUERY_CANCELED, message).into());
            }
            Some(Incoming::Flush(_) | Incoming::Sync(_)) => {}
            Some(_) => {
                let message = "unexpected message during COPY from stdin";
                return Err(SqlError::new(state::PROTOCOL_VIOLATION, message).into());
            }
            None => {
                let message = "the connection ended during COPY";
                return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, message).into());
            }
        }
    }
    rows.extend(reader.finish()?);
    count += session.copy_in(plan, &rows)?;
    wire.send(&CommandComplete::new(format!("COPY {count}")))?;
    Ok(())
}

/// Sends lines to a client.
pub(crate) fn give(wire: &mut Wire, plan: &CopyPlan, lines: Vec<Vec<u8>>) -> Result<(), Failure> {
    let columns = plan.width();
    wire.send(&CopyOutResponse::new(0, columns as i16, vec![0; columns]))?;
    let count = lines.len() - usize::from(plan.has_header() && !lines.is_empty());
    for line in lines {
        wire.send(&CopyData::new(line.into()))?;
    }
    wire.send(&CopyDone::new())?;
    wire.send(&CommandComplete::new(format!("COPY {count}")))?;
    Ok(())
}
