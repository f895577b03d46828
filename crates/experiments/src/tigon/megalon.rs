//! Figures 1a and 1b of the MEGALON paper: Tigon with little SCR, and with as much as it can use.

use super::point::{Load, Point, UNLIMITED_SCR_MIB};
use super::sketch::{Sketch, THROUGHPUT};
use super::{Measured, TigonFigure};
use crate::figures::Drawn;

pub(super) const FIGURE_1A: TigonFigure =
    TigonFigure { id: "megalon-1a", points: points_1a, draw: figure_1a };
pub(super) const FIGURE_1B: TigonFigure =
    TigonFigure { id: "megalon-1b", points: points_1b, draw: figure_1b };

/// SCR in MiB, and the name of its curve.
const SCR: [(u32, &str); 2] = [(100, "100 MB"), (UNLIMITED_SCR_MIB, "unlimited")];

/// Of 100 transactions, those in two partitions.
const CROSS: [u32; 6] = [0, 20, 40, 60, 80, 100];

/// Thousand rows of each of eight hosts: 2.4 to 24 million in all.
const ROWS: [u32; 4] = [300, 750, 1500, 3000];

/// 12 million rows in all.
const ROWS_OF_1A: u32 = 1500;
const CROSS_OF_1B: u32 = 20;

fn point(cross: u32, rows: u32, scr_mib: u32) -> Point {
    Point { rows, scr_mib, ..Point::new(Load::Ycsb { reads: 100, cross }) }
}

fn points_1a() -> Vec<Point> {
    let all = SCR.into_iter();
    all.flat_map(|(scr, _)| CROSS.map(|cross| point(cross, ROWS_OF_1A, scr))).collect()
}

fn points_1b() -> Vec<Point> {
    let all = SCR.into_iter();
    all.flat_map(|(scr, _)| ROWS.map(|rows| point(CROSS_OF_1B, rows, scr))).collect()
}

fn figure_1a(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("megalon-1a", "MEGALON paper, figure 1a: more transactions in two partitions"),
        "YCSB that only reads, 12 million rows, skew 0.7, on eight hosts with three workers each. Rows are shared \
         before the run as far as they fit.",
        "transactions in two partitions, %",
        &[THROUGHPUT, "rows moved in/s"],
    );
    let at = |cross, scr| measured.at(point(cross, ROWS_OF_1A, scr));
    for (scr, name) in SCR {
        for cross in CROSS {
            sketch.point("1a", name, cross.to_string(), at(cross, scr));
        }
    }
    let over = |cross| at(cross, 100).thousands() / at(cross, UNLIMITED_SCR_MIB).thousands();
    sketch.says("0 % cross, 100 MB over unlimited", "both perform well", over(0));
    sketch.says("100 % cross, 100 MB over unlimited", "lower", over(100));
    sketch.drawn
}

fn figure_1b(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        ("megalon-1b", "MEGALON paper, figure 1b: more rows"),
        "YCSB that only reads, 20 % of transactions in two partitions, skew 0.7, on eight hosts with three workers \
         each. Rows are shared before the run as far as they fit.",
        "million rows at full scale",
        &[THROUGHPUT, "rows moved in/s"],
    );
    let at = |rows, scr| measured.at(point(CROSS_OF_1B, rows, scr));
    for (scr, name) in SCR {
        for rows in ROWS {
            let millions = f64::from(rows) * 8.0 / 1000.0;
            sketch.point("1b", name, format!("{millions}"), at(rows, scr));
        }
    }
    let [fewest, .., most] = ROWS;
    let ours = at(fewest, 100).thousands() / at(most, 100).thousands();
    sketch.states("100 MB, 2.4 million rows over 24 million", 10.0, ours);
    let over = at(fewest, 100).thousands() / at(fewest, UNLIMITED_SCR_MIB).thousands();
    sketch.says("2.4 million rows, 100 MB over unlimited", "both perform well", over);
    sketch.drawn
}
