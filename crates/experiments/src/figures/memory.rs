//! Memory (section 6.6).

use super::point::{MEMORY, Points};
use super::run::{Mix, Run, Step};
use super::scheme::{Edition, Scheme};
use super::{Figure, millions};

const COUNT: f64 = 24.0;

pub(crate) const FIGURE: Figure = Figure {
    id: "memory",
    title: "Memory (section 6.6)",
    about: "24 M objects: what they take with all that belongs to them, on all hosts.",
    x: "",
    bars: true,
    measures: &[MEMORY],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = Step { millions: COUNT, ..Step::new("", millions(COUNT), Mix::NONE) };
    let run = |scheme| Run { both: true, ..Run::new(scheme, vec![step.clone()]) };
    [Scheme::Megalon, Scheme::HcMeta].map(run).into()
}

fn compare(points: &mut Points<'_>) {
    let x = millions(COUNT);
    let of = |points: &Points<'_>, scheme: Scheme, edition| {
        points.at("", &scheme.curve(edition), &x).memory_gb
    };
    for edition in Edition::ALL {
        let megalon = of(points, Scheme::Megalon, edition);
        let hcmeta = of(points, Scheme::HcMeta, edition);
        let edition = edition.name();
        points.about(format!("memory of megalon ({edition}), GB"), 27.71, megalon);
        points.about(format!("memory of hcmeta ({edition}), GB"), 25.76, hcmeta);
        points.about(format!("memory of megalon over hcmeta ({edition})"), 1.076, megalon / hcmeta);
    }
}
