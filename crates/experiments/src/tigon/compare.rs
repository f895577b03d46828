//! Figures of Tigon alone: less SCR, longer epochs, and slower back-invalidations.

use super::lab::Ran;
use super::point::{EPOCH_MS, Load, Point, SCR_MIB, System};
use super::sketch::{Sketch, THROUGHPUT, panel};
use super::systems::{TPCC_ALL_REMOTE, TPCC_LOCAL, YCSB_ALL_CROSS};
use super::{Measured, TigonFigure};
use crate::figures::Drawn;

pub(super) const FIGURE_7: TigonFigure = TigonFigure { id: "7", points: points_7, draw: figure_7 };
pub(super) const TABLE_1: TigonFigure =
    TigonFigure { id: "table-1", points: points_of_table_1, draw: table_1 };
pub(super) const BACK_INVALIDATION: TigonFigure = TigonFigure {
    id: "back-invalidation",
    points: points_of_back_invalidation,
    draw: back_invalidation,
};

const SCR: [u32; 5] = [10, 50, 100, 150, SCR_MIB];

const EPOCHS_MS: [u32; 6] = [1, 10, 20, 30, 40, 50];

/// How many times as long back-invalidations are taken to be by the paper.
const SNOOP_FACTOR: u32 = 4;

fn with_scr(load: Load, scr_mib: u32) -> Point {
    Point { scr_mib, starts_shared: false, ..Point::new(load) }
}

fn points_7() -> Vec<Point> {
    let loads = [TPCC_ALL_REMOTE, YCSB_ALL_CROSS].into_iter();
    let of_tigon = loads.flat_map(|load| SCR.map(|scr_mib| with_scr(load, scr_mib)));
    of_tigon.flat_map(|point| [point, Point { system: System::Objects, ..point }]).collect()
}

fn figure_7(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("7", "Less SCR"),
        "Eight hosts with three workers each. No row is shared before the run; each point warms up until as \
         many rows move out as in, for 0.3 s at most. Rows as objects do not move; SCR is for those that are \
         written.",
        "SCR for shared rows, MiB at full scale",
        &[THROUGHPUT, "rows moved in/s"],
    );
    for point in points_7() {
        let name = point.system.name();
        sketch.point(&panel(point.load), name, point.scr_mib.to_string(), measured.at(point));
    }
    let at = |load, scr_mib| measured.at(with_scr(load, scr_mib));
    let tpcc = |scr_mib| at(TPCC_ALL_REMOTE, scr_mib);
    let ours = tpcc(50).thousands() / tpcc(SCR_MIB).thousands();
    sketch.states("Tigon, TPC-C, 50 MiB over 200 MiB", 1.0 - 0.058, ours);
    let moved = |ran: &Ran| ran.per_second(ran.shared.moved_in) / 1e3;
    sketch.states("Tigon, TPC-C, 10 MiB, thousand rows moved/s", 16.0, moved(tpcc(10)));
    let device = |ran: &Ran| ran.per_second(ran.counts.device_bytes) / 1e9;
    sketch.says("Tigon, TPC-C, 10 MiB, GB/s of the device", "367 MB/s to move", device(tpcc(10)));
    let ycsb = |scr_mib| at(YCSB_ALL_CROSS, scr_mib);
    sketch.states("Tigon, YCSB, 10 MiB, thousand rows moved/s", 110.0, moved(ycsb(10)));
    sketch.says("Tigon, YCSB, 10 MiB, GB/s of the device", "2.9 GB/s to move", device(ycsb(10)));
    let ours = ycsb(100).thousands() / ycsb(SCR_MIB).thousands();
    sketch.says("Tigon, YCSB, 100 MiB over 200 MiB", "100 MB for full speed", ours);
    sketch.drawn
}

fn with_epochs(load: Load, epoch_ms: u32) -> Point {
    Point { epoch_ms, epochs: 4, ..Point::new(load) }
}

fn without_log() -> Point {
    Point { is_logged: false, ..with_epochs(TPCC_LOCAL, EPOCH_MS) }
}

const WITHOUT_CROSS: [Load; 2] = [TPCC_LOCAL, Load::Ycsb { reads: 50, cross: 0 }];

