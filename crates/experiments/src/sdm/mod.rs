//! The evaluation of SDM's paper in virtual time: figures 3 and 8 to 11.
//!
//! Programs run on the system of the paper's table II, under INV-CF, under SHA-CF (the paper's
//! SDM), and with speculative access besides (SDM-full). Two suites stand in for the paper's: GAP's
//! kernels on synthetic graphs, and small programs of the kinds that PARSEC has. A point that
//! several figures show is measured once.

mod compare;
mod suite;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use tombolo_disaggregated::{Config, Core, Protocol, Summary, System};
use tombolo_programs::Program;

use crate::figures::{Drawn, RunsDone, measure_each};
use suite::Workload;

/// A figure of the paper.
#[derive(Clone, Copy)]
pub struct SdmFigure {
    /// What it is asked for by.
    pub id: &'static str,
    runs: fn() -> Vec<Run>,
    draw: fn(&Measured) -> Drawn,
}

/// The figures there are.
pub const SDM_FIGURES: [SdmFigure; 5] = [
    compare::FIGURE_3,
    compare::FIGURE_8,
    compare::FIGURE_9,
    compare::FIGURE_10,
    compare::FIGURE_11,
];

/// How large, and by which lot.
#[derive(Clone, Copy, Debug)]
pub struct SdmSettings {
    /// How many powers of two programs are smaller than by default, or larger.
    pub scale: i32,
    /// Decides inputs.
    pub seed: u64,
}

/// A program under a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    workload: Workload,
    /// Its place in [`Protocol::ALL`].
    protocol: usize,
    hosts: usize,
    network_ns: u32,
}

/// The paper's network.
const NETWORK_NS: u32 = 500;

/// What the paper compares, by their places in [`Protocol::ALL`]: INV-CF, SDM and SDM-full.
const INV: usize = 0;
const SDM: usize = 1;
const FULL: usize = 2;

impl Run {
    fn measure(&self, settings: SdmSettings) -> Result<Summary> {
        let protocol = Protocol::ALL[self.protocol];
        let config =
            Config { network_ns: self.network_ns.into(), ..Config::paper(protocol, self.hosts) };
        let system: System = System::new(&config)?;
        let (name, parameters) = self.workload.program(settings)?;
        let program: Program<Core> = Program::new(name, &parameters, config.threads)?;
        system.run_program(&program, |_, core| core);
        program.verify()?;
        Ok(system.summary())
    }
}

/// What came of each run.
struct Measured(BTreeMap<Run, Summary>);

impl Measured {
    fn at(&self, run: Run) -> &Summary {
        &self.0[&run]
    }

    /// A figure of a run, over the same under INV-CF.
    fn over_inv(&self, run: Run, figure: fn(&Summary) -> f64) -> f64 {
        figure(self.at(run)) / figure(self.at(Run { protocol: INV, ..run }))
    }
}

/// Draws figures, up to `jobs` runs at a time.
///
/// # Errors
/// A program whose result is wrong, or a scale at which there are none.
pub fn draw_sdm(
    figures: &[SdmFigure],
    settings: SdmSettings,
    jobs: usize,
    tell: &RunsDone<'_>,
) -> Result<Vec<Drawn>> {
    let runs = figures.iter().flat_map(|figure| (figure.runs)()).collect();
    let measure = |run: &Run| run.measure(settings).with_context(|| run.workload.name());
    let measured = Measured(measure_each(runs, jobs, tell, measure)?);
    Ok(figures.iter().map(|figure| (figure.draw)(&measured)).collect())
}
