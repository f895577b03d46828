//! `tombolo figures megalon`.

use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::available_parallelism;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use tombolo::format_size;
use tombolo_experiments::figures::{
    Drawn, Event, FIGURES, Figure, Page, Settings, draw, largest_pod_bytes, test_bed,
};
use tombolo_timing::Profile;

use super::folder::Folder;
use super::spent::Spent;
use crate::output;

pub(super) const ABOUT: &str = "\
Rerun the MEGALON paper's evaluation in virtual time: figures 4 to 15, and the comparison of memory of \
its section 6.6.

The code that runs is the one that ships; what takes time, and how much, a profile says. Into DIR go, \
per figure, its points with all that was counted (CSV) and a drawing (SVG); summary.json with what the \
paper states and what came out (rows of figure, quantity, paper, paper_says, ours, error; where it \
states no number, paper and error are null); and report.html, which \
has all of that on one page, and the profile.

HCMeta is measured twice: as well as we can make it, and with owners like those of the published \
prototype, which serve one request after the other, and sleep when there is none.

With --scale 0.1, datasets, SCR and caches have a tenth of the paper's size, and all is done in minutes. \
At full size a pod takes gigabytes of this machine's memory: pods are run side by side as far as it has \
processors, and memory. One seed comes to the same files each time, on any machine.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo figures megalon --scale 0.1
  tombolo figures megalon --scale 0.1 --only 5,8 --out /tmp/figures
  tombolo figures megalon --jobs 1 --seed 7";

const BAR: &str = "{prefix} {bar:30} {human_pos} of {human_len} points, {elapsed}: {msg}";

#[derive(Debug, Args)]
pub(crate) struct MegalonArgs {
    /// Only these: 4 to 15, or memory; all, unless given.
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = figure)]
    only: Vec<Chosen>,
    /// How large datasets, SCR and caches are, compared with the paper's: 0.002 to 1.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// Where the files go; files of the same names are overwritten.
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Pods that are simulated side by side; as many as processors and memory allow, unless given.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Decides everything that is drawn by lot.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// The machine, instead of the paper's test bed (profiles/megalon.toml).
    #[arg(long, value_name = "FILE", env = "TOMBOLO_PROFILE")]
    profile: Option<PathBuf>,
}

/// Why a lock is not poisoned.
const WHOLE: &str = "nobody panics with it";

/// The settings that the summary tells.
#[derive(Serialize)]
struct Lot {
    profile: String,
    scale: f64,
    seed: u64,
}

/// A figure, by what it is asked for.
#[derive(Clone, Copy)]
struct Chosen(Figure);

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.id)
    }
}

fn figure(id: &str) -> Result<Chosen, String> {
    Figure::by_id(id).map(Chosen).ok_or_else(|| {
        let known = FIGURES.map(|figure| figure.id).join(", ");
        format!("there is no such figure; name some of {known}")
    })
}

pub(super) fn scale(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|scale| (0.002..=1.0).contains(scale));
    found.ok_or_else(|| format!("{text} is not a number from 0.002 to 1"))
}

pub(super) fn run(args: &MegalonArgs) -> Result<()> {
    let figures = args.figures();
    let profile = match &args.profile {
        Some(path) => Profile::read(path)?,
        None => test_bed(),
    };
    let settings = Settings { profile, scale: args.scale, seed: args.seed };
    let (jobs, host_bytes) = match args.jobs {
        Some(jobs) => (jobs.get(), u64::MAX),
        None => (available_parallelism().map_or(1, NonZero::get), room(&figures, args.scale)?),
    };
    let folder = Folder::new(&args.out, args.page(&settings), args.lot(&settings))?;
    let bar = output::progress("figures", figures.len() as u64, BAR);
    let spent = Mutex::new(Spent::default());
    let drawn = draw(&figures, &settings, jobs, host_bytes, &|event| {
        match event {
            Event::Doing { figure, stage, place } => {
                spent.lock().expect(WHOLE).begins(figure.id, stage);
                bar.set_message(format!("figure {}, {} {place}", figure.id, stage.name()));
            }
            Event::Points { done, of } => {
                spent.lock().expect(WHOLE).ends();
                bar.set_length(of as u64);
                bar.set_position(done as u64);
            }
            Event::Drawn(which, drawn) => {
                folder.write(which, drawn)?;
                let Drawn { id, .. } = drawn[which];
                let took = spent.lock().expect(WHOLE).on(id);
                bar.suspend(|| eprintln!("{}: {took}", drawn[which].file_name()));
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    eprintln!("all of it: {}", spent.lock().expect(WHOLE).on_all());
    output::say(folder.text(&drawn))?;
    Ok(())
}

impl MegalonArgs {
    fn figures(&self) -> Vec<Figure> {
        let chosen = |figure: &Figure| {
            self.only.is_empty() || self.only.iter().any(|only| only.0.id == figure.id)
        };
        FIGURES.into_iter().filter(chosen).collect()
    }

    fn lot(&self, settings: &Settings) -> Lot {
        let profile = settings.profile.name.clone();
        Lot { profile, scale: self.scale, seed: self.seed }
    }

    fn page(&self, settings: &Settings) -> Page {
        let Settings { profile, scale, seed } = settings;
        Page {
            title: "The MEGALON paper's evaluation in virtual time",
            about: format!(
                "Profile {}: {}. Scale {scale}: datasets, SCR and caches have so much of the size that is \
                 named. Seed {seed}. HCMeta is there twice: ours, as good as we can make it, and as published: \
                 with entries as large as the paper's, and owners that serve one request after the other and \
                 sleep when there is none.",
                profile.name, profile.about,
            ),
            command: self.command(),
            profile: Some(profile.text.clone()),
        }
    }

    /// The command that does this again, but for `--only`.
    fn command(&self) -> String {
        let mut command =
            format!("tombolo figures megalon --scale {} --seed {}", self.scale, self.seed);
        if let Some(profile) = &self.profile {
            command += &format!(" --profile {}", profile.display());
        }
        command
    }
}

/// The memory that pods may take together: that of the largest at least.
fn room(figures: &[Figure], scale: f64) -> Result<u64> {
    let Some(available) = available_bytes() else { return Ok(u64::MAX) };
    let largest = largest_pod_bytes(figures, scale);
    ensure!(
        largest <= available,
        "a pod at --scale {scale} takes about {} of memory, and {} are free; choose a smaller --scale, \
         other figures with --only, or --jobs 1 to try nevertheless",
        format_size(largest),
        format_size(available),
    );
    Ok(available)
}

/// Memory that this machine has to spare, as far as it says.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
