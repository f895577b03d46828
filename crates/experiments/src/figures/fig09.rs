//! Sizes of keys.

use super::Figure;
use super::point::{CHURN, Points, THROUGHPUT, curves};
use super::run::{Mix, Run, Step};
use super::scheme::Scheme;

const KEY_BYTES: [u32; 4] = [10, 30, 60, 90];

pub(crate) const FIGURE: Figure = Figure {
    id: "9",
    title: "Sizes of keys",
    about: "4.8 M objects are read, whose keys are longer and longer.",
    x: "bytes of a key",
    bars: false,
    measures: &[THROUGHPUT, CHURN],
    runs,
    compare,
};

fn runs() -> Vec<Run> {
    let run = |scheme, key_bytes: u32| {
        let step = Step { millions: 4.8, ..Step::new("", key_bytes.to_string(), Mix::READS) };
        Run { key_bytes, ..Run::new(scheme, vec![step]) }
    };
    [Scheme::Megalon, Scheme::HcMeta]
        .into_iter()
        .flat_map(|scheme| KEY_BYTES.map(|key_bytes| run(scheme, key_bytes)))
        .collect()
}

fn compare(points: &mut Points<'_>) {
    let ratio = |curve: &str| points.at("", curve, "90").mops / points.at("", curve, "10").mops;
    let megalon = ratio(Scheme::Megalon.name());
    let hcmeta: Vec<_> =
        curves(Scheme::HcMeta).map(|(edition, curve)| (edition, ratio(&curve))).collect();
    let says = "maintains high throughput across all key sizes";
    points.words("megalon, keys of 90 bytes over 10 bytes", says, megalon);
    for (edition, ratio) in hcmeta {
        let quantity = format!("hcmeta ({}), keys of 90 bytes over 10 bytes", edition.name());
        points.words(quantity, "lower throughput for larger keys", ratio);
    }
}
