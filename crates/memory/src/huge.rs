//! An allocator whose large blocks are in huge pages.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

use crate::prefer_huge_pages;
use crate::processor::HUGE_PAGE;

/// The system's allocator; for large blocks it asks for huge pages, if the system has any: for
/// tables that are looked up at random.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

/// The same block, for which huge pages were asked for if it is large.
///
/// # Safety
/// `block` is null, or has `bytes` bytes.
unsafe fn advised(block: *mut u8, bytes: usize) -> *mut u8 {
    if bytes >= HUGE_PAGE && !block.is_null() {
        // SAFETY: the caller says so, and bytes that nobody has written are not read, as their type
        // says.
        prefer_huge_pages(unsafe {
            std::slice::from_raw_parts(block.cast::<std::mem::MaybeUninit<u8>>(), bytes)
        });
    }
    block
}

// SAFETY: all blocks are the system's allocator's, which keeps the rules.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the rules of `alloc`, and they are the same.
        unsafe { advised(System.alloc(layout), layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { advised(System.alloc_zeroed(layout), layout.size()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { advised(System.realloc(block, layout, bytes), bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_the_systems() {
        for bytes in [1, HUGE_PAGE - 1, HUGE_PAGE, 6 * HUGE_PAGE + 5] {
            let layout = Layout::from_size_align(bytes, 64).unwrap();
            // SAFETY: the layout has bytes, the block is as large as is said, and is given back
            // once.
            unsafe {
                let block = HugePages.alloc_zeroed(layout);
                assert!(!block.is_null() && block.addr().is_multiple_of(64));
                assert_eq!((*block, *block.add(bytes - 1)), (0, 0));
                *block.add(bytes - 1) = 7;
                let block = HugePages.realloc(block, layout, 2 * bytes);
                assert_eq!(*block.add(bytes - 1), 7);
                HugePages.dealloc(block, Layout::from_size_align(2 * bytes, 64).unwrap());
            }
        }
    }
}
