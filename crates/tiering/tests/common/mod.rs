//! Heaps and blocks for tests.
// Each test program uses some of it.
#![allow(dead_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tombolo_memory::paging::page_bytes;
use tombolo_tiering::{Block, Hint, Options, Place, TieredHeap};

pub(crate) const PAGES: usize = 64;

/// A generous limit for what takes microseconds.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// `None`, and a line that says so, where pages cannot move.
pub(crate) fn heap_with(pages: usize, options: Options) -> Option<TieredHeap> {
    if let Err(reason) = tombolo_tiering::probe() {
        eprintln!("skipped: {reason}");
        return None;
    }
    Some(TieredHeap::reserve(pages * page_bytes(), options).unwrap())
}

pub(crate) fn heap() -> Option<TieredHeap> {
    heap_with(PAGES, Options::default())
}

/// A far block of all pages, which the policy may move.
pub(crate) fn empty(heap: &TieredHeap) -> Block {
    let block = heap.allocate(PAGES * page_bytes(), Hint::Far).unwrap();
    block.advise(0..block.bytes(), Hint::Auto).unwrap();
    block
}

/// As [`empty`], and each page filled with bytes of its own.
pub(crate) fn filled(heap: &TieredHeap) -> Block {
    let block = empty(heap);
    (0..PAGES).for_each(|page| block.write(page * page_bytes(), &bytes_of(page)));
    block
}

pub(crate) fn bytes_of(page: usize) -> Vec<u8> {
    (0..page_bytes()).map(|at| (at * 7 + page * 13) as u8).collect()
}

pub(crate) fn holds(block: &Block, page: usize) -> bool {
    let mut found = vec![0; page_bytes()];
    block.read(page * page_bytes(), &mut found);
    found == bytes_of(page)
}

pub(crate) fn holds_all(block: &Block) -> bool {
    (0..PAGES).all(|page| holds(block, page))
}

pub(crate) fn whole(block: &Block) -> std::ops::Range<usize> {
    0..block.bytes()
}

/// Counts of additions and moves while a block is [under fire](under_fire).
pub(crate) struct Fire {
    /// Additions that are made.
    pub(crate) added: AtomicU64,
    /// Times that all pages were moved up and down.
    pub(crate) rounds: AtomicU64,
    is_over: AtomicBool,
}

impl Fire {
    /// Waits until the pages have moved so many times more.
    pub(crate) fn wait(&self, rounds: u64) {
        let last = self.rounds.load(Ordering::Relaxed) + rounds;
        let start = Instant::now();
        while self.rounds.load(Ordering::Relaxed) < last {
            assert!(start.elapsed() < LIMIT, "the pages do not move any more");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Ends the threads, also if the test fails meanwhile.
struct End<'a>(&'a Fire);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Does `meanwhile` while three threads add to words of all pages, and one moves these up and
/// down and parks them. No addition is lost.
pub(crate) fn under_fire(block: &Block, meanwhile: impl FnOnce(&Fire)) {
    let fire = &Fire {
        added: AtomicU64::new(0),
        rounds: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let _end = End(fire);
        (1..=3).for_each(|seed| {
            scope.spawn(move || write(block, fire, seed));
        });
        scope.spawn(|| moves(block, fire));
        meanwhile(fire);
    });
    assert_eq!(sum(block), fire.added.load(Ordering::Relaxed));
}

fn write(block: &Block, fire: &Fire, seed: u64) {
    let words = block.bytes() / 8;
    let mut random = seed;
    while !fire.is_over.load(Ordering::Relaxed) {
        for _ in 0..64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            block.fetch_add(8 * ((random >> 33) as usize % words), 1);
            fire.added.fetch_add(1, Ordering::Relaxed);
        }
        // Some pages are quiet for a while, so that promotions come through.
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn moves(block: &Block, fire: &Fire) {
    let places = [Place::Copied, Place::Shared, Place::Partition, Place::Shared];
    for place in places.iter().cycle() {
        if fire.is_over.load(Ordering::Relaxed) {
            return;
        }
        block.relocate(whole(block), *place).unwrap();
        block.park(whole(block)).unwrap();
        fire.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// The sum of all words.
pub(crate) fn sum(block: &Block) -> u64 {
    let mut bytes = vec![0; block.bytes()];
    block.read(0, &mut bytes);
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    words.sum()
}
