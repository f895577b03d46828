//! Where files are when they are in nobody's memory.

use std::collections::BTreeSet;
use std::io;

/// Which file: the same on every host, and never another one's while pages of it may be in the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Its inode number.
    pub inode: u64,
    /// When it came to be, in nanoseconds since the Unix epoch: inode numbers are used again.
    pub born: u64,
}

/// What is known of a file besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its length in bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since the Unix epoch.
    pub modified: i64,
}

/// The files of all hosts, on a disk or a file system that they share.
///
/// What is required of it: a host reads what any host wrote before, and [`sync`](Self::sync) makes
/// everything durable that any host wrote to the file before. On one machine every file system does
/// so; between machines, one that several machines mount has to.
pub trait Backing: Send + Sync + 'static {
    /// Whether this host can get at the file now. Dirty pages of a file are written back by hosts
    /// that can.
    fn knows(&self, file: FileId) -> bool;

    /// Gets at files that nobody on this host makes use of; at which of them it could. Those are at hand until they are
    /// [put back](Self::put_back). Files that have no name any more are not found.
    ///
    /// # Errors
    /// What the file system says.
    fn find(&self, files: &BTreeSet<FileId>) -> io::Result<BTreeSet<FileId>>;

    /// A use of a file that was found ends, if this says so. It does not if it is the last, and the first attempt to end it, or others
    /// have used the file since the last one: write its pages back, and ask again.
    fn put_back(&self, file: FileId) -> bool;

    /// Size and time of a file.
    ///
    /// # Errors
    /// What the file system says.
    fn attributes(&self, file: FileId) -> io::Result<Attributes>;

    /// Reads up to the end of `into` or of the file; how many bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes; the file grows as needed.
    ///
    /// # Errors
    /// What the file system says.
    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or lets it grow by zeros.
    ///
    /// # Errors
    /// What the file system says.
    fn resize(&self, file: FileId, size: u64) -> io::Result<()>;

    /// Sets the time of the last write.
    ///
    /// # Errors
    /// What the file system says.
    fn set_modified(&self, file: FileId, modified: i64) -> io::Result<()>;

    /// Makes durable what was written to the file; with `data_only`, attributes that are not needed
    /// to read it back may be left out.
    ///
    /// # Errors
    /// What the file system says.
    fn sync(&self, file: FileId, data_only: bool) -> io::Result<()>;
}
