//! Recorded traces of caches, in public formats, and what an exact order by last use makes of them.
//!
//! | Format | A record |
//! | --- | --- |
//! | [`Llm`](TraceFormat::Llm) | a line of JSON; `hash_ids` are the blocks of a prompt |
//! | [`OracleGeneral`](TraceFormat::OracleGeneral) | 24 bytes: time, object, size, next access |
//! | [`Csv`](TraceFormat::Csv) | time, key, bytes of key and value, client, operation, deadline |
//!
//! Each may be compressed by gzip. Nothing in a trace is guessed: a record that makes no sense is
//! refused with its number.

mod exact;
mod read;

pub use exact::{ExactLru, Rates};
pub use read::{TraceError, read};

use std::fmt;
use std::str::FromStr;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Lines of JSON, one for a prompt, with `hash_ids`.
    Llm,
    /// Little-endian records: time (u32), object (u64), bytes (u32), next access (i64).
    OracleGeneral,
    /// Lines of seven fields: time in s, key, bytes of the key, bytes of the value, client,
    /// operation, time to live in s.
    Csv,
}

impl TraceFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Llm, Self::OracleGeneral, Self::Csv];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::OracleGeneral => "oracleGeneral",
            Self::Csv => "csv",
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("{text:?} is none of llm, oracleGeneral and csv"))
    }
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOperation {
    /// Asks for a value. A cache that has none gets it from elsewhere, and keeps it.
    Get,
    /// Puts a value.
    Put,
    /// Removes a value.
    Delete,
}

/// One access of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The number of the request, to which several accesses may belong.
    pub request: u64,
    /// The key, or its hash.
    pub key: u64,
    /// Bytes of the key.
    pub key_bytes: u32,
    /// Bytes of the value; 0 if the trace does not tell.
    pub value_bytes: u32,
    /// Its kind.
    pub operation: CacheOperation,
    /// After how many seconds the value expires; never, if 0.
    pub ttl_s: u32,
}
