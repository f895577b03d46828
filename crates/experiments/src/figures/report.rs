//! Figures for programs, and for people.

use std::fmt::Write;

use serde::Serialize;

use super::{Drawn, Row};

/// The paper's statements and our numbers, for programs.
#[derive(Serialize)]
pub struct Summary<'a, S> {
    /// Where, how large, and by which lot.
    #[serde(flatten)]
    pub settings: S,
    /// The statements that are compared with the paper's.
    pub rows: Vec<&'a Row>,
}

impl<'a, S> Summary<'a, S> {
    /// Of these figures.
    pub fn of(drawn: &'a [Drawn], settings: S) -> Self {
        Self { settings, rows: drawn.iter().flat_map(|drawn| &drawn.rows).collect() }
    }
}

/// The head of a page of figures.
pub struct Page {
    /// The title.
    pub title: &'static str,
    /// How the figures came about.
    pub about: String,
    /// The command, but for what is drawn.
    pub command: String,
    /// The text of the profile, if there is one for all.
    pub profile: Option<String>,
}

const STYLE: &str = "\
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; padding: .2em .9em; border-bottom: 1px solid #ddd }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
code { background: #f3f3f3; padding: .1em .3em }
pre { background: #f3f3f3; padding: 1em; overflow-x: auto }
svg { max-width: 100%; height: auto }";

/// All figures as one page that needs nothing else.
///
/// # Errors
/// None that are known.
pub fn html(drawn: &[Drawn], head: &Page) -> anyhow::Result<String> {
    let title = escaped(head.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>\n{STYLE}\n</style>\n<h1>{title}</h1>\n<p>{}</p>\n",
        escaped(&head.about),
    );
    let rows = drawn.iter().flat_map(|drawn| &drawn.rows);
    page += "<h2>What the paper states</h2>\n";
    page += &table(rows, true);
    for drawn in drawn {
        let id = drawn.id;
        let name = if id.parse::<u32>().is_ok() { format!("Figure {id}: ") } else { String::new() };
        let _ = write!(
            page,
            "<h2>{name}{}</h2>\n<p>{}</p>\n{}\n{}<p>Drawn by <code>{} --only {id}</code></p>\n",
            escaped(drawn.title),
            escaped(drawn.about),
            drawn.svg()?,
            table(&drawn.rows, false),
            escaped(&head.command),
        );
    }
    if let Some(profile) = &head.profile {
        let _ = write!(page, "<h2>The profile</h2>\n<pre>{}</pre>\n", escaped(profile));
    }
    page += "</html>\n";
    Ok(page)
}

fn table<'a>(rows: impl IntoIterator<Item = &'a Row>, with_figure: bool) -> String {
    let figure = |text: &str| if with_figure { text.to_owned() } else { String::new() };
    let mut table = format!(
        "<table>\n<tr>{}<th>quantity</th><th class=\"n\">paper</th><th class=\"n\">ours</th>\
         <th class=\"n\">error</th></tr>\n",
        figure("<th>figure</th>"),
    );
    for row in rows {
        let _ = writeln!(
            table,
            "<tr>{}<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.2}</td><td class=\"n\">{}</td></tr>",
            figure(&format!("<td>{}</td>", row.figure)),
            escaped(&row.quantity),
            row.paper_text(),
            row.ours,
            row.error_text(),
        );
        if let Some(why) = row.why {
            let columns = if with_figure { 5 } else { 4 };
            let _ = writeln!(table, "<tr><td colspan=\"{columns}\">{}</td></tr>", escaped(why));
        }
    }
    table += "</table>\n";
    table
}

impl Row {
    /// The paper's value, for people.
    pub fn paper_text(&self) -> String {
        let number = self.paper.map(|paper| paper.to_string());
        let words = self.paper_says.map(|words| format!("\u{201c}{words}\u{201d}"));
        let both: Vec<String> = [number, words].into_iter().flatten().collect();
        both.join(", ")
    }

    /// How far off we are, and whether what the paper says holds, for people.
    pub fn error_text(&self) -> String {
        let error = self.error.map(|error| format!("{:+.0} %", 100.0 * error));
        let holds = self.holds.map(|holds| if holds { "holds" } else { "deviates" }.to_owned());
        error.into_iter().chain(holds).collect::<Vec<_>>().join(", ")
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
