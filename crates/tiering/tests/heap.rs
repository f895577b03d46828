//! Heaps on this machine's kernel. Where it does not let pages move, each test says so and passes.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tombolo_memory::paging::page_bytes;
use tombolo_tiering::{Count, Hint, Options, Place, Policy, TieredHeap, TieringError};

use common::{
    LIMIT, PAGES, bytes_of, empty, filled, heap, heap_with, holds, holds_all, under_fire, whole,
};

#[test]
fn pages_go_up_with_a_shadow_and_down_by_remapping() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    let address = block.as_ptr();
    let up = block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!((up.moved, up.left()), (PAGES, 0), "{up}");
    assert!(holds_all(&block));
    let stats = heap.stats();
    assert_eq!((stats.near_pages, stats.shadows), (PAGES as u64, PAGES as u64));
    let again = block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!((again.moved, again.already), (0, PAGES));
    let down = block.relocate(whole(&block), Place::Shared).unwrap();
    assert_eq!((down.moved, down.left()), (PAGES, 0), "{down}");
    assert!(holds_all(&block) && block.as_ptr() == address);
    let stats = heap.stats();
    assert_eq!(stats.get(Count::DemotionsByRemap), PAGES as u64);
    assert_eq!((stats.near_pages, stats.shadows, stats.parked), (0, 0, 0));
}

#[test]
fn a_written_page_loses_its_shadow_and_goes_down_by_a_copy() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    block.relocate(whole(&block), Place::Copied).unwrap();
    block.fetch_add(5 * page_bytes(), 1);
    heap.sweep().unwrap();
    assert_eq!(heap.stats().get(Count::ShadowsWritten), 1);
    // This write comes after the sweep: the comparison finds it.
    block.fetch_add(6 * page_bytes(), 1);
    block.relocate(whole(&block), Place::Shared).unwrap();
    let stats = heap.stats();
    assert_eq!(stats.get(Count::DemotionsByCopy), 2);
    assert_eq!(stats.get(Count::DemotionsByRemap), PAGES as u64 - 2);
    block.fetch_add(5 * page_bytes(), u64::MAX);
    block.fetch_add(6 * page_bytes(), u64::MAX);
    assert!(holds_all(&block));
}

#[test]
fn a_page_without_a_shadow_and_pages_that_are_not_filled() {
    let Some(heap) = heap() else { return };
    let block = heap.allocate(PAGES * page_bytes(), Hint::Far).unwrap();
    block.write(0, &bytes_of(0));
    let up = block.relocate(whole(&block), Place::Partition).unwrap();
    assert_eq!((up.moved, up.untouched), (1, PAGES - 1), "{up}");
    assert_eq!(heap.stats().shadows, 0);
    assert!(holds(&block, 0));
    block.write(page_bytes(), &bytes_of(1));
    assert!(heap.stats().near_pages >= 2, "the next page is filled where it was wanted");
}

#[test]
fn shadows_are_given_up_for_memory() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!(heap.reclaim(10 * page_bytes()).unwrap(), 10 * page_bytes());
    assert_eq!(heap.stats().shadows, PAGES as u64 - 10);
    assert!(holds_all(&block));
    let capped = Options { shadow_bytes: 8 * page_bytes(), ..Options::default() };
    let heap = heap_with(PAGES, capped).unwrap();
    let block = filled(&heap);
    block.relocate(whole(&block), Place::Copied).unwrap();
    assert!(heap.stats().shadows <= 8);
}

#[test]
fn near_memory_has_a_limit() {
    let options = Options { near_bytes: 8 * page_bytes(), ..Options::default() };
    let Some(heap) = heap_with(PAGES, options) else { return };
    let block = filled(&heap);
    let up = block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!((up.moved, up.left_no_room), (8, PAGES - 8), "{up}");
    assert!(up.to_string().contains("found no room in the tier"));
    assert!(holds_all(&block));
}

/// Writers add to words of all pages, while these go up and down: no addition is lost.
#[test]
fn hammering_writers_lose_nothing() {
    let Some(heap) = heap() else { return };
    let block = empty(&heap);
    under_fire(&block, |fire| fire.wait(120));
    let stats = heap.stats();
    assert!(stats.get(Count::Promotions) > 0 && stats.demotions() > 0, "{stats:?}");
}

