//! An allocator whose memory is apart from the program's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::spin_loop;
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// Addresses that are reserved; memory is taken where they are used.
const RESERVED: usize = 1 << 36;
const CLASSES: usize = 37;
const LEAST: usize = 16;
/// No block is aligned to more.
const MOST_ALIGNED: usize = 4096;
/// Attempts to get the lock. Its holder is away for longer only if it does not exist: in a child of
/// `fork()`.
const ATTEMPTS: usize = 10_000;

/// An allocator for a library that is loaded into a program, and handles page faults of the
/// program's memory: its own memory may have none. It takes blocks of powers of two from addresses
/// that are reserved once, and never gives memory back to the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrivateHeap;

static BASE: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);
static LOCKED: AtomicBool = AtomicBool::new(false);
/// The first free block of each class, which holds the address of the next.
static FREE: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];

impl PrivateHeap {
    /// All addresses of this allocator; an empty range before its first block.
    pub fn addresses() -> Range<usize> {
        let base = BASE.load(Ordering::Acquire);
        base..if base == 0 { 0 } else { base + RESERVED }
    }
}

/// The base, reserved by the first caller; 0 if there are no such addresses.
fn base() -> usize {
    static FIRST: Mutex<()> = Mutex::new(());
    let known = BASE.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let Ok(_first) = FIRST.lock() else { return 0 };
    if BASE.load(Ordering::Acquire) == 0 {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the place, so no mapping is replaced.
        let mapped = unsafe { rustix::mm::mmap_anonymous(null_mut(), RESERVED, access, flags) };
        BASE.store(mapped.map_or(0, |at| at.expose_provenance()), Ordering::Release);
    }
    BASE.load(Ordering::Acquire)
}

/// The class of blocks for a layout; `None` if there is none so large or so aligned.
fn class(layout: Layout) -> Option<usize> {
    let bytes = layout.size().max(layout.align()).max(LEAST).checked_next_power_of_two()?;
    let class = bytes.trailing_zeros() as usize;
    (class < CLASSES && layout.align() <= MOST_ALIGNED).then_some(class)
}

fn lock() -> bool {
    (0..ATTEMPTS).any(|_| {
        let is_ours = !LOCKED.swap(true, Ordering::Acquire);
        if !is_ours {
            spin_loop();
        }
        is_ours
    })
}

fn take_free(class: usize) -> Option<usize> {
    if FREE[class].load(Ordering::Relaxed) == 0 || !lock() {
        return None;
    }
    let first = FREE[class].load(Ordering::Relaxed);
    if first != 0 {
        // SAFETY: a free block of this allocator, which holds the address of the next one.
        let next = unsafe { with_exposed_provenance_mut::<usize>(first).read() };
        FREE[class].store(next, Ordering::Relaxed);
    }
    LOCKED.store(false, Ordering::Release);
    (first != 0).then_some(first)
}

/// A block that was never used.
fn take_new(class: usize) -> Option<usize> {
    let base = base();
    let bytes = 1 << class;
    let align = bytes.min(MOST_ALIGNED);
    let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        let end = used.next_multiple_of(align).checked_add(bytes)?;
        (base != 0 && end <= RESERVED).then_some(end)
    });
    taken.ok().map(|used| base + used.next_multiple_of(align))
}

// SAFETY: blocks lie apart in a mapping of this allocator's own, as large and aligned as was asked.
unsafe impl GlobalAlloc for PrivateHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let found = class(layout).and_then(|class| take_free(class).or_else(|| take_new(class)));
        found.map_or(null_mut(), with_exposed_provenance_mut)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // A block that cannot be noted is never used again.
        if let Some(class) = class(layout)
            && lock()
        {
            // SAFETY: the block is nobody's any more, and has room for an address.
            unsafe { block.cast::<usize>().write(FREE[class].load(Ordering::Relaxed)) };
            FREE[class].store(block.expose_provenance(), Ordering::Relaxed);
            LOCKED.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_apart_and_are_used_again() {
        for (bytes, align) in [(1, 1), (24, 8), (4096, 64), (100_000, 4096)] {
            let layout = Layout::from_size_align(bytes, align).unwrap();
            // SAFETY: the layout has bytes, and each block is given back once.
            unsafe {
                let blocks = [PrivateHeap.alloc(layout), PrivateHeap.alloc(layout)];
                assert!(blocks[0].addr().abs_diff(blocks[1].addr()) >= bytes);
                for block in blocks {
                    assert!(block.addr().is_multiple_of(align));
                    assert!(PrivateHeap::addresses().contains(&block.addr()));
                    block.add(bytes - 1).write(1);
                    PrivateHeap.dealloc(block, layout);
                }
                let again = PrivateHeap.alloc(layout);
                assert!(blocks.contains(&again));
                PrivateHeap.dealloc(again, layout);
            }
        }
        let aligned = Layout::from_size_align(8, 8192).unwrap();
        // SAFETY: the layout has bytes.
        assert!(unsafe { PrivateHeap.alloc(aligned) }.is_null());
    }
}
