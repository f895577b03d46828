//! Reads by io_uring into pages of a space. This is for tests: the kernel holds pages meanwhile.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{PageSpan, page_bytes};

/// Operations that the ring has room for.
const ENTRIES: u32 = 4;
const ENTRY_BYTES: usize = 64;
const REGISTER_BUFFERS: libc::c_int = 0;
const UNREGISTER_BUFFERS: libc::c_int = 1;
const READ: u8 = 22;
const READ_FIXED: u8 = 4;
const WAIT_FOR_EVENTS: libc::c_int = 1;
/// Where the descriptor has the entries.
const AT_ENTRIES: libc::off_t = 0x1000_0000;
/// One mapping has both rings.
const SINGLE_MAPPING: u32 = 1;

/// Words of `struct io_uring_params`, by their number.
mod word {
    pub(super) const FEATURES: usize = 5;
    pub(super) const SUBMITTED_TAIL: usize = 11;
    pub(super) const SUBMITTED_MASK: usize = 12;
    pub(super) const SUBMITTED: usize = 16;
    pub(super) const COMPLETED_HEAD: usize = 20;
    pub(super) const COMPLETED_TAIL: usize = 21;
    pub(super) const COMPLETED_MASK: usize = 22;
    pub(super) const COMPLETED: usize = 25;
    pub(super) const ALL: usize = 30;
}

/// A ring of one thread, for one operation at a time.
#[doc(hidden)]
#[derive(Debug)]
pub struct Ring {
    file: OwnedFd,
    parameters: [u32; word::ALL],
    rings: NonNull<u8>,
    entries: NonNull<u8>,
}

impl Ring {
    /// Makes one.
    ///
    /// # Errors
    /// The system's error, such as that it allows no io_uring.
    pub fn open() -> io::Result<Self> {
        let mut parameters = [0u32; word::ALL];
        // SAFETY: the kernel fills the parameters, which have their 120 bytes.
        let file = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut parameters) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor.
        let file = unsafe { OwnedFd::from_raw_fd(file as _) };
        if parameters[word::FEATURES] & SINGLE_MAPPING == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (rings, entries) = (map(&file, 0)?, map(&file, AT_ENTRIES)?);
        Ok(Self { file, parameters, rings, entries })
    }

    /// Pins pages for [`read`](Self::read) until the ring is dropped, or [`unpin`](Self::unpin).
    ///
    /// # Errors
    /// The system's error.
    pub fn pin(&self, span: PageSpan<'_>) -> io::Result<()> {
        let buffer = libc::iovec { iov_base: span.start().as_ptr().cast(), iov_len: span.bytes() };
        self.register(REGISTER_BUFFERS, (&raw const buffer).cast(), 1)
    }

    /// Lets the pinned pages go.
    ///
    /// # Errors
    /// The system's error, such as that no pages are pinned.
    pub fn unpin(&self) -> io::Result<()> {
        self.register(UNREGISTER_BUFFERS, null_mut(), 0)
    }

    fn register(&self, what: libc::c_int, from: *const libc::c_void, count: u32) -> io::Result<()> {
        let (call, file) = (libc::SYS_io_uring_register, self.file.as_raw_fd());
        // SAFETY: the buffer, if there is one, has mapped pages, which the kernel pins.
        match unsafe { libc::syscall(call, file, what, from, count) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads from a file or pipe into pages, and calls `meanwhile` while the read is under way.
    /// Returns how many bytes came. It waits for the read.
    ///
    /// # Errors
    /// The system's error in reading.
    pub fn read(
        &mut self,
        into: PageSpan<'_>,
        is_pinned: bool,
        file: &impl AsFd,
        meanwhile: impl FnOnce(),
    ) -> io::Result<usize> {
        let mut entry = [0u8; ENTRY_BYTES];
        entry[0] = if is_pinned { READ_FIXED } else { READ };
        entry[4..8].copy_from_slice(&file.as_fd().as_raw_fd().to_ne_bytes());
        // From where the file is.
        entry[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        entry[16..24].copy_from_slice(&into.address().to_ne_bytes());
        entry[24..28].copy_from_slice(&(into.bytes() as u32).to_ne_bytes());
        let tail = self.word(word::SUBMITTED_TAIL, 0).load(Ordering::Relaxed);
        let number = tail & self.value(word::SUBMITTED_MASK);
        // SAFETY: the mapping has as many entries as the mask allows numbers, and the kernel reads
        // this one only after the tail says so.
        unsafe {
            let at = self.entries.add(number as usize * ENTRY_BYTES).cast::<[u8; ENTRY_BYTES]>();
            at.write(entry);
        }
        self.word(word::SUBMITTED, number as usize).store(number, Ordering::Relaxed);
        self.word(word::SUBMITTED_TAIL, 0).store(tail + 1, Ordering::Release);
        self.enter(1, 0)?;
        meanwhile();
        self.result()
    }

    fn result(&mut self) -> io::Result<usize> {
        let head = self.word(word::COMPLETED_HEAD, 0).load(Ordering::Relaxed);
        while self.word(word::COMPLETED_TAIL, 0).load(Ordering::Acquire) == head {
            self.enter(0, 1)?;
        }
        let number = head & self.value(word::COMPLETED_MASK);
        // An event has four words, and the result is the third.
        let result = self.word(word::COMPLETED, 4 * number as usize + 2).load(Ordering::Relaxed);
        self.word(word::COMPLETED_HEAD, 0).store(head + 1, Ordering::Release);
        let result = result.cast_signed();
        usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }

    fn enter(&self, submitted: u32, wanted: u32) -> io::Result<()> {
        let (call, file) = (libc::SYS_io_uring_enter, self.file.as_raw_fd());
        let flags = if wanted > 0 { WAIT_FOR_EVENTS } else { 0 };
        let no_mask = null_mut::<libc::c_void>();
        // SAFETY: the entries name pages that are mapped until the read has ended.
        let done = unsafe { libc::syscall(call, file, submitted, wanted, flags, no_mask, 0) };
        match io::Error::last_os_error() {
            error if done < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// A word of the rings: so many behind the place that a word of the parameters tells.
    fn word(&self, parameter: usize, behind: usize) -> &AtomicU32 {
        let offset = self.parameters[parameter] as usize + behind * size_of::<u32>();
        assert!(offset < page_bytes(), "there is no word at {offset} in the rings");
        // SAFETY: within the mapping, where the kernel has aligned words, which it and this thread
        // access by atomics.
        unsafe { AtomicU32::from_ptr(self.rings.add(offset).cast().as_ptr()) }
    }

    fn value(&self, parameter: usize) -> u32 {
        self.word(parameter, 0).load(Ordering::Relaxed)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for mapping in [self.rings, self.entries] {
            // SAFETY: mappings of this type's own.
            unsafe { libc::munmap(mapping.as_ptr().cast(), page_bytes()) };
        }
    }
}

/// A page is more than a ring of so few entries has.
fn map(file: &OwnedFd, offset: libc::off_t) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (length, file) = (page_bytes(), file.as_raw_fd());
    // SAFETY: the kernel chooses the place, so no mapping is replaced.
    let to = unsafe { libc::mmap(null_mut(), length, access, libc::MAP_SHARED, file, offset) };
    if to == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(to.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
