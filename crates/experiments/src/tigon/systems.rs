//! Figures that compare Tigon with databases whose rows stay at home: 4, 5 and 6.

use super::point::{Load, Messages, Point, System};
use super::sketch::{Sketch, THROUGHPUT, mib, panel};
use super::{Measured, TigonFigure};
use crate::figures::Drawn;

pub(super) const FIGURE_4: TigonFigure = TigonFigure { id: "4", points: points_4, draw: figure_4 };
pub(super) const FIGURE_5: TigonFigure = TigonFigure { id: "5", points: points_5, draw: figure_5 };
pub(super) const FIGURE_6: TigonFigure = TigonFigure { id: "6", points: points_6, draw: figure_6 };

/// Percentages of New-Orders and Payments that have to do with another warehouse.
pub(super) const REMOTE: [(u32, u32); 7] =
    [(0, 0), (10, 15), (20, 30), (30, 45), (40, 60), (50, 75), (60, 90)];

/// Percentages of transactions in two partitions.
pub(super) const CROSS: [u32; 7] = [0, 10, 20, 40, 60, 80, 100];

/// Percentages of operations that read.
const READS: [u32; 4] = [100, 95, 50, 0];

const HOSTS: [u8; 5] = [1, 2, 4, 6, 8];

/// Thousands of transactions a second of Motor, as the published data have them: under TPC-C, and
/// under YCSB by the percentage of reads.
const MOTOR_TPCC: f64 = 28.5;
const MOTOR_YCSB: [f64; 4] = [233.0, 209.0, 76.0, 39.0];

pub(super) const TPCC_ALL_REMOTE: Load = Load::Tpcc { orders: 60, payments: 90 };
pub(super) const TPCC_LOCAL: Load = Load::Tpcc { orders: 0, payments: 0 };
const TPCC_USUAL: Load = Load::Tpcc { orders: 10, payments: 15 };
pub(super) const YCSB_ALL_CROSS: Load = Load::Ycsb { reads: 95, cross: 100 };

pub(super) fn tpcc((orders, payments): (u32, u32)) -> Point {
    Point::new(Load::Tpcc { orders, payments })
}

pub(super) fn of(system: System, load: Load) -> Point {
    Point { system, ..Point::new(load) }
}

fn own_steps(point: Point) -> Point {
    Point { has_published_steps: false, ..point }
}

const ALL_MESSAGES: [Messages; 3] = [Messages::Network, Messages::Pod, Messages::PodAndWorker];

/// The panels of figure 4, and the systems in each.
fn panels_4() -> [(&'static str, Vec<System>); 3] {
    let mut compared = System::DRAWN.to_vec();
    compared.push(System::NO_NEXT_KEY_LOCKS);
    [
        ("4a", ALL_MESSAGES.map(System::Sundial).to_vec()),
        ("4b", ALL_MESSAGES.map(System::Ds2pl).to_vec()),
        ("4c", compared),
    ]
}

fn points_4() -> Vec<Point> {
    let systems = panels_4().into_iter().flat_map(|(_, systems)| systems);
    let points = systems.flat_map(|system| REMOTE.map(|at| Point { system, ..tpcc(at) }));
    points.chain(REMOTE.map(|at| own_steps(tpcc(at)))).collect()
}

fn figure_4(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("4", "TPC-C as published"),
        "Eight hosts with three workers each, or two beside a thread for messages (-NET, -CXL). All CUSTOMER \
         and STOCK rows are shared before the run. Sundial lets phantoms in, as published; Tigon without \
         next-key locks does, too. Motor is as published.",
        "New-Orders/Payments of other warehouses, %",
        &[THROUGHPUT],
    );
    let x = |(orders, payments)| format!("{orders}/{payments}");
    for (panel, systems) in panels_4() {
        for at in REMOTE {
            for &system in &systems {
                let ran = measured.at(Point { system, ..tpcc(at) });
                sketch.point(panel, system.name(), x(at), ran);
            }
            if panel == "4c" {
                sketch.point(panel, "Tigon, our steps", x(at), measured.at(own_steps(tpcc(at))));
                sketch.given(panel, "Motor", x(at), MOTOR_TPCC);
            }
        }
    }
    rows_of_4ab(&mut sketch, measured);
    rows_of_4c(&mut sketch, measured);
    sketch.drawn
}

