//! Errors of a host that comes to a database.

use tombolo_pod::PodError;

use crate::TxError;

/// Why a host does not come to a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The pod, or its area.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The database cannot be used like this.
    #[error("the database cannot be used: {0}")]
    Unusable(String),
    /// Hosts are missing.
    #[error(
        "{come} of the database's {homes} hosts have come within {waited_ms} ms; start the others"
    )]
    Missing {
        /// How many have come.
        come: u64,
        /// How many there are to be.
        homes: u8,
        /// How long they were waited for.
        waited_ms: u64,
    },
    /// A transaction's error.
    #[error(transparent)]
    Tx(#[from] TxError),
}
