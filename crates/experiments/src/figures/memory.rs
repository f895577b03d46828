//! Memory (section 6.6).

use super::point::{MEMORY, Points};
use super::run::{Mix, Run, Step};
use super::scheme::{Edition, Scheme};
use super::{Figure, millions};

const COUNT: f64 = 24.0;

pub(crate) const FIGURE: Figure = Figure {
    id: "memory",
    title: "Memory (section 6.6)",
    about: "24 M objects that are read: what they take with all that belongs to them, on all hosts.",
    x: "",
    bars: true,
    measures: &[MEMORY],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = Step { millions: COUNT, ..Step::new("", millions(COUNT), Mix::READS) };
    [Scheme::Megalon, Scheme::HcMeta].map(|scheme| Run::new(scheme, vec![step.clone()])).into()
}

fn compare(points: &mut Points<'_>) {
    let x = millions(COUNT);
    let megalon = points.megalon("", &x).memory_gb;
    let hcmeta = points.at("", &Scheme::HcMeta.curve(Edition::Ours), &x).memory_gb;
    points.about("memory of megalon, GB", 27.71, megalon);
    points.about("memory of hcmeta, GB", 25.76, hcmeta);
    points.about("memory of megalon over hcmeta", 1.076, megalon / hcmeta);
}
