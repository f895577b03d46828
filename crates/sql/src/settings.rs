//! Parameters of a session, such as SET and SHOW know them.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::error::{Result, SqlError, state};

/// The version that clients are told: they look at its number for what they may ask.
pub const SERVER_VERSION: &str = "15.0";

/// The result of `version()`.
pub(crate) const VERSION: &str =
    concat!("PostgreSQL 15.0 (compatible protocol), Tombolo ", env!("CARGO_PKG_VERSION"));

/// Facts about a session that statements can ask for.
#[derive(Debug)]
pub struct Facts {
    /// The user.
    pub user: String,
    /// The name of the database that the client has asked for; there is one.
    pub database: String,
    /// The number of the connection.
    pub process: i32,
    settings: BTreeMap<String, String>,
    /// The state of the generator of random numbers.
    random: Cell<u64>,
}

/// A parameter: its name, its first value, and whether it can be changed.
struct Parameter(&'static str, &'static str, Change);

/// The values of a parameter.
enum Change {
    /// Nothing else.
    Fixed,
    /// Anything; it has no effect here.
    Any,
    /// One of these, in lower case.
    OneOf(&'static [&'static str]),
}

/// Names of isolation levels. Each of them is at most as strong as what there is.
pub(crate) const ISOLATION: &[&str] =
    &["serializable", "repeatable read", "read committed", "read uncommitted"];

const ON: &[&str] = &["on", "true", "yes", "1"];

const PARAMETERS: &[Parameter] = &[
    Parameter("server_version", SERVER_VERSION, Change::Fixed),
    Parameter("server_version_num", "150000", Change::Fixed),
    Parameter("server_encoding", "UTF8", Change::Fixed),
    Parameter("client_encoding", "UTF8", Change::OneOf(&["utf8", "utf-8", "unicode"])),
    Parameter("standard_conforming_strings", "on", Change::OneOf(ON)),
    Parameter("integer_datetimes", "on", Change::Fixed),
    Parameter("datestyle", "ISO, MDY", Change::OneOf(&["iso", "iso, mdy", "iso, dmy", "iso, ymd"])),
    Parameter("intervalstyle", "postgres", Change::OneOf(&["postgres"])),
    Parameter("timezone", "UTC", Change::OneOf(&["utc", "gmt", "etc/utc", "default"])),
    Parameter("transaction_isolation", "serializable", Change::OneOf(ISOLATION)),
    Parameter("default_transaction_isolation", "serializable", Change::OneOf(ISOLATION)),
    Parameter("default_transaction_read_only", "off", Change::OneOf(&["off", "false"])),
    Parameter("transaction_read_only", "off", Change::OneOf(&["off", "false"])),
    Parameter("default_transaction_deferrable", "off", Change::Any),
    Parameter("is_superuser", "on", Change::Fixed),
    Parameter("in_hot_standby", "off", Change::Fixed),
    Parameter("search_path", "\"$user\", public", Change::Any),
    Parameter("application_name", "", Change::Any),
    Parameter("extra_float_digits", "1", Change::Any),
    Parameter("bytea_output", "hex", Change::OneOf(&["hex"])),
    Parameter("statement_timeout", "0", Change::OneOf(&["0"])),
    Parameter("lock_timeout", "0", Change::Any),
    Parameter("idle_in_transaction_session_timeout", "0", Change::OneOf(&["0"])),
    Parameter("client_min_messages", "notice", Change::Any),
    Parameter("max_identifier_length", "63", Change::Fixed),
    Parameter("default_tablespace", "", Change::OneOf(&[""])),
    Parameter("default_table_access_method", "heap", Change::OneOf(&["heap"])),
    Parameter("row_security", "on", Change::Any),
    Parameter("synchronous_commit", "on", Change::OneOf(&["on", "local", "remote_write"])),
    Parameter("jit", "off", Change::Any),
    Parameter("escape_string_warning", "on", Change::Any),
    Parameter("max_index_keys", "32", Change::Fixed),
    Parameter("lc_collate", "C", Change::Fixed),
    Parameter("lc_ctype", "C", Change::Fixed),
    Parameter("lc_monetary", "C", Change::OneOf(&["c"])),
];

/// Parameters that a client is told of when it connects, by the names that it knows.
pub const REPORTED: &[&str] = &[
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "is_superuser",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "default_transaction_read_only",
    "in_hot_standby",
];

impl Facts {
    /// A session of `user`.
    pub fn new(user: String, database: String, process: i32) -> Self {
        let seed = crate::datetime::now() as u64 ^ (process as u64) << 32 | 1;
        Self { user, database, process, settings: BTreeMap::new(), random: Cell::new(seed) }
    }

    /// A number from 0 to 1.
    pub(crate) fn random(&self) -> f64 {
        // SplitMix64
        let next = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(next);
        let mixed = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The value of a parameter.
    pub fn setting(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        let own = self.settings.get(&name).cloned();
        let first = PARAMETERS.iter().find(|parameter| parameter.0 == name);
        own.or_else(|| match &*name {
            "session_authorization" => Some(self.user.clone()),
            _ => first.map(|parameter| parameter.1.to_owned()),
        })
    }

    /// All parameters with their values.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let value = |name: &str| self.setting(name).unwrap_or_default();
        PARAMETERS.iter().map(|parameter| (parameter.0.to_owned(), value(parameter.0))).collect()
    }

    /// Changes a parameter; `None` brings its first value back.
    ///
    /// # Errors
    /// That there is no such parameter, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_ascii_lowercase();
        // Parameters of extensions, such as a client's own, have a point in their names.
        if name.contains('.') {
            match value {
                Some(value) => self.settings.insert(name, value.to_owned()),
                None => self.settings.remove(&name),
            };
            return Ok(());
        }
        let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.0 == name) else {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        };
        let Some(value) = value else {
            self.settings.remove(&name);
            return Ok(());
        };
        match &parameter.2 {
            Change::Fixed => {
                let message = format!("parameter \"{name}\" cannot be changed");
                Err(SqlError::new("55P02", message))
            }
            Change::Any => {
                self.settings.insert(name, value.to_owned());
                Ok(())
            }
            // Each of these means what there is already.
            Change::OneOf(values) if values.contains(&&*value.to_ascii_lowercase()) => Ok(()),
            Change::OneOf(values) => {
                let values = values.join(", ");
                let message = format!("parameter \"{name}\" cannot be \"{value}\"");
                Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
                    .with_hint(format!("It can be one of: {values}.")))
            }
        }
    }
}

impl Facts {
    /// Brings the first values of all parameters back.
    pub(crate) fn reset(&mut self) {
        self.settings.clear();
    }
}
