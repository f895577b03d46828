//! Figures in the making: what is told of each point, and what the paper states.

use super::Measured;
use super::lab::Ran;
use super::point::{Load, Point};
use crate::figures::{Drawn, Place, Row, Shown};

pub(super) type Quantity = fn(&Ran) -> f64;

/// All that is told of a point.
pub(super) const COLUMNS: [(&str, Quantity); 17] = [
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

pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The quantity that most figures show.
pub(super) const THROUGHPUT: &str = COLUMNS[0].0;

/// A figure in the making.
pub(super) struct Sketch {
    pub(super) drawn: Drawn,
    quantities: Vec<Quantity>,
}

impl Sketch {
    pub(super) fn new(
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

    pub(super) fn point(&mut self, panel: &str, curve: &str, x: String, ran: &Ran) {
        self.place(panel, curve, x);
        for (shown, quantity) in self.drawn.shown.iter_mut().zip(&self.quantities) {
            shown.values.push(quantity(ran));
        }
        for ((_, values), (_, quantity)) in self.drawn.columns.iter_mut().zip(COLUMNS) {
            values.push(quantity(ran));
        }
    }

    /// A point of which the throughput alone is known, and not measured here.
    pub(super) fn given(&mut self, panel: &str, curve: &str, x: String, thousands: f64) {
        self.place(panel, curve, x);
        self.drawn.shown.iter_mut().for_each(|shown| shown.values.push(thousands));
        for (name, values) in &mut self.drawn.columns {
            values.push(if *name == COLUMNS[0].0 { thousands } else { f64::NAN });
        }
    }

    pub(super) fn states(&mut self, quantity: impl Into<String>, paper: f64, ours: f64) {
        let row = Row::new(self.drawn.id, quantity.into(), Some(paper), None, ours);
        self.drawn.rows.push(row);
    }

    pub(super) fn says(&mut self, quantity: impl Into<String>, says: &'static str, ours: f64) {
        let row = Row::new(self.drawn.id, quantity.into(), None, Some(says), ours);
        self.drawn.rows.push(row);
    }
}

/// A panel for each workload.
pub(super) fn panel(load: Load) -> String {
    match load {
        Load::Tpcc { orders, payments } => format!("TPC-C, {orders}/{payments}"),
        Load::Ycsb { reads, cross } => format!("YCSB, {reads} % reads, {cross} % cross"),
    }
}

impl Measured {
    /// How many times as fast as another point one is.
    pub(super) fn ratio(&self, one: Point, other: Point) -> f64 {
        self.at(one).thousands() / self.at(other).thousands()
    }
}
