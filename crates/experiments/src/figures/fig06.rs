//! Sizes of datasets, reading and writing.

use super::point::{CHURN, Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;
use super::{Figure, fig05, millions};

const PANELS: [(&str, f64, f64); 2] = [("5 % writes", 0.05, 10.0), ("50 % writes", 0.5, 4.0)];

pub(crate) const FIGURE: Figure = Figure {
    id: "6",
    title: "Reading and writing, growing datasets",
    about: "More and more objects are read and written.",
    x: "objects",
    bars: false,
    measures: &[THROUGHPUT, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = |count, (panel, writes, _): (&str, f64, f64)| Step {
        millions: count,
        ..Step::new(panel, millions(count), Mix::writes(writes))
    };
    let steps = fig05::MILLIONS.iter().flat_map(|&count| PANELS.map(|panel| step(count, panel)));
    let steps: Vec<_> = steps.collect();
    [Scheme::Megalon, Scheme::HcMeta].map(|scheme| Run::new(scheme, steps.clone())).into()
}

fn compare(points: &mut Points<'_>) {
    for (panel, _, paper) in PANELS {
        let at = format!("{panel}, 24 M objects");
        points.speedup(Scheme::HcMeta, panel, &millions(24.0), &at, paper);
    }
}
