//! The worth of each part of Tigon: figure 8 and section 4.6.

use super::lab::Ran;
use super::point::{Load, Point, System, UNLIMITED_SCR_MIB};
use super::sketch::{Sketch, THROUGHPUT, mib, panel};
use super::systems::{CROSS, REMOTE, TPCC_ALL_REMOTE, TPCC_LOCAL, YCSB_ALL_CROSS, of, tpcc};
use super::{Measured, TigonFigure};
use crate::figures::Drawn;

pub(super) const FIGURE_8: TigonFigure = TigonFigure { id: "8", points: points_8, draw: figure_8 };
pub(super) const SECTION_4_6: TigonFigure =
    TigonFigure { id: "section-4.6", points: points_4_6, draw: section_4_6 };

const COHERENCE: [System; 4] =
    [System::TIGON, System::NON_TEMPORAL, System::NO_SHARED_READER, System::NO_SWCC];

fn ycsb(cross: u32) -> Load {
    Load::Ycsb { reads: 95, cross }
}

/// A variant's rows are shared before the run as far as they fit.
fn points_8() -> Vec<Point> {
    let loads = REMOTE.map(tpcc).into_iter().chain(CROSS.map(|cross| Point::new(ycsb(cross))));
    loads.flat_map(|point| COHERENCE.map(|system| Point { system, ..point })).collect()
}

fn figure_8(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("8", "Software coherence"),
        "Eight hosts with three workers each. NoSWcc keeps rows in SCR. NonTemporal drops a row from the caches \
         before each read. NoSharedReader lets one host at a time have a row in its caches. Rows are shared \
         before the run as far as they fit.",
        "transactions or orders/payments in two partitions, %",
        &[THROUGHPUT],
    );
    for point in points_8() {
        let (panel, x) = match point.load {
            Load::Tpcc { orders, payments } => ("TPC-C", format!("{orders}/{payments}")),
            Load::Ycsb { cross, .. } => ("YCSB, 95 % reads", cross.to_string()),
        };
        sketch.point(panel, point.system.name(), x, measured.at(point));
    }
    let over = |one, other, load| measured.ratio(of(one, load), of(other, load));
    for system in [System::NON_TEMPORAL, System::NO_SHARED_READER, System::NO_SWCC] {
        let name = format!("TPC-C, 0/0, {} over Tigon", system.name());
        sketch.says(name, "identical", over(system, System::TIGON, TPCC_LOCAL));
    }
    let ours = over(System::NON_TEMPORAL, System::TIGON, TPCC_ALL_REMOTE);
    sketch.states("TPC-C, 60/90, NonTemporal over Tigon", 0.95, ours);
    let ours = over(System::NO_SHARED_READER, System::TIGON, TPCC_ALL_REMOTE);
    sketch.says("TPC-C, 60/90, NoSharedReader over Tigon", "almost identical", ours);
    let ours = over(System::NO_SWCC, System::TIGON, TPCC_ALL_REMOTE);
    sketch.states("TPC-C, 60/90, NoSWcc over Tigon", 0.81, ours);
    let moved = |ran: &Ran| ran.per_second(ran.shared.moved_in) / 1e3;
    let ours = moved(measured.at(of(System::NO_SWCC, TPCC_ALL_REMOTE)));
    sketch.states("TPC-C, 60/90, NoSWcc, thousand rows moved/s", 9.0, ours);
    for (cross, stated) in [(10, 1.11), (100, 1.20)] {
        let ours = over(System::TIGON, System::NON_TEMPORAL, ycsb(cross));
        let name = format!("YCSB, {cross} % cross, Tigon over NonTemporal");
        sketch.states(name, stated, ours);
    }
    let ours = over(System::NO_SWCC, System::TIGON, ycsb(10));
    sketch.states("YCSB, 10 % cross, NoSWcc over Tigon", 0.81, ours);
    let ours = over(System::TIGON, System::NO_SWCC, ycsb(100));
    sketch.states("YCSB, 100 % cross, Tigon over NoSWcc", 4.3, ours);
    let ours = moved(measured.at(of(System::NO_SWCC, ycsb(100))));
    sketch.states("YCSB, 100 % cross, NoSWcc, thousand rows moved/s", 115.0, ours);
    let ours = over(System::NO_SHARED_READER, System::TIGON, ycsb(100));
    sketch.states("YCSB, 100 % cross, NoSharedReader over Tigon", 0.85, ours);
    sketch.drawn
}