#[test]
fn system_calls_reach_pages_that_move() {
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
        let (reader, mut writer) = std::io::pipe().unwrap();
        for round in 0..2_000 {
            let page = round % PAGES;
            let offset = page * page_bytes();
            // Into the page, and out of it.
            writer.write_all(&bytes_of(page)[..512]).unwrap();
            assert_eq!(block.fill_from(offset, 512, &reader).unwrap(), 512);
            assert_eq!(block.write_to(offset, page_bytes(), &writer).unwrap(), page_bytes());
            let mut found = vec![0; page_bytes()];
            std::io::Read::read_exact(&mut &reader, &mut found).unwrap();
            assert!(found == bytes_of(page), "page {page} in round {round}");
        }
        is_over.store(true, Ordering::Relaxed);
        mover.join().unwrap();
    });
}

#[test]
fn pages_of_a_huge_page_move_one_by_one() {
    const HUGE: usize = 2 << 20;
    let Some(heap) = heap_with(2 * HUGE / page_bytes(), Options::default()) else { return };
    let block = heap.allocate(2 * HUGE, Hint::Far).unwrap();
    let pages = block.bytes() / page_bytes();
    (0..pages).for_each(|page| block.write(page * page_bytes(), &bytes_of(page)));
    if let Err(reason) = block.span_for_test().gather_huge_pages() {
        eprintln!("no huge page to test with: {reason}");
    }
    let up = block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!((up.moved, up.left()), (pages, 0), "{up}");
    let down = block.relocate(whole(&block), Place::Shared).unwrap();
    assert_eq!((down.moved, down.left()), (pages, 0), "{down}");
    assert!((0..pages).all(|page| holds(&block, page)));
}

#[test]
fn locked_pages_are_left_and_parked_ones_come_back_to_be_locked() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    block.park(whole(&block)).unwrap();
    block.span_for_test().lock().unwrap();
    let up = block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!((up.moved, up.left_unmovable), (0, PAGES), "{up}");
    assert!(up.to_string().contains("are locked or not writable"));
    assert!(holds_all(&block));
}

/// A page that is given up is zeros afterwards, wherever it was and whatever moved it.
#[test]
fn what_is_given_up_does_not_come_back() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                block.relocate(whole(&block), Place::Copied).unwrap();
                block.park(whole(&block)).unwrap();
                block.relocate(whole(&block), Place::Shared).unwrap();
            }
        });
        for round in 0..300 {
            block.write(0, &bytes_of(round));
            block.write((PAGES - 1) * page_bytes(), &bytes_of(round));
            block.span_for_test().discard().unwrap();
            for page in [0, 1, PAGES - 1] {
                let mut found = [1; 64];
                block.read(page * page_bytes(), &mut found);
                assert_eq!(found, [0; 64], "page {page} in round {round}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
        mover.join().unwrap();
    });
}

#[test]
fn pages_that_are_remapped_take_parked_ones_along() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    block.relocate(0..10 * page_bytes(), Place::Copied).unwrap();
    block.park(whole(&block)).unwrap();
    let moved = block.span_for_test().move_away().unwrap();
    for page in 0..PAGES {
        let mut found = vec![0; page_bytes()];
        moved.read(page * page_bytes(), &mut found);
        assert!(found == bytes_of(page), "page {page}");
    }
    let up = block.relocate(whole(&block), Place::Copied).unwrap();
    assert_eq!(up.moved, 0, "{up}");
}

#[test]
fn a_heap_whose_thread_fails_is_ordinary_memory() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    block.relocate(0..10 * page_bytes(), Place::Copied).unwrap();
    block.park(whole(&block)).unwrap();
    heap.fail_for_test();
    // The touch of a parked page is what the thread fails at.
    assert!(holds_all(&block));
    let start = Instant::now();
    loop {
        match block.relocate(whole(&block), Place::Shared) {
            Err(TieringError::Stopped) => break,
            _ => assert!(start.elapsed() < LIMIT, "the worker goes on"),
        }
    }
    assert!(holds_all(&block));
}

