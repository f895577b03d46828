//! `tombolo figures adaptive`.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tombolo_experiments::adaptive::{
    ADAPTIVE_FIGURES, AdaptiveFigure, AdaptiveSettings, adaptive_test_bed, draw_adaptive,
};
use tombolo_experiments::figures::Page;

use tombolo_timing::Profile;

use super::folder::Folder;
use crate::output;

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

const BAR: &str = "{prefix} {bar:40} {human_pos} of {human_len} runs, {elapsed}, {eta} left";

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
    /// Where the files go; files of the same names are overwritten.
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Programs that run side by side; as many as there are processors, unless given.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Decides the programs' inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What the summary tells besides.
#[derive(Serialize)]
struct Lot {
    profile: String,
    scale: i32,
    rounds: u32,
    seed: u64,
}

fn figure(id: &str) -> Result<&'static str, String> {
    let known = ADAPTIVE_FIGURES.map(|figure| figure.id);
    let found = known.into_iter().find(|known| *known == id);
    found.ok_or_else(|| format!("there is no such figure; name some of {}", known.join(", ")))
}

pub(super) fn run(args: &AdaptiveArgs) -> Result<()> {
    let AdaptiveArgs { scale, rounds, seed, .. } = *args;
    let chosen = |figure: &AdaptiveFigure| args.only.is_empty() || args.only.contains(&figure.id);
    let figures: Vec<AdaptiveFigure> = ADAPTIVE_FIGURES.into_iter().filter(chosen).collect();
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
    let folder = Folder::new(&args.out, page, lot)?;
    let jobs = args.jobs.or_else(|| available_parallelism().ok()).map_or(1, NonZero::get);
    let bar = output::progress("figures", figures.len() as u64, BAR);
    let settings = AdaptiveSettings { profile, scale, rounds, seed };
    let drawn = draw_adaptive(&figures, &settings, jobs, &|done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    for which in 0..drawn.len() {
        folder.write(which, &drawn)?;
    }
    output::say(folder.text(&drawn))?;
    Ok(())
}
