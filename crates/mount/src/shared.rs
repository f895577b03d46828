//! The state that requests of the kernel share, and their outcomes. Names, directories and
//! permissions are those of the backing directory; bytes, sizes and times of files are the page
//! cache's.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileHandle, FileType, Generation, INodeNo, LockOwner, TimeOrNow};
use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, FallocateFlags as Allocate, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid,
};
use rustix::io::Errno as Os;
use tombolo_memory::Mapped;
use tombolo_pagecache::{ByRecord, Error, FileId, PageCache};

use crate::caller::Caller;
use crate::files::{FAR, Files, nanoseconds, time};
use crate::kept::Kept;
use crate::locks::Locks;
use crate::mappings::Mappings;
use crate::nodes::{self, Access, Fd, Node, Nodes};

/// The page cache of a mounted file system.
pub(crate) type Cache = PageCache<ByRecord<Mapped>, Files>;

/// A directory that is being listed.
pub(crate) type Listing = Vec<(OsString, u64, FileType)>;

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) cache: Arc<Cache>,
    pub(crate) nodes: Nodes,
    pub(crate) locks: Locks,
    pub(crate) kept: Arc<Kept>,
    mappings: Mappings,
    open: Mutex<HashMap<u64, Arc<Node>>>,
    pub(crate) listings: Mutex<HashMap<u64, Listing>>,
    pub(crate) handles: AtomicU64,
    pub(crate) stopping: Arc<AtomicBool>,
}

