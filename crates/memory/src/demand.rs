//! Memory that is behind a file's pages only while somebody uses them.
//!
//! A file of a pod is as long as the pod, with holes where nothing has been put. A host has the
//! system fill a hole before it first writes there ([`Memory::populate`](crate::Memory::populate)):
//! so a file system that is full shows there, and not as a fault at some later store. Memory
//! that is not used any more becomes a hole again ([`Memory::discard`](crate::Memory::discard)).
//!
//! A read of a hole sees zeros, and may have the system put a page there.
//!
//! Left out: devices, whose memory is always there; hugetlbfs, whose pages are taken at once,
//! because others may take the last of them meanwhile; anonymous memory, which is one process'.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::mm::Advice;

use crate::Lines;
use crate::processor::HUGE_PAGE;
use crate::region::{Region, Window};

/// How memory comes to be behind the pages of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// It is there, or comes by itself.
    Never,
    /// When it is asked for.
    Pages,
    /// The same, and small pages can be brought together into huge ones.
    HugePages,
}

impl Region {
    /// The same region, whose pages come so.
    pub(crate) fn on_demand(mut self, demand: Demand) -> Self {
        self.demand = demand;
        self
    }

    /// Puts memory behind these bytes, in huge pages as far as the system can.
    ///
    /// # Errors
    /// The system's, such as that the file system is full.
    pub(crate) fn populate(&self, bytes: Range<u64>) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.demand != Demand::Never) else {
            return Ok(());
        };
        if self.demand == Demand::HugePages {
            // Where there is no huge page, small ones do.
            let _ = self.gather_huge_pages(&bytes);
        }
        let (offset, length) = (self.offset + bytes.start, bytes.end - bytes.start);
        Ok(rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, length)?)
    }

    /// Brings the pages of a file in shared memory together into huge ones: the file's own, for all
    /// who map it. Where there are no pages yet, there are some afterwards.
    fn gather_huge_pages(&self, bytes: &Range<u64>) -> io::Result<()> {
        let huge = HUGE_PAGE as u64;
        let end = bytes.end.next_multiple_of(huge).min(self.mapped as u64 / huge * huge);
        let start = bytes.start / huge * huge;
        let place = |at: u64| self.base.as_ptr().wrapping_add(at as usize);
        for at in (start..end).step_by(HUGE_PAGE) {
            // SAFETY: advice on our own mapping, which changes no bytes. There has to be a page to
            // begin with.
            unsafe { rustix::mm::madvise(place(at).cast(), 1, Advice::LinuxPopulateWrite)? };
        }
        let length = end.saturating_sub(start) as usize;
        // SAFETY: as above.
        match unsafe { libc::madvise(place(start).cast(), length, libc::MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gives the memory behind whole pages of these bytes back to the system.
    ///
    /// # Errors
    /// The system's, such as that the file system keeps what it has.
    fn discard(&self, bytes: Range<u64>) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.demand != Demand::Never) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let page = rustix::param::page_size() as u64;
        let (from, to) = (bytes.start.next_multiple_of(page), bytes.end / page * page);
        if from >= to {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(file, flags, self.offset + from, to - from)?)
    }

    /// Whether memory is behind some of the `bytes` bytes from `at` on, as far as the file system
    /// tells.
    pub(crate) fn has_memory(&self, at: u64, bytes: u64) -> bool {
        let Some(file) = &self.file else { return true };
        let at = self.offset + at;
        match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(found) => found < at.saturating_add(bytes),
            Err(errno) => errno != rustix::io::Errno::NXIO,
        }
    }

    /// How many bytes the file takes; `None` if it is none whose pages come on demand.
    pub(crate) fn taken_bytes(&self) -> Option<u64> {
        let file = self.file.as_ref().filter(|_| self.demand != Demand::Never)?;
        Some(rustix::fs::fstat(file).ok()?.st_blocks as u64 * 512)
    }
}

impl Window {
    /// As [`Memory::populate`](crate::Memory::populate).
    pub(crate) fn populate(&self, lines: Lines) -> bool {
        self.region().populate(self.bytes_of(lines)).is_ok()
    }

    /// As [`Memory::discard`](crate::Memory::discard).
    pub(crate) fn discard(&self, lines: Lines) -> bool {
        self.region().discard(self.bytes_of(lines)).is_ok()
    }

    /// Where in the region lines are.
    fn bytes_of(&self, lines: Lines) -> Range<u64> {
        let start = self.lines_at(lines).addr().get() - self.region().base.addr().get();
        start as u64..start as u64 + lines.bytes()
    }
}
