//! The costs of the mechanisms on this machine, in nanoseconds a page: processor time of all
//! threads of this program. The times for which a page is out of the mapping are by the clock.
//!
//! Both tiers are of one node here, so these are costs, and no speed-ups.

use rustix::time::{ClockId, clock_gettime};
use tombolo_memory::paging::page_bytes;
use tombolo_tiering::{Hint, Options, Place, TieredHeap};

const PAGES: usize = 1_024;
const ROUNDS: usize = 31;

fn main() {
    if let Err(reason) = tombolo_tiering::probe() {
        println!("skipped: {reason}");
        return;
    }
    let bytes = PAGES * page_bytes();
    let heap = TieredHeap::reserve(bytes, Options::default()).expect("a heap");
    let block = heap.allocate(bytes, Hint::Far).expect("a block");
    block.advise(0..bytes, Hint::Auto).expect("advice");
    let fill =
        |value: u8| (0..PAGES).for_each(|page| block.write(page * page_bytes(), &[value; 64]));
    fill(1);
    let all = 0..bytes;
    let [mut up, mut gap, mut remap, mut remap_gap] = [const { Vec::new() }; 4];
    let [mut copy, mut park, mut touch, mut write] = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        let start = processor_time();
        block.relocate(all.clone(), Place::Copied).expect("a promotion");
        up.push(per_page(start));
        let start = processor_time();
        block.relocate(all.clone(), Place::Shared).expect("a demotion");
        remap.push(per_page(start));
        for page in 0..PAGES / 8 {
            let one = page * page_bytes()..(page + 1) * page_bytes();
            let report = block.relocate(one.clone(), Place::Copied).expect("a promotion");
            gap.push(report.gap_nanoseconds);
            let report = block.relocate(one, Place::Shared).expect("a demotion");
            remap_gap.push(report.gap_nanoseconds);
        }
        block.relocate(all.clone(), Place::Partition).expect("a promotion");
        let start = processor_time();
        block.relocate(all.clone(), Place::Shared).expect("a demotion");
        copy.push(per_page(start));
        let start = processor_time();
        block.park(all.clone()).expect("parking");
        park.push(per_page(start));
        let start = processor_time();
        fill(round as u8);
        touch.push(per_page(start));
        block.relocate(all.clone(), Place::Copied).expect("a promotion");
        let start = processor_time();
        fill(round as u8);
        write.push(per_page(start));
        heap.sweep().expect("a sweep");
        block.relocate(all.clone(), Place::Shared).expect("a demotion");
    }
    println!("{PAGES} pages, {ROUNDS} rounds, ns of processor time a page: median (min..max)");
    for (name, times) in [
        ("promotion", up),
        ("  time for which the page is out", gap),
        ("demotion by remap", remap),
        ("  time for which the page is out", remap_gap),
        ("demotion by copy", copy),
        ("parking, 64 at once", park),
        ("touch of a parked page", touch),
        ("first write of a promoted page", write),
    ] {
        print(name, times);
    }
}

/// Of all threads of this program, in nanoseconds: what others use of the processors adds nothing.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn per_page(start: u64) -> u64 {
    (processor_time() - start) / PAGES as u64
}

fn print(name: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let (least, most) = (times[0], times[times.len() - 1]);
    println!("{name:32} {:6} ({least}..{most})", times[times.len() / 2]);
}
