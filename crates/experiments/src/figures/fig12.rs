//! Copies in each host's own memory.

use super::Figure;
use super::point::{COPY_READS, LATENCY, Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const READS: &str = "reads";

pub(crate) const FIGURE: Figure = Figure {
    id: "12",
    title: "Copies of objects",
    about: "18 M objects are read, of which each host copies up to 1 GB into its own memory.",
    x: "",
    bars: true,
    measures: &[LATENCY, THROUGHPUT, COPY_READS],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    [Scheme::Megalon, Scheme::MegalonCopies]
        .map(|scheme| Run::new(scheme, vec![Step::new("", READS, Mix::READS)]))
        .into()
}

fn compare(points: &mut Points<'_>) {
    let copies = points.at("", Scheme::MegalonCopies.name(), READS).mean_us;
    let ratio = points.megalon("", READS).mean_us / copies;
    points.about("mean latency without copies over with copies", 1.3, ratio);
}
