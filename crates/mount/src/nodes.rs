//! The files and directories that the kernel knows, by inode number.
//!
//! Each is found again by a handle that stands for the file and not for its name: so it does not
//! matter which host renames it. Nothing is open for it meanwhile: the kernel may know more names
//! than there are descriptors, and a file that is deleted on any host gives its space back. Where
//! handles cannot be used, each has a descriptor instead.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{FileAttr, FileType, INodeNo};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType as Found, Mode, OFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use tombolo_memory::FileHandle;
use tombolo_pagecache::FileId;

use crate::files::moment;

/// A file or directory that the kernel knows.
pub(crate) struct Node {
    pub(crate) number: INodeNo,
    pub(crate) id: FileId,
    pub(crate) kind: FileType,
    place: Place,
}

/// How a node is found again.
enum Place {
    Handle(FileHandle, Arc<OwnedFd>),
    Open(OwnedFd),
}

/// A descriptor of a node, good for everything but its bytes.
pub(crate) enum Fd<'a> {
    Kept(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Fd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Fd::Kept(fd) => *fd,
            Fd::Opened(fd) => fd.as_fd(),
        }
    }
}

struct Known {
    node: Arc<Node>,
    lookups: u64,
}

pub(crate) struct Nodes {
    root: Arc<Node>,
    device: (u32, u32),
    /// The descriptor that says which file system handles are of, if they can be used.
    beside: Option<Arc<OwnedFd>>,
    known: Mutex<HashMap<u64, Known>>,
}

impl Nodes {
    pub(crate) fn new(root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty())?;
        let found = look(&fd)?;
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let beside = Arc::new(rustix::fs::open(root, flags - OFlags::PATH, Mode::empty())?);
        let beside = can_use_handles(&beside).then_some(beside);
        let (number, id, kind) = (INodeNo::ROOT, id(&found), kind(&found));
        let root = Arc::new(Node { number, id, kind, place: Place::Open(fd) });
        Ok(Self { root, device, beside, known: Mutex::default() })
    }

    /// How to find again what a descriptor stands for.
    fn place(&self, fd: OwnedFd) -> Place {
        let handle = self.beside.as_ref().and_then(|beside| {
            let handle = FileHandle::of(&fd).ok().flatten()?;
            Some(Place::Handle(handle, Arc::clone(beside)))
        });
        handle.unwrap_or(Place::Open(fd))
    }

    pub(crate) fn get(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        if number == INodeNo::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let known = self.known.lock();
        known.get(&number.0).map(|known| Arc::clone(&known.node)).ok_or(Errno::STALE)
    }

    /// The node of that name in a directory, which the kernel knows once more from now on.
    pub(crate) fn look_up(&self, parent: &Node, name: &OsStr) -> Result<(Arc<Node>, Statx), Errno> {
        let fd = open_name(parent, name)?;
        let found = look(&fd)?;
        if (found.stx_dev_major, found.stx_dev_minor) != self.device {
            return Err(Errno::XDEV);
        }
        Ok((self.know(fd, &found), found))
    }

    /// The node of a file that is open, which the kernel knows once more from now on.
    pub(crate) fn know_file(&self, file: &File) -> Result<Arc<Node>, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path_of(file), flags, Mode::empty())?;
        Ok(self.know(fd, &look(file)?))
    }

    /// The node that a descriptor stands for, which the kernel knows once more from now on.
    fn know(&self, fd: OwnedFd, found: &Statx) -> Arc<Node> {
        let node = || {
            let (number, place) = (INodeNo(found.stx_ino), self.place(fd));
            Arc::new(Node { number, id: id(found), kind: kind(found), place })
        };
        let mut known = self.known.lock();
        match known.entry(found.stx_ino) {
            Entry::Vacant(entry) => {
                let entry = entry.insert(Known { node: node(), lookups: 1 });
                Arc::clone(&entry.node)
            }
            Entry::Occupied(entry) => {
                let entry = entry.into_mut();
                // A file that is gone had the number before. The kernel forgets both by it.
                if entry.node.id != id(found) || entry.node.kind != kind(found) {
                    entry.node = node();
                }
                entry.lookups += 1;
                Arc::clone(&entry.node)
            }
        }
    }

    /// The kernel forgets so many lookups.
    pub(crate) fn forget(&self, number: INodeNo, lookups: u64) {
        let mut known = self.known.lock();
        if let Some(entry) = known.get_mut(&number.0) {
            entry.lookups = entry.lookups.saturating_sub(lookups);
            if entry.lookups == 0 {
                known.remove(&number.0);
            }
        }
    }
}

