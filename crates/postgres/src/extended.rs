//! Statements that are parsed once, and run with parameters: extended queries.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pgwire::messages::PgWireFrontendMessage as Incoming;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use tombolo_database::Engine;
use tombolo_sql::{
    DataType, Datum, OutputColumn, Prepared, Response, Row, SqlError, Status, decode_binary,
    parse_text, state,
};

use crate::connection::{Connection, Failure};
use crate::rows::{Format, data_row, description, format_of};

/// A statement with its parameters.
pub(crate) struct Portal {
    prepared: Arc<Prepared>,
    params: Vec<Datum>,
    formats: Vec<i16>,
    /// Rows that are left to be sent, once it was run.
    left: Option<(Vec<OutputColumn>, VecDeque<Row>, String)>,
}

impl<E: Engine> Connection<'_, '_, E> {
    pub(crate) fn extended(&mut self, message: Incoming) -> Result<(), Failure> {
        match message {
            Incoming::Parse(parse) => self.parse(parse),
            Incoming::Bind(bind) => self.bind(bind),
            Incoming::Describe(describe) => self.describe(&describe),
            Incoming::Execute(execute) => self.execute(&execute),
            Incoming::Close(close) => {
                let name = close.name.unwrap_or_default();
                match close.target_type {
                    TARGET_TYPE_BYTE_STATEMENT => self.session.forget(&name),
                    _ => drop(self.portals.remove(&name)),
                }
                Ok(self.wire.send(&CloseComplete::new())?)
            }
            _ => {
                let message = "unexpected message";
                Err(SqlError::new(state::PROTOCOL_VIOLATION, message).into())
            }
        }
    }

    fn parse(&mut self, parse: Parse) -> Result<(), Failure> {
        let name = parse.name.unwrap_or_default();
        let statements = self.session.parse(&parse.query)?;
        let types = parse.type_oids.iter().map(|&oid| {
            DataType::from_oid(oid).ok_or_else(|| {
                SqlError::unsupported(format_args!("a parameter of the type with number {oid}"))
            })
        });
        let types = types.collect::<Result<Vec<_>, _>>()?;
        let prepared = match &*statements {
            [] => Prepared::empty(),
            [statement] => self.session.prepare(statement, &types)?,
            _ => {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(SqlError::new(state::SYNTAX_ERROR, message).into());
            }
        };
        self.session.keep(&name, prepared)?;
        Ok(self.wire.send(&ParseComplete::new())?)
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let prepared = self.session.kept(&bind.statement_name.unwrap_or_default())?;
        let (given, wanted) = (bind.parameters.len(), prepared.params.len());
        if given != wanted {
            let message = format!(
                "bind message supplies {given} parameters, but prepared statement requires {wanted}"
            );
            return Err(SqlError::new(state::PROTOCOL_VIOLATION, message).into());
        }
        let codes = &bind.parameter_format_codes;
        let mut params = Vec::with_capacity(given);
        for (number, (bytes, ty)) in bind.parameters.iter().zip(&prepared.params).enumerate() {
            params.push(match bytes {
                None => Datum::Null,
                Some(bytes) => match format_of(codes, number) {
                    Format::Binary => decode_binary(bytes, *ty)?,
                    Format::Text => {
                        let text = std::str::from_utf8(bytes).map_err(|_| {
                            SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\"")
                        })?;
                        parse_text(text, *ty)?
                    }
                },
            });
        }
        let name = bind.portal_name.unwrap_or_default();
        if !name.is_empty() && self.portals.contains_key(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message).into());
        }
        let formats = bind.result_column_format_codes;
        self.portals.insert(name, Portal { prepared, params, formats, left: None });
        Ok(self.wire.send(&BindComplete::new())?)
    }

    fn describe(&mut self, describe: &Describe) -> Result<(), Failure> {
        let name = describe.name.as_deref().unwrap_or_default();
        let (prepared, formats) = match describe.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let prepared = self.session.kept(name)?;
                let types = prepared.params.iter().map(|ty| ty.oid()).collect();
                self.wire.send(&ParameterDescription::new(types))?;
                (prepared, Vec::new())
            }
            _ => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (Arc::clone(&portal.prepared), portal.formats.clone())
            }
        };
        match &prepared.columns {
            Some(columns) => self.wire.send(&description(columns, &formats))?,
            None => self.wire.send(&NoData::new())?,
        }
        Ok(())
    }

    fn execute(&mut self, execute: &Execute) -> Result<(), Failure> {
        let name = execute.name.as_deref().unwrap_or_default();
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        if portal.prepared.is_empty() {
            return Ok(self.wire.send(&EmptyQueryResponse::new())?);
        }
        if portal.left.is_none() {
            self.cancel.store(false, Ordering::Relaxed);
            // Statements up to the next Sync are one transaction.
            let is_last = self.wire.is_sync_next();
            if !is_last && self.session.status() == Status::Idle {
                self.session.begin_implicit(&portal.prepared)?;
            }
            match self.session.execute(&portal.prepared, &portal.params)? {
                Response::Rows { columns, rows, tag } => {
                    portal.left = Some((columns, rows.into(), tag));
                }
                Response::Done { tag, notice } => {
                    if let Some(notice) = &notice {
                        self.wire.send_notice(notice)?;
                    }
                    return Ok(self.wire.send(&CommandComplete::new(tag))?);
                }
                Response::CopyIn(plan) => {
                    return crate::copy::take(self.wire, &mut self.session, &plan);
                }
                Response::CopyOut(plan, lines) => {
                    return crate::copy::give(self.wire, &plan, lines);
                }
            }
        }
        let Some((columns, rows, tag)) = &mut portal.left else { return Ok(()) };
        let most = usize::try_from(execute.max_rows).unwrap_or(0);
        let count = if most == 0 { rows.len() } else { most.min(rows.len()) };
        for row in rows.drain(..count) {
            self.wire.send(&data_row(columns, &row, &portal.formats))?;
        }
        if most > 0 && !rows.is_empty() {
            return Ok(self.wire.send(&PortalSuspended::new())?);
        }
        let tag = match tag.starts_with("SELECT ") {
            true => format!("SELECT {count}"),
            false => tag.clone(),
        };
        Ok(self.wire.send(&CommandComplete::new(tag))?)
    }
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(state::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
