//! Results, for people and for programs.

use std::io::IsTerminal;

use anyhow::Context;
use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// The exit code of a check that found problems.
pub(crate) const PROBLEMS: u8 = 3;

/// The exit code of one that found none, but could not decide everything, or left something out.
pub(crate) const UNDECIDED: u8 = 4;

/// The exit code of a host that was fenced.
pub(crate) const FENCED: u8 = 5;

/// A table whose first column holds names, and whose other columns are aligned to the right.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.iter().copied());
    for column in 1..header.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Names with values, aligned.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// Prints `report` in the format asked for.
pub(crate) fn print<T: Serialize>(
    report: &T,
    format: Format,
    to_text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Table => print!("{}", to_text(report)),
        Format::Json => {
            let json = serde_json::to_string_pretty(report).context("cannot write JSON")?;
            println!("{json}");
        }
    }
    Ok(())
}

/// A bar on the terminal, if there is one and something to come.
pub(crate) fn progress(prefix: &str, total: u64, template: &str) -> ProgressBar {
    if total == 0 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is sound");
    ProgressBar::new(total).with_style(style).with_prefix(prefix.to_owned())
}