/// A baseline's name and system, and how much faster it is with all improvements: at 0/0 and at
/// 60/90.
type Family = (&'static str, fn(Messages) -> System, f64, f64);

fn rows_of_4ab(sketch: &mut Sketch, measured: &Measured) {
    let families: [Family; 2] =
        [("Sundial", System::Sundial, 1.39, 4.2), ("DS2PL", System::Ds2pl, 1.32, 3.9)];
    for (name, system, local, remote) in families {
        let [net, cxl, plus] = ALL_MESSAGES.map(system);
        let over = |one, other, load| measured.ratio(of(one, load), of(other, load));
        let says = |what: &str| format!("{name}, {what}");
        sketch.states(says("+ over -NET, 0/0"), local, over(plus, net, TPCC_LOCAL));
        sketch.states(says("-CXL over -NET, 60/90"), 2.0, over(cxl, net, TPCC_ALL_REMOTE));
        sketch.states(says("+ over -NET, 60/90"), remote, over(plus, net, TPCC_ALL_REMOTE));
    }
}

fn rows_of_4c(sketch: &mut Sketch, measured: &Measured) {
    let at = |system, load| measured.at(of(system, load));
    let over = |one, other, load| measured.ratio(of(one, load), of(other, load));
    let [local, remote] = [TPCC_LOCAL, TPCC_ALL_REMOTE].map(|load| at(System::TIGON, load));
    sketch.states("Tigon, 0/0, thousand transactions/s", 528.0, local.thousands());
    sketch.states("Tigon, 60/90, thousand transactions/s", 460.0, remote.thousands());
    let falls = remote.thousands() / local.thousands();
    sketch.states("Tigon, 60/90 over 0/0", 460.0 / 528.0, falls);
    let own = measured.at(own_steps(Point::new(TPCC_LOCAL))).thousands();
    sketch.says("Tigon, 0/0, our steps, thousand transactions/s", "528 with its steps", own);
    for (name, system, ahead, behind, messages) in
        [("Sundial+", System::SUNDIAL, 1.37, 1.75, 3.3), ("DS2PL+", System::DS2PL, 1.085, 2.5, 4.1)]
    {
        let ours = over(system, System::TIGON, TPCC_LOCAL);
        sketch.states(format!("{name} over Tigon, 0/0"), ahead, ours);
        let ours = over(System::TIGON, system, TPCC_ALL_REMOTE);
        sketch.states(format!("Tigon over {name}, 60/90"), behind, ours);
        let ran = at(system, TPCC_ALL_REMOTE);
        let ours = ran.each(ran.shared.messages);
        sketch.states(format!("{name}, 60/90, messages a transaction"), messages, ours);
    }
    let over_motor = "Tigon over Motor";
    sketch.states(format!("{over_motor}, 0/0"), 18.5, local.thousands() / MOTOR_TPCC);
    sketch.states(format!("{over_motor}, 60/90"), 15.9, remote.thousands() / MOTOR_TPCC);
    let messages = remote.each(remote.shared.messages);
    sketch.says("Tigon, 60/90, messages a transaction", "0", messages);
    let scr = mib(remote.shared.scr_bytes) / measured.scale;
    sketch.states("Tigon, 60/90, SCR in use over scale, MiB", 176.0, scr);
    let out = remote.per_second(remote.shared.moved_out);
    sketch.says("Tigon, 60/90, rows moved out/s", "nothing is moved out", out);
    for load in [TPCC_LOCAL, TPCC_USUAL, TPCC_ALL_REMOTE] {
        let ours = over(System::TIGON, System::NO_NEXT_KEY_LOCKS, load);
        let name = format!("{}, with next-key locks over without", panel(load));
        sketch.states(name, 0.89, ours);
    }
    let ours = over(System::NO_NEXT_KEY_LOCKS, System::SUNDIAL, TPCC_USUAL);
    sketch.states("Tigon without next-key locks over Sundial+, 10/15", 1.058, ours);
}

fn points_5() -> Vec<Point> {
    let loads = READS.into_iter().flat_map(|reads| CROSS.map(|cross| Load::Ycsb { reads, cross }));
    let points = loads.flat_map(|load| System::DRAWN.map(|system| of(system, load)));
    points.chain(System::DRAWN.map(skewed)).collect()
}

/// A workload of which few rows take most accesses.
fn skewed(system: System) -> Point {
    Point { theta: 99, ..of(system, Load::Ycsb { reads: 50, cross: 100 }) }
}

fn figure_5(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("5", "YCSB with transactions, as published"),
        "Eight hosts with three workers each, skew 0.7. All rows are shared before the run. Motor is as \
         published.",
        "transactions in two partitions, %",
        &[THROUGHPUT],
    );
    for (reads, motor) in READS.into_iter().zip(MOTOR_YCSB) {
        let panel = format!("{reads} % reads");
        for cross in CROSS {
            for system in System::DRAWN {
                let ran = measured.at(of(system, Load::Ycsb { reads, cross }));
                sketch.point(&panel, system.name(), cross.to_string(), ran);
            }
            sketch.given(&panel, "Motor", cross.to_string(), motor);
        }
    }
    for system in System::DRAWN {
        let panel = "50 % reads, skew 0.99";
        sketch.point(panel, system.name(), "100".into(), measured.at(skewed(system)));
    }
    rows_of_5(&mut sketch, measured);
    sketch.drawn
}

