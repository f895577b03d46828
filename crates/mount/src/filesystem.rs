//! What the kernel asks, and who answers: names, directories and permissions are those of the backing
//! directory; bytes, sizes and times of files are the page cache's.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno as Os;
use tombolo_memory::Mapped;
use tombolo_pagecache::{Backing, ByRecord, Error, FileId, PageCache};

use crate::files::{Files, nanoseconds, time};
use crate::locks::{Locks, Range};
use crate::nodes::{self, Node, Nodes};

/// The kernel keeps nothing: another host may have changed it.
const NEVER: Duration = Duration::ZERO;

/// Bytes of a write, at most.
const MAX_WRITE: u32 = 1 << 20;

/// What the kernel may do with an open file: keep none of its pages, and write several at once.
const OPENED: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// The page cache of a mounted file system.
pub(crate) type Cache = PageCache<ByRecord<Mapped>, Files>;

/// A directory that is being listed.
type Listing = Vec<(OsString, u64, FileType)>;

/// What all requests share.
pub(crate) struct Shared {
    cache: Arc<Cache>,
    nodes: Nodes,
    locks: Locks,
    open: Mutex<HashMap<u64, Arc<Node>>>,
    listings: Mutex<HashMap<u64, Listing>>,
    handles: AtomicU64,
    stopping: Arc<AtomicBool>,
}

/// The file system, as the kernel sees it.
pub(crate) struct Mount(pub(crate) Arc<Shared>);

/// Why something was not done, as the kernel knows it.
struct Failure(Errno);

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

type Outcome<T> = Result<T, Failure>;

