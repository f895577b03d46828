//! The evaluation of SDM's paper in virtual time: figures 3 and 8 to 11.
//!
//! Programs run on the system of the paper's table II, under INV-CF, under SHA-CF (the paper's
//! SDM), with speculative access besides (SDM-full), and under CXL 3.0's back-invalidation. Two
//! suites stand in for the paper's: GAP's kernels on synthetic graphs, and small programs of the
//! kinds that PARSEC has. A point that several figures show is measured once.
//!
//! Each figure is drawn in two [editions](Edition), which differ in the cores, in when permission
//! is asked, in the protocols' messages, and in how times are computed, and in nothing else.

mod compare;
mod suite;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use tombolo_disaggregated::{Config, Core, Protocol, Summary, System};
use tombolo_programs::{EdgeList, Program};

use crate::figures::{Drawn, RunsDone, measure_each};
use compare::Quantity;
use suite::Workload;

/// A figure of the paper.
#[derive(Clone, Copy)]
pub struct SdmFigure {
    /// The name by which a user asks for it.
    pub id: &'static str,
    runs: fn(&[Edition]) -> Vec<Run>,
    draw: fn(&Measured, &[Edition]) -> Drawn,
}

/// The figures there are.
pub const SDM_FIGURES: [SdmFigure; 5] = [
    compare::FIGURE_3,
    compare::FIGURE_8,
    compare::FIGURE_9,
    compare::FIGURE_10,
    compare::FIGURE_11,
];

/// How large, by which lot, and in which editions.
#[derive(Clone, Debug)]
pub struct SdmSettings {
    /// The editions that are drawn.
    pub editions: Vec<Edition>,
    /// The graphs of graph programs, two at most, by name. The first one takes the place of a
    /// Kronecker graph, the second one that of a uniform graph.
    pub graphs: Vec<(String, Arc<EdgeList>)>,
    /// How many powers of two programs are smaller than by default, or larger.
    pub scale: i32,
    /// Decides inputs.
    pub seed: u64,
}

/// How the paper's system is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edition {
    /// Ours: cores go on while they wait, a processor's own caches serve what they have without
    /// asking, protocols save messages, and times are of simulated events.
    Ours,
    /// As published (the paper's section V): cores do one instruction after the other, each access
    /// asks for permission, SHA-CF and CXL 3.0 are as the paper tells them, and times are computed
    /// by its equations from counted events.
    Published,
}

impl Edition {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Ours, Self::Published];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Published => "as published",
        }
    }
}

/// A system of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// INV-CF.
    Inv,
    /// SDM: SHA-CF.
    Sdm,
    /// SDM-full: SHA-CF with speculative access.
    Full,
    /// CXL 3.0.
    Cxl3,
}

impl Role {
    const ALL: [Self; 4] = [Self::Inv, Self::Sdm, Self::Full, Self::Cxl3];

    fn protocol(self, edition: Edition) -> Protocol {
        match (self, edition) {
            (Self::Inv, _) => Protocol::Inv,
            (Self::Sdm, Edition::Ours) => Protocol::Sha,
            (Self::Full, Edition::Ours) => Protocol::ShaSpec,
            (Self::Cxl3, Edition::Ours) => Protocol::Bi,
            (Self::Sdm, Edition::Published) => Protocol::ShaLiteral,
            (Self::Full, Edition::Published) => Protocol::ShaLiteralSpec,
            (Self::Cxl3, Edition::Published) => Protocol::BiLiteral,
        }
    }
}

/// A program on a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    edition: Edition,
    workload: Workload,
    role: Role,
    hosts: usize,
    network_ns: u32,
}

/// The paper's network.
const NETWORK_NS: u32 = 500;

impl Run {
    fn measure(&self, settings: &SdmSettings) -> Result<Summary> {
        let protocol = self.role.protocol(self.edition);
        let system = match self.edition {
            Edition::Ours => Config::paper(protocol, self.hosts),
            Edition::Published => Config::as_published(protocol, self.hosts),
        };
        let config = Config { network_ns: self.network_ns.into(), ..system };
        let system: System = System::new(&config)?;
        let (name, parameters) = self.workload.program(settings)?;
        let program: Program<Core> = Program::new(name, &parameters, config.threads)?;
        system.run_program(&program, |_, core| core);
        program.verify()?;
        Ok(system.summary())
    }
}

/// The outcome of each run.
struct Measured {
    runs: BTreeMap<Run, Summary>,
    /// The names of graphs.
    graphs: [String; 2],
}

impl SdmSettings {
    /// The names of the two graphs.
    fn graph_names(&self) -> [String; 2] {
        let given = |place: usize| self.graphs.get(place).map(|(name, _)| name.clone());
        [given(0).unwrap_or_else(|| "kron".into()), given(1).unwrap_or_else(|| "uni".into())]
    }
}

impl Measured {
    fn name(&self, workload: Workload) -> String {
        workload.name(&self.graphs)
    }

    fn at(&self, run: Run) -> &Summary {
        &self.runs[&run]
    }

    /// A quantity of a run, over the same under INV-CF.
    fn over_inv(&self, run: Run, quantity: Quantity) -> f64 {
        quantity.of(self.at(run), run) / quantity.of(self.at(Run { role: Role::Inv, ..run }), run)
    }
}

/// Draws figures, up to `jobs` runs at a time.
///
/// # Errors
/// A program whose result is wrong, or a scale at which there are none.
pub fn draw_sdm(
    figures: &[SdmFigure],
    settings: &SdmSettings,
    jobs: usize,
    tell: &RunsDone<'_>,
) -> Result<Vec<Drawn>> {
    let editions = &settings.editions;
    let runs = figures.iter().flat_map(|figure| (figure.runs)(editions)).collect();
    let graphs = settings.graph_names();
    let measure = |run: &Run| run.measure(settings).with_context(|| run.workload.name(&graphs));
    let measured =
        Measured { runs: measure_each(runs, jobs, tell, measure)?, graphs: graphs.clone() };
    Ok(figures.iter().map(|figure| (figure.draw)(&measured, editions)).collect())
}

#[cfg(test)]
mod tests {
    use super::suite::Suite;
    use super::*;

    /// Editions differ in cores, permission, messages and times. Programs do the same: where their
    /// accesses do not depend on the schedule, both count the same ones.
    #[test]
    fn editions_agree_on_all_that_programs_do() {
        let settings =
            SdmSettings { editions: Edition::ALL.to_vec(), graphs: Vec::new(), scale: -5, seed: 1 };
        let free = ["blackscholes", "swaptions", "raytrace"];
        let names = settings.graph_names();
        let workloads =
            Suite::Compute.workloads().filter(|workload| free.contains(&&*workload.name(&names)));
        let mut compared = 0;
        for workload in workloads {
            for role in Role::ALL {
                let [ours, published] = Edition::ALL.map(|edition| {
                    let run = Run { edition, workload, role, hosts: 4, network_ns: NETWORK_NS };
                    run.measure(&settings).unwrap()
                });
                let done = |found: &Summary| {
                    (found.accesses, found.instructions, found.lines, found.pages)
                };
                assert_eq!(done(&ours), done(&published), "{workload:?} {role:?}");
                assert_eq!(ours.shared_line_ratio, published.shared_line_ratio);
                // Each request has an answer in both.
                assert_eq!(ours.messages["ralloc"], published.messages["ralloc"]);
                compared += 1;
            }
        }
        assert_eq!(compared, 3 * Role::ALL.len());
    }
}
