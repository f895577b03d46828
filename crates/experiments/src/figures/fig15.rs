//! The page cache.

use super::Figure;
use super::point::{CHURN, Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const MIXES: [(&str, f64); 3] = [("read-only", 0.0), ("5 % writes", 0.05), ("50 % writes", 0.5)];

/// Pages of 48 GB.
const MILLIONS: f64 = 12.0;

pub(crate) const FIGURE: Figure = Figure {
    id: "15",
    title: "Page cache",
    about: "12 M pages of 4 KiB are read and written in a page cache that has room for all of them. The file \
            below takes no time.",
    x: "",
    bars: true,
    measures: &[THROUGHPUT, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = |(name, writes)| Step {
        millions: MILLIONS,
        threads: Mix::READS.threads(),
        ..Step::new("", name, Mix::writes(writes))
    };
    [Scheme::Megalon, Scheme::HcMeta]
        .map(|scheme| Run { pages: true, ..Run::new(scheme, MIXES.map(step).into()) })
        .into()
}

fn compare(points: &mut Points<'_>) {
    for (x, _) in MIXES {
        for &edition in Scheme::HcMeta.editions() {
            let hcmeta = points.at("", &Scheme::HcMeta.curve(edition), x).mops;
            let quantity = format!("megalon over hcmeta ({}), {x}", edition.name());
            let says = "improving performance by 1.9\u{00d7}\u{2013}5.7\u{00d7}";
            points.words(quantity, says, points.megalon("", x).mops / hcmeta);
        }
    }
}