fn rows_of_5(sketch: &mut Sketch, measured: &Measured) {
    let over = |other, reads, cross| {
        let load = Load::Ycsb { reads, cross };
        measured.ratio(of(System::TIGON, load), of(other, load))
    };
    for (reads, name) in [(95, "95"), (50, "50"), (0, "0")] {
        for (system, other) in [(System::SUNDIAL, "Sundial+"), (System::DS2PL, "DS2PL+")] {
            let quantity = format!("{name} % reads, 0 % cross, Tigon over {other}");
            sketch.says(quantity, "within 3.3 %", over(system, reads, 0));
        }
    }
    for (system, other) in [(System::SUNDIAL, "Sundial+"), (System::DS2PL, "DS2PL+")] {
        let quantity = format!("100 % reads, 20 % cross, Tigon over {other}");
        sketch.says(quantity, "Tigon is ahead", over(system, 100, 20));
    }
    let range = |ratios: &[f64]| {
        let least = ratios.iter().copied().fold(f64::MAX, f64::min);
        (least, ratios.iter().copied().fold(0.0, f64::max))
    };
    let (least, most) = range(&READS.map(|reads| over(System::SUNDIAL, reads, 100)));
    sketch.states("Tigon over Sundial+, 100 % cross, least of four mixes", 2.0, least);
    sketch.states("Tigon over Sundial+, 100 % cross, most of four mixes", 2.3, most);
    let motor: Vec<f64> = READS
        .into_iter()
        .zip(MOTOR_YCSB)
        .map(|(reads, motor)| {
            let ran = measured.at(Point::new(Load::Ycsb { reads, cross: 100 }));
            ran.thousands() / motor
        })
        .collect();
    let (least, most) = range(&motor);
    sketch.states("Tigon over Motor, 100 % cross, least of four mixes", 5.4, least);
    sketch.states("Tigon over Motor, 100 % cross, most of four mixes", 14.3, most);
    for (system, name, stated) in
        [(System::SUNDIAL, "Sundial+", 2.7), (System::DS2PL, "DS2PL+", 3.5)]
    {
        let ours = measured.ratio(skewed(System::TIGON), skewed(system));
        sketch.states(format!("skew 0.99, 50 % reads, Tigon over {name}"), stated, ours);
    }
    let ran = measured.at(Point::new(YCSB_ALL_CROSS));
    let scr = mib(ran.shared.scr_bytes) / measured.scale;
    sketch.states("Tigon, SCR in use over scale, MiB", 112.0, scr);
    let out = ran.per_second(ran.shared.moved_out);
    sketch.says("Tigon, 95 % reads, 100 % cross, rows moved out/s", "nothing is moved out", out);
}

fn points_6() -> Vec<Point> {
    let loads = [TPCC_ALL_REMOTE, YCSB_ALL_CROSS].into_iter();
    let systems =
        loads.flat_map(|load| System::DRAWN.into_iter().map(move |system| of(system, load)));
    systems.flat_map(|point| HOSTS.map(|hosts| Point { hosts, ..point })).collect()
}

fn figure_6(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("6", "More hosts"),
        "Three workers a host, as many warehouses as workers, and 300,000 rows a host. All rows that others may \
         ask for are shared before the run.",
        "hosts",
        &[THROUGHPUT],
    );
    for point in points_6() {
        let name = point.system.name();
        sketch.point(&panel(point.load), name, point.hosts.to_string(), measured.at(point));
    }
    let stated = [
        (TPCC_ALL_REMOTE, [(5.7, 55.1), (2.4, 29.9), (2.1, 21.6)]),
        (YCSB_ALL_CROSS, [(3.5, 137.5), (1.4, 61.1), (1.5, 63.0)]),
    ];
    for (load, of_systems) in stated {
        for (system, (over_one, slope)) in System::COMPARED.into_iter().zip(of_systems) {
            let at = |hosts| measured.at(Point { hosts, ..of(system, load) }).thousands();
            let name = format!("{}, {}", system.name(), panel(load));
            sketch.states(format!("{name}, 8 hosts over 1"), over_one, at(8) / at(1));
            let ours = (at(8) - at(2)) / 6.0;
            sketch.states(format!("{name}, thousand/s for each host, 2 to 8"), slope, ours);
        }
    }
    sketch.drawn
}
