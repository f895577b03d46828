//! All metadata in the log.

use super::Figure;
use super::point::{Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const MIXES: [(&str, f64); 3] = [("read-only", 0.0), ("5 % writes", 0.05), ("50 % writes", 0.5)];

pub(crate) const FIGURE: Figure = Figure {
    id: "13",
    title: "All metadata in the log",
    about: "18 M objects. AllLog locks objects by entries in the log, of which each host applies all.",
    x: "",
    bars: true,
    measures: &[THROUGHPUT],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = |(name, writes)| Step::new("", name, Mix::writes(writes));
    [Scheme::Megalon, Scheme::AllLog].map(|scheme| Run::new(scheme, MIXES.map(step).into())).into()
}

fn compare(points: &mut Points<'_>) {
    let [(reads, _), _, (writes, _)] = MIXES;
    let ratio = points.megalon("", reads).mops / points.at("", Scheme::AllLog.name(), reads).mops;
    points.words(format!("megalon over alllog, {reads}"), "performs similar to MEGALON", ratio);
    points.speedup(Scheme::AllLog, "", writes, writes, 4.14);
}
