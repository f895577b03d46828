//! `tombolo figures nomad`.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tombolo_experiments::figures::Page;
use tombolo_experiments::nomad::{NOMAD_FIGURES, NomadSettings, draw_nomad};

use super::drawing::{DrawingArgs, chosen, known};

pub(super) const ABOUT: &str = "\
The NOMAD paper's evaluation in virtual time: figures 1, 2 and 7 to 16, and tables 2, 3 and 4, on its \
platforms A to D. Pages lie in a fast and a slow tier, and move by TPP, Memtis, NOMAD, break-even, which the \
paper does not have, or not at all. Linux' lists, scanner, batches and watermarks are modelled.

Programs are streams of uses of pages. Times are virtual: they follow from the paper's latencies and \
bandwidths (profiles/nomad-a.toml to nomad-d.toml) and from published costs of migrations.

Into DIR go, per figure, its points (CSV) and a drawing (SVG); summary.json with what the paper states, \
what came out, whether it holds, and why not; and report.html, which has all of that on one page. One seed \
comes to the same files each time, on any machine.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo figures nomad --only table-2,7
  tombolo figures nomad --only 11,14 --scale 2 --out /tmp/figures";

#[derive(Debug, Args)]
pub(crate) struct NomadArgs {
    /// Only these: 1, 2, 7 to 16, table-2, table-3, table-4; all, unless given.
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = figure)]
    only: Vec<&'static str>,
    /// How many powers of two machines and programs are larger than a 32nd of the paper's, or,
    /// below 0, smaller.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-5..=5))]
    scale: i32,
    #[command(flatten)]
    drawing: DrawingArgs,
    /// Decides which pages programs use.
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
    known(id, NOMAD_FIGURES.map(|figure| figure.id))
}

pub(super) fn run(args: &NomadArgs) -> Result<()> {
    let NomadArgs { scale, seed, .. } = *args;
    let figures = chosen(NOMAD_FIGURES, &args.only, |figure| figure.id);
    let settings = NomadSettings { scale, seed };
    let page = Page {
        title: "The NOMAD paper's evaluation in virtual time",
        about: format!(
            "Profiles nomad-a to nomad-d. 14.7 GiB of fast memory, 16 GiB of slow memory unless more is \
             said. Machines, programs and periods of the kernel are {:.3} of the paper's. Seed {seed}.",
            settings.factor()
        ),
        command: format!("tombolo figures nomad --scale {scale} --seed {seed}"),
        profile: None,
    };
    args.drawing
        .draw(page, Lot { scale, seed }, |jobs, tell| draw_nomad(&figures, settings, jobs, tell))
}
