//! The parts that commands for figures have in common: options, choice, progress and files.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tombolo_experiments::figures::{Drawn, Page, RunsDone};

use super::folder::Folder;
use crate::output;

const BAR: &str = "{prefix} {bar:40} {human_pos} of {human_len} runs, {elapsed}, {eta} left";

#[derive(Debug, Args)]
pub(crate) struct DrawingArgs {
    /// Where the files go; files of the same names are overwritten.
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Runs side by side; as many as there are processors, unless given.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

/// Hears how many runs are done, of how many.
type Tell<'a> = &'a RunsDone<'a>;

impl DrawingArgs {
    /// Draws figures by `draw`, which is told how many runs go side by side. Shows its progress,
    /// writes the files, and prints the paper's statements. The summary tells `settings`.
    ///
    /// # Errors
    /// Those of `draw`, and that the folder cannot be written to, which is seen first.
    pub(super) fn draw(
        &self,
        page: Page,
        settings: impl Serialize,
        draw: impl FnOnce(usize, Tell<'_>) -> Result<Vec<Drawn>>,
    ) -> Result<()> {
        let folder = Folder::new(&self.out, page, settings)?;
        let jobs = self.jobs.or_else(|| available_parallelism().ok()).map_or(1, NonZero::get);
        let bar = output::progress("figures", 1, BAR);
        let drawn = draw(jobs, &|done, of| {
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
}

/// The figure of that name, among those that are known.
pub(super) fn known<const N: usize>(
    id: &str,
    known: [&'static str; N],
) -> Result<&'static str, String> {
    let found = known.into_iter().find(|known| *known == id);
    found.ok_or_else(|| format!("there is no such figure; name some of {}", known.join(", ")))
}

/// Those of all figures that are asked for: all, if none is.
pub(super) fn chosen<F, const N: usize>(
    all: [F; N],
    only: &[&str],
    id: impl Fn(&F) -> &'static str,
) -> Vec<F> {
    all.into_iter().filter(|figure| only.is_empty() || only.contains(&id(figure))).collect()
}
