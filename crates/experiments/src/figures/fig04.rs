//! Threads, read-only.

use super::Figure;
use super::point::{LATENCY, Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

/// Threads of each host: the published scripts go from 6 to 48 in all.
const THREADS: [u32; 6] = [2, 4, 8, 12, 14, 16];
const FEW: &str = "12";
const LAST: &str = "48";

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
    let steps =
        |threads: u32| Step { threads, ..Step::new("", (3 * threads).to_string(), Mix::READS) };
    [Scheme::Megalon, Scheme::HcMetaUnlimited, Scheme::HcMeta, Scheme::HcMetaLocal]
        .map(|scheme| Run::new(scheme, THREADS.map(steps).into()))
        .into()
}

fn compare(points: &mut Points<'_>) {
    let unlimited = points.at("", Scheme::HcMetaUnlimited.name(), LAST).mops;
    let megalon = points.megalon("", LAST).mops;
    let says = "MEGALON\u{2019}s throughput exceeds that of HCMeta-Unlimited";
    points.words("megalon over hcmeta-unlimited, 48 threads", says, megalon / unlimited);
    for &edition in Scheme::HcMeta.editions() {
        let hcmeta = points.at("", &Scheme::HcMeta.curve(edition), LAST).mops;
        let local = points.at("", &Scheme::HcMetaLocal.curve(edition), LAST).mops;
        let few = points.at("", &Scheme::HcMeta.curve(edition), FEW).mops;
        let what = format!("hcmeta ({}), 48 threads over 12", edition.name());
        points.words(what, "HCMeta and HCMeta-Local do not scale", hcmeta / few);
        let what = format!("hcmeta over hcmeta-local ({}), 48 threads", edition.name());
        points.words(what, "HCMeta-Local performs worse than HCMeta", hcmeta / local);
    }
}
