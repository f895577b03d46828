//! The figures: the points of each, what is shown of them, and the paper's statements.

use super::lab::Ran;
use super::point::{EPOCH_MS, Load, Point, SCR_MIB, System};
use super::{Measured, TigonFigure};
use crate::figures::{Drawn, Place, Row, Shown};

pub(super) const FIGURE_4: TigonFigure = TigonFigure { id: "4", points: points_4, draw: figure_4 };
pub(super) const FIGURE_5: TigonFigure = TigonFigure { id: "5", points: points_5, draw: figure_5 };
pub(super) const FIGURE_6: TigonFigure = TigonFigure { id: "6", points: points_6, draw: figure_6 };
pub(super) const FIGURE_7: TigonFigure = TigonFigure { id: "7", points: points_7, draw: figure_7 };
pub(super) const TABLE_1: TigonFigure =
    TigonFigure { id: "table-1", points: points_of_table_1, draw: table_1 };
pub(super) const BACK_INVALIDATION: TigonFigure = TigonFigure {
    id: "back-invalidation",
    points: points_of_back_invalidation,
    draw: back_invalidation,
};

/// Percentages of New-Orders and Payments that have to do with another warehouse.
const REMOTE: [(u32, u32); 7] =
    [(0, 0), (10, 15), (20, 30), (30, 45), (40, 60), (50, 75), (60, 90)];

/// Percentages of transactions in two partitions.
const CROSS: [u32; 7] = [0, 10, 20, 40, 60, 80, 100];

/// Percentages of operations that read.
const READS: [u32; 4] = [100, 95, 50, 0];

const HOSTS: [u8; 5] = [1, 2, 4, 6, 8];

const SCR: [u32; 5] = [10, 50, 100, 150, SCR_MIB];

const EPOCHS_MS: [u32; 6] = [1, 10, 20, 30, 40, 50];

/// Thousands of transactions a second of Motor, as the published data have them: under TPC-C, and
/// under YCSB by the percentage of reads.
const MOTOR_TPCC: f64 = 28.5;
const MOTOR_YCSB: [f64; 4] = [233.0, 209.0, 76.0, 39.0];

const TPCC_ALL_REMOTE: Load = Load::Tpcc { orders: 60, payments: 90 };
const TPCC_LOCAL: Load = Load::Tpcc { orders: 0, payments: 0 };
const YCSB_ALL_CROSS: Load = Load::Ycsb { reads: 95, cross: 100 };

/// How many times as long back-invalidations are taken to be by the paper.
const SNOOP_FACTOR: u32 = 4;

type Quantity = fn(&Ran) -> f64;

/// All that is told of a point.
const COLUMNS: [(&str, Quantity); 17] = [
    ("thousand transactions/s", Ran::thousands),
    ("thousand durable transactions/s", |ran| ran.per_second(ran.durable) / 1e3),
    ("p50 until commit, us", |ran| ran.commit_us[0]),
    ("p99 until commit, us", |ran| ran.commit_us[1]),
    ("p50 until durable, ms", |ran| ran.durable_ms[0]),
    ("p99 until durable, ms", |ran| ran.durable_ms[1]),
    ("aborts a transaction: lock", |ran| ran.each(ran.aborts.lock)),
    ("aborts a transaction: gap", |ran| ran.each(ran.aborts.gap)),
    ("aborts a transaction: validation", |ran| ran.each(ran.aborts.validation)),
    ("aborts a transaction: moved", |ran| ran.each(ran.aborts.moved)),
    ("messages a transaction", |ran| ran.each(ran.shared.messages)),
    ("rows moved in/s", |ran| ran.per_second(ran.shared.moved_in)),
    ("rows moved out/s", |ran| ran.per_second(ran.shared.moved_out)),
    ("SCR in use, MiB", |ran| mib(ran.shared.scr_bytes)),
    ("log bytes a transaction", |ran| ran.each(ran.log_bytes)),
    ("device bytes/s", |ran| ran.per_second(ran.counts.device_bytes)),
    ("back-invalidations a transaction", |ran| ran.each(ran.counts.back_invalidations)),
];

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A figure in the making.
struct Sketch {
    drawn: Drawn,
    quantities: Vec<Quantity>,
}

