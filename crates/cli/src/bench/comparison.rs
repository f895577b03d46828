//! Schemes in turn: what each came to, and how much faster MEGALON is.

use std::collections::BTreeMap;

use serde::Serialize;
use tombolo::format_size;

use super::report::{Report, us};
use crate::cli::Scheme;
use crate::output::table;

/// Runs so far, of each scheme.
pub(crate) struct Comparison {
    runs: Vec<(Scheme, Vec<Report>)>,
}

/// What came of it.
#[derive(Serialize)]
pub(crate) struct Outcome {
    /// The median run of each scheme.
    results: Vec<Report>,
    /// Operations per second of megalon over those of each other scheme.
    ratios: BTreeMap<&'static str, f64>,
}

impl Comparison {
    /// Of these schemes, each once, with MEGALON, which comes first.
    pub(crate) fn of(schemes: &[Scheme]) -> Self {
        let mut runs = vec![(Scheme::Megalon, Vec::new())];
        for &scheme in schemes {
            if runs.iter().all(|&(known, _)| known != scheme) {
                runs.push((scheme, Vec::new()));
            }
        }
        Self { runs }
    }

    pub(crate) fn schemes(&self) -> Vec<Scheme> {
        self.runs.iter().map(|&(scheme, _)| scheme).collect()
    }

    pub(crate) fn add(&mut self, scheme: Scheme, report: Report) {
        let of_scheme = self.runs.iter_mut().find(|(known, _)| *known == scheme);
        of_scheme.expect("it is one of those compared").1.push(report);
    }

    pub(crate) fn outcome(mut self) -> Outcome {
        let median = |runs: &mut Vec<Report>| {
            runs.sort_by(|one, other| one.ops_per_s.total_cmp(&other.ops_per_s));
            runs.get(runs.len() / 2).cloned()
        };
        let results: Vec<Report> =
            self.runs.iter_mut().filter_map(|(_, runs)| median(runs)).collect();
        let ratios = results[1..]
            .iter()
            .map(|other| (other.scheme, results[0].ops_per_s / other.ops_per_s))
            .collect();
        Outcome { results, ratios }
    }
}

impl Outcome {
    pub(crate) fn text(&self) -> String {
        let mut rows = table(&[
            "scheme",
            "ops/s",
            "megalon is",
            "churn/op",
            "churn costs",
            "SCR used",
            "mean",
            "p50",
            "p99",
        ]);
        for report in &self.results {
            let ratio = self.ratios.get(report.scheme);
            rows.add_row([
                report.scheme.to_owned(),
                format!("{:.0}", report.ops_per_s),
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x as fast")),
                format!("{:.4}", report.churn_per_op),
                report.churn_cost(),
                format_size(report.scr_bytes_used),
                us(report.latency_ns.mean),
                us(report.latency_ns.p50 as f64),
                us(report.latency_ns.p99 as f64),
            ]);
        }
        format!("{rows}\n")
    }
}
