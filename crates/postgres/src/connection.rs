//! One client's connection.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pgwire::messages::PgWireFrontendMessage as Incoming;
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus,
};
use pgwire::messages::startup::{BackendKeyData, ParameterStatus, SecretKey};
use tombolo_database::Engine;
use tombolo_sql::{REPORTED, Response, Session, SqlError, Status, state};

use crate::extended::Portal;
use crate::rows::{data_row, description};
use crate::server::Shared;
use crate::startup::{self, Beginning};
use crate::wire::Wire;

/// Why a message was not handled.
pub(crate) enum Failure {
    /// The client is told, and goes on.
    Sql(SqlError),
    /// The connection has failed.
    Io(io::Error),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs a connection to its end.
pub(crate) fn run<E: Engine>(stream: TcpStream, shared: &Shared<E>) {
    // How a connection ends is the client's affair.
    let _ = begin(stream, shared);
}

fn begin<E: Engine>(stream: TcpStream, shared: &Shared<E>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut wire = Wire::new(stream.try_clone()?);
    let parameters = match startup::begin(&mut wire)? {
        Beginning::End => return Ok(()),
        Beginning::Cancel { process, secret } => {
            shared.cancel(process, secret);
            return Ok(());
        }
        Beginning::Client(parameters) => parameters,
    };
    let Some((process, secret, cancel)) = shared.enter(&stream)? else {
        let message = "sorry, too many clients already";
        let error = SqlError::new(state::TOO_MANY_CONNECTIONS, message);
        wire.send_error(&error, true)?;
        return wire.flush();
    };
    let done = (|| {
        let user = parameters.get("user").map(String::as_str).unwrap_or_default();
        if !startup::authenticate(&mut wire, &shared.config, user)? {
            return Ok(());
        }
        let facts = match startup::facts_of(&parameters, process) {
            Ok(facts) => facts,
            Err(error) => {
                wire.send_error(&error, true)?;
                return wire.flush();
            }
        };
        for name in REPORTED {
            let value = facts.setting(name).unwrap_or_default();
            wire.send(&ParameterStatus::new((*name).to_owned(), value))?;
        }
        wire.send(&BackendKeyData::new(process, SecretKey::I32(secret)))?;
        let session = Session::new(&shared.db, facts, Arc::clone(&cancel));
        let portals = HashMap::new();
        Connection { wire: &mut wire, session, cancel, portals, skips: false }.serve()
    })();
    shared.leave(process);
    done
}

/// A client's connection, and its session.
pub(crate) struct Connection<'c, 'd, E: Engine> {
    pub(crate) wire: &'c mut Wire,
    pub(crate) session: Session<'d, E>,
    pub(crate) cancel: Arc<AtomicBool>,
    pub(crate) portals: HashMap<String, Portal>,
    /// Whether messages are skipped up to the next Sync, after an error.
    pub(crate) skips: bool,
}

impl<E: Engine> Connection<'_, '_, E> {
    fn serve(mut self) -> io::Result<()> {
        self.ready()?;
        while let Some(message) = self.wire.next()? {
            let done = match message {
                Incoming::Terminate(_) => break,
                Incoming::Query(query) => {
                    self.skips = false;
                    let done = self.query(&query.query);
                    self.tell(done)?;
                    self.ready()?;
                    continue;
                }
                Incoming::Sync(_) => {
                    let done = self.session.end_implicit(!self.skips).map_err(Failure::Sql);
                    self.tell(done)?;
                    self.skips = false;
                    self.ready()?;
                    continue;
                }
                Incoming::Flush(_) => self.wire.flush().map_err(Failure::Io),
                // Rest of a COPY that has failed.
                Incoming::CopyData(_) | Incoming::CopyDone(_) | Incoming::CopyFail(_) => Ok(()),
                _ if self.skips => Ok(()),
                message => self.extended(message),
            };
            if self.tell(done)? {
                self.skips = true;
            }
        }
        Ok(())
    }

    /// Tells the client of an error; whether there was one.
    fn tell(&mut self, done: Result<(), Failure>) -> io::Result<bool> {
        match done {
            Ok(()) => Ok(false),
            Err(Failure::Io(error)) => Err(error),
            Err(Failure::Sql(error)) => {
                self.session.fail();
                self.wire.send_error(&error, false)?;
                Ok(true)
            }
        }
    }

    fn ready(&mut self) -> io::Result<()> {
        let status = match self.session.status() {
            Status::Idle => TransactionStatus::Idle,
            Status::InTransaction => TransactionStatus::Transaction,
            Status::Failed => TransactionStatus::Error,
        };
        if status == TransactionStatus::Idle {
            self.portals.clear();
        }
        self.wire.send(&ReadyForQuery::new(status))?;
        self.wire.flush()
    }

    fn query(&mut self, sql: &str) -> Result<(), Failure> {
        self.cancel.store(false, Ordering::Relaxed);
        let mut is_empty = true;
        let mut failed = None;
        let Self { wire, session, .. } = self;
        let done = session.query(sql, &mut |session, response| {
            is_empty = false;
            match respond(wire, session, response) {
                Ok(()) => Ok(()),
                Err(Failure::Sql(error)) => Err(error),
                Err(Failure::Io(error)) => {
                    let message = error.to_string();
                    failed = Some(error);
                    Err(SqlError::new(state::PROTOCOL_VIOLATION, message))
                }
            }
        });
        match failed {
            Some(error) => return Err(error.into()),
            None => done?,
        }
        if is_empty {
            self.wire.send(&EmptyQueryResponse::new())?;
        }
        Ok(())
    }
}

/// Sends the response to a statement of a simple query.
fn respond<E: Engine>(
    wire: &mut Wire,
    session: &mut Session<'_, E>,
    response: Response,
) -> Result<(), Failure> {
    match response {
        Response::Rows { columns, rows, tag } => {
            wire.send(&description(&columns, &[]))?;
            for row in &rows {
                wire.send(&data_row(&columns, row, &[]))?;
            }
            wire.send(&CommandComplete::new(tag))?;
        }
        Response::Done { tag, notice } => {
            if let Some(notice) = &notice {
                wire.send_notice(notice)?;
            }
            wire.send(&CommandComplete::new(tag))?;
        }
        Response::CopyIn(plan) => crate::copy::take(wire, session, &plan)?,
        Response::CopyOut(plan, lines) => crate::copy::give(wire, &plan, lines)?,
    }
    Ok(())
}