impl Sketch {
    fn new(
        (id, title): (&'static str, &'static str),
        about: &'static str,
        x: &'static str,
        shown: &[&'static str],
    ) -> Self {
        let quantity = |what: &&'static str| {
            let found = COLUMNS.iter().find(|(name, _)| name == what);
            found.expect("it is one of the columns").1
        };
        let drawn = Drawn {
            id,
            title,
            about,
            x,
            bars: false,
            places: Vec::new(),
            shown: shown
                .iter()
                .map(|&what| Shown { what: what.into(), values: Vec::new() })
                .collect(),
            columns: COLUMNS.iter().map(|&(name, _)| (name, Vec::new())).collect(),
            rows: Vec::new(),
        };
        Self { drawn, quantities: shown.iter().map(quantity).collect() }
    }

    fn place(&mut self, panel: &str, curve: &str, x: String) {
        self.drawn.places.push(Place { panel: panel.into(), curve: curve.into(), x });
    }

    fn point(&mut self, panel: &str, curve: &str, x: String, ran: &Ran) {
        self.place(panel, curve, x);
        for (shown, quantity) in self.drawn.shown.iter_mut().zip(&self.quantities) {
            shown.values.push(quantity(ran));
        }
        for ((_, values), (_, quantity)) in self.drawn.columns.iter_mut().zip(COLUMNS) {
            values.push(quantity(ran));
        }
    }

    /// A point of which the throughput alone is known, and not measured here.
    fn given(&mut self, panel: &str, curve: &str, x: String, thousands: f64) {
        self.place(panel, curve, x);
        self.drawn.shown.iter_mut().for_each(|shown| shown.values.push(thousands));
        for (name, values) in &mut self.drawn.columns {
            values.push(if *name == COLUMNS[0].0 { thousands } else { f64::NAN });
        }
    }

    fn states(&mut self, quantity: impl Into<String>, paper: f64, ours: f64) {
        let row = Row::new(self.drawn.id, quantity.into(), Some(paper), None, ours);
        self.drawn.rows.push(row);
    }

    fn says(&mut self, quantity: impl Into<String>, says: &'static str, ours: f64) {
        let row = Row::new(self.drawn.id, quantity.into(), None, Some(says), ours);
        self.drawn.rows.push(row);
    }
}

fn by_system(point: Point) -> impl Iterator<Item = Point> {
    System::ALL.into_iter().map(move |system| Point { system, ..point })
}

fn points_4() -> Vec<Point> {
    let loads = REMOTE.map(|(orders, payments)| Load::Tpcc { orders, payments });
    loads.into_iter().flat_map(|load| by_system(Point::new(load))).collect()
}

fn figure_4(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("4", "TPC-C as published"),
        "Eight hosts with three workers each. All CUSTOMER and STOCK rows are shared before the run. Motor is \
         as published.",
        "New-Orders/Payments of other warehouses, %",
        &[COLUMNS[0].0],
    );
    for point in points_4() {
        let Load::Tpcc { orders, payments } = point.load else { continue };
        let x = format!("{orders}/{payments}");
        sketch.point("4c", point.system.name(), x.clone(), measured.at(point));
        sketch.given("4c", "Motor", x, MOTOR_TPCC);
    }
    let [local, remote] = [TPCC_LOCAL, TPCC_ALL_REMOTE].map(|load| measured.at(Point::new(load)));
    sketch.states("Tigon, 0/0, thousand transactions/s", 528.0, local.thousands());
    sketch.states("Tigon, 60/90, thousand transactions/s", 460.0, remote.thousands());
    let falls = remote.thousands() / local.thousands();
    sketch.states("Tigon, 60/90 over 0/0", 460.0 / 528.0, falls);
    let over_motor = "Tigon over Motor";
    sketch.states(format!("{over_motor}, 0/0"), 18.5, local.thousands() / MOTOR_TPCC);
    sketch.states(format!("{over_motor}, 60/90"), 15.9, remote.thousands() / MOTOR_TPCC);
    let messages = remote.each(remote.shared.messages);
    sketch.says("Tigon, 60/90, messages a transaction", "0", messages);
    let scr = mib(remote.shared.scr_bytes) / measured.scale;
    sketch.states("Tigon, 60/90, SCR in use over scale, MiB", 176.0, scr);
    let out = remote.per_second(remote.shared.moved_out);
    sketch.says("Tigon, 60/90, rows moved out/s", "nothing is moved out", out);
    sketch.drawn
}

