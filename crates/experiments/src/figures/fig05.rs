//! Sizes of datasets, read-only.

use super::point::{CHURN, LATENCY, Points, THROUGHPUT, curves};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;
use super::{Figure, millions};

pub(crate) const MILLIONS: [f64; 5] = [2.4, 4.8, 9.6, 18.0, 24.0];

pub(crate) const FIGURE: Figure = Figure {
    id: "5",
    title: "Read-only, growing datasets",
    about: "More and more objects are read.",
    x: "objects",
    bars: false,
    measures: &[THROUGHPUT, LATENCY, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = |count| Step { millions: count, ..Step::new("", millions(count), Mix::READS) };
    [Scheme::Megalon, Scheme::HcMetaUnlimited, Scheme::HcMeta, Scheme::HcMetaLocal]
        .map(|scheme| Run::new(scheme, MILLIONS.map(step).into()))
        .into()
}

fn compare(points: &mut Points<'_>) {
    points.speedup(Scheme::HcMeta, "", &millions(2.4), "2.4 M objects", 1.2);
    points.speedup(Scheme::HcMeta, "", &millions(24.0), "24 M objects", 15.25);
    let megalon = points.megalon("", &millions(24.0)).mops;
    points.about("megalon, 24 M objects, Mops/s", 24.4, megalon);
    for (edition, curve) in curves(Scheme::HcMeta) {
        let hcmeta = points.at("", &curve, &millions(24.0)).mops;
        points.about(format!("hcmeta ({}), 24 M objects, Mops/s", edition.name()), 1.6, hcmeta);
    }
}