#[test]
fn nothing_waits_for_a_process_that_is_killed() {
    const VARIABLE: &str = "TOMBOLO_TIERING_PARKED";
    let Some(heap) = heap() else { return };
    if std::env::var_os(VARIABLE).is_some() {
        let block = filled(&heap);
        block.park(whole(&block)).unwrap();
        println!("parked");
        std::thread::sleep(LIMIT);
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_waits_for_a_process_that_is_killed", "--nocapture"])
        .env(VARIABLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.map_while(Result::ok).any(|line| line.contains("parked")));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

/// Waits until the heap's threads have done something.
fn until(heap: &TieredHeap, mut is_done: impl FnMut(&tombolo_tiering::Stats) -> bool) {
    let start = Instant::now();
    while !is_done(&heap.stats()) {
        assert!(start.elapsed() < LIMIT, "{:?}", heap.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn policies_promote_what_is_touched_again_and_demote_for_room() {
    for policy in [Policy::Nomad, Policy::Tpp, Policy::BreakEven] {
        let options = Options {
            policy,
            near_bytes: 32 * page_bytes(),
            parked_per_second: 100_000,
            ..Options::default()
        };
        let Some(heap) = heap_with(PAGES, options) else { return };
        let block = filled(&heap);
        until(&heap, |stats| {
            assert!(holds_all(&block));
            stats.get(Count::Promotions) > 64 && stats.demotions() > 32
        });
        let stats = heap.stats();
        assert!(stats.near_pages <= 32, "{policy}: {stats:?}");
        assert!(stats.get(Count::HintFaults) > 64, "{policy}: {stats:?}");
        assert_eq!(stats.shadows == 0, policy == Policy::Tpp, "{policy}: {stats:?}");
    }
}

/// Each demotion counted as thrashing. So in a near tier that was full of cold pages, promotions
/// stopped after 512 hot ones, though every one of them had made things better.
#[test]
fn hot_pages_take_the_place_of_cold_ones() {
    const COLD: usize = 1024;
    const HOT: usize = 800;
    let options = Options {
        policy: Policy::Nomad,
        near_bytes: COLD * page_bytes(),
        parked_per_second: 1_000_000,
        ..Options::default()
    };
    let Some(heap) = heap_with(COLD + HOT, options) else { return };
    let fill = |pages: usize, hint| {
        let block = heap.allocate(pages * page_bytes(), hint).unwrap();
        (0..pages).for_each(|page| block.write(page * page_bytes(), &[1]));
        block.advise(0..block.bytes(), Hint::Auto).unwrap();
        block
    };
    let _cold = fill(COLD, Hint::Near);
    let hot = fill(HOT, Hint::Far);
    until(&heap, |stats| {
        (0..HOT).for_each(|page| hot.write(page * page_bytes(), &[2]));
        stats.get(Count::Promotions) >= 700
    });
    assert_eq!(heap.stats().get(Count::ThrashStops), 0, "{:?}", heap.stats());
}

#[test]
fn without_a_policy_nothing_moves() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    std::thread::sleep(Duration::from_millis(50));
    assert!(holds_all(&block));
    let stats = heap.stats();
    assert_eq!((stats.get(Count::Promotions), stats.get(Count::Parked)), (0, 0));
}

#[test]
fn advice_moves_pages_in_the_background_and_holds_them() {
    let Some(heap) = heap() else { return };
    let block = filled(&heap);
    block.advise(whole(&block), Hint::Near).unwrap();
    until(&heap, |stats| stats.near_pages == PAGES as u64);
    block.advise(whole(&block), Hint::Far).unwrap();
    until(&heap, |stats| stats.near_pages == 0);
    assert!(holds_all(&block));
}

#[test]
fn blocks_are_reused_and_are_zeros_again() {
    let Some(heap) = heap() else { return };
    let half = PAGES / 2 * page_bytes();
    let first = heap.allocate(half, Hint::Auto).unwrap();
    let second = heap.allocate(half, Hint::Auto).unwrap();
    let full = heap.allocate(1, Hint::Auto).unwrap_err();
    assert!(full.to_string().contains("reserve a larger heap"), "{full}");
    first.write(0, &bytes_of(3));
    first.relocate(0..half, Place::Copied).unwrap();
    let outside = first.relocate(0..half + 1, Place::Copied).unwrap_err();
    assert!(outside.to_string().contains("outside their block"), "{outside}");
    drop((first, second));
    let whole = heap.allocate(2 * half, Hint::Near).unwrap();
    let mut found = [1; 64];
    whole.read(0, &mut found);
    assert_eq!(found, [0; 64]);
}
