//! The kernel's view of pages: `PAGEMAP_SCAN`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use linux_raw_sys::general::{
    PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PAGE_IS_WRITTEN, page_region, pm_scan_arg,
};

use super::{PageSpan, page_bytes};

const PAGEMAP_SCAN: u32 = rustix::ioctl::opcode::read_write::<pm_scan_arg>(b'f', 16);

/// Regions that one call of the kernel returns at most.
const REGIONS: usize = 64;

/// The categories of a page, as the kernel reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKind(u64);

impl PageKind {
    /// Whether the page has bytes of its own: it is not absent, and not the page of zeros.
    pub fn has_bytes(self) -> bool {
        self.is_there() && self.0 & u64::from(PAGE_IS_PFNZERO) == 0
    }

    /// Whether the page is in memory, or swapped out.
    pub fn is_there(self) -> bool {
        self.0 & u64::from(PAGE_IS_PRESENT | PAGE_IS_SWAPPED) != 0
    }

    /// Whether it was written since its writes were last noted, or never protected.
    pub fn is_written(self) -> bool {
        self.0 & u64::from(PAGE_IS_WRITTEN) != 0
    }
}

/// The page table of this process, to read.
#[derive(Debug)]
pub struct PageMap(File);

impl PageMap {
    /// Opens it.
    ///
    /// # Errors
    /// The system's error, such as that `/proc` is not mounted.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/self/pagemap").map(Self)
    }

    /// Shows runs of pages of one kind to `visit`, by their numbers in the space. Pages that are
    /// neither there nor written are left out.
    ///
    /// # Errors
    /// The system's error; Linux before 6.7 cannot do it.
    pub fn visit(
        &self,
        span: PageSpan<'_>,
        mut visit: impl FnMut(Range<usize>, PageKind),
    ) -> io::Result<()> {
        let start = span.address();
        let end = start + span.bytes() as u64;
        let number = |address: u64| span.first() + (address - start) as usize / page_bytes();
        let mut next = start;
        while next < end {
            let mut regions = [page_region { start: 0, end: 0, categories: 0 }; REGIONS];
            let (found, walked) = self.scan(next..end, &mut regions)?;
            for region in &regions[..found] {
                visit(number(region.start)..number(region.end), PageKind(region.categories));
            }
            // Each call gets on, so the loop ends.
            next = walked.max(next + page_bytes() as u64);
        }
        Ok(())
    }

    /// The kernel's categories of one page.
    ///
    /// # Errors
    /// As [`visit`](Self::visit).
    pub fn kind(&self, page: PageSpan<'_>) -> io::Result<PageKind> {
        let mut kind = PageKind(0);
        self.visit(page, |_, found| kind = found)?;
        Ok(kind)
    }

    fn scan(&self, range: Range<u64>, regions: &mut [page_region]) -> io::Result<(usize, u64)> {
        let any = u64::from(PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_WRITTEN);
        let mut asked = pm_scan_arg {
            size: size_of::<pm_scan_arg>() as u64,
            flags: 0,
            start: range.start,
            end: range.end,
            walk_end: 0,
            vec: regions.as_mut_ptr().expose_provenance() as u64,
            vec_len: regions.len() as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: 0,
            category_anyof_mask: any,
            return_mask: any | u64::from(PAGE_IS_PFNZERO),
        };
        // SAFETY: the structure and the regions live as long as the call, and it says how many
        // regions there are.
        let found = unsafe { libc::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut asked) };
        match usize::try_from(found) {
            Ok(found) => Ok((found, asked.walk_end)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::PageSpace;

    #[test]
    fn pages_that_are_there_are_seen() {
        let space = PageSpace::reserve(200).unwrap();
        space.span(0..200).refuse_huge_pages().unwrap();
        (0..200).step_by(2).for_each(|page| space.write(page * page_bytes(), b"x"));
        let mut byte = [0];
        space.read(7 * page_bytes(), &mut byte);
        let map = PageMap::open().unwrap();
        let mut found = Vec::new();
        map.visit(space.span(0..200), |pages, kind| {
            found.extend(pages.filter(|_| kind.has_bytes()));
        })
        .unwrap();
        assert_eq!(found, (0..200).step_by(2).collect::<Vec<_>>());
        let kind = |page| map.kind(space.page(page)).unwrap();
        assert!(kind(7).is_there() && !kind(7).has_bytes(), "the page of zeros");
        assert!(!kind(9).is_there());
    }
}
