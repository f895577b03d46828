//! `tombolo figures sdm`.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tombolo_experiments::figures::Page;
use tombolo_experiments::sdm::{SDM_FIGURES, SdmSettings, draw_sdm};

use super::drawing::{DrawingArgs, chosen, known};

pub(super) const ABOUT: &str = "\
Rerun the SDM paper's evaluation in virtual time: figures 3 and 8 to 11.

Real programs run on the system of the paper's table II, under INV-CF, under SHA-CF (the paper's SDM) \
and with speculative access besides (SDM-full), and their results are checked. Two suites stand in for \
the paper's: GAP's kernels on synthetic graphs, and small programs of the kinds that PARSEC has.

Into DIR go, per figure, its points (CSV) and a drawing (SVG); summary.json with what the paper states \
and what came out (rows of figure, quantity, paper, ours, error); and report.html, which has all of \
that on one page. One seed comes to the same files each time, on any machine.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo figures sdm --scale -2
  tombolo figures sdm --only 8,9 --out /tmp/figures";

#[derive(Debug, Args)]
pub(crate) struct SdmArgs {
    /// Only these: 3, 8, 9, 10, 11; all, unless given.
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = figure)]
    only: Vec<&'static str>,
    /// How many powers of two programs are larger than by default, or, below 0, smaller.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=20))]
    scale: i32,
    #[command(flatten)]
    drawing: DrawingArgs,
    /// Decides the programs' inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The settings that the summary tells.
#[derive(Serialize)]
struct Lot {
    scale: i32,
    seed: u64,
}

fn figure(id: &str) -> Result<&'static str, String> {
    known(id, SDM_FIGURES.map(|figure| figure.id))
}

pub(super) fn run(args: &SdmArgs) -> Result<()> {
    let SdmArgs { scale, seed, .. } = *args;
    let figures = chosen(SDM_FIGURES, &args.only, |figure| figure.id);
    let page = Page {
        title: "The SDM paper's evaluation in virtual time",
        about: format!(
            "32 threads on hosts whose data lie in a memory node, 500 ns away unless said otherwise. Scale \
             {scale}: programs are so many powers of two larger than by default. Seed {seed}. Means are \
             geometric."
        ),
        command: format!("tombolo figures sdm --scale {scale} --seed {seed}"),
        profile: None,
    };
    args.drawing.draw(page, Lot { scale, seed }, |jobs, tell| {
        draw_sdm(&figures, SdmSettings { scale, seed }, jobs, tell)
    })
}
