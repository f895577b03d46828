//! The programs that stand in for the paper's.

use std::sync::Arc;

use anyhow::{Result, ensure};
use tombolo_programs::{GraphSource, Parameters, ProgramName};

use super::SdmSettings;

/// The suite that programs are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suite {
    /// They compute: for PARSEC.
    Compute,
    /// They walk graphs: for GAP.
    Graph,
}

impl Suite {
    pub(super) const ALL: [Self; 2] = [Self::Compute, Self::Graph];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Compute => "like PARSEC",
            Self::Graph => "GAP",
        }
    }

    pub(super) fn workloads(self) -> impl Iterator<Item = Workload> {
        let count = match self {
            Self::Compute => COMPUTE.len(),
            Self::Graph => 2 * KERNELS.len(),
        };
        (0..count).map(move |number| Workload { suite: self, number })
    }
}

/// The paper's, but for facesim.
const COMPUTE: [&str; 10] = [
    "blackscholes",
    "bodytrack",
    "canneal",
    "dedup",
    "ferret",
    "fluidanimate",
    "raytrace",
    "streamcluster",
    "swaptions",
    "x264",
];

/// The paper's, on two graphs.
const KERNELS: [&str; 4] = ["bfs", "bc", "cc", "sssp"];
/// By so much graphs are larger than by default: they do not fit into a host's caches.
const LARGER: i64 = 1;
/// Sources that bfs starts from, one after the other: GAP has 64. One search alone reads little
/// twice.
const SEARCHES: u32 = 4;

/// A program of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workload {
    pub(super) suite: Suite,
    number: usize,
}

impl Workload {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Suite::ALL.into_iter().flat_map(Suite::workloads)
    }

    /// The kernel, and whether it works on the second graph.
    fn kernel(self) -> (&'static str, bool) {
        match self.suite {
            Suite::Compute => (COMPUTE[self.number], false),
            Suite::Graph => (KERNELS[self.number / 2], self.number % 2 == 1),
        }
    }

    /// Its name, where graphs have these.
    pub(super) fn name(self, graphs: &[String; 2]) -> String {
        match (self.suite, self.kernel()) {
            (Suite::Compute, (name, _)) => name.to_owned(),
            (Suite::Graph, (name, second)) => format!("{name}-{}", graphs[usize::from(second)]),
        }
    }

    /// The program, and what it works on.
    pub(super) fn program(self, settings: &SdmSettings) -> Result<(ProgramName, Parameters)> {
        let (name, second) = self.kernel();
        let name: ProgramName = name.parse()?;
        let larger = if self.suite == Suite::Graph { LARGER } else { 0 };
        let scale = i64::from(name.default_scale()) + larger + i64::from(settings.scale);
        let scales = name.scales();
        let fits = scale >= i64::from(*scales.start()) && scale <= i64::from(*scales.end());
        ensure!(fits, "at scale {} there is no {name}", settings.scale);
        let given = settings.graphs.get(usize::from(second));
        let graph = match given.filter(|_| self.suite == Suite::Graph) {
            Some((_, edges)) => GraphSource::Edges(Arc::clone(edges)),
            None if second => GraphSource::Uniform,
            None => GraphSource::Kronecker,
        };
        let scale = Some(scale as u32);
        let rounds = (name == ProgramName::Bfs).then_some(SEARCHES);
        Ok((
            name,
            Parameters { scale, rounds, graph, seed: settings.seed, ..Parameters::default() },
        ))
    }
}
