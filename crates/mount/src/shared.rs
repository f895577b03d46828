//! What requests of the kernel share, and what comes of them: names, directories and permissions are those of the backing
//! directory; bytes, sizes and times of files are the page cache's.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Generation, INodeNo, LockOwner, Request, TimeOrNow,
};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno as Os;
use tombolo_memory::Mapped;
use tombolo_pagecache::{ByRecord, Error, FileId, PageCache};

use crate::files::{Files, nanoseconds, time};
use crate::locks::Locks;
use crate::nodes::{self, Node, Nodes};

/// The page cache of a mounted file system.
pub(crate) type Cache = PageCache<ByRecord<Mapped>, Files>;

/// A directory that is being listed.
pub(crate) type Listing = Vec<(OsString, u64, FileType)>;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) cache: Arc<Cache>,
    pub(crate) nodes: Nodes,
    pub(crate) locks: Locks,
    open: Mutex<HashMap<u64, Arc<Node>>>,
    pub(crate) listings: Mutex<HashMap<u64, Listing>>,
    pub(crate) handles: AtomicU64,
    pub(crate) stopping: Arc<AtomicBool>,
}

/// Why something was not done, as the kernel knows it.
pub(crate) struct Failure(pub(crate) Errno);

impl From<Os> for Failure {
    fn from(error: Os) -> Self {
        Self(Errno::from_i32(error.raw_os_error()))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Backing(error) | Error::WriteBack(_, error) => error.into(),
            Error::TooLarge { .. } => Self(Errno::EFBIG),
            error => {
                tracing::error!("{error}");
                Self(Errno::EIO)
            }
        }
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Shared {
    pub(crate) fn new(
        cache: Arc<Cache>,
        root: &Path,
        stopping: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        Ok(Self {
            cache,
            nodes: Nodes::new(root)?,
            locks: Locks::default(),
            open: Mutex::default(),
            listings: Mutex::default(),
            handles: AtomicU64::new(1),
            stopping,
        })
    }

    fn files(&self) -> &Files {
        self.cache.backing()
    }

    pub(crate) fn entry(&self, parent: &Node, name: &OsStr) -> Outcome<(FileAttr, Generation)> {
        let (node, found) = self.nodes.look_up(parent, name)?;
        let attributes = self.current(&node, nodes::attributes(node.number, &found));
        match attributes {
            Ok(attributes) => Ok((attributes, Generation(node.id.born))),
            Err(error) => {
                self.nodes.forget(node.number, 1);
                Err(error)
            }
        }
    }

    pub(crate) fn attributes(&self, node: &Node) -> Outcome<FileAttr> {
        self.current(node, nodes::attributes(node.number, &node.look()?))
    }

    /// With size and time as all hosts see them.
    fn current(&self, node: &Node, below: FileAttr) -> Outcome<FileAttr> {
        if !node.is_file() {
            return Ok(below);
        }
        let Some(now) = self.cache.attributes(node.id)? else { return Ok(below) };
        let blocks = if now.size > below.size { now.size.div_ceil(512) } else { below.blocks };
        Ok(FileAttr { size: now.size, mtime: time(now.modified), blocks, ..below })
    }

    /// Has a file at hand while something is done with it.
    fn using<T>(
        &self,
        id: FileId,
        open: impl FnOnce() -> io::Result<File>,
        body: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        self.files().enter(id, open)?;
        let done = body();
        self.cache.end_use(id)?;
        done
    }

    pub(crate) fn opened(&self, node: Arc<Node>) -> Outcome<FileHandle> {
        if node.is_file() {
            self.files().enter(node.id, || node.open())?;
        }
        let number = self.handles.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, node);
        Ok(FileHandle(number))
    }

    pub(crate) fn release(&self, handle: FileHandle, owner: Option<LockOwner>) -> Outcome<()> {
        let node = self.open.lock().remove(&handle.0).ok_or(Os::BADF)?;
        if let Some(owner) = owner {
            self.locks.release(node.number, owner);
        }
        if node.is_file() { Ok(self.cache.end_use(node.id)?) } else { Ok(()) }
    }

    pub(crate) fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Outcome<(FileAttr, Generation, FileHandle)> {
        let parent = self.nodes.get(parent)?;
        let exclusive = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::EXCL;
        let how = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | exclusive;
        let fd = rustix::fs::openat(parent.fd()?, name, how, Mode::from_raw_mode(mode))?;
        self.give(request, &parent, name)?;
        drop(fd);
        let (attributes, generation) = self.entry(&parent, name)?;
        let node = self.nodes.get(attributes.ino)?;
        let handle = self.opened(Arc::clone(&node))?;
        if flags & libc::O_TRUNC != 0 && attributes.size > 0 {
            // Another host was faster.
            self.cache.truncate(node.id, 0)?;
        }
        Ok((self.attributes(&node)?, generation, handle))
    }

