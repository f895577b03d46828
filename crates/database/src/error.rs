//! Errors of transactions.

use crate::TableId;
use crate::schema::SchemaError;

/// Why two transactions could not both go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conflict {
    /// Another transaction holds a lock on the row.
    Lock,
    /// Another transaction holds a lock on the gap between two rows.
    Gap,
    /// A row that was read has changed since.
    Validation,
    /// The row was being moved between hosts.
    Moved,
}

/// Why an operation of a transaction was not done.
///
/// After [`TxError::Conflict`] the transaction can only be aborted and run again. After the errors
/// that speak of the caller's input it can go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxError {
    /// Another transaction is in the way. Run this one again.
    #[error("another transaction is in the way ({0:?}); run this one again")]
    Conflict(Conflict),
    /// A row with this key is there already.
    #[error("table {table} has a row with this key already")]
    Duplicate {
        /// The table.
        table: TableId,
    },
    /// There is no such table.
    #[error("there is no table {table}")]
    NoTable {
        /// The number that was given.
        table: TableId,
    },
    /// The key does not fit.
    #[error("a key of {bytes} bytes is not within 1 to {most} in table {table}; shorten it")]
    KeyLength {
        /// The table.
        table: TableId,
        /// Its length.
        bytes: usize,
        /// The most there can be.
        most: usize,
    },
    /// The row does not fit.
    #[error("a row of {bytes} bytes is longer than the {most} that table {table} was made for")]
    RowLength {
        /// The table.
        table: TableId,
        /// Its length.
        bytes: usize,
        /// The most there can be.
        most: usize,
    },
    /// The transaction has too many changes to be logged as one.
    #[error(
        "the transaction changes {bytes} bytes, more than the {most} of a log buffer; split it"
    )]
    TooLarge {
        /// Bytes of its log record.
        bytes: u64,
        /// The most there can be.
        most: u64,
    },
    /// The row cannot be written: its table is read-only after loading.
    #[error("table {table} has a copy on each host, and is read-only after loading")]
    ReadOnly {
        /// The table.
        table: TableId,
    },
    /// There is no room for what has to be shared.
    #[error("{what} is full: {hint}")]
    Full {
        /// The memory that is full.
        what: &'static str,
        /// The remedy.
        hint: &'static str,
    },
    /// A host of the database has ended without leaving; nothing goes on before recovery.
    #[error("host {host} of the database has died; run `tombolo db recover` on the pod")]
    HostDied {
        /// Its number.
        host: u8,
    },
    /// This host was taken for dead, and the others go on without it.
    #[error("host {host} of the database was fenced: the others go on without it; start it again")]
    Fenced {
        /// Its number.
        host: u8,
    },
    /// The host at which the row is at home has left the database.
    #[error("host {host}, which has the row, has left the database; start it again")]
    HostLeft {
        /// Its number.
        host: u8,
    },
    /// A row is to be loaded on a host that is not its home.
    #[error("partition {partition} is at home on host {host}; load its rows there")]
    NotHome {
        /// The row's partition.
        partition: u32,
        /// The number of its home.
        host: u8,
    },
    /// A host does not answer.
    #[error("host {host} has not answered for {waited_ms} ms; is it alive?")]
    NoAnswer {
        /// Its number.
        host: u8,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The transaction was in conflict with others each time.
    #[error("the transaction was in conflict with others {attempts} times; make it smaller")]
    Exhausted {
        /// How often it was run.
        attempts: u32,
    },
    /// All workers of this host run transactions.
    #[error("no worker of this host has been idle for {waited_ms} ms; have more workers")]
    NoWorker {
        /// How long one was waited for.
        waited_ms: u64,
    },
    /// The transaction has committed, and may be lost if hosts die.
    #[error("committed, but epoch {epoch} is not durable after {waited_ms} ms; look at the logs")]
    NotDurable {
        /// The epoch that it committed in.
        epoch: u64,
        /// How long was waited.
        waited_ms: u64,
    },
    /// A value or a name does not fit the schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Something below the engine failed.
    #[error("{0}")]
    Failed(String),
}

impl TxError {
    /// Whether the transaction may succeed when it is run again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }
}

impl From<Conflict> for TxError {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}
