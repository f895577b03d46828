//! Errors of operations on keys.

/// Why an operation was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object was not put by a store.
    #[error(
        "the object with this key is no value of a key-value store; use the object interface for it, or another pod"
    )]
    NotAValue,
    /// A transaction met changes by others for ten seconds.
    #[error(
        "others kept changing what the transaction had read, for ten seconds; try again, or let it read fewer keys"
    )]
    Conflict,
    /// The objects refused.
    #[error(transparent)]
    Objects(#[from] tombolo_sharing::Error),
}

impl From<tombolo_pod::PodError> for Error {
    fn from(error: tombolo_pod::PodError) -> Self {
        Self::Objects(error.into())
    }
}
