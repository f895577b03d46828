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
            to get a record, or an entry.",
    x: "",
    bars: true,
    measures: &[CHURN_COST, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    [Scheme::Megalon, Scheme::HcMeta]
        .map(|scheme| {
            let step = |(name, threads)| Step {
                threads: Some(threads),
                ..Step::new("", name, Mix::writes(0.05))
            };
            Run { scr_mb: SCR_MB, ..Run::new(scheme, THREADS.map(step).into()) }
        })
        .into()
}

fn compare(points: &mut Points<'_>) {
    for (x, _) in THREADS {
        points.about(format!("churn of megalon, {x}, µs"), 5.4, points.megalon("", x).churn_us);
        for (owners, curve) in curves(Scheme::HcMeta) {
            let cost = points.at("", &curve, x).churn_us;
            points.about(format!("churn of hcmeta ({}), {x}, µs", owners.name()), 44.0, cost);
        }
    }
}
