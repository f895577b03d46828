//! Threads, read-only.

use super::Figure;
use super::point::{LATENCY, Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const THREADS: [u32; 6] = [1, 4, 8, 12, 18, 24];
const LAST: &str = "72";

pub(crate) const FIGURE: Figure = Figure {
    id: "4",
    title: "Read-only workload",
    about: "18 M objects are read, by more and more threads.",
    x: "threads",
    bars: false,
    measures: &[THROUGHPUT, LATENCY],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let steps = |threads: u32| Step {
        threads: Some(threads),
        ..Step::new("", (3 * threads).to_string(), Mix::READS)
    };
    [Scheme::Megalon, Scheme::HcMetaUnlimited, Scheme::HcMeta, Scheme::HcMetaLocal]
        .map(|scheme| Run::new(scheme, THREADS.map(steps).into()))
        .into()
}

fn compare(points: &mut Points<'_>) {
    let unlimited = points.at("", Scheme::HcMetaUnlimited.name(), LAST).mops;
    let megalon = points.megalon("", LAST).mops;
    points.at_least("megalon over hcmeta-unlimited, 72 threads", 1.0, megalon / unlimited);
    for &owners in Scheme::HcMeta.owners() {
        let hcmeta = points.at("", &Scheme::HcMeta.curve(owners), LAST).mops;
        let local = points.at("", &Scheme::HcMetaLocal.curve(owners), LAST).mops;
        let what = format!("hcmeta over hcmeta-local ({}), 72 threads", owners.name());
        points.at_least(what, 1.0, hcmeta / local);
    }
}
