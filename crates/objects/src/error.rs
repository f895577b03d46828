//! Errors that several protocols end with.

use crate::Error;
use crate::ids::BY_POISON;

pub(crate) fn no_such_slot() -> Error {
    Error::Damaged("an object's slot is nowhere".to_owned())
}

pub(crate) fn changed_under_lock() -> Error {
    Error::Damaged("an object changed while its lock was held".to_owned())
}

/// What reading a value comes to that is lost with `host`.
pub(crate) fn loss(host: u8) -> Error {
    if host == BY_POISON { Error::Poisoned } else { Error::Lost { host } }
}