/// 100 MB, as the paper has it, or more than all rows take.
const BUDGETS: [u32; 2] = [100, UNLIMITED_SCR_MIB];
const VICTIMS: [System; 3] = [System::TIGON, System::LRU, System::FIFO];
const SHORTCUTS: [System; 2] = [System::TIGON, System::NO_SHORTCUTS];
const DIRTY_BITS: [System; 2] = [System::TIGON, System::NO_DIRTY_BIT];

fn victims(system: System, scr_mib: u32) -> Point {
    Point { scr_mib, ..of(system, YCSB_ALL_CROSS) }
}

fn reads(cross: u32) -> Load {
    Load::Ycsb { reads: 100, cross }
}

fn shortcut_loads() -> [Load; 6] {
    let tpcc = |(orders, payments)| Load::Tpcc { orders, payments };
    [tpcc(REMOTE[1]), tpcc(REMOTE[3]), tpcc(REMOTE[6]), ycsb(10), ycsb(40), ycsb(100)]
}

fn points_4_6() -> Vec<Point> {
    let budgets = BUDGETS.into_iter().flat_map(|mib| VICTIMS.map(|system| victims(system, mib)));
    let shortcuts =
        shortcut_loads().into_iter().flat_map(|load| SHORTCUTS.map(|system| of(system, load)));
    let dirty =
        [10, 100].into_iter().flat_map(|cross| DIRTY_BITS.map(|system| of(system, reads(cross))));
    budgets.chain(shortcuts).chain(dirty).collect()
}

fn section_4_6(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("section-4.6", "Section 4.6: optimizations"),
        "Eight hosts with three workers each. Rows are shared before the run as far as they fit.",
        "workload, and MiB of SCR at full scale",
        &[THROUGHPUT],
    );
    for point in points_4_6() {
        let x = format!("{}, {}", panel(point.load), point.scr_mib);
        sketch.point("4.6", point.system.name(), x, measured.at(point));
    }
    let over = |mib, one, other| measured.ratio(victims(one, mib), victims(other, mib));
    let [little, unlimited] = BUDGETS;
    let scr =
        |system| mib(measured.at(victims(system, unlimited)).shared.scr_bytes) / measured.scale;
    sketch.states("LRU, SCR in use over scale, MiB", 149.0, scr(System::LRU));
    sketch.states("LRU over CLOCK, SCR in use", 1.33, scr(System::LRU) / scr(System::TIGON));
    let ours = over(little, System::TIGON, System::LRU);
    sketch.states("CLOCK over LRU, 100 MiB", 2.4, ours);
    let ours = over(unlimited, System::LRU, System::TIGON);
    sketch.states("LRU over CLOCK, unlimited SCR", 0.83, ours);
    let ours = over(little, System::FIFO, System::TIGON);
    sketch.says("FIFO over CLOCK, 100 MiB", "not stated", ours);
    for (load, stated) in shortcut_loads().into_iter().zip([1.16, 1.16, 1.16, 1.083, 1.083, 1.24]) {
        let ours = measured.ratio(of(System::TIGON, load), of(System::NO_SHORTCUTS, load));
        sketch.states(format!("{}, with shortcuts over without", panel(load)), stated, ours);
    }
    for (cross, stated) in [(10, 1.60), (100, 1.27)] {
        let load = reads(cross);
        let ours = measured.ratio(of(System::TIGON, load), of(System::NO_DIRTY_BIT, load));
        sketch.states(format!("{}, with dirty bits over without", panel(load)), stated, ours);
    }
    sketch.drawn
}
