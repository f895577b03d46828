//! YCSB.

use super::Figure;
use super::point::{CHURN, Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

/// With the paper's ratios, of which it states those of B and C as a range. C is the read-only
/// workload of figure 5, so it has the upper end. D comes last, because it inserts.
const WORKLOADS: [(char, &str, f64); 5] =
    [('c', "C", 14.18), ('b', "B", 9.12), ('a', "A", 3.93), ('f', "F", 3.18), ('d', "D", 4.55)];

pub(crate) const FIGURE: Figure = Figure {
    id: "14",
    title: "YCSB",
    about: "18 M objects, YCSB's workloads A, B, C, D and F.",
    x: "workload",
    bars: true,
    measures: &[THROUGHPUT, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = |(letter, name, _)| Step::new("", name, Mix::stock(letter));
    [Scheme::Megalon, Scheme::HcMeta]
        .map(|scheme| Run::new(scheme, WORKLOADS.map(step).into()))
        .into()
}

fn compare(points: &mut Points<'_>) {
    for (_, x, paper) in WORKLOADS {
        points.speedup(Scheme::HcMeta, "", x, &format!("YCSB {x}"), paper);
        if ["B", "C"].contains(&x) {
            points.with_words(Scheme::HcMeta.editions().len(), "B and C: 9.12x\u{2013}14.18x");
        }
    }
}
