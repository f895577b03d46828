//! Ranges of anonymous memory, in pages.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::page_bytes;
use crate::word::AtomicWord;
use crate::{FetchOp, Word, copy, numa};

/// The largest page that a comparison holds on its stack, in bytes.
const PIECE_BYTES: usize = 4096;

/// Pages of anonymous memory that belong to this process, at addresses that do not change.
///
/// Bytes are copied in and out, and threads may do so at the same time: bytes that are copied out
/// may be torn. No page is taken before it is touched.
#[derive(Debug)]
pub struct PageSpace {
    base: NonNull<u8>,
    pages: usize,
    is_owned: bool,
}

// SAFETY: the mapping belongs to no thread; accesses are volatile copies and atomics.
unsafe impl Send for PageSpace {}
// SAFETY: as above.
unsafe impl Sync for PageSpace {}

impl PageSpace {
    /// Reserves addresses for so many pages.
    ///
    /// # Errors
    /// The system's error, such as that there are not so many addresses.
    pub fn reserve(pages: usize) -> io::Result<Self> {
        let bytes = pages.checked_mul(page_bytes()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the place, so no mapping is replaced.
        let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, access, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, pages, is_owned: true })
    }

    /// Takes in pages that the program has mapped, and leaves them mapped when it is dropped.
    ///
    /// # Safety
    /// The pages from `address` on are anonymous and private. They may move and go without this
    /// process' memory safety being at stake, as pages may on which only the kernel's own rules
    /// hold.
    pub unsafe fn adopt(address: NonNull<u8>, pages: usize) -> Self {
        Self { base: address, pages, is_owned: false }
    }

    /// How many pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.pages * page_bytes()
    }

    /// Where the pages begin.
    pub fn address(&self) -> NonNull<u8> {
        self.base
    }

    /// The page that an address is in, if it is in any.
    pub fn page_of(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.base.addr().get())?;
        (offset < self.bytes()).then(|| offset / page_bytes())
    }

    /// Some of the pages.
    ///
    /// # Panics
    /// If they are not all in the space.
    pub fn span(&self, pages: Range<usize>) -> PageSpan<'_> {
        let is_within = pages.start <= pages.end && pages.end <= self.pages;
        assert!(is_within, "pages {pages:?} are outside their space of {}", self.pages);
        PageSpan { space: self, first: pages.start, pages: pages.len() }
    }

    /// One page.
    ///
    /// # Panics
    /// If it is not in the space.
    pub fn page(&self, page: usize) -> PageSpan<'_> {
        self.span(page..page + 1)
    }

    /// Copies bytes out, from `offset` on; completed before any later access.
    ///
    /// # Panics
    /// If they are not all in the space.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        // SAFETY: within the mapping, as was just checked.
        unsafe { copy::read(from.as_ptr(), into) };
    }

    /// Copies bytes in, from `offset` on, after all earlier accesses.
    ///
    /// # Panics
    /// If they are not all in the space.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: as above.
        unsafe { copy::write(to.as_ptr(), bytes) };
    }

    /// Adds to the word at `offset`, in one atomic step, and returns what it was.
    ///
    /// # Panics
    /// If there is no aligned word in the space.
    pub fn fetch_add(&self, offset: usize, value: u64) -> u64 {
        self.word::<u64>(offset).fetch(FetchOp::Add, value)
    }

    /// The word at `offset`; what other threads stored before they stored it is seen after this.
    ///
    /// # Panics
    /// If there is no aligned word in the space.
    #[inline]
    pub fn load<W: Word>(&self, offset: usize) -> W {
        self.word::<W>(offset).load()
    }

    /// Stores the word at `offset`, after all earlier accesses.
    ///
    /// # Panics
    /// If there is no aligned word in the space.
    #[inline]
    pub fn store<W: Word>(&self, offset: usize, value: W) {
        self.word::<W>(offset).store(value);
    }

    /// Replaces `current` by `new` in one atomic step; the error is what stood there instead.
    ///
    /// # Errors
    /// The word that stood there.
    ///
    /// # Panics
    /// If there is no aligned word in the space.
    #[inline]
    pub fn compare_exchange<W: Word>(&self, offset: usize, current: W, new: W) -> Result<W, W> {
        self.word::<W>(offset).compare_exchange(current, new)
    }

    /// Changes the word at `offset` in one atomic step, and returns what it was.
    ///
    /// # Panics
    /// If there is no aligned word in the space.
    #[inline]
    pub fn fetch<W: Word>(&self, offset: usize, op: FetchOp, operand: W) -> W {
        self.word::<W>(offset).fetch(op, operand)
    }

    #[inline]
    fn word<W: Word>(&self, offset: usize) -> &W::Atomic {
        let size = size_of::<W::Atomic>();
        assert!(offset.is_multiple_of(size), "a word at {offset} is not aligned");
        let place = self.at(offset, size).cast::<W::Atomic>();
        // SAFETY: within the mapping, and aligned, as was just checked; it is an atomic, so other
        // accesses at the same time are atomics or volatile copies.
        unsafe { place.as_ref() }
    }

    /// Reads from a file or pipe into the pages at `offset`, by one system call. Returns how many
    /// bytes came.
    ///
    /// # Errors
    /// The system's error.
    ///
    /// # Panics
    /// If the bytes are not all in the space.
    pub fn fill_from(&self, offset: usize, bytes: usize, file: impl AsFd) -> io::Result<usize> {
        let to = self.at(offset, bytes);
        // SAFETY: the kernel writes within the mapping, to which no reference is.
        let done = unsafe { libc::read(file.as_fd().as_raw_fd(), to.as_ptr().cast(), bytes) };
        usize::try_from(done).map_err(|_| io::Error::last_os_error())
    }

    /// Writes bytes of the pages at `offset` to a file or pipe, by one system call. Returns how
    /// many bytes went.
    ///
    /// # Errors
    /// The system's error.
    ///
    /// # Panics
    /// If the bytes are not all in the space.
    pub fn write_to(&self, offset: usize, bytes: usize, file: impl AsFd) -> io::Result<usize> {
        let from = self.at(offset, bytes);
        // SAFETY: the kernel reads within the mapping.
        let done = unsafe { libc::write(file.as_fd().as_raw_fd(), from.as_ptr().cast(), bytes) };
        usize::try_from(done).map_err(|_| io::Error::last_os_error())
    }

    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let is_within = offset <= self.bytes() && bytes <= self.bytes() - offset;
        assert!(is_within, "{bytes} bytes at {offset} are outside their {}", self.bytes());
        // SAFETY: within the mapping, as was just checked.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for PageSpace {
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: a mapping of this type's own, and no span outlives the space.
            let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes()) };
        }
    }
}

