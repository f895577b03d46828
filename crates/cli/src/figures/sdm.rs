//! `tombolo figures sdm`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tombolo_experiments::figures::Page;
use tombolo_experiments::sdm::{Edition, SDM_FIGURES, SdmSettings, draw_sdm};

use super::drawing::{DrawingArgs, chosen, known};
use crate::coherence::read_graph;

pub(super) const ABOUT: &str = "\
Rerun the SDM paper's evaluation in virtual time: figures 3 and 8 to 11.

Real programs run on the system of the paper's table II, under INV-CF, under SHA-CF (the paper's SDM), \
with speculative access besides (SDM-full), and under CXL 3.0's back-invalidation, and their results are \
checked. Two suites stand in for the paper's: GAP's kernels, on synthetic graphs or on those given, and \
small programs of the kinds that PARSEC has.

There are two editions. In ours, cores go on while they wait, protocols save messages, and times are of \
simulated events. As published, cores do one instruction after the other, each access asks for permission, \
SHA-CF and CXL 3.0 send what the paper says, and times are by its equations 1 and 2.

Into DIR go, per figure, its points (CSV) and a drawing (SVG); summary.json with what the paper states \
and what came out (rows of figure, quantity, paper, ours, error); and report.html, which has all of \
that on one page. One seed comes to the same files each time, on any machine.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo figures sdm --scale -2
  tombolo figures sdm --edition published --scale -2
  tombolo figures sdm --only 8 --graph twitter.txt.gz --graph web.mtx
  tombolo figures sdm --only 8,9 --out /tmp/figures";

#[derive(Debug, Args)]
pub(crate) struct SdmArgs {
    /// Only these: 3, 8, 9, 10, 11; all, unless given.
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = figure)]
    only: Vec<&'static str>,
    /// The editions: ours, published; both, unless given.
    #[arg(long, value_enum, value_name = "EDITIONS", value_delimiter = ',')]
    edition: Vec<EditionArg>,
    /// A graph from a file, in any format that `coherence run --graph` reads. The first one takes
    /// the place of a Kronecker graph, the second one that of a uniform graph.
    #[arg(long, value_name = "FILE")]
    graph: Vec<PathBuf>,
    /// How many powers of two programs are larger than by default, or, below 0, smaller.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=20))]
    scale: i32,
    #[command(flatten)]
    drawing: DrawingArgs,
    /// Decides the programs' inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EditionArg {
    /// Times of simulated events, on cores that go on while they wait.
    Ours,
    /// The paper's method.
    Published,
}

impl From<EditionArg> for Edition {
    fn from(edition: EditionArg) -> Self {
        match edition {
            EditionArg::Ours => Self::Ours,
            EditionArg::Published => Self::Published,
        }
    }
}

/// The settings that the summary tells.
#[derive(Serialize)]
struct Lot {
    scale: i32,
    seed: u64,
    editions: Vec<&'static str>,
    graphs: Vec<String>,
}

/// The most graphs that a run takes.
const GRAPHS: usize = 2;

impl SdmArgs {
    fn settings(&self) -> Result<SdmSettings> {
        if self.graph.len() > GRAPHS {
            bail!("{} graphs were given, and there may be two", self.graph.len());
        }
        let editions = match &self.edition[..] {
            [] => Edition::ALL.to_vec(),
            some => some.iter().map(|&edition| edition.into()).collect(),
        };
        let graph = |path: &PathBuf| {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            let name = name.split('.').next().unwrap_or_default().to_owned();
            Ok((name, Arc::new(read_graph(path)?)))
        };
        let graphs = self.graph.iter().map(graph).collect::<Result<_>>()?;
        Ok(SdmSettings { editions, graphs, scale: self.scale, seed: self.seed })
    }
}

fn figure(id: &str) -> Result<&'static str, String> {
    known(id, SDM_FIGURES.map(|figure| figure.id))
}

pub(super) fn run(args: &SdmArgs) -> Result<()> {
    let SdmArgs { scale, seed, .. } = *args;
    let figures = chosen(SDM_FIGURES, &args.only, |figure| figure.id);
    let settings = args.settings()?;
    let editions: Vec<_> = settings.editions.iter().map(|edition| edition.name()).collect();
    let graphs: Vec<_> = args.graph.iter().map(|path| path.display().to_string()).collect();
    let on_graphs = match &graphs[..] {
        [] => "Graphs are synthetic.".to_owned(),
        given => format!("Graphs are from {}.", given.join(" and ")),
    };
    let page = Page {
        title: "The SDM paper's evaluation in virtual time",
        about: format!(
            "32 threads on hosts whose data lie in a memory node, 500 ns away unless said otherwise. Scale \
             {scale}: programs are so many powers of two larger than by default. {on_graphs} Editions: {}. \
             Seed {seed}. Means are geometric.",
            editions.join(", ")
        ),
        command: format!("tombolo figures sdm --scale {scale} --seed {seed}"),
        profile: None,
    };
    args.drawing.draw(page, Lot { scale, seed, editions, graphs }, |jobs, tell| {
        draw_sdm(&figures, &settings, jobs, tell)
    })
}
