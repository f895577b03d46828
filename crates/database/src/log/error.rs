//! Errors of logs.

use std::io;

use crate::TxError;

/// Why a log was not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The storage failed.
    #[error("could not {action} `{file}` of the log: {source}")]
    Storage {
        /// The action that was tried.
        action: &'static str,
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A file is damaged before its end.
    #[error("`{file}` is damaged at byte {position}: {what}; restore it from a copy")]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        position: u64,
        /// The fault there.
        what: &'static str,
    },
    /// A file is not there, or is not all there, though another one shows that it was.
    #[error("`{file}` is missing or too short: {what}; restore it from a copy")]
    Missing {
        /// The file, or how its name begins.
        file: String,
        /// The evidence.
        what: String,
    },
    /// A worker's buffer holds something that is no record.
    #[error("the log buffer of worker {worker} of host {host} is damaged at position {position}")]
    Buffer {
        /// The host.
        host: u8,
        /// The worker.
        worker: u16,
        /// How many bytes of the buffer were whole.
        position: u64,
    },
    /// A checkpoint would count before all that its rows show is durable.
    #[error("the checkpoint was read until epoch {last}, and epoch {durable} is durable; wait")]
    Early {
        /// The epoch in which its last row was read.
        last: u64,
        /// The epoch that is durable.
        durable: u64,
    },
    /// Another host has taken this one for dead.
    #[error("another host has taken host {host} for dead and closed its log; start it again")]
    Retired {
        /// This host.
        host: u8,
    },
}

impl From<LogError> for TxError {
    fn from(error: LogError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Names what was tried when the storage failed.
pub(crate) trait During<T> {
    fn during(self, action: &'static str, file: &str) -> Result<T, LogError>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, action: &'static str, file: &str) -> Result<T, LogError> {
        self.map_err(|source| LogError::Storage { action, file: file.to_owned(), source })
    }
}
