//! Shares of objects that all hosts use.

use super::Figure;
use super::point::{CHURN, PARTITION_READS, Points, THROUGHPUT};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const PERCENT: [u32; 6] = [0, 20, 40, 60, 80, 100];

pub(crate) const FIGURE: Figure = Figure {
    id: "11",
    title: "Shared ratio",
    about: "18 M objects are read, of which a share is for all hosts and each other one for its owner \
            alone; so are the operations.",
    x: "% shared",
    bars: false,
    measures: &[THROUGHPUT, CHURN, PARTITION_READS],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let step = |percent: u32| {
        let mix = Mix::READS.shared(f64::from(percent) / 100.0);
        Step::new("", percent.to_string(), mix)
    };
    [Scheme::MegalonPartition, Scheme::HcMetaLocal]
        .map(|scheme| Run::new(scheme, PERCENT.map(step).into()))
        .into()
}

fn compare(points: &mut Points<'_>) {
    for &edition in Scheme::HcMetaLocal.editions() {
        let ratio = |points: &Points<'_>, x| {
            points.at("", Scheme::MegalonPartition.name(), x).mops
                / points.at("", &Scheme::HcMetaLocal.curve(edition), x).mops
        };
        let quantity = |x: &str| {
            format!("megalon with partitions over hcmeta-local ({}), {x} % shared", edition.name())
        };
        const LOW: &str = "matches HCMeta-Local\u{2019}s performance at low sharing";
        points.words(quantity("0"), LOW, ratio(points, "0"));
        points.words(quantity("20"), LOW, ratio(points, "20"));
        let says = "maintains significantly higher throughput";
        points.words(quantity("100"), says, ratio(points, "100"));
    }
}
