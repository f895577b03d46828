//! Errors of objects, as errors of transactions.

use tombolo_database::{Conflict, TxError};
use tombolo_sharing::Error;

/// The error of a transaction on whose host an operation on objects has failed.
pub(crate) fn of_objects(host: u8, error: &Error) -> TxError {
    match error {
        Error::Busy { .. } => Conflict::Lock.into(),
        Error::LnrFull { .. } | Error::IndexFull { .. } => {
            TxError::Full { what: "the pod", hint: "give it more LNR" }
        }
        // A row or a leaf went with a host that was changing it. The logs have it.
        Error::Lost { host } => TxError::HostDied { host: *host },
        error if error.is_fenced() => TxError::Fenced { host },
        error => TxError::Failed(error.to_string()),
    }
}
