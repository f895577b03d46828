//! Heaps and blocks, as C has them.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::sync::LazyLock;

use tombolo_tiering::{Block, Stats, TieredHeap, TieringError, probe};

use crate::border::{TomboloError, borrow, call, give, store, store_all, take};
use crate::options::{TomboloHeapOptions, TomboloReport, hint, place};

/// A heap of pages in two tiers. Its blocks stay valid when it is freed.
pub struct TomboloHeap(TieredHeap);

/// Pages of a heap. Threads and system calls may use them at any time.
pub struct TomboloBlock(Block);

/// Asks the kernel whether pages can move here at all. Returns TOMBOLO_ERROR_UNAVAILABLE if not,
/// and the message says what to do.
// SAFETY: no other symbol has this name; so it is with all functions here.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_tiers_probe() -> TomboloError {
    call(|| {
        probe().map_err(TieringError::from)?;
        Ok(())
    })
}

/// Reserves addresses for so many bytes, and starts the heap's threads. No memory is taken before
/// it is touched. `options` may be null: then they are as tombolo_heap_options_init has them.
/// Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_UNAVAILABLE, TOMBOLO_ERROR_SYSTEM.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_heap_reserve(
    bytes: usize,
    options: *const TomboloHeapOptions,
    heap: *mut *mut TomboloHeap,
) -> TomboloError {
    call(|| {
        store(heap, "heap", std::ptr::null_mut())?;
        let options = match borrow(options, "options") {
            Ok(options) => options.options()?,
            Err(_) => Default::default(),
        };
        let made = TieredHeap::reserve(bytes, options)?;
        store(heap, "heap", give(TomboloHeap(made)))
    })
}

/// Frees a heap; its memory goes with its last block. A null pointer is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_heap_free(heap: *mut TomboloHeap) {
    call(|| {
        take(heap);
        Ok(())
    });
}

/// Takes a block of at least so many bytes, of zeros, in whole pages. `hint` is a TomboloHint.
/// Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_FULL, TOMBOLO_ERROR_SYSTEM.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_heap_allocate(
    heap: *const TomboloHeap,
    bytes: usize,
    hint: u32,
    block: *mut *mut TomboloBlock,
) -> TomboloError {
    call(|| {
        store(block, "block", std::ptr::null_mut())?;
        let taken = borrow(heap, "heap")?.0.allocate(bytes, self::hint(hint)?)?;
        store(block, "block", give(TomboloBlock(taken)))
    })
}

/// Gives a block back. A null pointer is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_block_free(block: *mut TomboloBlock) {
    call(|| {
        take(block);
        Ok(())
    });
}

/// Returns the first byte of a block. It does not change while the block is there. NULL for a null
/// pointer.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_block_address(block: *const TomboloBlock) -> *mut c_void {
    borrow(block, "block").map_or(std::ptr::null_mut(), |block| block.0.as_ptr().as_ptr().cast())
}

/// Returns how many bytes a block has; 0 for a null pointer.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_block_bytes(block: *const TomboloBlock) -> usize {
    borrow(block, "block").map_or(0, |block| block.0.bytes())
}

/// Moves the pages of a range to a place, while threads use them. `place` is a TomboloPlace.
/// `report` says what became of the pages; it may be null. It waits for the thread that moves
/// pages, for some microseconds a page.
/// Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_OUTSIDE, TOMBOLO_ERROR_FORKED,
/// TOMBOLO_ERROR_STOPPED. Pages that are left where they were are no error.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_block_relocate(
    block: *const TomboloBlock,
    offset: usize,
    bytes: usize,
    place: u32,
    report: *mut TomboloReport,
) -> TomboloError {
    call(|| {
        let block = borrow(block, "block")?;
        let end = offset.saturating_add(bytes);
        let became = block.0.relocate(offset..end, self::place(place)?)?;
        if report.is_null() {
            return Ok(());
        }
        store(report, "report", became.into())
    })
}

/// Says where the pages of a range are to be from here on. They move in the background. `hint` is a
/// TomboloHint.
/// Errors: as tombolo_block_relocate.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_block_advise(
    block: *const TomboloBlock,
    offset: usize,
    bytes: usize,
    hint: u32,
) -> TomboloError {
    call(|| {
        let block = borrow(block, "block")?;
        Ok(block.0.advise(offset..offset.saturating_add(bytes), self::hint(hint)?)?)
    })
}

/// Gives up to so many bytes of shadows up. `given` says how many bytes that were; it may be null.
/// Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_FORKED, TOMBOLO_ERROR_STOPPED.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_heap_reclaim(
    heap: *const TomboloHeap,
    bytes: usize,
    given: *mut usize,
) -> TomboloError {
    call(|| {
        let count = borrow(heap, "heap")?.0.reclaim(bytes)?;
        if given.is_null() {
            return Ok(());
        }
        store(given, "given", count)
    })
}

/// The names of the numbers, in their order.
static NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| {
    // No name has a zero byte.
    let name = |(name, _): &(&str, u64)| CString::new(*name).unwrap_or_default();
    Stats::default().rows().iter().map(name).collect()
});

/// Returns how many numbers tombolo_heap_stats has.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_stat_count() -> usize {
    NAMES.len()
}

/// Returns the name of a number, such as "promotions"; NULL behind the last one. It stays valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_stat_name(number: usize) -> *const c_char {
    NAMES.get(number).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Stores the heap's numbers, up to `capacity` of them, in the order of their names. It does not
/// block.
/// Errors: TOMBOLO_ERROR_ARGUMENT.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_heap_stats(
    heap: *const TomboloHeap,
    numbers: *mut u64,
    capacity: usize,
) -> TomboloError {
    call(|| {
        let rows = borrow(heap, "heap")?.0.stats().rows();
        let found: Vec<u64> = rows.iter().map(|(_, number)| *number).collect();
        store_all(numbers, "numbers", capacity, &found)
    })
}
