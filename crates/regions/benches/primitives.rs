//! The times of a region's primitives on this machine: faults, upgrades, hand-overs, mappings that
//! are taken away, and changes of mode.
//!
//! Two hosts are in one process, each with mappings of its own. A line has the least and the median
//! of all rounds: a busy machine shows in the median.

use std::time::{Duration, Instant};

use tombolo_pod::{PodSpec, Sizes};
use tombolo_regions::{Mode, Regions, Shape, SharedRegion, create_pod};

const PAGE: usize = 4096;
const PAGES: usize = 512;
const BLOCK: usize = 64 * PAGE;

fn show(what: &str, mode: Mode, mut times: Vec<Duration>) {
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (least, median) = (times[0], times[times.len() / 2]);
    println!("{:12} {what:44} {:8.1} {:8.1}", mode.name(), micros(least), micros(median));
}

fn each_page(mut run: impl FnMut(usize)) -> Vec<Duration> {
    let timed = |page: usize| {
        let started = Instant::now();
        run(page * PAGE);
        started.elapsed()
    };
    (0..PAGES).map(timed).collect()
}

fn measure(mode: Mode, one: &SharedRegion, two: &SharedRegion) {
    let load = |region: &SharedRegion, at| _ = std::hint::black_box(region.bytes().load::<u64>(at));
    show("first read of a page", mode, each_page(|at| load(one, at)));
    if mode != Mode::Direct {
        show("write of a page read alone", mode, each_page(|at| one.bytes().store(at, 1_u64)));
        show("read of a page another host wrote", mode, each_page(|at| load(two, at)));
        show("write of a page two hosts read", mode, each_page(|at| one.bytes().store(at, 2_u64)));
        show(
            "write of a page another host wrote",
            mode,
            each_page(|at| two.bytes().store(at, 3_u64)),
        );
    }
}

fn main() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("there is shared memory");
    let spec = PodSpec::path(folder.path().join("pod"));
    let sizes =
        Sizes { scr_bytes: Some(2 << 20), lnr_bytes: Some(32 << 20), force: false, sparse: false };
    let shape = Shape { coherent: true, ..Shape::default() };
    create_pod(&spec, sizes, 4, shape).expect("a pod can be created");
    let join = || Regions::join(&spec).expect("there is a seat");
    let hosts = [join(), join()];
    println!("{:12} {:44} {:>8} {:>8}", "mode", "", "least us", "median");
    for mode in Mode::ALL {
        let name = mode.name();
        hosts[0].create(name, (PAGES * PAGE) as u64, mode).expect("there is room");
        let open = |host: &Regions| host.open(name).expect("pages can be served");
        let (one, two) = (open(&hosts[0]), open(&hosts[1]));
        measure(mode, &one, &two);
        for to in Mode::ALL.into_iter().filter(|&to| to != mode) {
            let changes = (0..PAGES * PAGE / BLOCK).map(|block| {
                let bytes = block * BLOCK..(block + 1) * BLOCK;
                // All pages are in use, so that they have to be taken away.
                (bytes.start..bytes.end).step_by(PAGE).for_each(|at| one.bytes().store(at, 4_u64));
                let started = Instant::now();
                one.set_mode(bytes.clone(), to).expect("the mode is allowed");
                let took = started.elapsed();
                one.set_mode(bytes, mode).expect("the mode is allowed");
                took
            });
            show(
                &format!("change of a block of 64 pages to {}", to.name()),
                mode,
                changes.collect(),
            );
        }
    }
}
