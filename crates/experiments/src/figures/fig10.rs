//! Widths of coherence records.

use tombolo_sharing::RecordWidth;

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
            each object has the width it needs. As published there is what the paper compares: 8 and 32 \
            bits.",
    x: "bits of a record",
    bars: false,
    measures: &[THROUGHPUT, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let run = |(width, name)| {
        let step = Step::new("", name, Mix::writes(0.5).skewed(0.7));
        let both = matches!(width, RecordWidth::Bits8 | RecordWidth::Bits32);
        Run { scr_mb: 32.0, width, both, ..Run::new(Scheme::Megalon, vec![step]) }
    };
    WIDTHS.map(run).into()
}

fn compare(points: &mut Points<'_>) {
    for (edition, curve) in curves(Scheme::Megalon) {
        let of = |x| points.at("", &curve, x).mops;
        let gain = of("8") / of("32");
        points.about(format!("8 bits over 32 bits ({})", edition.name()), 6.3, gain);
    }
    let of = |x| points.megalon("", x).mops;
    let gain = of("auto") / of("8");
    points.beyond("auto over 8 bits (ours)", gain);
}
