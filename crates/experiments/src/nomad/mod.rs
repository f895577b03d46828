//! The NOMAD paper's evaluation in virtual time: figures 1, 2 and 7 to 16, and tables 2 to 4.
//!
//! Programs are streams of uses of pages on the model of `tombolo-tiers`. So times are virtual, and
//! follow from the paper's latencies and bandwidths, and from published costs of migrations.
//! Besides the paper's policies there is break-even, which it does not have.

mod draw;
mod programs;
mod run;
mod tables;

use std::collections::BTreeMap;

use anyhow::Result;
use tombolo_tiers::{Policy, Round};

use crate::figures::{Drawn, Row, RunsDone, Sketch, measure_each};
use run::{Outcome, Platform, Program, Run};

/// A figure.
#[derive(Clone, Copy)]
pub struct NomadFigure {
    /// The name by which a user asks for it.
    pub id: &'static str,
    runs: fn() -> Vec<Run>,
    draw: fn(&Measured) -> Drawn,
}

/// The figures there are.
pub const NOMAD_FIGURES: [NomadFigure; 15] = [
    draw::FIGURE_1,
    draw::FIGURE_2,
    draw::FIGURE_7,
    draw::FIGURE_8,
    draw::FIGURE_9,
    draw::FIGURE_10,
    programs::FIGURE_11,
    programs::FIGURE_12,
    programs::FIGURE_13,
    programs::FIGURE_14,
    programs::FIGURE_15,
    programs::FIGURE_16,
    tables::TABLE_2,
    tables::TABLE_3,
    tables::TABLE_4,
];

/// How large, and by which lot.
#[derive(Clone, Copy, Debug)]
pub struct NomadSettings {
    /// How many powers of two machines and programs are larger than a 32nd, or smaller.
    pub scale: i32,
    /// Decides what programs use.
    pub seed: u64,
}

impl NomadSettings {
    /// By how much all is smaller than in the paper.
    pub fn factor(&self) -> f64 {
        f64::from(self.scale).exp2() / 32.0
    }
}

/// The outcome of each run.
struct Measured {
    /// By how much all was smaller than in the paper.
    factor: f64,
    runs: BTreeMap<Run, Outcome>,
}

impl Measured {
    fn at(&self, platform: Platform, policy: Policy, program: Program) -> &Outcome {
        &self.runs[&Run { platform, policy, program }]
    }
}

/// A phase of a run, as the paper calls it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    InProgress,
    Stable,
}

impl Phase {
    const BOTH: [Self; 2] = [Self::InProgress, Self::Stable];

    fn name(self) -> &'static str {
        if self == Self::InProgress { "in progress" } else { "stable" }
    }

    fn of(self, outcome: &Outcome) -> &Round {
        if self == Self::InProgress { &outcome.first } else { &outcome.last }
    }
}

/// Policies of the paper that run on a platform, and break-even.
fn policies(platform: Platform, with_none: bool) -> Vec<Policy> {
    let mut policies = vec![Policy::Tpp];
    if platform.has_memtis() {
        policies.extend([Policy::MEMTIS, Policy::MEMTIS_QUICK]);
    }
    policies.push(Policy::Nomad);
    if with_none {
        policies.push(Policy::None);
    }
    policies.push(Policy::BreakEven);
    policies
}

/// Whether a statement of the paper holds here, and if not, why.
fn judge(sketch: &mut Sketch, quantity: String, says: &'static str, ours: f64, check: Check) {
    let row = Row::new(sketch.drawn.id, quantity, None, Some(says), ours);
    sketch.drawn.rows.push(row.judged(check.holds(ours), check.why));
}

/// The bounds of a number, and the reason if it lies outside them.
#[derive(Clone, Copy)]
struct Check {
    least: f64,
    most: f64,
    /// A sentence that explains a deviation.
    why: &'static str,
}

impl Check {
    fn holds(&self, ours: f64) -> bool {
        (self.least..=self.most).contains(&ours)
    }
}

fn above(least: f64, why: &'static str) -> Check {
    Check { least, most: f64::INFINITY, why }
}

fn below(most: f64, why: &'static str) -> Check {
    Check { least: 0.0, most, why }
}

fn within(least: f64, most: f64, why: &'static str) -> Check {
    Check { least, most, why }
}

/// Draws figures, up to `jobs` runs at a time.
///
/// # Errors
/// None: no run of this model fails.
pub fn draw_nomad(
    figures: &[NomadFigure],
    settings: NomadSettings,
    jobs: usize,
    tell: &RunsDone<'_>,
) -> Result<Vec<Drawn>> {
    let runs = figures.iter().flat_map(|figure| (figure.runs)()).collect();
    let runs = measure_each(runs, jobs, tell, |run: &Run| Ok(run.measure(&settings)))?;
    let measured = Measured { factor: settings.factor(), runs };
    Ok(figures.iter().map(|figure| (figure.draw)(&measured)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_out_and_say_why_statements_do_not_hold() {
        let settings = NomadSettings { scale: -5, seed: 1 };
        let drawn = draw_nomad(&NOMAD_FIGURES, settings, 2, &|_, _| {}).unwrap();
        assert_eq!(drawn.len(), NOMAD_FIGURES.len());
        for figure in &drawn {
            assert!(!figure.places.is_empty() && !figure.rows.is_empty(), "{}", figure.id);
            for row in &figure.rows {
                assert_eq!(row.holds == Some(false), row.why.is_some(), "{row:?}");
            }
        }
    }
}