fn points_of_table_1() -> Vec<Point> {
    let loads = WITHOUT_CROSS.into_iter();
    let mut points: Vec<Point> =
        loads.flat_map(|load| EPOCHS_MS.map(|epoch_ms| with_epochs(load, epoch_ms))).collect();
    points.push(without_log());
    points
}

fn table_1(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("table-1", "Table 1: longer epochs"),
        "Eight hosts with three workers each, and no transaction in two partitions. Latency is that of durable \
         transactions.",
        "epoch, ms",
        &[THROUGHPUT, "p50 until durable, ms", "p99 until durable, ms"],
    );
    // By epoch: thousand transactions/s, p50 and p99 in milliseconds.
    let stated = [
        [
            [508.0, 17.7, 345.0],
            [525.0, 22.6, 54.9],
            [532.0, 26.0, 57.0],
            [535.0, 31.6, 64.7],
            [537.0, 37.3, 75.2],
            [540.0, 43.3, 86.8],
        ],
        [
            [516.0, 12.4, 373.0],
            [534.0, 24.6, 62.3],
            [538.0, 30.8, 72.3],
            [541.0, 36.8, 82.6],
            [542.0, 41.5, 89.6],
            [545.0, 45.0, 95.4],
        ],
    ];
    for (load, stated) in WITHOUT_CROSS.into_iter().zip(stated) {
        let panel = panel(load);
        for (epoch_ms, [thousands, p50, p99]) in EPOCHS_MS.into_iter().zip(stated) {
            let ran = measured.at(with_epochs(load, epoch_ms));
            sketch.point(&panel, "Tigon", epoch_ms.to_string(), ran);
            let of = |what| format!("{panel}, epochs of {epoch_ms} ms, {what}");
            sketch.states(of("thousand transactions/s"), thousands, ran.thousands());
            sketch.states(of("p50, ms"), p50, ran.durable_ms[0]);
            sketch.states(of("p99, ms"), p99, ran.durable_ms[1]);
        }
    }
    let logged = measured.at(with_epochs(TPCC_LOCAL, EPOCH_MS)).thousands();
    let without = measured.at(without_log()).thousands();
    sketch.states("TPC-C, 0/0, with logging over without", 1.0 - 0.06, logged / without);
    sketch.drawn
}

fn with_snoops() -> Point {
    Point { snoop_factor: SNOOP_FACTOR, ..Point::new(TPCC_ALL_REMOTE) }
}

fn points_of_back_invalidation() -> Vec<Point> {
    vec![Point::new(TPCC_ALL_REMOTE), with_snoops()]
}

/// The workers of a point.
const WORKERS: f64 = 24.0;

fn back_invalidation(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("back-invalidation", "Section 4.3: what back-invalidations cost"),
        "TPC-C, 60/90, on eight hosts. An access to SCR for which other hosts have to be asked takes four times as \
         long. The paper computes what that costs; here it is computed from the back-invalidations of the \
         first run as the paper does, and measured in the second run.",
        "latency of a back-invalidation, accesses to SCR",
        &[THROUGHPUT],
    );
    let [without, with] =
        [Point::new(TPCC_ALL_REMOTE), with_snoops()].map(|point| measured.at(point));
    for (factor, ran) in [(1, without), (SNOOP_FACTOR, with)] {
        sketch.point("TPC-C, 60/90", "Tigon", factor.to_string(), ran);
    }
    let takes = WORKERS / (1e3 * without.thousands());
    let snoops = without.each(without.counts.back_invalidations);
    let more = snoops * f64::from(SNOOP_FACTOR - 1) * measured.scr_access;
    let computed = takes / (takes + more);
    sketch.states("Tigon at four times the latency, as computed", 1.0 - 0.414, computed);
    let counted = with.thousands() / without.thousands();
    sketch.states("Tigon at four times the latency, as counted", 1.0 - 0.414, counted);
    let share = without.counts.back_invalidations as f64 / without.counts.scr_misses as f64;
    sketch.says(
        "back-invalidations for each access to SCR that misses",
        "14.5 % of the accesses invalidate another host",
        share,
    );
    sketch.drawn
}
