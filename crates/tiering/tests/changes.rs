//! Programs that change their mappings, and devices that write into pages, while these move. Where
//! the kernel refuses what a test needs, the test says so and passes.

mod common;

use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_memory::paging::{Ring, page_bytes};
use tombolo_tiering::{Block, Count, Place};

use common::{
    PAGES, bytes_of, empty, filled, heap, heap_with, holds, holds_all, under_fire, whole,
};

const ROUNDS: usize = 30;

/// Does `change` while a thread moves all pages, after they have moved `round` times or so.
fn while_moving(block: &Block, round: usize, change: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                block.relocate(whole(block), Place::Copied).unwrap();
                block.park(whole(block)).unwrap();
                block.relocate(whole(block), Place::Shared).unwrap();
                block.park(whole(block)).unwrap();
            }
        });
        std::thread::sleep(std::time::Duration::from_micros(37 * round as u64));
        // Also if the change fails.
        let changed = catch_unwind(AssertUnwindSafe(change));
        is_over.store(true, Ordering::Relaxed);
        mover.join().unwrap();
        changed.unwrap_or_else(|failure| resume_unwind(failure));
    });
}

/// While the kernel would not yet let parked pages follow to the new address, the worker brought
/// some of them back to the old one: the program found zeros.
///
/// `mremap`: all bytes are at the new address, whichever page was out at that moment.
#[test]
fn pages_that_are_remapped_while_they_move_are_whole() {
    for round in 0..ROUNDS {
        let Some(heap) = heap() else { return };
        let block = filled(&heap);
        while_moving(&block, round, || {
            let moved = block.span_for_test().move_away().unwrap();
            for page in 0..PAGES {
                let mut found = vec![0; page_bytes()];
                moved.read(page * page_bytes(), &mut found);
                assert!(found == bytes_of(page), "page {page} in round {round}");
            }
            // The page at the old address is fresh. Its touch waited for ever, once.
            let mut found = [1; 64];
            block.read(0, &mut found);
            assert_eq!(found, [0; 64]);
        });
    }
}

/// `munmap`: what is mapped there next is the program's, and no old page comes back into it.
#[test]
fn pages_that_are_unmapped_while_they_move_are_gone() {
    for round in 0..ROUNDS {
        let Some(heap) = heap() else { return };
        let block = filled(&heap);
        while_moving(&block, round, || {
            block.span_for_test().replace().unwrap();
            for page in (0..PAGES).step_by(3) {
                block.write(page * page_bytes(), &bytes_of(page + 1));
            }
            // As long as pages could come back.
            std::thread::sleep(std::time::Duration::from_millis(1));
        });
        for page in 0..PAGES {
            let mut found = vec![1; page_bytes()];
            block.read(page * page_bytes(), &mut found);
            let is_new = page % 3 == 0;
            let expected = if is_new { bytes_of(page + 1) } else { vec![0; page_bytes()] };
            assert!(found == expected, "page {page} in round {round}");
        }
    }
}

/// `mlock` and `munlock`: locked pages stay, and are the program's all the time.
#[test]
fn writers_lose_nothing_while_pages_are_locked_and_unlocked() {
    let Some(heap) = heap() else { return };
    let block = empty(&heap);
    under_fire(&block, |fire| {
        for _ in 0..ROUNDS {
            block.span_for_test().lock().unwrap();
            fire.wait(1);
            block.span_for_test().unlock().unwrap();
            fire.wait(1);
        }
    });
    let stats = heap.stats();
    assert!(stats.get(Count::AbortsUnmovable) > 0 && stats.get(Count::Promotions) > 0, "{stats:?}");
}

/// Pages that the kernel makes huge ones of, again and again.
#[test]
fn writers_lose_nothing_while_huge_pages_are_made() {
    const HUGE: usize = 2 << 20;
    let Some(heap) = heap_with(2 * HUGE / page_bytes(), Default::default()) else { return };
    let block = heap.allocate(2 * HUGE, Default::default()).unwrap();
    (0..2 * HUGE / page_bytes()).for_each(|page| block.write(page * page_bytes(), &[0; 8]));
    let mut refused = None;
    under_fire(&block, |fire| {
        for _ in 0..ROUNDS {
            refused = block.span_for_test().gather_huge_pages().err();
            fire.wait(1);
        }
    });
    refused.inspect(|reason| eprintln!("the kernel made no huge page: {reason}"));
}

