//! Sizes of SCR.

use super::Figure;
use super::point::{CHURN, Points, THROUGHPUT, curves};
use super::run::{Mix, Run, Step};
use super::scheme::{Edition, Scheme};

const SCR_MB: [f64; 5] = [32.0, 64.0, 128.0, 256.0, 1024.0];

/// The set of popular objects changes once.
const PANELS: [(&str, Mix); 4] = [
    ("5 % writes, Zipf 0.99", Mix::writes(0.05)),
    ("50 % writes, Zipf 0.99", Mix::writes(0.5)),
    ("5 % writes, Zipf 0.7", Mix::writes(0.05).skewed(0.7)),
    ("50 % writes, Zipf 0.7", Mix::writes(0.5).skewed(0.7)),
];

pub(crate) const FIGURE: Figure = Figure {
    id: "7",
    title: "Sizes of the coherent region",
    about: "18 M objects are read and written, with more and more SCR.",
    x: "SCR",
    bars: false,
    measures: &[THROUGHPUT, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let run = |scheme, scr_mb| {
        let step = |(panel, mix)| Step::new(panel, mb(scr_mb), mix);
        Run { scr_mb, ..Run::new(scheme, PANELS.map(step).into()) }
    };
    [Scheme::Megalon, Scheme::HcMeta]
        .into_iter()
        .flat_map(|scheme| SCR_MB.map(|scr_mb| run(scheme, scr_mb)))
        .collect()
}

fn mb(scr_mb: f64) -> String {
    format!("{scr_mb} MB")
}

fn compare(points: &mut Points<'_>) {
    let panel = PANELS[0].0;
    points.speedup(Scheme::HcMeta, panel, "64 MB", &format!("64 MB, {panel}"), 11.0);
    let throughput = |points: &Points<'_>, curve: &str, x: &str| points.at(panel, curve, x).mops;
    let megalon = Scheme::Megalon.name();
    let sustained = throughput(points, megalon, "128 MB") / throughput(points, megalon, "1024 MB");
    let says = "sustains its throughput until SCR reaches 128MB";
    points.words(format!("megalon, 128 MB over 1024 MB, {panel}"), says, sustained);
    let (worst, curve) = (PANELS[3].0, Scheme::HcMeta.curve(Edition::Published));
    let ratio = points.megalon(worst, "64 MB").mops / points.at(worst, &curve, "64 MB").mops;
    let quantity = format!("megalon over hcmeta (as published), 64 MB, {worst}");
    points.words(quantity, "continues to deliver much higher performance", ratio);
    for (edition, curve) in curves(Scheme::HcMeta) {
        let lost = throughput(points, &curve, "256 MB") / throughput(points, &curve, "1024 MB");
        let quantity = format!("hcmeta ({}), 256 MB over 1024 MB, {panel}", edition.name());
        points.words(quantity, "drops sharply", lost);
    }
}
