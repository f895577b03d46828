//! Schemes or engines in turn: what each came to, and how much faster the first one is.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::output::table;

/// The result of a run, to be compared with others.
pub(crate) trait Compared: Clone + Serialize {
    /// The kind of thing that is compared, as a word.
    const OF: &str = "scheme";

    /// How speed is counted.
    const SPEED: &str = "ops/s";

    /// The further columns of each run, besides scheme and speed.
    const COLUMNS: &[&str];

    /// Which scheme it was.
    fn scheme(&self) -> &'static str;

    /// How fast it was.
    fn ops_per_s(&self) -> f64;

    /// The columns, for people.
    fn cells(&self) -> Vec<String>;
}

/// The outcome of it.
#[derive(Serialize)]
pub(crate) struct Outcome<R> {
    /// The median run of each scheme.
    results: Vec<R>,
    /// Speed of the first scheme over that of each other one.
    ratios: BTreeMap<&'static str, f64>,
}

/// Runs the first scheme and these in turn, in so many rounds.
pub(crate) fn compare<S: Copy + PartialEq, R: Compared>(
    rounds: u32,
    first: S,
    schemes: &[S],
    mut measure: impl FnMut(S) -> Result<R>,
) -> Result<Outcome<R>> {
    let mut runs: Vec<(S, Vec<R>)> = vec![(first, Vec::new())];
    for &scheme in schemes {
        if runs.iter().all(|&(known, _)| known != scheme) {
            runs.push((scheme, Vec::new()));
        }
    }
    for _ in 0..rounds {
        for (scheme, reports) in &mut runs {
            reports.push(measure(*scheme)?);
        }
    }
    Ok(Outcome::of(runs.into_iter().map(|(_, reports)| reports)))
}

impl<R: Compared> Outcome<R> {
    /// Of all runs of each scheme, those of the first one before the others.
    fn of(runs: impl Iterator<Item = Vec<R>>) -> Self {
        let median = |mut runs: Vec<R>| {
            runs.sort_by(|one, other| one.ops_per_s().total_cmp(&other.ops_per_s()));
            runs.get(runs.len() / 2).cloned()
        };
        let results: Vec<R> = runs.filter_map(median).collect();
        let ratio = |other: &R| (other.scheme(), results[0].ops_per_s() / other.ops_per_s());
        let ratios = results[1..].iter().map(ratio).collect();
        Self { results, ratios }
    }

    /// The median run of each scheme.
    pub(crate) fn results(&self) -> &[R] {
        &self.results
    }

    pub(crate) fn text(&self) -> String {
        let ratio_of =
            self.results.first().map_or_else(String::new, |first| format!("{} is", first.scheme()));
        let mut rows = table(&[&[R::OF, R::SPEED, &ratio_of], R::COLUMNS].concat());
        for report in &self.results {
            let ratio = self.ratios.get(report.scheme());
            let first = [
                report.scheme().to_owned(),
                format!("{:.0}", report.ops_per_s()),
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x as fast")),
            ];
            rows.add_row(first.into_iter().chain(report.cells()));
        }
        format!("{rows}\n")
    }
}