/// Answers a request with what came of it.
macro_rules! answer {
    ($reply:expr, $outcome:expr, $done:pat => $answer:expr) => {
        match $outcome {
            Ok($done) => $answer,
            Err(Failure(errno)) => $reply.error(errno),
        }
    };
}

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

    fn entry(&self, parent: &Node, name: &OsStr) -> Outcome<(FileAttr, Generation)> {
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

    fn attributes(&self, node: &Node) -> Outcome<FileAttr> {
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
        self.close(id)?;
        done
    }

    /// One use of a file ends. The last one writes its pages back, or has them forgotten if the file has
    /// no name any more.
    fn close(&self, id: FileId) -> Outcome<()> {
        while !self.files().put_back(id) {
            // If its pages cannot be written, it stays at hand for the next attempt.
            self.last_use(id)?;
        }
        Ok(())
    }

    fn last_use(&self, id: FileId) -> Outcome<()> {
        let links = rustix::fs::fstat(&*self.files().file(id)?)?.st_nlink;
        if links == 0 {
            self.cache.forget(id)?
        } else {
            self.cache.write_back(id)?
        }
        Ok(())
    }

    fn opened(&self, node: Arc<Node>) -> Outcome<FileHandle> {
        if node.is_file() {
            self.files().enter(node.id, || node.open())?;
        }
        let number = self.handles.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, node);
        Ok(FileHandle(number))
    }

    fn release(&self, handle: FileHandle, owner: Option<LockOwner>) -> Outcome<()> {
        let node = self.open.lock().remove(&handle.0).ok_or(Os::BADF)?;
        if let Some(owner) = owner {
            self.locks.release(node.number, owner);
        }
        if node.is_file() { self.close(node.id) } else { Ok(()) }
    }

    fn create(
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
        let fd = rustix::fs::openat(&parent.fd, name, how, Mode::from_raw_mode(mode))?;
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
        Ok(rustix::fs::chownat(&parent.fd, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn make(
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
    fn unname(
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

    fn set_attributes(&self, node: &Node, change: &Change) -> Outcome<FileAttr> {
        if let Some(mode) = change.mode {
            rustix::fs::chmod(node.path(), Mode::from_raw_mode(mode))?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chownat(&node.fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
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
            rustix::fs::utimensat(&node.fd, "", &times, AtFlags::EMPTY_PATH)?;
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

    fn list(&self, number: INodeNo) -> Outcome<Listing> {
        let node = self.nodes.get(number)?;
        let fd = rustix::fs::openat(
            &node.fd,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut listing = Listing::new();
        for entry in rustix::fs::Dir::new(fd)? {
            let entry = entry?;
            use rustix::fs::FileType as Found;
            let kind = match entry.file_type() {
                Found::Directory => FileType::Directory,
                Found::Symlink => FileType::Symlink,
                Found::Fifo => FileType::NamedPipe,
                Found::Socket => FileType::Socket,
                Found::CharacterDevice => FileType::CharDevice,
                Found::BlockDevice => FileType::BlockDevice,
                _ => FileType::RegularFile,
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            listing.push((name, entry.ino(), kind));
        }
        Ok(listing)
    }

    fn write(&self, id: FileId, offset: u64, data: &[u8], flags: i32) -> Outcome<u32> {
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

    fn allocate(&self, id: FileId, offset: u64, length: u64, mode: i32) -> Outcome<()> {
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
            if let Err(Failure(errno)) = self.close(node.id) {
                tracing::error!(
                    "pages of inode {} were not written back: {errno:?}",
                    node.id.inode
                );
            }
        }
    }
}

/// What is to be changed about a node.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
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

fn xattr(reply: ReplyXattr, size: u32, outcome: Outcome<Vec<u8>>) {
    answer!(reply, outcome, bytes => {
        if size == 0 {
            reply.size(bytes.len() as u32);
        } else if bytes.len() > size as usize {
            reply.error(Errno::ERANGE);
        } else {
            reply.data(&bytes);
        }
    });
}

/// Bytes that hold any attribute, or any list of them.
const XATTR_BYTES: usize = 64 << 10;

impl Filesystem for Mount {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_POSIX_LOCKS
            | InitFlags::FUSE_FLOCK_LOCKS
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO;
        config.add_capabilities(wanted).map_err(|missing| {
            io::Error::other(format!("the kernel's FUSE is too old: it lacks {missing:?}"))
        })?;
        // What is over the limit is brought down to it.
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = || self.0.entry(&*self.0.nodes.get(parent)?, name);
        answer!(reply, found(), entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.0.nodes.forget(number, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = || self.0.attributes(&*self.0.nodes.get(number)?);
        answer!(reply, found(), attributes => reply.attr(&NEVER, &attributes));
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, accessed, modified };
        let set = || self.0.set_attributes(&*self.0.nodes.get(number)?, &change);
        answer!(reply, set(), attributes => reply.attr(&NEVER, &attributes));
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let read = || -> Outcome<_> {
            Ok(rustix::fs::readlinkat(&self.0.nodes.get(number)?.fd, "", Vec::new())?)
        };
        answer!(reply, read(), target => reply.data(target.as_bytes()));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = rustix::fs::FileType::from_raw_mode(mode);
        let made = self.0.make(request, parent, name, |parent| {
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::mknodat(&parent.fd, name, kind, mode, u64::from(rdev))
        });
        answer!(reply, made, entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.0.make(request, parent, name, |parent| {
            rustix::fs::mkdirat(&parent.fd, name, Mode::from_raw_mode(mode))
        });
        answer!(reply, made, entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = self
            .0
            .make(request, parent, name, |parent| rustix::fs::symlinkat(target, &parent.fd, name));
        answer!(reply, made, entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = || {
            let (node, parent) = (self.0.nodes.get(number)?, self.0.nodes.get(parent)?);
            rustix::fs::linkat(&node.fd, "", &parent.fd, name, AtFlags::EMPTY_PATH)?;
            self.0.entry(&parent, name)
        };
        answer!(reply, made(), entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let unlinked = || {
            let parent = self.0.nodes.get(parent)?;
            let unlink = || rustix::fs::unlinkat(&parent.fd, name, AtFlags::empty());
            self.0.unname(&parent, name, unlink)
        };
        answer!(reply, unlinked(), _done => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = || -> Outcome<()> {
            let parent = self.0.nodes.get(parent)?;
            Ok(rustix::fs::unlinkat(&parent.fd, name, AtFlags::REMOVEDIR)?)
        };
        answer!(reply, removed(), _done => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = || {
            let (from, to) = (self.0.nodes.get(parent)?, self.0.nodes.get(new_parent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            let rename = || rustix::fs::renameat_with(&from.fd, name, &to.fd, new_name, flags);
            self.0.unname(&to, new_name, rename)
        };
        answer!(reply, renamed(), _done => reply.ok());
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = || self.0.opened(self.0.nodes.get(number)?);
        answer!(reply, opened(), handle => reply.opened(handle, OPENED));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.0.create(request, parent, name, mode, flags);
        answer!(reply, created, (attributes, generation, handle) => {
            reply.created(&NEVER, &attributes, generation, handle, OPENED)
        });
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        let read = || -> Outcome<_> {
            let id = self.0.nodes.get(number)?.id;
            Ok(self.0.cache.read(id, offset, &mut bytes)?)
        };
        answer!(reply, { let mut read = read; read() }, length => reply.data(&bytes[..length]));
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = || self.0.write(self.0.nodes.get(number)?.id, offset, data, flags.0);
        answer!(reply, written(), length => reply.written(length));
    }

    fn flush(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.0.locks.release(number, owner);
        let flushed = || -> Outcome<()> {
            let node = self.0.nodes.get(number)?;
            // Who closes a file learns whether its bytes have a place below.
            if node.is_file() {
                self.0.cache.write_back(node.id)?;
            }
            Ok(())
        };
        answer!(reply, flushed(), _done => reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        owner: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.0.release(handle, owner), _done => reply.ok());
    }

    fn fsync(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let synced =
            || -> Outcome<()> { Ok(self.0.cache.sync(self.0.nodes.get(number)?.id, data_only)?) };
        answer!(reply, synced(), _done => reply.ok());
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = self.0.list(number);
        answer!(reply, listed, listing => {
            let handle = self.0.handles.fetch_add(1, Ordering::Relaxed);
            self.0.listings.lock().insert(handle, listing);
            reply.opened(FileHandle(handle), FopenFlags::empty());
        });
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if offset == 0 {
            // From the start, also after `rewinddir`: as it is now.
            match self.0.list(number) {
                Ok(listing) => _ = self.0.listings.lock().insert(handle.0, listing),
                Err(Failure(errno)) => return reply.error(errno),
            }
        }
        let listings = self.0.listings.lock();
        let Some(listing) = listings.get(&handle.0) else { return reply.error(Errno::EBADF) };
        for (at, (name, inode, kind)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*inode), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.listings.lock().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced =
            || -> Outcome<()> { Ok(File::open(self.0.nodes.get(number)?.path())?.sync_all()?) };
        answer!(reply, synced(), _done => reply.ok());
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        let found = || -> Outcome<_> {
            let node = self.0.nodes.get(number)?;
            Ok((rustix::fs::fstatvfs(&node.fd)?, rustix::fs::fstatfs(&node.fd)?.f_bsize))
        };
        answer!(reply, found(), (found, block) => reply.statfs(
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
            block as u32,
            found.f_namemax as u32,
            found.f_frsize as u32,
        ));
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let set = || -> Outcome<()> {
            let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
            Ok(rustix::fs::setxattr(self.0.nodes.get(number)?.path(), name, value, flags)?)
        };
        answer!(reply, set(), _done => reply.ok());
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let get = || -> Outcome<Vec<u8>> {
            let mut value = vec![0; XATTR_BYTES];
            let path = self.0.nodes.get(number)?.path();
            let length = rustix::fs::getxattr(path, name, &mut value)?;
            value.truncate(length);
            Ok(value)
        };
        xattr(reply, size, get());
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let list = || -> Outcome<Vec<u8>> {
            let mut names = vec![0; XATTR_BYTES];
            let length = rustix::fs::listxattr(self.0.nodes.get(number)?.path(), &mut names)?;
            names.truncate(length);
            Ok(names)
        };
        xattr(reply, size, list());
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = || -> Outcome<()> {
            Ok(rustix::fs::removexattr(self.0.nodes.get(number)?.path(), name)?)
        };
        answer!(reply, removed(), _done => reply.ok());
    }

    fn getlk(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        _: u32,
        reply: ReplyLock,
    ) {
        let found = || -> Outcome<Range> {
            let node = self.0.nodes.get(number)?;
            Ok(self.0.locks.find(&node, owner, Range { start, end, kind })?)
        };
        // Who has it may be on another host: there is no number for that.
        answer!(reply, found(), range => reply.locked(range.start, range.end, range.kind, 0));
    }

    fn setlk(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let wanted = Range { start, end, kind };
        let now = || -> Outcome<_> {
            let node = self.0.nodes.get(number)?;
            let taken = self.0.locks.set(&node, owner, wanted)?;
            Ok((node, taken))
        };
        answer!(reply, now(), (node, taken) => match (taken, sleep) {
            (true, _) => reply.ok(),
            (false, false) => reply.error(Errno::EAGAIN),
            (false, true) => {
                let shared = Arc::clone(&self.0);
                thread::spawn(move || {
                    let stopping = || shared.stopping.load(Ordering::Relaxed);
                    let waited = shared.locks.wait(&node, owner, wanted, pid, stopping);
                    answer!(reply, waited.map_err(Failure::from), _done => reply.ok());
                });
            }
        });
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // Where holes are only the file below knows, and not of what is still dirty: all is data.
        let found = || -> Outcome<i64> {
            let size = self.0.attributes(&*self.0.nodes.get(number)?)?.size as i64;
            match whence {
                libc::SEEK_DATA | libc::SEEK_HOLE if offset < 0 || offset >= size => {
                    Err(Os::NXIO.into())
                }
                libc::SEEK_DATA => Ok(offset),
                libc::SEEK_HOLE => Ok(size),
                _ => Err(Os::INVAL.into()),
            }
        };
        answer!(reply, found(), at => reply.offset(at));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then reads and writes.
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocated = || self.0.allocate(self.0.nodes.get(number)?.id, offset, length, mode);
        answer!(reply, allocated(), _done => reply.ok());
    }
}