/// The message of an error: of a file, where it is.
pub(crate) fn told(cache: &Cache, error: &Error) -> String {
    let Error::WriteBack(file, why) = error else { return error.to_string() };
    match cache.backing().place_of(*file) {
        Some(place) => {
            format!("{} takes no pages, which are kept and tried again: {why}", place.display())
        }
        None => error.to_string(),
    }
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
            kept: Arc::default(),
            mappings: Mappings::default(),
            open: Mutex::default(),
            listings: Mutex::default(),
            handles: AtomicU64::new(1),
            stopping,
        })
    }

    fn files(&self) -> &Files {
        self.cache.backing()
    }

    /// Whether this host may still change anything: names are not asked of the page cache, which
    /// would know.
    ///
    /// # Errors
    /// `ENOTCONN` once it was fenced.
    pub(crate) fn may_change(&self) -> Outcome<()> {
        let seat = self.cache.objects().seat();
        if seat.holds(self.cache.memory()) { Ok(()) } else { Err(Os::NOTCONN.into()) }
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
        let mtime = if now.modified == FAR { below.mtime } else { time(now.modified) };
        Ok(FileAttr { size: now.size, mtime, blocks, ..below })
    }

    /// Has a file at hand while something is done with it.
    fn using<T>(
        &self,
        id: FileId,
        wanted: Access,
        open: impl Fn(Access) -> io::Result<File>,
        body: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        self.files().enter(id, wanted, open)?;
        let done = body();
        self.cache.end_use(id)?;
        done
    }

    pub(crate) fn opened(&self, node: Arc<Node>, wanted: Access) -> Outcome<FileHandle> {
        if node.is_file() {
            self.files().enter(node.id, wanted, |access| node.open(access))?;
        }
        Ok(self.handle(node))
    }

    fn handle(&self, node: Arc<Node>) -> FileHandle {
        let number = self.handles.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, node);
        FileHandle(number)
    }

    /// How often files are open.
    pub(crate) fn open_files(&self) -> u64 {
        self.open.lock().len() as u64
    }

    pub(crate) fn release(&self, handle: FileHandle, owner: Option<LockOwner>) -> Outcome<()> {
        let node = self.open.lock().remove(&handle.0).ok_or(Os::BADF)?;
        if let Some(owner) = owner {
            self.locks.release(node.number, owner);
        }
        self.locks.close(node.number, handle);
        if node.is_file() { Ok(self.cache.end_use(node.id)?) } else { Ok(()) }
    }

    /// Makes a file of that name and opens it, or opens the one that another host has just made, if
    /// the caller may.
    pub(crate) fn create(
        &self,
        caller: Caller,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Outcome<(FileAttr, Generation, FileHandle)> {
        self.may_change()?;
        self.mappings.made(name);
        let parent = self.nodes.get(parent)?;
        let folder = parent.fd()?;
        let (file, is_new) = make_or_open(caller, &folder, name, mode, flags)?;
        let created = self.created(&file, is_new, flags);
        if created.is_err() && is_new {
            unmake(&folder, name, &file);
        }
        created
    }

    fn created(
        &self,
        file: &File,
        is_new: bool,
        flags: i32,
    ) -> Outcome<(FileAttr, Generation, FileHandle)> {
        let node = self.nodes.know_file(file)?;
        let opened = || -> Outcome<_> {
            // The descriptor of a new file is good for everything, whatever its mode says.
            let open = |access| if is_new { file.try_clone() } else { node.open(access) };
            self.files().enter(node.id, Access::of(flags), open)?;
            let mut attributes = self.attributes(&node);
            if let Ok(found) = &attributes
                && flags & libc::O_TRUNC != 0
                && found.size > 0
            {
                // Another host was faster.
                let cut = self.cache.truncate(node.id, 0).map_err(Failure::from);
                attributes = cut.and_then(|()| self.attributes(&node));
            }
            if attributes.is_err() {
                self.cache.end_use(node.id)?;
            }
            attributes
        };
        match opened() {
            Ok(attributes) => {
                let generation = Generation(node.id.born);
                Ok((attributes, generation, self.handle(node)))
            }
            Err(error) => {
                self.nodes.forget(node.number, 1);
                Err(error)
            }
        }
    }

    /// Makes something in a directory that belongs to the caller.
    pub(crate) fn make(
        &self,
        caller: Caller,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        make: impl FnOnce(&Fd<'_>) -> Result<(), Os>,
    ) -> Outcome<(FileAttr, Generation)> {
        self.may_change()?;
        let parent = self.nodes.get(parent)?;
        let folder = parent.fd()?;
        caller.make(mode, || make(&folder))?;
        let made = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
        self.entry(&parent, name).inspect_err(|_| {
            if let Ok(made) = made {
                remove_if(&folder, name, made.st_ino);
            }
        })
    }

    /// Does something that takes the name of a file away; if that was its last, its pages go, too.
    pub(crate) fn unname(
        &self,
        parent: &Node,
        name: &OsStr,
        unname: impl FnOnce() -> Result<(), Os>,
    ) -> Outcome<()> {
        self.may_change()?;
        let before = nodes::open_name(parent, name);
        unname()?;
        let Ok(fd) = before else { return Ok(()) };
        let found = nodes::look(&fd)?;
        let is_file = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
        let id = nodes::id(&found);
        if found.stx_nlink == 0 && is_file && self.cache.attributes(id)?.is_some() {
            self.using(id, Access::Read, |access| nodes::open(&fd, access), || Ok(()))?;
        }
        Ok(())
    }

    pub(crate) fn set_attributes(&self, node: &Node, change: &Change) -> Outcome<FileAttr> {
        self.may_change()?;
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
            let truncate = || Ok(self.cache.truncate(node.id, size)?);
            self.using(node.id, Access::Write, |access| node.open(access), truncate)?;
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
                    TimeOrNow::SpecificTime(time) => asked(time),
                    TimeOrNow::Now => asked(SystemTime::now()),
                };
                let modified = nanoseconds(modified.tv_sec, modified.tv_nsec);
                let set = || Ok(self.cache.set_modified(node.id, modified)?);
                self.using(node.id, Access::Read, |access| node.open(access), set)?;
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

    /// Takes from a file what gives its user's or group's rights to all that run it.
    pub(crate) fn end_privileges(&self, id: FileId) -> Outcome<()> {
        let file = self.files().file(id)?;
        let mode = rustix::fs::fstat(&*file)?.st_mode;
        let group = libc::S_ISGID | libc::S_IXGRP;
        let of_group = if mode & group == group { libc::S_ISGID } else { 0 };
        let ended = mode & (libc::S_ISUID | of_group);
        if ended != 0 {
            let left = Mode::from_raw_mode(mode & 0o7777 & !ended);
            rustix::fs::fchmod(&*file, left)?;
        }
        Ok(())
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

    /// Copies from one place to another, as they are in the page cache; how many bytes, which may
    /// be fewer.
    pub(crate) fn copy(
        &self,
        (from, at): (FileId, u64),
        (to, to_at): (FileId, u64),
        length: u64,
    ) -> Outcome<u32> {
        let most = length.min(MOST_COPIED);
        let mut piece = vec![0; most.min(COPIED_AT_ONCE) as usize];
        let mut done = 0;
        while done < most {
            let wanted = (most - done).min(COPIED_AT_ONCE) as usize;
            let read = self.cache.read(from, at + done, &mut piece[..wanted]);
            let copied = read.and_then(|bytes| {
                self.cache.write(to, to_at + done, &piece[..bytes])?;
                Ok(bytes as u64)
            });
            match copied {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                // The bytes copied before count; the next call reports the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done as u32)
    }

    /// Makes room for a range of a file, or zeros of it.
    pub(crate) fn allocate(&self, id: FileId, offset: u64, length: u64, mode: i32) -> Outcome<()> {
        const KEEP: Allocate = Allocate::KEEP_SIZE;
        let end = offset.checked_add(length).ok_or(Os::FBIG)?;
        // The size is the page cache's.
        let below =
            |how| Ok(rustix::fs::fallocate(&*self.files().file(id)?, how | KEEP, offset, length)?);
        let how = Allocate::from_bits_retain(mode.cast_unsigned());
        let keeps_size = how.contains(KEEP);
        if how == KEEP {
            Ok(below(KEEP).map_err(Failure::from)?)
        } else if how.is_empty() {
            Ok(self.cache.grow(id, end, || below(KEEP))?)
        } else if how == Allocate::PUNCH_HOLE | KEEP || how - KEEP == Allocate::ZERO_RANGE {
            Ok(self.cache.zero(id, (offset, length), keeps_size, || below(how))?)
        } else {
            Err(Os::OPNOTSUPP.into())
        }
    }

    /// Where the next data of a file are, or its next hole.
    pub(crate) fn seek(&self, node: &Node, offset: i64, whence: i32) -> Outcome<i64> {
        let size = self.attributes(node)?.size as i64;
        let wanted = u64::try_from(offset).ok().filter(|_| offset < size).ok_or(Os::NXIO)?;
        let (wanted, otherwise) = match whence {
            libc::SEEK_DATA => (SeekFrom::Data(wanted), offset),
            libc::SEEK_HOLE => (SeekFrom::Hole(wanted), size),
            _ => return Err(Os::INVAL.into()),
        };
        // The file below knows where holes are, once it has all that is dirty. A file that does
        // not take it is told to have none.
        if self.cache.write_back(node.id).is_err() {
            return Ok(otherwise);
        }
        let found = rustix::fs::seek(&*self.files().file(node.id)?, wanted)?;
        Ok(i64::try_from(found).map_or(size, |found| found.min(size)))
    }

    /// Ends what is left of open files, when the kernel has let go.
    pub(crate) fn close_all(&self) {
        let open: Vec<Arc<Node>> = self.open.lock().drain().map(|(_, node)| node).collect();
        for node in open.into_iter().filter(|node| node.is_file()) {
            if let Err(error) = self.cache.end_use(node.id) {
                tracing::error!("{}", told(&self.cache, &error));
            }
        }
    }
}

/// Bytes that are copied in one request, at most: nobody can interrupt it.
const MOST_COPIED: u64 = 16 << 20;

/// Bytes of them that are read and written together.
const COPIED_AT_ONCE: u64 = 1 << 20;

/// How often a file is looked for that others make and delete all the time.
const ATTEMPTS: u32 = 100;

/// Makes a file in a directory, or opens the one that is there, as the flags of `open` say; and
/// whether it is new. A new one is open for reading and writing.
///
/// # Errors
/// `ESTALE` if the caller has to look at the name again.
fn make_or_open(
    caller: Caller,
    folder: &Fd<'_>,
    name: &OsStr,
    mode: u32,
    flags: i32,
) -> Result<(File, bool), Os> {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    let always = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let make = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | always;
    // A caller that truncates a file needs permission to write to it.
    let cuts = flags.contains(OFlags::TRUNC) && flags & OFlags::ACCMODE == OFlags::RDONLY;
    let open = if cuts { OFlags::RDWR } else { flags & OFlags::ACCMODE } | always;
    for _ in 0..ATTEMPTS {
        let mode = Mode::from_raw_mode(mode);
        let made = caller.make(mode.as_raw_mode(), || rustix::fs::openat(folder, name, make, mode));
        match made {
            Err(Os::EXIST) if !flags.contains(OFlags::EXCL) => {}
            made => return Ok((made?.into(), true)),
        }
        match caller.ask(|| rustix::fs::openat(folder, name, open, Mode::empty())) {
            // It is gone again.
            Err(Os::NOENT) => {}
            Err(Os::LOOP | Os::ISDIR | Os::NXIO) => return Err(Os::STALE),
            found => {
                let found: File = found?.into();
                let is_file = nodes::look(&found)?.stx_mode & 0o170_000 == 0o100_000;
                return if is_file { Ok((found, false)) } else { Err(Os::STALE) };
            }
        }
    }
    Err(Os::STALE)
}

/// Takes a new file away again that could not be opened.
fn unmake(folder: &Fd<'_>, name: &OsStr, file: &File) {
    if let Ok(found) = rustix::fs::fstat(file) {
        remove_if(folder, name, found.st_ino);
    }
}

/// Takes a name away if it stands for what was just made. That may fail: it is on the way out of an
/// error.
fn remove_if(folder: &Fd<'_>, name: &OsStr, inode: u64) {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let Some(found) = found.ok().filter(|found| found.st_ino == inode) else { return };
    let is_folder = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let _ = rustix::fs::unlinkat(folder, name, flags);
}

/// Whether an extended attribute is an ACL.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// The changes of a node.
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
        Some(TimeOrNow::SpecificTime(time)) => asked(time),
    }
}

/// A time that the kernel asks for. Before 1970, `fuser` takes nanoseconds after a second for some
/// before it.
fn asked(time: SystemTime) -> Timespec {
    let (since, sign) = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => (since, 1),
        Err(before) => (before.duration(), -1),
    };
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: sign * seconds, tv_nsec: since.subsec_nanos().into() }
}
