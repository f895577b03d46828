//! userfaultfd: pages are moved, protected and filled, and touches of absent ones are told.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use linux_raw_sys::general::{
    UFFD_API, UFFD_EVENT_PAGEFAULT, UFFD_EVENT_REMAP, UFFD_EVENT_REMOVE, UFFD_EVENT_UNMAP,
    UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER_MODE_WP, uffd_msg, uffdio_api, uffdio_copy,
    uffdio_move, uffdio_range, uffdio_register, uffdio_writeprotect, uffdio_zeropage,
};
use linux_raw_sys::ioctl::{
    UFFDIO_API, UFFDIO_COPY, UFFDIO_REGISTER, UFFDIO_UNREGISTER, UFFDIO_WAKE, UFFDIO_WRITEPROTECT,
    UFFDIO_ZEROPAGE,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::offer::{EVENTS, NEEDED};
use super::{Access, FaultsError, PageMap, PageSpan, page_bytes};

const UFFDIO_MOVE: u32 = rustix::ioctl::opcode::read_write::<uffdio_move>(0xaa, 5);
/// Asks `/dev/userfaultfd` for a descriptor.
const USERFAULTFD_NEW: u32 = rustix::ioctl::opcode::none(0xaa, 0);
/// Writes to protected pages are noted, and are no faults.
const PROTECT: u64 = 1;
/// Pages that are absent at the source stay absent at the target.
const MOVE_ALLOWS_HOLES: u64 = 2;
const MESSAGE_BYTES: usize = size_of::<uffd_msg>();
/// Messages that are taken from the kernel at once.
const MESSAGES: usize = 32;

/// Why the kernel did not do something with a page. The page is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The page is shared with a child of `fork()`, or pinned for a device.
    Shared,
    /// The area does not allow it: it is locked, not writable, or not registered any more.
    Unmovable,
    /// There is no page at the source, or no mapping at the target.
    Absent,
    /// There is a page at the target.
    Present,
    /// The process is changing its mappings at this moment.
    Changing,
    /// There is no memory for a new page.
    NoMemory,
    /// Something else: the number of the error.
    Other(i32),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        match error {
            Errno::BUSY => Self::Shared,
            Errno::INVAL => Self::Unmovable,
            Errno::NOENT | Errno::FAULT => Self::Absent,
            Errno::EXIST => Self::Present,
            Errno::AGAIN => Self::Changing,
            Errno::NOMEM => Self::NoMemory,
            other => Self::Other(other.raw_os_error()),
        }
    }
}

/// How far a request for several pages came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// So many pages from the first one on are done.
    pub pages: usize,
    /// Why not the next one.
    pub refused: Option<Refusal>,
}

impl Moved {
    /// The request for one page: done, or refused.
    ///
    /// # Errors
    /// The refusal.
    pub fn whole(self) -> Result<(), Refusal> {
        self.refused.map_or(Ok(()), Err)
    }
}

/// A message from userfaultfd, with the addresses that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A thread waits for the page at this address.
    Fault(usize),
    /// Pages are about to be given up (`MADV_DONTNEED`, `MADV_FREE`): from, up to.
    Remove(usize, usize),
    /// Pages were unmapped: from, up to.
    Unmap(usize, usize),
    /// Pages have another address now: from, to, bytes.
    Remap(usize, usize, usize),
}

impl Message {
    /// `None` for what this type does not have.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
            usize::try_from(u64::from_ne_bytes(bytes)).unwrap_or(usize::MAX)
        };
        match u32::from(bytes[0]) {
            UFFD_EVENT_PAGEFAULT => Some(Self::Fault(word(16))),
            UFFD_EVENT_REMOVE => Some(Self::Remove(word(8), word(16))),
            UFFD_EVENT_UNMAP => Some(Self::Unmap(word(8), word(16))),
            UFFD_EVENT_REMAP => Some(Self::Remap(word(8), word(16), word(24))),
            _ => None,
        }
    }
}

/// A userfaultfd of this process, and its page table.
///
/// No call waits for another thread, but for the kernel's own locks; [`wait`](Self::wait) waits for
/// messages. [`copy`](Self::copy) reads its source as a program does: if that page is absent, the
/// call waits for the thread that serves faults.
#[derive(Debug)]
pub struct Faults {
    file: File,
    map: PageMap,
}

