//! Errors of saved pods.

use std::io;

use super::{Amount, FORMAT_VERSION};
use crate::Error;

/// Why a pod was not saved, or a file not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The pod has marks and latches.
    #[error(
        "the pod is made for a page cache, and keeps nothing: what it shows is in the files below"
    )]
    PageCache,
    /// The caller that watched the progress stopped it.
    #[error("stopped")]
    Stopped,
    /// The file could not be written.
    #[error("cannot write the file: {0}")]
    Write(io::Error),
    /// The file could not be read.
    #[error("cannot read the file at byte {at}: {error}")]
    Read {
        /// From where on.
        at: u64,
        /// Why.
        error: io::Error,
    },
    /// It is some other file.
    #[error("not a saved pod: there is no mark of one at byte 0")]
    Foreign,
    /// It was written by another version of this program.
    #[error(
        "the file has format version {version} at byte 8, and this program reads {FORMAT_VERSION}; load it with the version that saved it"
    )]
    Version {
        /// Which.
        version: u32,
    },
    /// It ends too early.
    #[error("the file ends at byte {at}, in the middle of {part}; the rest is cut off")]
    CutOff {
        /// Its length.
        at: u64,
        /// The incomplete part.
        part: &'static str,
    },
    /// The file's bytes are not those that were saved.
    #[error("the file is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the part begins that is.
        at: u64,
        /// The fault.
        what: &'static str,
    },
    /// There is an object with this key already.
    #[error(
        "there is an object with the key {key:?} already; have such kept or replaced (--existing)"
    )]
    Exists {
        /// Its key, as text.
        key: String,
    },
    /// All the pod's free memory would not do.
    #[error(
        "the pod is too small: the file's objects take {bytes} bytes or more, and {free} are free"
    )]
    TooSmall {
        /// Bytes of objects, with their headers.
        bytes: u64,
        /// Bytes there are.
        free: u64,
    },
    /// One object could not be read or created.
    #[error("the object with the key {key:?}: {error}")]
    Object {
        /// Its key, as text.
        key: String,
        /// Why.
        error: Error,
    },
    /// The pod refused.
    #[error(transparent)]
    Pod(#[from] Error),
}

impl SavedError {
    pub(super) fn of(key: &[u8], error: Error) -> Self {
        Self::Object { key: text(key), error }
    }

    pub(super) fn exists(key: &[u8]) -> Self {
        Self::Exists { key: text(key) }
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// Why a load came to no end, and how far it got.
#[derive(Debug, thiserror::Error)]
#[error(
    "{why}; {} objects were loaded, and {} objects of {} bytes are missing",
    loaded.objects, missing.objects, missing.bytes
)]
pub struct LoadError {
    /// The obstacle.
    pub why: SavedError,
    /// The part that was loaded before: it is in the pod, or was kept there.
    pub loaded: Amount,
    /// The part of the file that was not loaded.
    pub missing: Amount,
}
