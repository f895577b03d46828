//! The cost of churn.

use super::Figure;
use super::point::{CHURN, CHURN_COST, Points, curves};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const SCHEMES: [Scheme; 2] = [Scheme::Megalon, Scheme::HcMeta];
const PAPER_US: [f64; 2] = [5.4, 44.0];
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
    SCHEMES
        .map(|scheme| {
            let step = |(name, threads)| Step { threads, ..Step::new("", name, Mix::writes(0.05)) };
            Run { scr_mb: SCR_MB, both: true, ..Run::new(scheme, THREADS.map(step).into()) }
        })
        .into()
}

fn compare(points: &mut Points<'_>) {
    let [(alone, _), (together, _)] = THREADS;
    let of = |points: &Points<'_>, curve: &str, x| points.at("", curve, x).churn_us;
    for (scheme, paper) in SCHEMES.into_iter().zip(PAPER_US) {
        for (edition, curve) in curves(scheme) {
            let churn = format!("churn of {} ({})", scheme.name(), edition.name());
            points.about(format!("{churn}, {alone}, µs"), paper, of(points, &curve, alone));
            points.beyond(format!("{churn}, {together}, µs"), of(points, &curve, together));
        }
    }
}
