//! A mapping, and windows into it.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::demand::Demand;
use crate::poison::{self, Mapping};
use crate::processor::{HUGE_PAGE, prefetch_at};
use crate::{LINE_BYTES, Lines, ScrAddr, Word, numa};

/// The accesses for which memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// And reading.
    Write,
}

impl Access {
    fn protection(self) -> ProtFlags {
        match self {
            Self::Read => ProtFlags::READ,
            Self::Write => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// Memory mapped into this process, shared with other processes that map it, if others can.
#[derive(Debug)]
pub struct Region {
    pub(crate) base: NonNull<u8>,
    pub(crate) mapped: usize,
    bytes: u64,
    /// Where memory errors are noted; nowhere, if the memory is this process' alone.
    mapping: Option<&'static Mapping>,
    /// Holds the backing's lock.
    pub(crate) file: Option<Arc<File>>,
    /// Where in the file the mapping begins.
    pub(crate) offset: u64,
    /// How memory comes to be behind its pages.
    pub(crate) demand: Demand,
}

// SAFETY: the mapping belongs to no thread; all access to it is by `Window`, which makes no
// references and does all that may race atomically or by volatile copies.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `mapped` bytes, of which `bytes` may be used, in pages of `page` bytes.
    pub(crate) fn map(
        file: Option<Arc<File>>,
        offset: u64,
        mapped: u64,
        bytes: u64,
        page: u64,
        access: Access,
    ) -> io::Result<Self> {
        let length = usize::try_from(mapped).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = access.protection();
        let place = Reserved::new(length, offset, page)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the replaced part is of our own reservation, and is kept for it.
        let base = unsafe {
            match &file {
                Some(file) => {
                    rustix::mm::mmap(place.start.cast(), length, access, flags, file, offset)?
                }
                None => rustix::mm::mmap_anonymous(place.start.cast(), length, access, flags)?,
            }
        };
        place.keep(length);
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut region = Self {
            base,
            mapped: length,
            bytes,
            mapping: None,
            file,
            offset,
            demand: Demand::Never,
        };
        let address = base.as_ptr().expose_provenance();
        let file = region.file.as_ref().map(|file| file.as_raw_fd());
        region.mapping = Some(Mapping::note(address, length, page as usize, file)?);
        Ok(region)
    }

    /// Memory of this process alone, of zeros.
    pub(crate) fn private(bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: as in `map`.
        let base = unsafe { rustix::mm::mmap_anonymous(hint, length, access, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (mapping, file, offset) = (None, None, 0);
        Ok(Self { base, mapped: length, bytes, mapping, file, offset, demand: Demand::Never })
    }

    /// Asks for huge pages.
    pub(crate) fn use_huge_pages(&self) -> io::Result<()> {
        let base = self.base.as_ptr().cast();
        // SAFETY: advice on our own mapping, which changes no bytes.
        unsafe { rustix::mm::madvise(base, self.mapped, Advice::LinuxHugepage) }?;
        Ok(())
    }

    /// How many of its bytes are in huge pages, as `/proc` says once each of them has been touched.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(crate) fn huge_bytes(&self) -> io::Result<u64> {
        let pages = (0..self.mapped).step_by(HUGE_PAGE);
        for at in pages.filter(|&at| self.has_memory(at as u64, HUGE_PAGE as u64)) {
            let start = self.base.as_ptr().wrapping_add(at).cast();
            // SAFETY: advice on our own mapping, which changes no bytes. A page that cannot be had
            // is not a huge one.
            let _ = unsafe { rustix::mm::madvise(start, 1, Advice::LinuxPopulateRead) };
        }
        let start = self.base.as_ptr().addr();
        huge_bytes_of(&fs::read_to_string("/proc/self/smaps")?, start..start + self.mapped)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
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

/// Bytes in huge pages within a range of addresses, as the text of `/proc/self/smaps` says.
fn huge_bytes_of(text: &str, range: Range<usize>) -> Option<u64> {
    const KINDS: [&str; 5] = [
        "AnonHugePages:",
        "ShmemPmdMapped:",
        "FilePmdMapped:",
        "Shared_Hugetlb:",
        "Private_Hugetlb:",
    ];
    let (mut sum, mut within) = (0, false);
    for line in text.lines() {
        let (first, rest) = line.split_once(' ')?;
        if let Some(kib) = rest.trim().strip_suffix(" kB") {
            if within && KINDS.contains(&first) {
                sum += kib.trim().parse::<u64>().ok()? << 10;
            }
        } else if let Some((from, to)) = first.split_once('-') {
            let [from, to] = [from, to].map(|word| usize::from_str_radix(word, 16));
            within = range.contains(&from.ok()?) && to.ok()? <= range.end;
        }
    }
    Some(sum)
}

/// Addresses that are kept for a mapping. It starts so that a huge page of the file is one of the
/// mapping.
struct Reserved {
    base: *mut u8,
    bytes: usize,
    start: *mut u8,
}

impl Reserved {
    /// Addresses for `length` bytes of a file from `offset` on, in pages of `page` bytes.
    fn new(length: usize, offset: u64, page: u64) -> io::Result<Self> {
        let align = HUGE_PAGE.max(page as usize);
        let spare = if length < align { 0 } else { align };
        let bytes = length.checked_add(spare).ok_or(io::ErrorKind::OutOfMemory)?;
        let (hint, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the place, so no mapping of ours is replaced.
        let base = unsafe { rustix::mm::mmap_anonymous(hint, bytes, ProtFlags::empty(), flags) }?;
        let base = base.cast::<u8>();
        let within = (base.addr() as u64).wrapping_sub(offset) as usize % align;
        let before = if spare == 0 { 0 } else { (align - within) % align };
        Ok(Self { base, bytes, start: base.wrapping_add(before) })
    }

    /// Gives back what is not within the `length` bytes that were kept.
    fn keep(mut self, length: usize) {
        let after = self.start.wrapping_add(length);
        let end = self.base.wrapping_add(self.bytes);
        Self { base: after, bytes: end.addr() - after.addr(), start: after };
        self.bytes = self.start.addr() - self.base.addr();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: our own reservation, which nobody uses.
            let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.mapping.inspect(|mapping| mapping.forget());
        // SAFETY: our own mapping, and windows hold the region by `Arc`, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// A file, from a byte on.
#[derive(Clone, Debug)]
pub struct FilePart {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
}

impl FilePart {
    /// The same file, from so many bytes further on.
    #[must_use]
    pub fn from(self, bytes: u64) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }
}

/// Some consecutive bytes of a region.
#[derive(Clone, Debug)]
pub struct Window {
    base: NonNull<u8>,
    bytes: u64,
    region: Arc<Region>,
}

// SAFETY: as for the region that it holds.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// The region of which it is a part.
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

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
        Self { base, bytes, region }
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The part of a file that it shows, if there is a file behind it.
    pub(crate) fn file_part(&self) -> Option<FilePart> {
        let file = self.region.file.clone()?;
        let within = self.base.addr().get() - self.region.base.addr().get();
        Some(FilePart { file, offset: self.region.offset + within as u64 })
    }

    /// This window is a host's SCR.
    pub(crate) fn is_scr(&self) {
        let address = self.base.addr().get();
        self.region.mapping.inspect(|mapping| mapping.note_scr(address, self.bytes));
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

    /// Where the word at `address` lies.
    ///
    /// # Panics
    /// If it is not within the window.
    #[inline]
    pub(crate) fn word_at<W: Word>(&self, address: ScrAddr<W>) -> NonNull<u8> {
        let (offset, size) = (address.offset(), size_of::<W>() as u64);
        // Does not overflow: the offset is a multiple of the size.
        let last = offset | (size - 1);
        if last >= self.bytes {
            outside(offset, size, self.bytes);
        }
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.add(offset as usize) }
    }

    /// Has the processor fetch these lines, as far as they are in the window.
    #[inline]
    pub(crate) fn prefetch(&self, lines: Lines) {
        let mut at =
            self.base.as_ptr().wrapping_add(lines.first().wrapping_mul(LINE_BYTES) as usize);
        for _ in 0..lines.count() {
            prefetch_at(at);
            at = at.wrapping_add(LINE_BYTES as usize);
        }
    }

    /// Whether this process has met a memory error in these lines.
    ///
    /// # Panics
    /// If they are not all within the window.
    #[inline(always)]
    pub(crate) fn is_poisoned(&self, lines: Lines) -> bool {
        let noted = |mapping: &Mapping| {
            mapping.is_poisoned(self.lines_at(lines).addr().get(), lines.bytes())
        };
        poison::is_any() && self.region.mapping.is_some_and(noted)
    }

    /// A memory error in these lines costs what lies there, and not the process.
    ///
    /// # Panics
    /// If they are not all within the window.
    pub(crate) fn survive_poison(&self, lines: Lines) {
        let address = self.lines_at(lines).addr().get();
        self.region.mapping.inspect(|mapping| mapping.survive(address, lines.bytes()));
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
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.add(lines.start().offset() as usize) }
    }
}

#[cold]
fn outside(start: u64, count: u64, limit: u64) -> ! {
    panic!("{count} from {start:#x} on are outside their region, which has {limit}")
}
