//! Errors of memory itself.

use std::io;

/// Why memory cannot be had. Nothing that existed was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A memory spec is malformed.
    #[error("memory spec {spec:?}: {reason}")]
    Spec {
        /// The spec.
        spec: String,
        /// The fault.
        reason: String,
    },
    /// The operating system refused something.
    #[error("cannot {doing} {path}: {reason}{}", hint(.reason))]
    Os {
        /// The action that was tried, as a verb.
        doing: &'static str,
        /// The file or device.
        path: String,
        /// Why not.
        reason: io::Error,
    },
    /// There is less memory than asked for.
    #[error("{path} has {have} bytes, but {need} are needed; {advice}")]
    TooSmall {
        /// The file or device.
        path: String,
        /// How many bytes it has.
        have: u64,
        /// How many are needed.
        need: u64,
        /// The remedy.
        advice: &'static str,
    },
    /// An offset does not suit the memory's pages.
    #[error("the offset {offset} into {path} is not a multiple of its pages of {page} bytes")]
    Unaligned {
        /// The file or device.
        path: String,
        /// The offset, in bytes.
        offset: u64,
        /// The size of a page, in bytes.
        page: u64,
    },
    /// No size was given, and the memory has none of its own.
    #[error("{path} has no size of its own; give one, or add ,size=SIZE to its spec")]
    NoSize {
        /// The file or device.
        path: String,
    },
    /// It is neither a file nor a device that can be mapped.
    #[error(
        "{path} is {what}, not a file or DAX device; name one, such as /dev/shm/pod or /dev/dax0.0"
    )]
    NotMemory {
        /// The path.
        path: String,
        /// The kind of thing that it is, with its article.
        what: &'static str,
    },
}

fn hint(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::StorageFull => "; make room there, or ask for less",
        io::ErrorKind::NotFound => "; check the path, or create it first",
        io::ErrorKind::PermissionDenied => {
            "; it belongs to another user, or this one lacks the right"
        }
        io::ErrorKind::OutOfMemory => "; ask for less",
        _ => "",
    }
}
