//! Errors that several protocols end with.

use tombolo_log::LogError;

use crate::Error;
use crate::ids::LostTo;

pub(crate) fn no_such_slot() -> Error {
    Error::Damaged("an object's slot is nowhere".to_owned())
}

pub(crate) fn changed_under_lock() -> Error {
    Error::Damaged("an object changed while its lock was held".to_owned())
}

/// The error of reading a value that is lost.
pub(crate) fn loss(to: LostTo) -> Error {
    match to {
        LostTo::Host(host) => Error::Lost { host },
        LostTo::MemoryError => Error::Poisoned,
    }
}

/// The error of an operation if the log does not take its change, or cannot be applied.
#[cold]
pub(crate) fn of_log(error: LogError) -> Error {
    match error {
        LogError::Stalled { slowest, waited_ms } => Error::Stalled { slowest, waited_ms },
        LogError::Fenced { host } => Error::Fenced { host },
        LogError::Forked { host } => Error::Forked { host },
        LogError::Damaged { position } => Error::LogDamaged { position },
    }
}

/// Whether a change that a commit was to make may be made in spite of its error: then only the
/// hosts that clean up after this one can tell.
pub(crate) fn may_be_committed(error: &Error) -> bool {
    matches!(error, Error::Fenced { .. } | Error::LogDamaged { .. })
}