/// Some consecutive pages of a space.
#[derive(Clone, Copy, Debug)]
pub struct PageSpan<'a> {
    space: &'a PageSpace,
    first: usize,
    pages: usize,
}

impl PageSpan<'_> {
    /// How many pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.pages * page_bytes()
    }

    /// The number of the first page in its space.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The pages from one of them on.
    pub(super) fn behind(&self, page: usize) -> Self {
        assert!(page <= self.pages, "there is no page {page} in {}", self.pages);
        Self { space: self.space, first: self.first + page, pages: self.pages - page }
    }

    /// One of the pages.
    pub(super) fn page(&self, page: usize) -> Self {
        Self { pages: 1, ..self.behind(page) }
    }

    /// The first byte's address.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.space.at(self.first * page_bytes(), self.bytes())
    }

    /// The first byte's address, as the kernel has it.
    pub(super) fn address(&self) -> u64 {
        self.start().addr().get() as u64
    }

    /// Gives the pages back to the kernel: the next touch finds zeros, or is a fault.
    ///
    /// # Errors
    /// The system's error, such as that the pages are not mapped any more.
    pub fn discard(&self) -> io::Result<()> {
        self.advise(Advice::LinuxDontNeed)
    }

    /// Children of `fork()` do not get these pages.
    ///
    /// # Errors
    /// As [`discard`](Self::discard).
    pub fn keep_from_children(&self) -> io::Result<()> {
        self.advise(Advice::LinuxDontFork)
    }

    /// The kernel makes no huge pages of these.
    ///
    /// # Errors
    /// As [`discard`](Self::discard); also if the kernel knows no huge pages.
    pub fn refuse_huge_pages(&self) -> io::Result<()> {
        self.advise(Advice::LinuxNoHugepage)
    }

    /// The kernel makes huge pages of these now, as far as they are there and aligned.
    ///
    /// # Errors
    /// The system's error, such as that it has no huge page to give.
    pub fn gather_huge_pages(&self) -> io::Result<()> {
        self.advise(Advice::LinuxHugepage)?;
        // SAFETY: advice on a mapping of this space, which changes no bytes.
        match unsafe {
            libc::madvise(self.start().as_ptr().cast(), self.bytes(), libc::MADV_COLLAPSE)
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Makes the pages this process' alone: those shared with a child of `fork()` are copied.
    ///
    /// # Errors
    /// The system's error, such as that the pages are not mapped any more.
    pub fn unshare(&self) -> io::Result<()> {
        self.advise(Advice::LinuxPopulateWrite)
    }

    /// Locks the pages into memory.
    ///
    /// # Errors
    /// The system's error, such as that no more pages may be locked.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: locking changes no bytes.
        Ok(unsafe { rustix::mm::mlock(self.start().as_ptr().cast(), self.bytes()) }?)
    }

    /// Lets the pages go again.
    ///
    /// # Errors
    /// The system's error, such as that the pages are not mapped any more.
    pub fn unlock(&self) -> io::Result<()> {
        // SAFETY: this changes no bytes.
        Ok(unsafe { rustix::mm::munlock(self.start().as_ptr().cast(), self.bytes()) }?)
    }

    /// Unmaps the pages, and has fresh ones in their place in the same moment, so that nothing
    /// else can come there. This is for tests.
    ///
    /// # Errors
    /// The system's error.
    #[doc(hidden)]
    pub fn replace(&self) -> io::Result<()> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let place = self.start().as_ptr().cast();
        // SAFETY: pages of this space, whose bytes nothing refers to; they may change.
        unsafe { rustix::mm::mmap_anonymous(place, self.bytes(), access, flags) }?;
        Ok(())
    }

    /// Moves the pages to another address, as `mremap` does, and leaves absent ones here. This is
    /// for tests.
    ///
    /// # Errors
    /// The system's error.
    #[doc(hidden)]
    pub fn move_away(&self) -> io::Result<PageSpace> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
        let (from, nowhere) = (self.start().as_ptr().cast(), null_mut::<libc::c_void>());
        // SAFETY: the kernel chooses the place; the pages here are fresh ones afterwards.
        let to = unsafe { libc::mremap(from, self.bytes(), self.bytes(), flags, nowhere) };
        if to == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(to.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(PageSpace { base, pages: self.pages, is_owned: true })
    }

    /// Pages that are taken from here on come from `node`, as long as it has any.
    ///
    /// # Errors
    /// The system's error, such as that there is no such node.
    pub fn prefer_node(&self, node: u32) -> io::Result<()> {
        numa::prefer(self.start(), self.bytes(), node)
    }

    /// The NUMA node of each page; `None` for a page that is not there.
    ///
    /// # Errors
    /// The system's error, such as that it knows no nodes.
    pub fn nodes(&self) -> io::Result<Vec<Option<u32>>> {
        let start = self.start().as_ptr();
        numa::nodes((0..self.pages).map(|page| start.wrapping_add(page * page_bytes())))
    }

    /// Whether two pages have the same bytes.
    ///
    /// # Panics
    /// If the spans have not the same number of pages.
    pub fn same_bytes(&self, other: PageSpan<'_>) -> bool {
        assert_eq!(self.pages, other.pages, "spans of different lengths");
        let (mut ours, mut theirs) = ([0; PIECE_BYTES], [0; PIECE_BYTES]);
        (0..self.bytes()).step_by(PIECE_BYTES).all(|at| {
            self.space.read(self.first * page_bytes() + at, &mut ours);
            other.space.read(other.first * page_bytes() + at, &mut theirs);
            ours == theirs
        })
    }

    /// Copies the bytes of as many other pages here.
    ///
    /// # Panics
    /// As [`same_bytes`](Self::same_bytes).
    pub fn copy_from(&self, other: PageSpan<'_>) {
        assert_eq!(self.pages, other.pages, "spans of different lengths");
        let mut bytes = [0; PIECE_BYTES];
        for at in (0..self.bytes()).step_by(PIECE_BYTES) {
            other.space.read(other.first * page_bytes() + at, &mut bytes);
            self.space.write(self.first * page_bytes() + at, &bytes);
        }
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the pages are of a space, whose bytes nothing refers to; they may change.
        Ok(unsafe { rustix::mm::madvise(self.start().as_ptr().cast(), self.bytes(), advice) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_pages_compare() {
        let space = PageSpace::reserve(3).unwrap();
        let page = page_bytes();
        space.write(page - 2, b"across");
        let mut bytes = [0; 6];
        space.read(page - 2, &mut bytes);
        assert_eq!(&bytes, b"across");
        assert!(!space.page(1).same_bytes(space.page(2)));
        space.page(2).copy_from(space.page(1));
        assert!(space.page(1).same_bytes(space.page(2)));
        space.page(2).discard().unwrap();
        assert_eq!((space.fetch_add(2 * page, 5), space.fetch_add(2 * page, 1)), (0, 5));
        assert_eq!(space.page_of(space.address().addr().get() + 2 * page - 1), Some(1));
        assert_eq!(space.page_of(space.address().addr().get() + 3 * page), None);
    }

    #[test]
    #[should_panic(expected = "outside their space of 3")]
    fn there_is_no_page_behind_the_last() {
        PageSpace::reserve(3).unwrap().span(2..4);
    }
}
