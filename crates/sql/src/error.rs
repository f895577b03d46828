//! Errors as clients of PostgreSQL know them: a message, and a code of five characters.

use tombolo_database::TxError;

/// Codes of errors, as PostgreSQL's manual lists them in its appendix A.
pub mod state {
    #![allow(missing_docs)]
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const CARDINALITY_VIOLATION: &str = "21000";
    pub const STRING_TOO_LONG: &str = "22001";
    pub const NUMERIC_OUT_OF_RANGE: &str = "22003";
    pub const INVALID_DATETIME: &str = "22007";
    pub const DATETIME_OVERFLOW: &str = "22008";
    pub const SUBSTRING_ERROR: &str = "22011";
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    pub const INVALID_ESCAPE: &str = "22025";
    pub const INVALID_TEXT: &str = "22P02";
    pub const INVALID_BINARY: &str = "22P03";
    pub const BAD_COPY_FORMAT: &str = "22P04";
    pub const NOT_NULL_VIOLATION: &str = "23502";
    pub const FOREIGN_KEY_VIOLATION: &str = "23503";
    pub const UNIQUE_VIOLATION: &str = "23505";
    pub const ACTIVE_TRANSACTION: &str = "25001";
    pub const READ_ONLY_TRANSACTION: &str = "25006";
    pub const NO_ACTIVE_TRANSACTION: &str = "25P01";
    pub const IN_FAILED_TRANSACTION: &str = "25P02";
    pub const INVALID_STATEMENT_NAME: &str = "26000";
    pub const INVALID_PASSWORD: &str = "28P01";
    pub const INVALID_AUTHORIZATION: &str = "28000";
    pub const DEPENDENT_OBJECTS: &str = "2BP01";
    pub const INVALID_CURSOR_NAME: &str = "34000";
    pub const NO_SUCH_SAVEPOINT: &str = "3B001";
    pub const INVALID_SCHEMA: &str = "3F000";
    pub const SERIALIZATION_FAILURE: &str = "40001";
    pub const COMPLETION_UNKNOWN: &str = "40003";
    pub const SYNTAX_ERROR: &str = "42601";
    pub const INVALID_COLUMN_REFERENCE: &str = "42P10";
    pub const DUPLICATE_COLUMN: &str = "42701";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const UNDEFINED_OBJECT: &str = "42704";
    pub const GROUPING_ERROR: &str = "42803";
    pub const DATATYPE_MISMATCH: &str = "42804";
    pub const CANNOT_COERCE: &str = "42846";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const UNDEFINED_TABLE: &str = "42P01";
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    pub const DUPLICATE_CURSOR: &str = "42P03";
    pub const DUPLICATE_STATEMENT: &str = "42P05";
    pub const DUPLICATE_TABLE: &str = "42P07";
    pub const DUPLICATE_ALIAS: &str = "42712";
    pub const INVALID_TABLE_DEFINITION: &str = "42P16";
    pub const INDETERMINATE_DATATYPE: &str = "42P18";
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const PROGRAM_LIMIT: &str = "54000";
    pub const TOO_COMPLEX: &str = "54001";
    pub const OBJECT_IN_USE: &str = "55006";
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub const QUERY_CANCELED: &str = "57014";
    pub const ADMIN_SHUTDOWN: &str = "57P01";
    pub const CRASH_SHUTDOWN: &str = "57P02";
    pub const INTERNAL: &str = "XX000";
    pub const DATA_CORRUPTED: &str = "XX001";
}

/// An error for a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// Its code, one of [`state`].
    pub state: &'static str,
    /// The message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// The remedy.
    pub hint: Option<String>,
}

impl SqlError {
    /// An error with a code and a message.
    pub fn new(state: &'static str, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), detail: None, hint: None }
    }

    /// Something that is valid SQL, and not supported.
    pub fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(state::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// The same with more about it.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// The same with what to do.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Whether the transaction may succeed when it is run again.
    pub fn is_conflict(&self) -> bool {
        self.state == state::SERIALIZATION_FAILURE
    }
}

impl From<TxError> for SqlError {
    fn from(error: TxError) -> Self {
        let code = match &error {
            TxError::Conflict(_) | TxError::Exhausted { .. } => {
                let message = "could not serialize access due to a concurrent transaction";
                return Self::new(state::SERIALIZATION_FAILURE, message)
                    .with_detail(error.to_string())
                    .with_hint("The transaction might succeed if retried.");
            }
            TxError::KeyLength { .. } | TxError::RowLength { .. } | TxError::TooLarge { .. } => {
                state::PROGRAM_LIMIT
            }
            TxError::Full { .. } => state::OUT_OF_MEMORY,
            TxError::NoWorker { .. } => state::TOO_MANY_CONNECTIONS,
            TxError::NotDurable { .. } => state::COMPLETION_UNKNOWN,
            TxError::HostDied { .. }
            | TxError::Fenced { .. }
            | TxError::HostLeft { .. }
            | TxError::NoAnswer { .. } => state::CRASH_SHUTDOWN,
            TxError::Schema(_) => state::DATA_CORRUPTED,
            _ => state::INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

/// The result of most functions of this crate.
pub type Result<T> = std::result::Result<T, SqlError>;