/// `None`, and a line that says so, where there is no io_uring.
fn ring() -> Option<Ring> {
    Ring::open().map_err(|reason| eprintln!("skipped: no io_uring: {reason}")).ok()
}

/// A read of io_uring that is under way, into pages that move meanwhile.
#[test]
fn io_uring_reads_into_pages_that_move() {
    let (Some(heap), Some(mut ring)) = (heap(), ring()) else { return };
    let block = filled(&heap);
    let (reader, mut writer) = io::pipe().unwrap();
    for round in 0..ROUNDS {
        let page = round % PAGES;
        let bytes = bytes_of(page + round + 1);
        let span = block.page_for_test(page);
        let came = ring.read(span, false, &reader, || {
            let up = block.relocate(whole(&block), Place::Copied).unwrap();
            assert_eq!(up.left(), 0, "{up}");
            block.relocate(whole(&block), Place::Shared).unwrap();
            block.park(whole(&block)).unwrap();
            writer.write_all(&bytes).unwrap();
        });
        assert_eq!(came.unwrap(), page_bytes());
        let mut found = vec![0; page_bytes()];
        block.read(page * page_bytes(), &mut found);
        assert!(found == bytes, "page {page} in round {round}");
        block.write(page * page_bytes(), &bytes_of(page));
    }
    assert!(holds_all(&block));
}

/// Pages that io_uring has pinned: the kernel writes into their frames, whatever is mapped.
#[test]
fn pages_that_io_uring_has_pinned_stay_until_they_are_let_go() {
    let (Some(heap), Some(mut ring)) = (heap(), ring()) else { return };
    let block = filled(&heap);
    // With shadows: the frame that is pinned is the near one.
    block.relocate(whole(&block), Place::Copied).unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    for round in 0..ROUNDS {
        let page = round % PAGES;
        let bytes = bytes_of(page + round + 1);
        let span = block.page_for_test(page);
        ring.pin(span).unwrap();
        let came = ring.read(span, true, &reader, || {
            let down = block.relocate(whole(&block), Place::Shared).unwrap();
            assert_eq!(down.left_shared, 1, "{down}");
            writer.write_all(&bytes).unwrap();
        });
        assert_eq!(came.unwrap(), page_bytes());
        ring.unpin().unwrap();
        let down = block.relocate(whole(&block), Place::Shared).unwrap();
        assert_eq!((down.moved, down.left()), (1, 0), "{down}");
        let mut found = vec![0; page_bytes()];
        block.read(page * page_bytes(), &mut found);
        assert!(found == bytes, "page {page} in round {round}");
        block.write(page * page_bytes(), &bytes_of(page));
        block.relocate(whole(&block), Place::Copied).unwrap();
    }
    assert!(holds_all(&block));
}

/// Direct reads of a file: the device writes into frames that are pinned for a moment only.
#[test]
fn direct_reads_reach_pages_that_move() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("file");
    let all: Vec<u8> = (0..PAGES).flat_map(bytes_of).collect();
    std::fs::write(&path, &all).unwrap();
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(direct).open(&path) {
        Ok(file) => file,
        Err(reason) => {
            return eprintln!("skipped: no direct reads in {}: {reason}", path.display());
        }
    };
    for round in 0..ROUNDS {
        while_moving(&block, round, || {
            for page in 0..PAGES {
                block.write(page * page_bytes(), &[0xee; 64]);
                (&file).seek(SeekFrom::Start((page * page_bytes()) as u64)).unwrap();
                let came = block.fill_from(page * page_bytes(), page_bytes(), &file).unwrap();
                assert_eq!(came, page_bytes());
                assert!(holds(&block, page), "page {page} in round {round}");
            }
        });
    }
    assert!(holds_all(&block));
}
