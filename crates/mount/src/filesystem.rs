//! Requests of the kernel, and their answers.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, Mode, XattrFlags};
use rustix::io::Errno as Os;

use crate::caller::Caller;
use crate::locks::{Asker, Call, Range};
use crate::nodes::{Access, Fd};
use crate::shared::{Change, Failure, Outcome, Shared, is_acl};

/// The kernel keeps nothing: another host may have changed it.
const NEVER: Duration = Duration::ZERO;

/// Bytes of a write, at most.
const MAX_WRITE: u32 = 1 << 20;

/// Flags of an open file: the kernel reads and writes past its page cache, and several writes may
/// run at once.
const OPENED: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// The file system, as the kernel sees it.
pub(crate) struct Mount {
    pub(crate) shared: Arc<Shared>,
    pub(crate) is_read_only: bool,
}

/// Answers a request with what came of it.
macro_rules! answer {
    ($reply:expr, $outcome:expr, $done:pat => $answer:expr) => {
        match $outcome {
            Ok($done) => $answer,
            Err(Failure(errno)) => $reply.error(errno),
        }
    };
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

/// Permissions are asked by the kernel above, which looks at modes alone.
fn refuse_acl(name: &OsStr) -> Outcome<()> {
    if is_acl(name.as_bytes()) { Err(Os::OPNOTSUPP.into()) } else { Ok(()) }
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
        if self.is_read_only {
            // Nobody can write to what is mapped. Kernels before 6.6 map nothing shared.
            let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        }
        // A value over the limit is brought down to it.
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = || self.shared.entry(&*self.shared.nodes.get(parent)?, name);
        answer!(reply, found(), entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.shared.nodes.forget(number, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = || self.shared.attributes(&*self.shared.nodes.get(number)?);
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
        let set = || self.shared.set_attributes(&*self.shared.nodes.get(number)?, &change);
        answer!(reply, set(), attributes => reply.attr(&NEVER, &attributes));
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let read = || -> Outcome<_> {
            Ok(rustix::fs::readlinkat(self.shared.nodes.get(number)?.fd()?, "", Vec::new())?)
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
        let made = self.shared.make(Caller::new(request), parent, name, mode, |parent| {
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::mknodat(parent, name, kind, mode, u64::from(rdev))
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
        let made = self.shared.make(Caller::new(request), parent, name, mode, |parent| {
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode))
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
        let link = |parent: &Fd<'_>| rustix::fs::symlinkat(target, parent, name);
        let made = self.shared.make(Caller::new(request), parent, name, 0, link);
        answer!(reply, made, entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = || {
            let (node, parent) = (self.shared.nodes.get(number)?, self.shared.nodes.get(parent)?);
            self.shared.may_change()?;
            rustix::fs::linkat(node.fd()?, "", parent.fd()?, name, AtFlags::EMPTY_PATH)?;
            self.shared.entry(&parent, name)
        };
        answer!(reply, made(), entry => reply.entry(&NEVER, &entry.0, entry.1));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let unlinked = || {
            let parent = self.shared.nodes.get(parent)?;
            let unlink = || rustix::fs::unlinkat(parent.fd()?, name, AtFlags::empty());
            self.shared.unname(&parent, name, unlink)
        };
        answer!(reply, unlinked(), _done => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = || -> Outcome<()> {
            let parent = self.shared.nodes.get(parent)?;
            self.shared.may_change()?;
            Ok(rustix::fs::unlinkat(parent.fd()?, name, AtFlags::REMOVEDIR)?)
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
            let (from, to) = (self.shared.nodes.get(parent)?, self.shared.nodes.get(new_parent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            let rename = || rustix::fs::renameat_with(from.fd()?, name, to.fd()?, new_name, flags);
            self.shared.unname(&to, new_name, rename)
        };
        answer!(reply, renamed(), _done => reply.ok());
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = || self.shared.opened(self.shared.nodes.get(number)?, Access::of(flags.0));
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
        let created = self.shared.create(Caller::new(request), parent, name, mode, flags);
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
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        let mut read = || -> Outcome<_> {
            let id = self.shared.nodes.get(number)?.id;
            if owner.is_none() {
                self.shared.kept.note(&self.shared.cache, number, id)?;
            }
            Ok(self.shared.cache.read(id, offset, &mut bytes)?)
        };
        answer!(reply, read(), length => reply.data(&bytes[..length]));
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = || {
            let node = self.shared.nodes.get(number)?;
            if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                self.shared.end_privileges(node.id)?;
            }
            self.shared.write(node.id, offset, data, flags.0)
        };
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
        self.shared.locks.release(number, owner);
        let flushed = || -> Outcome<()> {
            let node = self.shared.nodes.get(number)?;
            // A program that closes a file learns whether its bytes have a place below.
            if node.is_file() {
                self.shared.cache.write_back(node.id)?;
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
        answer!(reply, self.shared.release(handle, owner), _done => reply.ok());
    }

    fn fsync(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let synced = || -> Outcome<()> {
            Ok(self.shared.cache.sync(self.shared.nodes.get(number)?.id, data_only)?)
        };
        answer!(reply, synced(), _done => reply.ok());
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = self.shared.list(number);
        answer!(reply, listed, listing => {
            let handle = self.shared.handles.fetch_add(1, Ordering::Relaxed);
            self.shared.listings.lock().insert(handle, listing);
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
            match self.shared.list(number) {
                Ok(listing) => _ = self.shared.listings.lock().insert(handle.0, listing),
                Err(Failure(errno)) => return reply.error(errno),
            }
        }
        let listings = self.shared.listings.lock();
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
        self.shared.listings.lock().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced =
            || -> Outcome<()> { Ok(self.shared.nodes.get(number)?.open_folder()?.sync_all()?) };
        answer!(reply, synced(), _done => reply.ok());
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        let found = || -> Outcome<_> {
            let node = self.shared.nodes.get(number)?;
            let fd = node.fd()?;
            Ok((rustix::fs::fstatvfs(&fd)?, rustix::fs::fstatfs(&fd)?.f_bsize))
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
            refuse_acl(name)?;
            self.shared.may_change()?;
            let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
            Ok(self
                .shared
                .nodes
                .get(number)?
                .at_path(|at| rustix::fs::setxattr(at, name, value, flags))?)
        };
        answer!(reply, set(), _done => reply.ok());
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let get = || -> Outcome<Vec<u8>> {
            refuse_acl(name)?;
            let mut value = vec![0; XATTR_BYTES];
            let node = self.shared.nodes.get(number)?;
            let length = node.at_path(|at| rustix::fs::getxattr(at, name, &mut value))?;
            value.truncate(length);
            Ok(value)
        };
        xattr(reply, size, get());
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let list = || -> Outcome<Vec<u8>> {
            let mut names = vec![0; XATTR_BYTES];
            let node = self.shared.nodes.get(number)?;
            let length = node.at_path(|at| rustix::fs::listxattr(at, &mut names))?;
            names.truncate(length);
            let shown = names.split_inclusive(|&byte| byte == 0).filter(|name| !is_acl(name));
            Ok(shown.flatten().copied().collect())
        };
        xattr(reply, size, list());
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = || -> Outcome<()> {
            refuse_acl(name)?;
            self.shared.may_change()?;
            Ok(self.shared.nodes.get(number)?.at_path(|at| rustix::fs::removexattr(at, name))?)
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
            let node = self.shared.nodes.get(number)?;
            Ok(self.shared.locks.find(&node, owner, Range { start, end, kind })?)
        };
        // The process that has it may be on another host: there is no number for that.
        answer!(reply, found(), range => reply.locked(range.start, range.end, range.kind, 0));
    }

    fn setlk(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let wanted = Range { start, end, kind };
        let asker = Asker { owner, handle, call: Call::of(request.pid(), wanted), process };
        let now = || -> Outcome<_> {
            let node = self.shared.nodes.get(number)?;
            let taken = self.shared.locks.set(&node, asker, wanted)?;
            Ok((node, taken))
        };
        answer!(reply, now(), (node, taken) => match (taken, sleep) {
            (true, _) => reply.ok(),
            (false, false) => reply.error(Errno::EAGAIN),
            (false, true) => {
                let shared = Arc::clone(&self.shared);
                thread::spawn(move || {
                    let stopping = || shared.stopping.load(Ordering::Relaxed);
                    let waited = shared.locks.wait(&node, asker, wanted, stopping);
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
        let found = || self.shared.seek(&*self.shared.nodes.get(number)?, offset, whence);
        answer!(reply, found(), at => reply.offset(at));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        from: INodeNo,
        _: FileHandle,
        at: u64,
        to: INodeNo,
        _: FileHandle,
        to_at: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copied = || {
            let (from, to) = (self.shared.nodes.get(from)?, self.shared.nodes.get(to)?);
            self.shared.copy((from.id, at), (to.id, to_at), length)
        };
        answer!(reply, copied(), length => reply.written(length));
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
        let allocated =
            || self.shared.allocate(self.shared.nodes.get(number)?.id, offset, length, mode);
        answer!(reply, allocated(), _done => reply.ok());
    }
}
