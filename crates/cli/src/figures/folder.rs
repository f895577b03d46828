//! Where figures go.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use tombolo_experiments::figures::{Drawn, Page, Summary, html};

use crate::output::table;

const SUMMARY: &str = "summary.json";

/// A folder for the files of figures: a table and a drawing of each, and a summary and a page of
/// all.
pub(super) struct Folder<'a, S> {
    path: &'a Path,
    page: Page,
    settings: S,
}

impl<'a, S: Serialize> Folder<'a, S> {
    /// Sees that files can be written into a folder, before all is computed. The summary tells
    /// `settings`.
    pub(super) fn new(path: &'a Path, page: Page, settings: S) -> Result<Self> {
        let cannot = || {
            format!("cannot write figures into {}; name another folder with --out", path.display())
        };
        fs::create_dir_all(path).with_context(cannot)?;
        let summary = path.join(SUMMARY);
        fs::OpenOptions::new().create(true).append(true).open(summary).with_context(cannot)?;
        Ok(Self { path, page, settings })
    }

    /// Writes the files of a figure, and those about all that are drawn so far.
    pub(super) fn write(&self, which: usize, drawn: &[Drawn]) -> Result<()> {
        let write = |name: String, text: &str| {
            let path = self.path.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let name = drawn[which].file_name();
        write(format!("{name}.csv"), &drawn[which].csv())?;
        write(format!("{name}.svg"), &drawn[which].svg()?)?;
        let summary = serde_json::to_string_pretty(&Summary::of(drawn, &self.settings))?;
        write(SUMMARY.to_owned(), &(summary + "\n"))?;
        write("report.html".to_owned(), &html(drawn, &self.page)?)
    }

    /// The paper's statements and our numbers, for people.
    pub(super) fn text(&self, drawn: &[Drawn]) -> String {
        let mut rows = table(&["quantity", "figure", "paper", "ours", "error"]);
        for row in drawn.iter().flat_map(|drawn| &drawn.rows) {
            rows.add_row([
                row.quantity.clone(),
                row.figure.to_owned(),
                row.paper_text(),
                format!("{:.2}", row.ours),
                row.error_text(),
            ]);
        }
        format!("{rows}\n\nAll of it: {}\n", self.path.join("report.html").display())
    }
}
