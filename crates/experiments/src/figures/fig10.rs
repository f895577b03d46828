//! Widths of coherence records.

use tombolo_pod::RecordWidth;

use super::Figure;
use super::point::{CHURN, Points, THROUGHPUT, curves};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const WIDTHS: [(RecordWidth, &str); 5] = [
    (RecordWidth::Bits8, "8"),
    (RecordWidth::Bits16, "16"),
    (RecordWidth::Bits24, "24"),
    (RecordWidth::Bits32, "32"),
    (RecordWidth::Auto, "auto"),
];

pub(crate) const FIGURE: Figure = Figure {
    id: "10",
    title: "Smaller coherence records",
    about: "18 M objects, 50 % writes, Zipf 0.7, 32 MB of SCR. With auto, which the paper does not have, \
            each object has the width it needs.",
    x: "bits of a record",
    bars: false,
    measures: &[THROUGHPUT, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let run = |(width, name)| {
        let step = Step::new("", name, Mix::writes(0.5).skewed(0.7));
        Run { scr_mb: 32.0, width, both: true, ..Run::new(Scheme::Megalon, vec![step]) }
    };
    WIDTHS.map(run).into()
}

fn compare(points: &mut Points<'_>) {
    for (edition, curve) in curves(Scheme::Megalon) {
        let of = |x| points.at("", &curve, x).mops;
        let (narrow, auto, wide) = (of("8"), of("auto"), of("32"));
        let edition = edition.name();
        points.about(format!("8 bits over 32 bits ({edition})"), 6.3, narrow / wide);
        points.beyond(format!("auto over 8 bits ({edition})"), auto / narrow);
    }
}
