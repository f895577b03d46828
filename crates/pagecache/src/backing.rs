//! Where files are when they are in nobody's memory.

use std::collections::BTreeSet;
use std::io;

use tombolo_memory::FileHandle;

use crate::Below;

/// Which file: the same on every host, and never another one's while pages of it may be in the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Its inode number.
    pub inode: u64,
    /// When it came to be, in nanoseconds since the Unix epoch: inode numbers are used again.
    pub born: u64,
}

/// A handle by which a file is found again, as [`FileHandle`] encodes it.
pub type Handle = [u8; FileHandle::BYTES];

/// The handle of a file that has none.
pub const NO_HANDLE: Handle = [0; FileHandle::BYTES];

/// The fate of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has a name, or somebody has it open.
    There,
    /// It has neither, on any host, and never will.
    Gone,
    /// That cannot be told.
    Unknown,
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its length in bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since the Unix epoch.
    pub modified: i64,
}

/// The files of all hosts, on a disk or a file system that they share.
///
/// A host must read the bytes that any host wrote before, and [`sync`](Self::sync) must make
/// everything durable that any host wrote to the file before. On one machine every file system does
/// so; between machines, one that several machines mount has to.
pub trait Backing: Send + Sync + 'static {
    /// Whether this host can get at the file now. Dirty pages of a file are written back by hosts
    /// that can.
    fn knows(&self, file: FileId) -> bool;

    /// Gets at files that nobody on this host makes use of; at which of them it could. Those are at
    /// hand until they are [put back](Self::put_back). Files that have no name any more are not
    /// found.
    ///
    /// # Errors
    /// The file system's error.
    fn find(&self, files: &BTreeSet<FileId>) -> io::Result<BTreeSet<FileId>>;

    /// The directory that the files are in; `None` if there is nothing that would tell it from
    /// others.
    fn below(&self) -> Option<Below> {
        None
    }

    /// The handle that finds a file again for as long as it has a name or a user on any host. All
    /// zeros where there is no such thing.
    ///
    /// # Errors
    /// The file system's error.
    fn handle(&self, file: FileId) -> io::Result<Handle> {
        let _ = file;
        Ok(NO_HANDLE)
    }

    /// The fate of the file with this handle.
    fn fate(&self, handle: &Handle) -> Fate {
        let _ = handle;
        Fate::Unknown
    }

    /// Whether a file that this host has at hand has a name.
    ///
    /// # Errors
    /// The file system's error.
    fn has_name(&self, file: FileId) -> io::Result<bool> {
        let _ = file;
        Ok(true)
    }

    /// A use of a file ends, although what was written to it could not be brought there. A file
    /// that has a name stays at hand without a user.
    fn put_off(&self, file: FileId) {
        let _ = file;
    }

    /// The files that stay at hand without a user. Each of them is used once more from now on.
    fn take_put_off(&self) -> Vec<FileId> {
        Vec::new()
    }

    /// Makes sure that there is room for these bytes of the file below, whose size stays as it is.
    ///
    /// # Errors
    /// The file system's error.
    fn reserve(&self, file: FileId, offset: u64, bytes: u64) -> io::Result<()> {
        let _ = (file, offset, bytes);
        Ok(())
    }

    /// Whether the file may have so many bytes.
    ///
    /// # Errors
    /// The file system's error.
    fn admits(&self, file: FileId, size: u64) -> io::Result<()> {
        let _ = (file, size);
        Ok(())
    }

    /// A use of a file that was found ends, if this says so. It does not if it is the last, and the
    /// first attempt to end it, or others have used the file since the last one: write its pages
    /// back, and ask again.
    fn put_back(&self, file: FileId) -> bool;

    /// Size and time of a file.
    ///
    /// # Errors
    /// The file system's error.
    fn attributes(&self, file: FileId) -> io::Result<Attributes>;

    /// Reads up to the end of `into` or of the file; how many bytes.
    ///
    /// # Errors
    /// The file system's error.
    fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes; the file grows as needed.
    ///
    /// # Errors
    /// The file system's error.
    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or lets it grow by zeros.
    ///
    /// # Errors
    /// The file system's error.
    fn resize(&self, file: FileId, size: u64) -> io::Result<()>;

    /// Sets the time of the last write.
    ///
    /// # Errors
    /// The file system's error.
    fn set_modified(&self, file: FileId, modified: i64) -> io::Result<()>;

    /// Makes durable what was written to the file; with `data_only`, attributes that are not needed
    /// to read it back may be left out.
    ///
    /// # Errors
    /// The file system's error.
    fn sync(&self, file: FileId, data_only: bool) -> io::Result<()>;
}
