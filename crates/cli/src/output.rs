//! Results, for people and for programs.

use std::fmt;
use std::io::{self, IsTerminal, Write};

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

/// The exit code: `pod check` or `db check` found problems, `tier check` obstacles, others
/// failures.
pub(crate) const PROBLEMS: u8 = 3;

/// The exit code: no failure was found, but a history is undecided, or steps or deaths were left
/// out.
pub(crate) const UNDECIDED: u8 = 4;

/// The exit code: the host, which served clients, was fenced.
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
    say(text(report, format, to_text)?)
}

/// The same beside the standard output, which holds something else.
pub(crate) fn print_aside<T: Serialize>(
    report: &T,
    format: Format,
    to_text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    eprint!("{}", text(report, format, to_text)?);
    Ok(())
}

fn text<T: Serialize>(
    report: &T,
    format: Format,
    to_text: impl FnOnce(&T) -> String,
) -> anyhow::Result<String> {
    match format {
        Format::Table => Ok(to_text(report)),
        Format::Json => {
            Ok(serde_json::to_string_pretty(report).context("cannot write JSON")? + "\n")
        }
    }
}

/// Writes to the standard output, at once.
///
/// # Errors
/// [`NoOutput`].
pub(crate) fn say(text: impl fmt::Display) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    write!(output, "{text}").and_then(|()| output.flush()).map_err(|error| NoOutput(error).into())
}

/// The standard output takes nothing.
#[derive(Debug)]
pub(crate) struct NoOutput(io::Error);

impl NoOutput {
    /// Whether somebody has closed it who wants no more, which is no error.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

impl fmt::Display for NoOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to the standard output: {}", self.0)
    }
}

impl std::error::Error for NoOutput {}

/// A bar on the terminal, if there is one and something to come.
pub(crate) fn progress(prefix: &str, total: u64, template: &str) -> ProgressBar {
    if total == 0 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is sound");
    ProgressBar::new(total).with_style(style).with_prefix(prefix.to_owned())
}
