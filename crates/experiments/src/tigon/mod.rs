//! The evaluation of Tigon's paper in virtual time: figures 4 to 8, table 1, section 4.6, what
//! back-invalidations cost, and what MEGALON's paper shows of Tigon.
//!
//! The engines that ship run the workloads as published, on the paper's test bed. Operations take
//! as long as those of the published source, unless a curve says otherwise. A point that several
//! figures show is measured once. All figures but figure 7 start with all rows shared that a
//! transaction of another host may ask for, as far as they fit; figure 7 starts with none.

mod charged;
mod compare;
mod lab;
mod megalon;
mod point;
mod sketch;
mod storage;
mod subject;
mod systems;
mod variants;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use tombolo_timing::Profile;

use crate::figures::{Drawn, RunsDone, measure_each};
use lab::Ran;
use point::Point;

/// A figure of the paper.
#[derive(Clone, Copy)]
pub struct TigonFigure {
    /// The name by which a user asks for it.
    pub id: &'static str,
    points: fn() -> Vec<Point>,
    draw: fn(&Measured) -> Drawn,
}

/// The figures there are.
pub const TIGON_FIGURES: [TigonFigure; 10] = [
    systems::FIGURE_4,
    systems::FIGURE_5,
    systems::FIGURE_6,
    compare::FIGURE_7,
    variants::FIGURE_8,
    compare::TABLE_1,
    variants::SECTION_4_6,
    compare::BACK_INVALIDATION,
    megalon::FIGURE_1A,
    megalon::FIGURE_1B,
];

/// Where, how large, and by which lot figures are drawn.
#[derive(Clone, Debug)]
pub struct TigonSettings {
    /// The machine, at full scale.
    pub profile: Profile,
    /// How large tables, SCR and caches are, compared with the paper's: above 0, and 1 at most.
    pub scale: f64,
    /// Decides everything that is drawn by lot.
    pub seed: u64,
}

/// The paper's test bed.
///
/// # Panics
/// Never: a test has parsed it.
pub fn tigon_test_bed() -> Profile {
    const TEXT: &str = include_str!("../../../../profiles/tigon.toml");
    Profile::parse("profiles/tigon.toml", TEXT).expect("a test has parsed it")
}

/// The outcome of each point.
struct Measured {
    ran: BTreeMap<Point, Ran>,
    scale: f64,
    /// The time of an access to SCR, in seconds.
    scr_access: f64,
}

impl Measured {
    fn at(&self, point: Point) -> &Ran {
        &self.ran[&point]
    }
}

/// Draws figures, up to `jobs` points at a time.
///
/// # Errors
/// That the profile says nothing of databases or is too small, or an engine fails.
pub fn draw_tigon(
    figures: &[TigonFigure],
    settings: &TigonSettings,
    jobs: usize,
    tell: &RunsDone<'_>,
) -> Result<Vec<Drawn>> {
    let points = figures.iter().flat_map(|figure| (figure.points)()).collect();
    let measure = |point: &Point| point.measure(settings).with_context(|| format!("{point:?}"));
    let measured = Measured {
        ran: measure_each(points, jobs, tell, measure)?,
        scale: settings.scale,
        scr_access: settings.profile.coherence.latency_ns / 1e9,
    };
    Ok(figures.iter().map(|figure| (figure.draw)(&measured)).collect())
}

#[cfg(test)]
mod tests;
