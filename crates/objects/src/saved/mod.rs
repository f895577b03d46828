//! The contents of a pod, into a file and back, while hosts are at work.
//!
//! A host like any other goes through all keys and reads each object, so each is saved as it was at
//! some moment of the save: what is there from its beginning to its end is in the file, and what
//! comes or goes meanwhile may be. Values keep all their bytes, whatever these mean to their
//! writers.
//!
//! A file is read twice, first without doing anything with it: so one that is damaged changes
//! nothing.
//!
//! ```text
//! header   magic (8 bytes); format version (4); UUID of the pod (16); checksum
//! block    bytes of its records (4), never 0; how many records (4); checksum; records; checksum
//! record   length of the value (4); length of the key (2); key; value
//! end      0 (4); 0 (4); checksum
//!          objects (8); bytes of keys and values (8); lost objects (8); checksum
//! ```
//!
//! A checksum (4 bytes) is the CRC-32C of all that comes before it in the file, other checksums
//! left out: no part can be missing, be there twice, or be another file's. No length is used before
//! its checksum has been looked at.
//!
//! Left out: a state of the whole pod at one moment; undoing a load that does not come to its end.

mod error;
mod load;
mod reader;
mod save;
mod writer;

use tombolo_memory::Memory;
use tombolo_sharing::ObjectArea;
use uuid::Uuid;

pub use error::{LoadError, SavedError};
pub use load::{Existing, Loaded, SavedFile};

/// The version of what is written; no other is read.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"TOMBSAVE";

const HEADER_BYTES: usize = 28;
const BLOCK_HEAD_BYTES: usize = 8;
const RECORD_HEAD_BYTES: usize = 6;
const END_BYTES: usize = 24;

/// Bytes of records in a block, at most; a record that is larger has a block of its own.
const BLOCK_BYTES: usize = 1 << 20;

/// So much of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Objects.
    pub objects: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.objects += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

/// The contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The pod that was saved.
    pub pod: Uuid,
    /// The part of them that is there.
    pub saved: Amount,
    /// Objects that are not there because their values were lost
    /// ([`Error::is_loss`](crate::Error::is_loss)).
    pub lost: u64,
}

/// Whether objects of `pod` can be saved and loaded: not if it is made for a page cache, which is
/// empty when it is opened.
///
/// # Errors
/// [`SavedError::PageCache`].
pub fn check_pod<M: Memory>(area: &ObjectArea<M>) -> Result<(), SavedError> {
    if area.geometry().has_marks() { Err(SavedError::PageCache) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
