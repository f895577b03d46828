//! What churn costs.

use super::Figure;
use super::point::{CHURN, CHURN_COST, Points, curves};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

/// Where both have churn.
const SCR_MB: f64 = 64.0;
const WRITES: &str = "5 % writes";

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
            let step = Step::new("", WRITES, Mix::writes(0.05));
            Run { scr_mb: SCR_MB, ..Run::new(scheme, vec![step]) }
        })
        .into()
}

fn compare(points: &mut Points<'_>) {
    points.about("churn of megalon, µs", 5.4, points.megalon("", WRITES).churn_us);
    for (owners, curve) in curves(Scheme::HcMeta) {
        let cost = points.at("", &curve, WRITES).churn_us;
        points.about(format!("churn of hcmeta ({}), µs", owners.name()), 44.0, cost);
    }
}