fn points_5() -> Vec<Point> {
    let loads = READS.into_iter().flat_map(|reads| CROSS.map(|cross| Load::Ycsb { reads, cross }));
    loads.flat_map(|load| by_system(Point::new(load))).collect()
}

fn figure_5(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("5", "YCSB with transactions, as published"),
        "Eight hosts with three workers each, skew 0.7. All rows are shared before the run. Motor is as \
         published.",
        "transactions in two partitions, %",
        &[COLUMNS[0].0],
    );
    let motor = |reads| {
        let number = READS.iter().position(|&r| r == reads).expect("it is one of them");
        MOTOR_YCSB[number]
    };
    let mut over_motor = Vec::new();
    for point in points_5() {
        let Load::Ycsb { reads, cross } = point.load else { continue };
        let (panel, x, ran) = (format!("{reads} % reads"), cross.to_string(), measured.at(point));
        sketch.point(&panel, point.system.name(), x.clone(), ran);
        sketch.given(&panel, "Motor", x, motor(reads));
        if cross == 100 {
            over_motor.push(ran.thousands() / motor(reads));
        }
    }
    let (least, most) = over_motor
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), &ratio| (least.min(ratio), most.max(ratio)));
    sketch.states("Tigon over Motor, 100 % cross, least of four mixes", 5.4, least);
    sketch.states("Tigon over Motor, 100 % cross, most of four mixes", 14.3, most);
    let ran = measured.at(Point::new(YCSB_ALL_CROSS));
    let scr = mib(ran.shared.scr_bytes) / measured.scale;
    sketch.states("Tigon, SCR in use over scale, MiB", 112.0, scr);
    sketch.drawn
}

fn points_6() -> Vec<Point> {
    let loads = [TPCC_ALL_REMOTE, YCSB_ALL_CROSS].into_iter();
    let points = loads.flat_map(|load| HOSTS.map(|hosts| Point { hosts, ..Point::new(load) }));
    points.flat_map(by_system).collect()
}

/// A panel for each workload.
fn panel(load: Load) -> String {
    match load {
        Load::Tpcc { orders, payments } => format!("TPC-C, {orders}/{payments}"),
        Load::Ycsb { reads, cross } => format!("YCSB, {reads} % reads, {cross} % cross"),
    }
}

fn figure_6(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("6", "More hosts"),
        "Three workers a host, as many warehouses as workers, and 300,000 rows a host. All rows that others may \
         ask for are shared before the run.",
        "hosts",
        &[COLUMNS[0].0],
    );
    for point in points_6() {
        let name = point.system.name();
        sketch.point(&panel(point.load), name, point.hosts.to_string(), measured.at(point));
    }
    let stated = [(TPCC_ALL_REMOTE, 5.7, 55.1), (YCSB_ALL_CROSS, 3.5, 137.5)];
    for (load, over_one, slope) in stated {
        let at = |hosts| measured.at(Point { hosts, ..Point::new(load) }).thousands();
        let name = panel(load);
        sketch.states(format!("Tigon, {name}, 8 hosts over 1"), over_one, at(8) / at(1));
        let ours = (at(8) - at(2)) / 6.0;
        sketch.states(format!("Tigon, {name}, thousand/s for each host, 2 to 8"), slope, ours);
    }
    sketch.drawn
}

fn with_scr(load: Load, scr_mib: u32) -> Point {
    Point { scr_mib, starts_shared: false, ..Point::new(load) }
}

fn points_7() -> Vec<Point> {
    let loads = [TPCC_ALL_REMOTE, YCSB_ALL_CROSS].into_iter();
    loads.flat_map(|load| SCR.map(|scr_mib| with_scr(load, scr_mib))).collect()
}

fn figure_7(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("7", "Less SCR"),
        "Eight hosts with three workers each. No row is shared before the run; each point warms up until as \
         many rows move out as in, for 0.3 s at most.",
        "SCR for shared rows, MiB at full scale",
        &[COLUMNS[0].0, "rows moved in/s"],
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
        &[COLUMNS[0].0, "p50 until durable, ms", "p99 until durable, ms"],
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
        &[COLUMNS[0].0],
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
