//! `tombolo figures tigon`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tombolo_experiments::figures::Page;
use tombolo_experiments::tigon::{TIGON_FIGURES, TigonSettings, draw_tigon, tigon_test_bed};
use tombolo_timing::Profile;

use super::drawing::{DrawingArgs, chosen, known};
use super::megalon::scale;

pub(super) const ABOUT: &str = "\
Rerun the Tigon paper's evaluation in virtual time: figures 4 to 8, table 1, section 4.6, what \
back-invalidations cost, and what the MEGALON paper shows of Tigon (its figures 1a and 1b).

The engines that run are the ones that ship, with TPC-C and YCSB as published; what takes time, \
and how much, a profile says. Operations take as long as those of the published source, but for \
the curve \"our steps\". All figures but figure 7 start with all rows shared that a transaction of \
another host may ask for, as far as they fit; figure 7 starts with none.

Into DIR go, per figure, its points with all that was counted (CSV) and a drawing (SVG); \
summary.json with what the paper states and what came out (rows of figure, quantity, paper, \
paper_says, ours, error); and report.html, which has all of that on one page, and the profile.

With --scale 0.1, tables, SCR and caches have a tenth of the paper's size. There are as many \
warehouses and districts as in the paper. One seed comes to the same files each time, on any \
machine.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo figures tigon --scale 0.02
  tombolo figures tigon --scale 0.05 --only 4,7 --out /tmp/figures";

#[derive(Debug, Args)]
pub(crate) struct TigonArgs {
    /// Only these: 4, 5, 6, 7, 8, table-1, section-4.6, back-invalidation, megalon-1a, megalon-1b;
    /// all, unless given.
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = figure)]
    only: Vec<&'static str>,
    /// How large tables, SCR and caches are, compared with the paper's: 0.002 to 1.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    #[command(flatten)]
    drawing: DrawingArgs,
    /// Decides everything that is drawn by lot.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// The machine, instead of the paper's test bed (profiles/tigon.toml). It has sections
    /// [database] and [storage].
    #[arg(long, value_name = "FILE", env = "TOMBOLO_PROFILE")]
    profile: Option<PathBuf>,
}

/// The settings that the summary tells.
#[derive(Serialize)]
struct Lot {
    profile: String,
    scale: f64,
    seed: u64,
}

fn figure(id: &str) -> Result<&'static str, String> {
    known(id, TIGON_FIGURES.map(|figure| figure.id))
}

pub(super) fn run(args: &TigonArgs) -> Result<()> {
    let figures = chosen(TIGON_FIGURES, &args.only, |figure| figure.id);
    let profile = match &args.profile {
        Some(path) => Profile::read(path)?,
        None => tigon_test_bed(),
    };
    let settings = TigonSettings { profile, scale: args.scale, seed: args.seed };
    let lot = Lot { profile: settings.profile.name.clone(), scale: args.scale, seed: args.seed };
    let page = args.page(&settings);
    args.drawing.draw(page, lot, |jobs, tell| draw_tigon(&figures, &settings, jobs, tell))
}

impl TigonArgs {
    fn page(&self, settings: &TigonSettings) -> Page {
        let TigonSettings { profile, scale, seed } = settings;
        let mut command = format!("tombolo figures tigon --scale {scale} --seed {seed}");
        if let Some(profile) = &self.profile {
            command += &format!(" --profile {}", profile.display());
        }
        Page {
            title: "The Tigon paper's evaluation in virtual time",
            about: format!(
                "Profile {}: {}. Scale {scale}: tables, SCR and caches have so much of the size that is named. \
                 Seed {seed}. TPC-C and YCSB are as published with Tigon. Operations take as long as those of the \
                 published source, but for the curve \"our steps\". All figures but figure 7 start with all rows \
                 shared that other hosts may ask for, as far as they fit; figure 7 starts with none.",
                profile.name, profile.about,
            ),
            command,
            profile: Some(profile.text.clone()),
        }
    }
}