impl Faults {
    /// Opens one by `/dev/userfaultfd` or the system call.
    ///
    /// It tells of changes of mappings: a thread that unmaps or gives up registered pages waits
    /// until the message is [read](Self::read). So unregister pages before they are unmapped.
    ///
    /// # Errors
    /// A sentence that says what is missing, and what to do.
    pub fn open() -> Result<Self, FaultsError> {
        Self::with(NEEDED)
    }

    /// Opens one that tells of faults alone: for pages that no other code unmaps or gives up.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for_arenas() -> Result<Self, FaultsError> {
        Self::with(NEEDED & !EVENTS)
    }

    fn with(features: u64) -> Result<Self, FaultsError> {
        let (_, file) = open()?;
        handshake(&file, features)
            .map_err(|reason| FaultsError::Os { doing: "set up userfaultfd", reason })?;
        let map = PageMap::open().map_err(FaultsError::NoScan)?;
        Ok(Self { file, map })
    }

    /// The process' page table.
    pub fn map(&self) -> &PageMap {
        &self.map
    }

    /// From here on a touch of an absent page there is told, and writes can be noted.
    ///
    /// # Errors
    /// The system's error, such as that the pages are not anonymous.
    pub fn register(&self, span: PageSpan<'_>) -> io::Result<()> {
        self.register_for(span, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP)
    }

    /// Pages can be moved there, and a touch of an absent one takes a page of zeros.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_arena(&self, span: PageSpan<'_>) -> io::Result<()> {
        self.register_for(span, UFFDIO_REGISTER_MODE_WP)
    }

    fn register_for(&self, span: PageSpan<'_>, mode: u32) -> io::Result<()> {
        let mut asked = uffdio_register { range: range(span), mode: u64::from(mode), ioctls: 0 };
        Ok(self.ask(UFFDIO_REGISTER, &mut asked)?)
    }

    /// Ends what [`register`](Self::register) began; threads that wait there try again.
    ///
    /// # Errors
    /// The system's error.
    pub fn unregister(&self, span: PageSpan<'_>) -> io::Result<()> {
        Ok(self.ask(UFFDIO_UNREGISTER, &mut range(span))?)
    }

    /// Moves pages, with all that is in them: the source is absent afterwards. Threads that wait
    /// for the target go on. With `holes`, pages absent at the source are left out.
    pub fn move_pages(&self, to: PageSpan<'_>, from: PageSpan<'_>, holes: bool) -> Moved {
        assert_eq!(to.pages(), from.pages(), "spans of different lengths");
        let mut pages = 0;
        loop {
            let (to, from) = (to.behind(pages), from.behind(pages));
            let mut asked = uffdio_move {
                dst: to.address(),
                src: from.address(),
                len: from.bytes() as u64,
                mode: if holes { MOVE_ALLOWS_HOLES } else { 0 },
                move_: 0,
            };
            let result = self.ask(UFFDIO_MOVE, &mut asked);
            let moved = progress(from.pages(), result, asked.move_);
            pages += moved.pages;
            // Linux before 7.3 may say so of pages that it has moved.
            let all_the_same = match moved.refused {
                Some(Refusal::Present) => self.moved_pages(to, from, moved.pages),
                _ => 0,
            };
            pages += all_the_same;
            if all_the_same == 0 {
                return Moved { pages, refused: moved.refused };
            }
            if moved.pages + all_the_same == from.pages() {
                return Moved { pages, refused: None };
            }
        }
    }

    /// How many pages, from one on, are at the target and not at the source.
    fn moved_pages(&self, to: PageSpan<'_>, from: PageSpan<'_>, first: usize) -> usize {
        let is_there = |page| self.map.kind(page).is_ok_and(|kind| kind.is_there());
        let has_moved = |page: &usize| is_there(to.page(*page)) && !is_there(from.page(*page));
        (first..from.pages()).take_while(has_moved).count()
    }

    /// Takes new pages, and copies others' bytes there; threads that wait for them go on.
    pub fn copy(&self, to: PageSpan<'_>, from: PageSpan<'_>) -> Moved {
        assert_eq!(to.pages(), from.pages(), "spans of different lengths");
        let mut asked = uffdio_copy {
            dst: to.address(),
            src: from.address(),
            len: from.bytes() as u64,
            mode: 0,
            copy: 0,
        };
        let result = self.ask(UFFDIO_COPY, &mut asked);
        progress(to.pages(), result, asked.copy)
    }

    /// Fills absent pages with zeros; threads that wait for them go on.
    pub fn zero(&self, span: PageSpan<'_>) -> Moved {
        let mut asked = uffdio_zeropage { range: range(span), mode: 0, zeropage: 0 };
        let result = self.ask(UFFDIO_ZEROPAGE, &mut asked);
        progress(span.pages(), result, asked.zeropage)
    }

    /// Fills the absent page at an address that is registered here with zeros; threads that wait
    /// for it go on.
    ///
    /// # Errors
    /// Why not.
    pub fn zero_at(&self, address: usize) -> Result<(), Refusal> {
        let start = (address - address % page_bytes()) as u64;
        let range = uffdio_range { start, len: page_bytes() as u64 };
        let mut asked = uffdio_zeropage { range, mode: 0, zeropage: 0 };
        Ok(self.ask(UFFDIO_ZEROPAGE, &mut asked)?)
    }

    /// Notes writes to these pages from here on; when it returns, no earlier write goes unnoted.
    ///
    /// # Errors
    /// Why not.
    pub fn protect(&self, span: PageSpan<'_>) -> Result<(), Refusal> {
        let mut asked = uffdio_writeprotect { range: range(span), mode: PROTECT };
        Ok(self.ask(UFFDIO_WRITEPROTECT, &mut asked)?)
    }

    /// Ends the notes of writes to these pages. An absent page that was protected has a mark in the
    /// page table, for which the kernel refuses to fill it or to move a page there; this takes the
    /// mark away. The page table shows such a page as swapped out.
    ///
    /// # Errors
    /// Why not.
    pub fn unprotect(&self, span: PageSpan<'_>) -> Result<(), Refusal> {
        let mut asked = uffdio_writeprotect { range: range(span), mode: 0 };
        Ok(self.ask(UFFDIO_WRITEPROTECT, &mut asked)?)
    }

    /// Threads that wait for these pages try again.
    ///
    /// # Errors
    /// Why not.
    pub fn wake(&self, span: PageSpan<'_>) -> Result<(), Refusal> {
        Ok(self.ask(UFFDIO_WAKE, &mut range(span))?)
    }

    /// As [`wake`](Self::wake), for the page at an address, whatever is there.
    ///
    /// # Errors
    /// Why not.
    pub fn wake_at(&self, address: usize) -> Result<(), Refusal> {
        let start = address / page_bytes() * page_bytes();
        let mut asked = uffdio_range { start: start as u64, len: page_bytes() as u64 };
        Ok(self.ask(UFFDIO_WAKE, &mut asked)?)
    }

    /// Moves one page to an address that is registered here, and has no page.
    ///
    /// # Errors
    /// Why not.
    pub fn move_to(&self, address: usize, from: PageSpan<'_>) -> Result<(), Refusal> {
        let mut asked = uffdio_move {
            dst: address as u64,
            src: from.address(),
            len: from.bytes() as u64,
            mode: 0,
            move_: 0,
        };
        let moved = self.ask(UFFDIO_MOVE, &mut asked);
        let is_there = || self.map.kind(from).map_or(true, |kind| kind.is_there());
        match moved.map_err(Refusal::from) {
            // As with `move_pages`.
            Err(Refusal::Present) if !is_there() => Ok(()),
            result => result,
        }
    }

    /// As [`unregister`](Self::unregister), for addresses to which the program has moved pages.
    ///
    /// # Errors
    /// The system's error.
    pub fn unregister_at(&self, address: usize, bytes: usize) -> io::Result<()> {
        let mut asked = uffdio_range { start: address as u64, len: bytes as u64 };
        Ok(self.ask(UFFDIO_UNREGISTER, &mut asked)?)
    }

    /// Waits for messages, or for `bell` to be rung, for so long at most. Returns whether it is
    /// worth reading.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&self, bell: impl AsFd, milliseconds: u32) -> io::Result<bool> {
        let mut polled =
            [PollFd::new(&self.file, PollFlags::IN), PollFd::new(&bell, PollFlags::IN)];
        let seconds = i64::from(milliseconds / 1000);
        let nanoseconds = i64::from(milliseconds % 1000) * 1_000_000;
        let limit = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        match rustix::event::poll(&mut polled, Some(&limit)) {
            Ok(_) => Ok(!polled[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends messages that are there, some dozens at most. It does not wait.
    ///
    /// From its return on, those that told of a change of mappings go on.
    ///
    /// # Errors
    /// The system's error.
    pub fn read(&self, messages: &mut Vec<Message>) -> io::Result<()> {
        let mut bytes = [0; MESSAGES * MESSAGE_BYTES];
        match rustix::io::read(&self.file, &mut bytes) {
            Ok(length) => {
                let whole = bytes[..length].chunks_exact(MESSAGE_BYTES);
                messages.extend(whole.filter_map(Message::decode));
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn ask<T>(&self, opcode: u32, argument: &mut T) -> Result<(), Errno> {
        ask(&self.file, opcode, argument)
    }
}

fn range(span: PageSpan<'_>) -> uffdio_range {
    uffdio_range { start: span.address(), len: span.bytes() as u64 }
}

/// How far a call came that was for so many pages and says how many bytes it did.
fn progress(pages: usize, result: Result<(), Errno>, bytes: i64) -> Moved {
    let Err(error) = result else { return Moved { pages, refused: None } };
    let done = usize::try_from(bytes).unwrap_or(0) / page_bytes();
    Moved { pages: done, refused: Some(error.into()) }
}

/// Calls of userfaultfd and of its device. Each reads and writes its argument alone, or pages that
/// the argument names, which are of spans.
pub(super) fn ask<T>(file: &File, opcode: u32, argument: &mut T) -> Result<(), Errno> {
    // SAFETY: the opcode says how large the argument is, and it lives as long as the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), opcode as _, std::ptr::from_mut(argument)) } {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

/// The way by which this process gets at userfaultfd, and the features that the kernel reports.
pub(super) fn features() -> Result<(Access, u64), FaultsError> {
    let (access, file) = open()?;
    let features = handshake(&file, 0)
        .map_err(|reason| FaultsError::Os { doing: "ask userfaultfd for its features", reason })?;
    Ok((access, features))
}

pub(super) fn handshake(file: &File, features: u64) -> io::Result<u64> {
    let mut asked = uffdio_api { api: u64::from(UFFD_API), features, ioctls: 0 };
    ask(file, UFFDIO_API, &mut asked)?;
    Ok(asked.features)
}

pub(super) fn open() -> Result<(Access, File), FaultsError> {
    if let Some(file) = open_device() {
        return Ok((Access::Device, file));
    }
    match new_descriptor(|flags| {
        // SAFETY: a call without pointers.
        unsafe { libc::syscall(libc::SYS_userfaultfd, flags) as libc::c_int }
    }) {
        Ok(file) => Ok((Access::SystemCall, file)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(FaultsError::NotPermitted)
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Err(FaultsError::NoFaults),
        Err(reason) => Err(FaultsError::Os { doing: "open userfaultfd", reason }),
    }
}

/// By the device, whose owner and mode say which processes may handle all their faults.
fn open_device() -> Option<File> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/userfaultfd").ok()?;
    new_descriptor(|flags| {
        // SAFETY: the call takes flags, and no pointer.
        unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_NEW as _, flags) }
    })
    .ok()
}

fn new_descriptor(make: impl FnOnce(libc::c_int) -> libc::c_int) -> io::Result<File> {
    match make(libc::O_CLOEXEC | libc::O_NONBLOCK) {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made this descriptor, and nothing else has it.
        number => Ok(unsafe { OwnedFd::from_raw_fd(number) }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::{Offer, PageSpace, Ring};

    /// `None`, and a line that says so, where the kernel offers too little.
    fn faults() -> Option<Faults> {
        if let Err(reason) = Offer::probe() {
            eprintln!("skipped: {reason}");
            return None;
        }
        Some(Faults::open_for_arenas().unwrap())
    }

    fn arena(faults: &Faults, pages: usize) -> PageSpace {
        let space = PageSpace::reserve(pages).unwrap();
        space.span(0..pages).refuse_huge_pages().unwrap();
        faults.register_arena(space.span(0..pages)).unwrap();
        space
    }

    fn byte(space: &PageSpace, page: usize) -> u8 {
        let mut byte = [0];
        space.read(page * page_bytes(), &mut byte);
        byte[0]
    }

    #[test]
    fn a_page_moves_with_its_bytes_and_leaves_nothing_behind() {
        let Some(faults) = faults() else { return };
        let (here, there) = (arena(&faults, 4), arena(&faults, 4));
        (0..4).for_each(|page| here.write(page * page_bytes(), &[page as u8 + 1]));
        let moved = faults.move_pages(there.page(2), here.page(1), false);
        assert_eq!(moved, Moved { pages: 1, refused: None });
        assert_eq!(byte(&there, 2), 2);
        let again = faults.move_pages(there.page(3), here.page(1), false);
        assert_eq!(again.whole(), Err(Refusal::Absent));
        let onto = faults.move_pages(there.page(2), here.page(2), false);
        assert_eq!(onto.whole(), Err(Refusal::Present));
        assert_eq!(byte(&here, 1), 0);
    }

    #[test]
    fn writes_to_protected_pages_are_noted() {
        let Some(faults) = faults() else { return };
        let space = arena(&faults, 3);
        (0..3).for_each(|page| space.write(page * page_bytes(), b"x"));
        faults.protect(space.span(0..3)).unwrap();
        space.write(page_bytes(), b"y");
        let written = |page| faults.map().kind(space.page(page)).unwrap().is_written();
        assert_eq!([0, 1, 2].map(written), [false, true, false]);
    }

    #[test]
    fn a_touch_waits_until_the_page_is_filled() {
        let Some(faults) = faults() else { return };
        let space = PageSpace::reserve(2).unwrap();
        faults.register(space.span(0..2)).unwrap();
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        std::thread::scope(|scope| {
            let toucher = scope.spawn(|| byte(&space, 1));
            assert!(faults.wait(&bell, 10_000).unwrap());
            let mut messages = Vec::new();
            faults.read(&mut messages).unwrap();
            let [Message::Fault(address)] = messages[..] else { panic!("{messages:?}") };
            assert_eq!(space.page_of(address), Some(1));
            assert_eq!(faults.zero(space.page(1)), Moved { pages: 1, refused: None });
            assert_eq!(toucher.join().unwrap(), 0);
        });
    }

    #[test]
    fn pinned_pages_do_not_move_until_they_are_let_go() {
        let Some(faults) = faults() else { return };
        let (here, there) = (arena(&faults, 1), arena(&faults, 1));
        here.write(0, b"x");
        let ring = match Ring::open() {
            Ok(ring) => ring,
            Err(reason) => return eprintln!("skipped: no io_uring: {reason}"),
        };
        ring.pin(here.page(0)).unwrap();
        let moved = faults.move_pages(there.page(0), here.page(0), false);
        assert_eq!(moved.whole(), Err(Refusal::Shared));
        drop(ring);
        assert_eq!(byte(&here, 0), b'x');
    }

    /// A heap's thread protected a page that the program had just given up. The kernel left a mark
    /// there, and refused to fill the page from then on: its next touch waited for ever.
    #[test]
    fn an_absent_page_that_was_protected_can_be_filled() {
        let Some(faults) = faults() else { return };
        let space = PageSpace::reserve(2).unwrap();
        faults.register(space.span(0..2)).unwrap();
        faults.protect(space.page(0)).unwrap();
        assert_eq!(faults.zero(space.page(0)).whole(), Err(Refusal::Present));
        faults.unprotect(space.page(0)).unwrap();
        assert_eq!(faults.zero(space.page(0)).whole(), Ok(()));
        assert_eq!(byte(&space, 0), 0);
    }

    #[test]
    fn locked_pages_do_not_move() {
        let Some(faults) = faults() else { return };
        let (here, there) = (arena(&faults, 2), arena(&faults, 2));
        here.write(0, b"x");
        here.page(0).lock().unwrap();
        let moved = faults.move_pages(there.page(0), here.page(0), false);
        assert_eq!(moved.whole(), Err(Refusal::Unmovable));
        assert_eq!(byte(&here, 0), b'x');
    }
}
