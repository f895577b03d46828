//! Pages that several processes share, and that each process maps only while it may use them.
//!
//! A [`SharedPages`] is a range of addresses. Behind each page is the same page of a file that
//! other processes map too, or a replica in memory of this process alone. A page is absent,
//! readable, or writable; a touch that the page does not allow waits, and is told to the thread
//! that serves it. That holds for system calls, too.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::sync::Arc;

use linux_raw_sys::general::{
    UFFD_EVENT_PAGEFAULT, UFFD_FEATURE_EVENT_REMAP, UFFD_FEATURE_MINOR_SHMEM,
    UFFD_FEATURE_MISSING_SHMEM, UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_POISON,
    UFFD_FEATURE_WP_HUGETLBFS_SHMEM, UFFD_PAGEFAULT_FLAG_WP, UFFD_PAGEFAULT_FLAG_WRITE,
    UFFDIO_REGISTER_MODE_MINOR, UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER_MODE_WP, uffd_msg,
    uffdio_continue, uffdio_poison, uffdio_range, uffdio_register, uffdio_writeprotect,
};
use linux_raw_sys::ioctl::{UFFDIO_CONTINUE, UFFDIO_REGISTER, UFFDIO_WAKE, UFFDIO_WRITEPROTECT};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};

use super::faults::{ask, handshake, open};
use super::{FaultsError, PageSpace, page_bytes};
use crate::FilePart;

const UFFDIO_POISON: u32 = rustix::ioctl::opcode::read_write::<uffdio_poison>(0xaa, 8);
/// Pages that are mapped cannot be written.
const CONTINUE_PROTECTED: u64 = 2;
const PROTECT: u64 = 1;
const MESSAGE_BYTES: usize = size_of::<uffd_msg>();
const MESSAGES: usize = 32;
/// How often a call is tried again while the process changes its mappings.
const ATTEMPTS: usize = 1000;

/// The features of userfaultfd that shared pages need.
const NEEDED: u64 = (UFFD_FEATURE_MISSING_SHMEM
    | UFFD_FEATURE_MINOR_SHMEM
    | UFFD_FEATURE_PAGEFAULT_FLAG_WP
    | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
    | UFFD_FEATURE_EVENT_REMAP
    | UFFD_FEATURE_POISON) as u64;

/// The memory behind a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The page of the file that processes share.
    Shared,
    /// Memory of this process alone.
    Replica,
}

/// A thread waits for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The page.
    pub page: usize,
    /// Whether it wants to write.
    pub writes: bool,
}

/// Pages that are mapped only while this process may use them.
///
/// Calls that change mappings are one thread's. [`wait`](Self::wait) is another thread's: that one
/// has to keep calling it, because a change of what is behind a page waits for it.
#[derive(Debug)]
pub struct SharedPages {
    space: PageSpace,
    faults: File,
    shared: Option<FilePart>,
    replicas: Arc<File>,
    /// The replicas once more, always mapped.
    replica_space: PageSpace,
    bell: OwnedFd,
}

