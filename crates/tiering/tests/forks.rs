//! Heaps of a process that forks. A fork shares the pages of all heaps with the child, so these
//! tests are in a process of their own.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tombolo_memory::in_child;
use tombolo_memory::paging::page_bytes;
use tombolo_tiering::{Place, TieringError};

use common::{PAGES, empty, filled, heap, holds_all, sum, under_fire, whole};

/// A fork of one test brings back the pages that another has parked.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_child_has_all_pages_and_the_parent_goes_on() {
    let _alone = alone();
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    block.relocate(0..PAGES / 2 * page_bytes(), Place::Copied).unwrap();
    block.park(whole(&block)).unwrap();
    assert_eq!(heap.stats().parked, PAGES as u64 / 2);
    let is_fine = in_child(|| {
        let refused = block.relocate(whole(&block), Place::Copied);
        holds_all(&block) && matches!(refused, Err(TieringError::Forked))
    });
    assert!(is_fine.unwrap(), "the child has the parent's pages");
    assert_eq!(heap.stats().parked, 0, "all came back before the fork");
    // Pages that were shared with the child move, since they are copied.
    let up = block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!((up.moved + up.already, up.left()), (PAGES, 0), "{up}");
    assert!(holds_all(&block));
}

#[test]
fn forks_and_moves_at_once() {
    let _alone = alone();
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                block.relocate(whole(&block), Place::Copied).unwrap();
                block.relocate(whole(&block), Place::Shared).unwrap();
                block.park(whole(&block)).unwrap();
            }
        });
        for _ in 0..20 {
            assert!(in_child(|| holds_all(&block)).unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
        mover.join().unwrap();
    });
    assert!(holds_all(&block));
}

/// A child has all that was written before its fork, and what it writes is its own.
#[test]
fn forks_under_writers_lose_nothing() {
    let _alone = alone();
    let Some(heap) = heap() else { return };
    let block = empty(&heap);
    under_fire(&block, |fire| {
        for _ in 0..20 {
            fire.wait(1);
            // An addition is counted after it is made, so some threads may be one ahead.
            let added = fire.added.load(Ordering::Relaxed);
            let is_fine = in_child(|| {
                let found = sum(&block);
                block.fetch_add(0, 1_000_000);
                found >= added && sum(&block) == found + 1_000_000
            });
            assert!(is_fine.unwrap(), "the child lacks some of {added} additions");
        }
    });
}
