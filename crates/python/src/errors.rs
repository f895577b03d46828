//! Errors as exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use tombolo::{Error as ObjectError, PodError as PodProblem, StoreError};

create_exception!(tombolo, Error, PyException, "Why an operation on a pod was not done.");
create_exception!(tombolo, PodFull, Error, "The pod has no room.");
create_exception!(
    tombolo,
    PodError,
    Error,
    "The pod cannot be created, opened, joined or used: it is closed, say, or damaged."
);
create_exception!(tombolo, Poisoned, Error, "The value is gone with the memory in which it lay.");
create_exception!(tombolo, Fenced, Error, "The other hosts go on without this one: join again.");

/// The exception for an error of the store.
pub(crate) fn raise(error: StoreError) -> PyErr {
    let message = error.to_string();
    let StoreError::Objects(error) = error else { return Error::new_err(message) };
    match error {
        ObjectError::KeyLength { .. } | ObjectError::OutOfRange { .. } => {
            PyValueError::new_err(message)
        }
        ObjectError::LnrFull { .. }
        | ObjectError::IndexFull { .. }
        | ObjectError::TooLarge { .. } => PodFull::new_err(message),
        ObjectError::Poisoned | ObjectError::Lost { .. } => Poisoned::new_err(message),
        ObjectError::Fenced { .. } => Fenced::new_err(message),
        ObjectError::Pod(_)
        | ObjectError::Damaged(_)
        | ObjectError::Forked { .. }
        | ObjectError::NobodyAnswers { .. } => PodError::new_err(message),
        _ => Error::new_err(message),
    }
}

/// The exception for an error of a pod.
pub(crate) fn raise_pod(error: PodProblem) -> PyErr {
    PodError::new_err(error.to_string())
}

pub(crate) fn closed(what: &str) -> PyErr {
    PodError::new_err(format!("the {what} is closed"))
}
