//! The beginning of a connection: its parameters, and the proof that the client knows the password.

use std::collections::BTreeMap;
use std::io;

use pgwire::messages::response::SslResponse;
use pgwire::messages::startup::{
    Authentication, NegotiateProtocolVersion, PasswordMessageFamily, SecretKey, Startup,
};
use pgwire::messages::{PgWireFrontendMessage, SslNegotiationMetaMessage};
use tombolo_sql::{Facts, SqlError, state};

use crate::scram::Exchange;
use crate::server::Config;
use crate::wire::Wire;

/// The mechanism that passwords are proved by.
const MECHANISM: &str = "SCRAM-SHA-256";

/// Messages before the first one that matters, at most.
const MAX_REQUESTS: usize = 4;

/// How a connection begins.
pub(crate) enum Beginning {
    /// A client, with the parameters that it gives.
    Client(BTreeMap<String, String>),
    /// A client's wish that the statement of another connection be cancelled.
    Cancel { process: i32, secret: i32 },
    /// The connection has ended.
    End,
}

fn refused(code: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(code, message)
}

/// Reads how a connection begins.
pub(crate) fn begin(wire: &mut Wire) -> io::Result<Beginning> {
    for _ in 0..MAX_REQUESTS {
        match wire.next()? {
            None => return Ok(Beginning::End),
            Some(PgWireFrontendMessage::SslNegotiation(request)) => match request {
                SslNegotiationMetaMessage::None => wire.context().awaiting_frontend_ssl = false,
                // The client goes on without encryption, or ends.
                _ => wire.send_byte(SslResponse::BYTE_REFUSE)?,
            },
            Some(PgWireFrontendMessage::CancelRequest(request)) => {
                let SecretKey::I32(secret) = request.secret_key else { return Ok(Beginning::End) };
                return Ok(Beginning::Cancel { process: request.pid, secret });
            }
            Some(PgWireFrontendMessage::Startup(startup)) => {
                wire.context().awaiting_frontend_startup = false;
                return client(wire, startup);
            }
            Some(_) => break,
        }
    }
    Ok(Beginning::End)
}

fn client(wire: &mut Wire, startup: Startup) -> io::Result<Beginning> {
    let (major, minor) = (startup.protocol_number_major, startup.protocol_number_minor);
    if major != 3 {
        let message = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0");
        wire.send_error(&refused(state::FEATURE_NOT_SUPPORTED, message), true)?;
        wire.flush()?;
        return Ok(Beginning::End);
    }
    let is_option = |name: &&String| name.starts_with("_pq_.");
    let options: Vec<String> = startup.parameters.keys().filter(is_option).cloned().collect();
    if minor > 0 || !options.is_empty() {
        wire.send(&NegotiateProtocolVersion::new(0, options))?;
    }
    Ok(Beginning::Client(startup.parameters))
}

/// Whether the client is the user that it says it is; it was told, if not.
pub(crate) fn authenticate(wire: &mut Wire, config: &Config, user: &str) -> io::Result<bool> {
    let Some((known, password)) = &config.login else {
        wire.send(&Authentication::Ok)?;
        return Ok(true);
    };
    wire.send(&Authentication::SASL(vec![MECHANISM.to_owned()]))?;
    let failed = format!("password authentication failed for user \"{user}\"");
    let failed = refused(state::INVALID_PASSWORD, failed);
    let fail = |wire: &mut Wire| {
        wire.send_error(&failed, true)?;
        wire.flush()?;
        Ok(false)
    };
    let Some(message) = password_message(wire)? else { return Ok(false) };
    let first = match message.into_sasl_initial_response() {
        Ok(first) if first.auth_method == MECHANISM => first,
        _ => return fail(wire),
    };
    let Some(exchange) = Exchange::begin(password, &first.data.unwrap_or_default())? else {
        return fail(wire);
    };
    wire.send(&Authentication::SASLContinue(exchange.server_first.clone().into()))?;
    let Some(message) = password_message(wire)? else { return Ok(false) };
    let Ok(last) = message.into_sasl_response() else { return fail(wire) };
    // A user that is not known takes the same steps.
    match exchange.finish(&last.data).filter(|_| user == known) {
        None => fail(wire),
        Some(answer) => {
            wire.send(&Authentication::SASLFinal(answer.into()))?;
            wire.send(&Authentication::Ok)?;
            Ok(true)
        }
    }
}

fn password_message(wire: &mut Wire) -> io::Result<Option<PasswordMessageFamily>> {
    Ok(match wire.next()? {
        Some(PgWireFrontendMessage::PasswordMessageFamily(message)) => Some(message),
        _ => None,
    })
}

/// The facts of a session whose client gives these parameters.
///
/// # Errors
/// That one cannot have its value.
pub(crate) fn facts_of(
    parameters: &BTreeMap<String, String>,
    process: i32,
) -> Result<Facts, SqlError> {
    let user = parameters.get("user").cloned().unwrap_or_default();
    if user.is_empty() {
        let message = "no PostgreSQL user name specified in startup packet";
        return Err(refused(state::INVALID_AUTHORIZATION, message));
    }
    let database = parameters.get("database").cloned().unwrap_or_else(|| user.clone());
    let mut facts = Facts::new(user, database, process);
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" => {}
            "replication" if ["false", "off", "no", "0"].contains(&value.as_str()) => {}
            "replication" => {
                return Err(SqlError::unsupported("a connection for replication"));
            }
            "options" => set_options(&mut facts, value)?,
            name if name.starts_with("_pq_.") => {}
            name => facts.set(name, Some(value))?,
        }
    }
    Ok(facts)
}

/// Options of a command line: `-c name=value`.
fn set_options(facts: &mut Facts, options: &str) -> Result<(), SqlError> {
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().unwrap_or_default(),
            Some(setting) => setting,
            None => return Err(SqlError::unsupported(format_args!("the option {word}"))),
        };
        let Some((name, value)) = setting.split_once('=') else {
            return Err(refused(state::SYNTAX_ERROR, format!("the option {setting} has no value")));
        };
        facts.set(&name.replace('-', "_"), Some(value))?;
    }
    Ok(())
}
