//! A mapping, and windows into it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::{LINE_BYTES, Lines, numa};

/// Memory mapped into this process, shared with whoever else maps it, if anybody can.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    mapped: usize,
    bytes: u64,
    /// Holds the backing's lock.
    _file: Option<Arc<File>>,
}

// SAFETY: the mapping belongs to no thread; all access to it is by `Window`, which makes no
// references and does all that may race atomically or by volatile copies.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `mapped` bytes, of which `bytes` may be used.
    pub(crate) fn map(
        file: Option<Arc<File>>,
        offset: u64,
        mapped: u64,
        bytes: u64,
    ) -> io::Result<Self> {
        let length = usize::try_from(mapped).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: the kernel chooses the place, so no mapping of ours is replaced.
        let base = unsafe {
            match &file {
                Some(file) => {
                    rustix::mm::mmap(hint, length, access, MapFlags::SHARED, file, offset)?
                }
                None => rustix::mm::mmap_anonymous(hint, length, access, MapFlags::SHARED)?,
            }
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, mapped: length, bytes, _file: file })
    }

    /// Memory of this process alone, of zeros.
    pub(crate) fn private(bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: as in `map`.
        let base = unsafe { rustix::mm::mmap_anonymous(hint, length, access, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, mapped: length, bytes, _file: None })
    }

    /// Asks for huge pages.
    pub(crate) fn use_huge_pages(&self) -> io::Result<()> {
        let base = self.base.as_ptr().cast();
        // SAFETY: advice on our own mapping, which changes no bytes.
        unsafe { rustix::mm::madvise(base, self.mapped, Advice::LinuxHugepage) }?;
        Ok(())
    }

    /// Takes pages that have not been touched from a NUMA node.
    pub(crate) fn bind(&self, node: u32) -> io::Result<()> {
        numa::bind(self.base, self.mapped, node)
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and windows hold the region by `Arc`, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Some consecutive bytes of a region.
#[derive(Clone, Debug)]
pub struct Window {
    base: NonNull<u8>,
    bytes: u64,
    _region: Arc<Region>,
}

// SAFETY: as for the region that it holds.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Bytes `offset..offset + bytes` of `region`.
    ///
    /// # Panics
    /// If they are not within the region, or `offset` is not a multiple of a line.
    pub fn new(region: Arc<Region>, offset: u64, bytes: u64) -> Self {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= region.bytes),
            "a window of {bytes} bytes at {offset} is outside its region of {}",
            region.bytes
        );
        assert!(offset.is_multiple_of(LINE_BYTES), "a window starts within a line");
        // SAFETY: within the mapping, as just checked.
        let base = unsafe { region.base.add(offset as usize) };
        Self { base, bytes, _region: region }
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the `bytes` bytes from `offset` lie.
    ///
    /// # Panics
    /// If they are not all within the window.
    #[inline]
    pub(crate) fn at(&self, offset: u64, bytes: u64) -> NonNull<u8> {
        if offset > self.bytes || bytes > self.bytes - offset {
            outside(offset, bytes, self.bytes);
        }
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.add(offset as usize) }
    }

    /// Where `lines` start.
    ///
    /// # Panics
    /// If they are not all within the window.
    #[inline]
    pub(crate) fn lines_at(&self, lines: Lines) -> NonNull<u8> {
        // Compared as line numbers: as bytes, wild ones would overflow into the window.
        let limit = self.bytes / LINE_BYTES;
        if lines.first() > limit || lines.count() > limit - lines.first() {
            outside(lines.first(), lines.count(), limit);
        }
        self.at(lines.start().offset(), lines.bytes())
    }
}

#[cold]
fn outside(start: u64, count: u64, limit: u64) -> ! {
    panic!("{count} from {start:#x} on are outside their region, which has {limit}")
}
