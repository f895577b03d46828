//! What churn costs.

use super::Figure;
use super::point::{CHURN, CHURN_COST, Points, curves};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

/// Where both have churn.
const SCR_MB: f64 = 64.0;
/// Threads of each host: of one nobody waits for anybody.
const THREADS: [(&str, u32); 2] = [("1 thread per host", 1), ("14 threads per host", 14)];

pub(crate) const FIGURE: Figure = Figure {
    id: "8",
    title: "The cost of churn",
    about: "18 M objects, 5 % writes, 64 MB of SCR: what an operation takes longer if it has \
            to get a record, or an entry. How many threads did so in the paper, it does not say.",
    x: "",
    bars: true,
    measures: &[CHURN_COST, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    [Scheme::Megalon, Scheme::HcMeta]
        .map(|scheme| {
            let step = |(name, threads)| Step { threads, ..Step::new("", name, Mix::writes(0.05)) };
            Run { scr_mb: SCR_MB, ..Run::new(scheme, THREADS.map(step).into()) }
        })
        .into()
}

fn compare(points: &mut Points<'_>) {
    let [(alone, _), (together, _)] = THREADS;
    let cost = |points: &Points<'_>, curve: &str, x| points.at("", curve, x).churn_us;
    let name = Scheme::Megalon.name();
    points.about(format!("churn of megalon, {alone}, µs"), 5.4, cost(points, name, alone));
    for (edition, curve) in curves(Scheme::HcMeta) {
        let quantity = format!("churn of hcmeta ({}), {alone}, µs", edition.name());
        points.about(quantity, 44.0, cost(points, &curve, alone));
    }
    points.beyond(format!("churn of megalon, {together}, µs"), cost(points, name, together));
    for (edition, curve) in curves(Scheme::HcMeta) {
        let quantity = format!("churn of hcmeta ({}), {together}, µs", edition.name());
        points.beyond(quantity, cost(points, &curve, together));
    }
}