    /// A new file or directory belongs to who asked for it.
    fn give(&self, request: &Request, parent: &Node, name: &OsStr) -> Outcome<()> {
        let inherits = u32::from(parent.look()?.stx_mode) & libc::S_ISGID != 0;
        let group = (!inherits).then(|| Gid::from_raw(request.gid()));
        let owner = Some(Uid::from_raw(request.uid()));
        Ok(rustix::fs::chownat(parent.fd()?, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(crate) fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&Node) -> Result<(), Os>,
    ) -> Outcome<(FileAttr, Generation)> {
        let parent = self.nodes.get(parent)?;
        make(&parent)?;
        self.give(request, &parent, name)?;
        self.entry(&parent, name)
    }

    /// Does something that takes the name of a file away; if that was its last, its pages go, too.
    pub(crate) fn unname(
        &self,
        parent: &Node,
        name: &OsStr,
        unname: impl FnOnce() -> Result<(), Os>,
    ) -> Outcome<()> {
        let before = nodes::open_name(parent, name);
        unname()?;
        let Ok(fd) = before else { return Ok(()) };
        let found = nodes::look(&fd)?;
        let is_file = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
        let id = nodes::id(&found);
        if found.stx_nlink == 0 && is_file && self.cache.attributes(id)?.is_some() {
            self.using(id, || nodes::open(&fd), || Ok(()))?;
        }
        Ok(())
    }

    pub(crate) fn set_attributes(&self, node: &Node, change: &Change) -> Outcome<FileAttr> {
        if let Some(mode) = change.mode {
            node.at_path(|at| rustix::fs::chmod(at, Mode::from_raw_mode(mode)))?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chownat(node.fd()?, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(size) = change.size {
            if !node.is_file() {
                return Err(Os::INVAL.into());
            }
            self.using(node.id, || node.open(), || Ok(self.cache.truncate(node.id, size)?))?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(change.accessed),
                last_modification: timespec(change.modified),
            };
            rustix::fs::utimensat(node.fd()?, "", &times, AtFlags::EMPTY_PATH)?;
            if let Some(modified) = change.modified
                && node.is_file()
                && self.cache.attributes(node.id)?.is_some()
            {
                let modified = match modified {
                    TimeOrNow::SpecificTime(time) => time,
                    TimeOrNow::Now => SystemTime::now(),
                };
                let set = || Ok(self.cache.set_modified(node.id, nanoseconds(modified))?);
                self.using(node.id, || node.open(), set)?;
            }
        }
        self.attributes(node)
    }

    pub(crate) fn list(&self, number: INodeNo) -> Outcome<Listing> {
        let node = self.nodes.get(number)?;
        let fd = node.open_folder()?;
        let mut listing = Listing::new();
        for entry in rustix::fs::Dir::new(fd)? {
            let entry = entry?;
            let kind = nodes::told(entry.file_type());
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            listing.push((name, entry.ino(), kind));
        }
        Ok(listing)
    }

    pub(crate) fn write(&self, id: FileId, offset: u64, data: &[u8], flags: i32) -> Outcome<u32> {
        if flags & libc::O_APPEND != 0 {
            self.cache.append(id, data)?;
        } else {
            self.cache.write(id, offset, data)?;
        }
        if flags & libc::O_DSYNC != 0 {
            self.cache.sync(id, flags & libc::O_SYNC != libc::O_SYNC)?;
        }
        Ok(data.len() as u32)
    }

    pub(crate) fn allocate(&self, id: FileId, offset: u64, length: u64, mode: i32) -> Outcome<()> {
        // Holes and moved ranges would have to be taken out of the cache, too.
        if mode != 0 {
            return Err(Os::OPNOTSUPP.into());
        }
        let end = offset.checked_add(length).ok_or(Os::FBIG)?;
        let reserve = || {
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            Ok(rustix::fs::fallocate(&*self.files().file(id)?, flags, offset, length)?)
        };
        Ok(self.cache.grow(id, end, reserve)?)
    }

    /// Ends what is left of open files, when the kernel has let go.
    pub(crate) fn close_all(&self) {
        let open: Vec<Arc<Node>> = self.open.lock().drain().map(|(_, node)| node).collect();
        for node in open.into_iter().filter(|node| node.is_file()) {
            if let Err(error) = self.cache.end_use(node.id) {
                tracing::error!("pages of inode {} were not written back: {error}", node.id.inode);
            }
        }
    }
}

/// What is to be changed about a node.
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let ns = nanoseconds(time);
            Timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
        }
    }
}