impl SharedPages {
    /// Reserves addresses for `pages` pages, which are all absent. `shared` is the file's part that
    /// is behind them; without it there are only replicas.
    ///
    /// # Errors
    /// A sentence that says what is missing, and what to do.
    pub fn new(pages: usize, shared: Option<FilePart>) -> Result<Self, FaultsError> {
        let os = |doing| move |reason: io::Error| FaultsError::Os { doing, reason };
        let (_, faults) = open()?;
        let features = {
            let (_, probe) = open()?;
            handshake(&probe, 0).map_err(os("ask userfaultfd for its features"))?
        };
        if features & NEEDED != NEEDED {
            return Err(FaultsError::NoShared);
        }
        handshake(&faults, NEEDED).map_err(os("set up userfaultfd"))?;
        let replicas = rustix::fs::memfd_create("tombolo-replicas", MemfdFlags::CLOEXEC)
            .map_err(|error| os("make memory for replicas")(error.into()))?;
        let bytes = (pages * page_bytes()) as u64;
        rustix::fs::ftruncate(&replicas, bytes)
            .map_err(|error| os("make memory for replicas")(error.into()))?;
        let reserve = || PageSpace::reserve(pages).map_err(os("reserve addresses"));
        let new = Self {
            space: reserve()?,
            faults,
            shared,
            replicas: Arc::new(replicas.into()),
            replica_space: reserve()?,
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|error| os("make an eventfd")(error.into()))?,
        };
        let part = FilePart { file: Arc::clone(&new.replicas), offset: 0 };
        new.show(&new.replica_space, &part).map_err(os("map replicas"))?;
        new.show(&new.space, &part).map_err(os("map a region"))?;
        // No thread uses the addresses yet, so this may come after the mapping.
        new.register(new.space.address().as_ptr(), new.space.bytes())
            .map_err(os("register a region"))?;
        Ok(new)
    }

    /// How many pages.
    pub fn pages(&self) -> usize {
        self.space.pages()
    }

    /// The bytes, as the program has them.
    pub fn bytes(&self) -> &PageSpace {
        &self.space
    }

    /// Puts something else behind pages, which are absent before and after. Blocks until the thread
    /// that [waits](Self::wait) has been told.
    ///
    /// # Errors
    /// The system's error; `ErrorKind::Unsupported` if there is no file to share.
    ///
    /// # Panics
    /// If they are not all in the space.
    pub fn put_behind(&self, pages: Range<usize>, behind: Behind) -> io::Result<()> {
        let part = match behind {
            Behind::Replica => FilePart { file: Arc::clone(&self.replicas), offset: 0 },
            Behind::Shared => self.shared.clone().ok_or(io::ErrorKind::Unsupported)?,
        };
        self.place(pages, &part)
    }

    /// Maps pages of a file over these, without a moment in which a touch is not told: the mapping
    /// is made and registered elsewhere, and moved here.
    fn place(&self, pages: Range<usize>, part: &FilePart) -> io::Result<()> {
        let to = self.space.span(pages.clone());
        let bytes = to.bytes();
        let offset = part.offset + (pages.start * page_bytes()) as u64;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no mapping is replaced.
        let from = unsafe {
            rustix::mm::mmap(null_mut(), bytes, access, MapFlags::SHARED, &part.file, offset)
        }?;
        let made = Staged { start: from.cast(), bytes };
        // SAFETY: advice on the mapping that was just made, which changes no bytes.
        unsafe { rustix::mm::madvise(from, bytes, Advice::LinuxDontFork) }?;
        self.register(made.start, bytes)?;
        // SAFETY: both ranges are this type's own, and nothing refers to their bytes.
        unsafe {
            rustix::mm::mremap_fixed(
                from,
                bytes,
                bytes,
                MremapFlags::MAYMOVE,
                to.start().as_ptr().cast(),
            )
        }?;
        std::mem::forget(made);
        Ok(())
    }

    /// Touches there are told from here on.
    fn register(&self, start: *const u8, bytes: usize) -> io::Result<()> {
        let mut asked = uffdio_register {
            range: uffdio_range { start: start.addr() as u64, len: bytes as u64 },
            mode: u64::from(
                UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP,
            ),
            ioctls: 0,
        };
        Ok(ask(&self.faults, UFFDIO_REGISTER, &mut asked)?)
    }

    /// Maps a file over a space that is not used yet.
    fn show(&self, space: &PageSpace, part: &FilePart) -> io::Result<()> {
        let all = space.span(0..self.pages());
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the replaced mapping is this type's own reservation, which nothing uses.
        unsafe {
            let start = all.start().as_ptr().cast();
            rustix::mm::mmap(start, all.bytes(), access, flags, &part.file, part.offset)?;
            rustix::mm::madvise(start, all.bytes(), Advice::LinuxDontFork)?;
        }
        Ok(())
    }

    /// Maps a page, and lets threads go on that wait for it. A page that is mapped becomes writable
    /// if that is asked.
    ///
    /// # Errors
    /// The system's error.
    pub fn map(&self, page: usize, writable: bool) -> io::Result<()> {
        let mode = if writable { 0 } else { CONTINUE_PROTECTED };
        for _ in 0..ATTEMPTS {
            let mut asked = uffdio_continue { range: self.range(page..page + 1), mode, mapped: 0 };
            match ask(&self.faults, UFFDIO_CONTINUE, &mut asked) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) if writable => return self.write_protect(page, 0),
                Err(Errno::EXIST) => return self.wake(page),
                // A page of the file that was never touched: there is none to be mapped yet.
                Err(Errno::FAULT) => self.fill_hole(page)?,
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn fill_hole(&self, page: usize) -> io::Result<()> {
        self.replica_space.page(page).unshare()
    }

    /// Makes a page that may be written one that may be read. Returns when no processor can write.
    ///
    /// # Errors
    /// The system's error.
    pub fn protect(&self, page: usize) -> io::Result<()> {
        self.write_protect(page, PROTECT)
    }

    fn write_protect(&self, page: usize, mode: u64) -> io::Result<()> {
        let range = self.range(page..page + 1);
        self.again(|faults| {
            ask(faults, UFFDIO_WRITEPROTECT, &mut uffdio_writeprotect { range, mode })
        })
    }

    /// Makes pages absent. Returns when no processor can access them.
    ///
    /// # Errors
    /// The system's error.
    pub fn unmap(&self, pages: Range<usize>) -> io::Result<()> {
        self.space.span(pages).discard()
    }

    /// Makes a page absent for good: from here on a touch of it ends in `SIGBUS`, and a system call
    /// in an error.
    ///
    /// # Errors
    /// The system's error.
    pub fn poison(&self, page: usize) -> io::Result<()> {
        // A page that was protected and is absent has a mark, which the kernel takes for a page.
        self.unmap(page..page + 1)?;
        self.write_protect(page, 0)?;
        let range = self.range(page..page + 1);
        self.again(|faults| {
            match ask(faults, UFFDIO_POISON, &mut uffdio_poison { range, mode: 0, updated: 0 }) {
                // It is poisoned already.
                Err(Errno::EXIST) => Ok(()),
                done => done,
            }
        })?;
        self.wake(page)
    }

    /// Threads that wait for a page try again.
    ///
    /// # Errors
    /// The system's error.
    pub fn wake(&self, page: usize) -> io::Result<()> {
        let mut range = self.range(page..page + 1);
        Ok(ask(&self.faults, UFFDIO_WAKE, &mut range)?)
    }

    fn again(&self, mut step: impl FnMut(&File) -> Result<(), Errno>) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            match step(&self.faults) {
                Err(Errno::AGAIN) => {}
                done => return Ok(done?),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn range(&self, pages: Range<usize>) -> uffdio_range {
        let span = self.space.span(pages);
        uffdio_range { start: span.address(), len: span.bytes() as u64 }
    }

    /// Copies a page's replica out.
    ///
    /// # Panics
    /// If there is no such page, or `into` is longer than one.
    pub fn read_replica(&self, page: usize, into: &mut [u8]) {
        self.replica_space.read(page * page_bytes(), into);
    }

    /// Copies bytes into a page's replica.
    ///
    /// # Panics
    /// As [`read_replica`](Self::read_replica).
    pub fn write_replica(&self, page: usize, bytes: &[u8]) {
        self.replica_space.write(page * page_bytes(), bytes);
    }

    /// Gives the memory of a page's replica back.
    ///
    /// # Errors
    /// The system's error.
    pub fn drop_replica(&self, page: usize) -> io::Result<()> {
        // SAFETY: advice on a mapping of this type's own, whose bytes nothing refers to.
        let advised = unsafe {
            let start = self.replica_space.page(page).start().as_ptr().cast();
            rustix::mm::madvise(start, page_bytes(), Advice::LinuxRemove)
        };
        Ok(advised?)
    }

    /// Waits for touches, and appends them. It returns without any when a mapping has been moved,
    /// when the [bell](Self::ring) was rung, or now and then.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&self, touches: &mut Vec<Touch>) -> io::Result<()> {
        let mut polled =
            [PollFd::new(&self.faults, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; MESSAGES * MESSAGE_BYTES];
        let read = match rustix::io::read(&self.faults, &mut bytes) {
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let (messages, _) = bytes[..read].as_chunks::<MESSAGE_BYTES>();
        touches.extend(messages.iter().filter_map(|message| self.decode(message)));
        Ok(())
    }

    fn decode(&self, message: &[u8; MESSAGE_BYTES]) -> Option<Touch> {
        let word =
            |at: usize| u64::from_ne_bytes(message[at..at + 8].try_into().expect("eight bytes"));
        if u32::from(message[0]) != UFFD_EVENT_PAGEFAULT {
            return None;
        }
        let page = self.space.page_of(usize::try_from(word(16)).ok()?)?;
        let writes = UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP;
        Some(Touch { page, writes: word(8) & u64::from(writes) != 0 })
    }

    /// From here on [`wait`](Self::wait) returns at once.
    pub fn ring(&self) {
        // The counter is full after 2^64 rings.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// A mapping on its way to its place.
struct Staged {
    start: *mut u8,
    bytes: usize,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // SAFETY: a mapping of this module's own, which nothing uses.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages over a file, and a thread that maps each page that is touched.
    fn shared(pages: usize) -> Option<(Arc<SharedPages>, Arc<File>)> {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::fallocate(
            &file,
            rustix::fs::FallocateFlags::empty(),
            0,
            (pages * page_bytes()) as u64,
        )
        .unwrap();
        let file = Arc::new(File::from(file));
        let part = FilePart { file: Arc::clone(&file), offset: 0 };
        match SharedPages::new(pages, Some(part)) {
            Ok(shared) => Some((Arc::new(shared), file)),
            Err(reason) => {
                eprintln!("skipped: {reason}");
                None
            }
        }
    }

    /// Starts a thread that serves touches until the bell is rung, and returns those it has seen.
    fn serving(
        pages: &Arc<SharedPages>,
        mut serve: impl FnMut(&SharedPages, Touch) + Send + 'static,
    ) -> std::thread::JoinHandle<Vec<Touch>> {
        let pages = Arc::clone(pages);
        std::thread::spawn(move || {
            let mut seen = Vec::new();
            loop {
                let mut touches = Vec::new();
                pages.wait(&mut touches).unwrap();
                let rung = rustix::io::read(&pages.bell, &mut [0_u8; 8]).is_ok();
                touches.iter().for_each(|&touch| serve(&pages, touch));
                seen.append(&mut touches);
                if rung {
                    return seen;
                }
            }
        })
    }

    #[test]
    fn a_page_is_absent_then_read_then_written() {
        let Some((pages, _file)) = shared(4) else { return };
        pages.write_replica(1, b"replica");
        let server = serving(&pages, |pages, touch| pages.map(touch.page, touch.writes).unwrap());
        let mut bytes = [0; 7];
        pages.bytes().read(page_bytes(), &mut bytes);
        assert_eq!(&bytes, b"replica");
        pages.bytes().write(page_bytes(), b"R");
        pages.protect(1).unwrap();
        pages.bytes().write(page_bytes(), b"S");
        pages.unmap(1..2).unwrap();
        pages.bytes().read(page_bytes(), &mut bytes);
        assert_eq!(&bytes, b"Seplica");
        pages.ring();
        let (read, write) = (Touch { page: 1, writes: false }, Touch { page: 1, writes: true });
        assert_eq!(server.join().unwrap(), [read, write, write, read]);
    }

    #[test]
    fn what_is_behind_a_page_changes_and_system_calls_wait_too() {
        use std::io::{Read, Write};
        let Some((pages, file)) = shared(4) else { return };
        let server = serving(&pages, |pages, touch| pages.map(touch.page, touch.writes).unwrap());
        pages.put_behind(1..3, Behind::Shared).unwrap();
        pages.bytes().write(2 * page_bytes(), b"in the file");
        let mut found = [0; 11];
        let mut all = Vec::new();
        rustix::fs::seek(&*file, rustix::fs::SeekFrom::Start(2 * page_bytes() as u64)).unwrap();
        (&*file).take(11).read_to_end(&mut all).unwrap();
        assert_eq!(all, b"in the file");
        pages.unmap(2..3).unwrap();
        pages.put_behind(2..3, Behind::Replica).unwrap();
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(b"from a pipe").unwrap();
        assert_eq!(pages.bytes().fill_from(2 * page_bytes(), 11, &read).unwrap(), 11);
        pages.read_replica(2, &mut found);
        assert_eq!(&found, b"from a pipe");
        pages.ring();
        server.join().unwrap();
    }

    #[test]
    fn a_page_that_is_poisoned_is_an_error_of_system_calls() {
        let Some((pages, _file)) = shared(2) else { return };
        let server = serving(&pages, |pages, touch| pages.poison(touch.page).unwrap());
        let (_read, write) = std::io::pipe().unwrap();
        let failed = pages.bytes().write_to(0, 8, &write).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EFAULT));
        pages.ring();
        server.join().unwrap();
    }

    /// A host had read a page, gave it up, and touched it again after another host had died with
    /// it. The kernel had kept a mark of the protection, took that for a page, and poisoned
    /// nothing: the thread waited for ever.
    #[test]
    fn a_page_that_was_read_can_be_poisoned() {
        let Some((pages, _file)) = shared(1) else { return };
        let mut first = true;
        let server = serving(&pages, move |pages, touch| {
            let served = if first { pages.map(0, touch.writes) } else { pages.poison(0) };
            served.unwrap();
            first = false;
        });
        let (_read, write) = std::io::pipe().unwrap();
        assert_eq!(pages.bytes().write_to(0, 8, &write).unwrap(), 8);
        pages.unmap(0..1).unwrap();
        let failed = pages.bytes().write_to(0, 8, &write).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EFAULT));
        pages.ring();
        server.join().unwrap();
    }
}