impl Node {
    pub(crate) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub(crate) fn look(&self) -> Result<Statx, Errno> {
        look(&self.fd()?)
    }

    /// A descriptor of it.
    ///
    /// # Errors
    /// `ESTALE` if it is no more.
    pub(crate) fn fd(&self) -> Result<Fd<'_>, Errno> {
        match &self.place {
            Place::Open(fd) => Ok(Fd::Kept(fd.as_fd())),
            Place::Handle(handle, beside) => {
                let opened = handle.open(beside, OFlags::PATH | OFlags::NOFOLLOW);
                let number = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
                opened.map_err(number)?.map(Fd::Opened).ok_or(Errno::STALE)
            }
        }
    }

    /// Does something that takes a path, with one that leads to this very file.
    pub(crate) fn at_path<T>(
        &self,
        body: impl FnOnce(&Path) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let fd = self.fd()?;
        body(&path_of(&fd))
    }

    /// The directory, for reading.
    pub(crate) fn open_folder(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(self.fd()?, ".", flags, Mode::empty())?.into())
    }

    /// The file, for reading, and for writing if that is wanted.
    pub(crate) fn open(&self, access: Access) -> io::Result<File> {
        open(&self.fd()?, access)
    }
}

/// Whether handles of this file system can be opened by this process.
fn can_use_handles(beside: &OwnedFd) -> bool {
    let handle = FileHandle::of(beside).ok().flatten();
    handle.is_some_and(|handle| matches!(handle.open(beside, OFlags::PATH), Ok(Some(_))))
}

pub(crate) fn path_of(fd: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// The access that an open file allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// And for reading.
    Write,
}

impl Access {
    /// The access of a file that is opened with these flags.
    pub(crate) fn of(flags: i32) -> Self {
        if flags & libc::O_ACCMODE == libc::O_RDONLY { Self::Read } else { Self::Write }
    }
}

/// Opens what a descriptor stands for.
pub(crate) fn open(fd: &impl AsFd, access: Access) -> io::Result<File> {
    File::options().read(true).write(access == Access::Write).open(path_of(fd))
}

pub(crate) fn open_name(parent: &Node, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent.fd()?, name, flags, Mode::empty())
}

pub(crate) fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

pub(crate) fn look(fd: &impl AsFd) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, wanted)
}

/// Which file it is: see [`FileId`].
pub(crate) fn id(found: &Statx) -> FileId {
    let born = if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME) {
        found.stx_btime.tv_sec.cast_unsigned() * 1_000_000_000 + u64::from(found.stx_btime.tv_nsec)
    } else {
        0
    };
    FileId { inode: found.stx_ino, born }
}

fn kind(found: &Statx) -> FileType {
    told(Found::from_raw_mode(u32::from(found.stx_mode)))
}

/// The type of a file, as the kernel is told.
pub(crate) fn told(found: Found) -> FileType {
    match found {
        Found::Directory => FileType::Directory,
        Found::Symlink => FileType::Symlink,
        Found::Fifo => FileType::NamedPipe,
        Found::Socket => FileType::Socket,
        Found::CharacterDevice => FileType::CharDevice,
        Found::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// The attributes of a node, as the kernel is told.
pub(crate) fn attributes(number: INodeNo, found: &Statx) -> FileAttr {
    let when = |at: &StatxTimestamp| moment(at.tv_sec, at.tv_nsec.into());
    FileAttr {
        ino: number,
        size: found.stx_size,
        blocks: found.stx_blocks,
        atime: when(&found.stx_atime),
        mtime: when(&found.stx_mtime),
        ctime: when(&found.stx_ctime),
        crtime: when(&found.stx_btime),
        kind: kind(found),
        perm: found.stx_mode & 0o7777,
        nlink: found.stx_nlink,
        uid: found.stx_uid,
        gid: found.stx_gid,
        rdev: rustix::fs::makedev(found.stx_rdev_major, found.stx_rdev_minor) as u32,
        blksize: 4096,
        flags: 0,
    }
}
