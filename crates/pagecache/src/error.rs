//! Errors of operations on files.

use std::io;

/// Why something was not done with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pod has no marks and latches.
    #[error(
        "the pod is not made for a page cache; create one with `tombolo pod create --page-cache`"
    )]
    NotForPages,
    /// The pod's hosts have another directory below.
    #[error(
        "the pod holds files of another directory ({pods} on the host that came first) than {own}; give all hosts the same one, or create another pod"
    )]
    OtherFiles {
        /// The first host's name of the pod's directory.
        pods: String,
        /// This host's.
        own: String,
    },
    /// A host is in the middle of something with the file, and does not get on.
    #[error(
        "a file was in use by host {host} for {waited_ms} ms without getting on; try again, and see whether that host hangs"
    )]
    Stalled {
        /// The host waited for.
        host: u64,
        /// For how long.
        waited_ms: u64,
    },
    /// A dirty page could not be written to its file.
    #[error("a page of {0:?} could not be written to its file, and stays dirty: {1}")]
    WriteBack(crate::FileId, io::Error),
    /// Pages whose bytes no host has any more. The first caller that synchronises the file gets
    /// this error, once. Until then the pages cannot be read or written.
    #[error(
        "{pages} pages of {file:?} were written and are lost: a host died while it changed them, before they were synchronised. They are as they \
         were in the file"
    )]
    Lost {
        /// The file.
        file: crate::FileId,
        /// How many.
        pages: u64,
    },
    /// The largest file there can be.
    #[error("a file cannot have more than {most} bytes")]
    TooLarge {
        /// The limit.
        most: u64,
    },
    /// The file system below returned an error.
    #[error("the backing file system: {0}")]
    Backing(#[from] io::Error),
    /// The pages, which are objects, could not be shared.
    #[error(transparent)]
    Objects(#[from] tombolo_sharing::Error),
}
