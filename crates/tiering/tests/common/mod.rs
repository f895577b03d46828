//! Heaps and blocks for tests.

use tombolo_memory::paging::page_bytes;
use tombolo_tiering::{Block, Hint, Options, TieredHeap};

pub(crate) const PAGES: usize = 64;

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

/// A far block of all pages, each filled with bytes of its own.
pub(crate) fn filled(heap: &TieredHeap) -> Block {
    let block = heap.allocate(PAGES * page_bytes(), Hint::Far).unwrap();
    block.advise(0..block.bytes(), Hint::Auto).unwrap();
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
