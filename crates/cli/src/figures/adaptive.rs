//! `tombolo figures adaptive`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tombolo_experiments::adaptive::{
    ADAPTIVE_FIGURES, AdaptiveSettings, adaptive_test_bed, draw_adaptive,
};
use tombolo_experiments::figures::Page;

use tombolo_timing::Profile;

use super::drawing::{DrawingArgs, chosen, known};

pub(super) const ABOUT: &str = "\
Adaptive Coherence Management in virtual time: table 1 and figures 3, 4 and 5 of its paper, and two that it \
lacks: all programs with one mode for all of their memory (direct, owned in place, replicated) and with modes \
that are chosen for each block of 64 pages while the program runs, by the latency of far memory and by the \
number of hosts.

Table 1 and figures 3 and 4 are inputs: the profile has the paper's numbers. Programs are real, and their \
results are checked. Times include changes of mode and probes.

Into DIR go, per figure, its points (CSV) and a drawing (SVG); summary.json with what the paper states \
and what came out; and report.html, which has all of that on one page. One seed comes to the same files \
each time, on any machine.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo figures adaptive --only table-1,3,4,5
  tombolo figures adaptive --only hosts --scale -2 --rounds 4 --out /tmp/figures";

#[derive(Debug, Args)]
pub(crate) struct AdaptiveArgs {
    /// Only these: table-1, 3, 4, 5, latency, hosts; all, unless given.
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = figure)]
    only: Vec<&'static str>,
    /// How many powers of two programs are larger than by default, or, below 0, smaller.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=20))]
    scale: i32,
    /// How often programs do their work, in their own numbers of times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The machine, instead of the paper's (profiles/adaptive.toml).
    #[arg(long, value_name = "FILE", env = "TOMBOLO_PROFILE")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    drawing: DrawingArgs,
    /// Decides the programs' inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The settings that the summary tells.
#[derive(Serialize)]
struct Lot {
    profile: String,
    scale: i32,
    rounds: u32,
    seed: u64,
}

fn figure(id: &str) -> Result<&'static str, String> {
    known(id, ADAPTIVE_FIGURES.map(|figure| figure.id))
}

pub(super) fn run(args: &AdaptiveArgs) -> Result<()> {
    let AdaptiveArgs { scale, rounds, seed, .. } = *args;
    let figures = chosen(ADAPTIVE_FIGURES, &args.only, |figure| figure.id);
    let profile = match &args.profile {
        Some(path) => Profile::read(path)?,
        None => adaptive_test_bed(),
    };
    let page = Page {
        title: "Adaptive Coherence Management in virtual time",
        about: format!(
            "Profile {}: {}. One thread on each host, four at least. Scale {scale}: programs are so many powers \
             of two larger than by default. They do their work {rounds} times as often as by default. Seed \
             {seed}. Means are geometric.",
            profile.name, profile.about
        ),
        command: format!(
            "tombolo figures adaptive --scale {scale} --rounds {rounds} --seed {seed}"
        ),
        profile: Some(profile.text.clone()),
    };
    let lot = Lot { profile: profile.name.clone(), scale, rounds, seed };
    let settings = AdaptiveSettings { profile, scale, rounds, seed };
    args.drawing.draw(page, lot, |jobs, tell| draw_adaptive(&figures, &settings, jobs, tell))
}
