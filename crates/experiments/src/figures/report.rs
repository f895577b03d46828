//! Figures for programs, and for people.

use std::fmt::Write;

use serde::Serialize;

use super::point::Row;
use super::{Drawn, Settings};

/// What the paper states, and what came out: for programs.
#[derive(Serialize)]
pub struct Summary<'a> {
    /// The profile.
    pub profile: &'a str,
    /// How large datasets, SCR and caches are, compared with the paper's.
    pub scale: f64,
    /// What everything was drawn by.
    pub seed: u64,
    /// What is compared.
    pub rows: Vec<&'a Row>,
}

impl<'a> Summary<'a> {
    /// Of these figures.
    pub fn of(drawn: &'a [Drawn], settings: &'a Settings) -> Self {
        Self {
            profile: &settings.profile.name,
            scale: settings.scale,
            seed: settings.seed,
            rows: drawn.iter().flat_map(|drawn| &drawn.rows).collect(),
        }
    }
}

const STYLE: &str = "\
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; padding: .2em .9em; border-bottom: 1px solid #ddd }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
code { background: #f3f3f3; padding: .1em .3em }
svg { max-width: 100%; height: auto }";

/// All figures as one page that needs nothing else; `command` is told without what is drawn.
///
/// # Errors
/// None that are known.
pub fn html(drawn: &[Drawn], settings: &Settings, command: &str) -> anyhow::Result<String> {
    let Settings { profile, scale, seed } = settings;
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>The MEGALON paper's evaluation in virtual time</title>\n<style>\n{STYLE}\n</style>\n\
         <h1>The MEGALON paper's evaluation in virtual time</h1>\n\
         <p>Profile <b>{}</b>: {}. Scale {scale}: datasets, SCR and caches have so much of the size that is \
         named. Seed {seed}. HCMeta is there twice: ours, as good as we can make it, and as published: with \
         entries as large as the paper's, and owners that serve one request after the other and sleep when there \
         is none.</p>\n",
        escaped(&profile.name),
        escaped(&profile.about),
    );
    let rows = drawn.iter().flat_map(|drawn| &drawn.rows);
    page += "<h2>What the paper states</h2>\n";
    page += &table(rows, true);
    for drawn in drawn {
        let id = drawn.figure.id;
        let name = if id.parse::<u32>().is_ok() { format!("Figure {id}: ") } else { String::new() };
        let _ = write!(
            page,
            "<h2>{name}{}</h2>\n<p>{}</p>\n{}\n{}<p>Drawn by <code>{} --only {id}</code></p>\n",
            escaped(drawn.figure.title),
            escaped(drawn.figure.about),
            drawn.svg()?,
            table(&drawn.rows, false),
            escaped(command),
        );
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
    }
    table += "</table>\n";
    table
}

impl Row {
    /// What the paper says, for people.
    pub fn paper_text(&self) -> String {
        let number = self.paper.map(|paper| paper.to_string());
        let words = self.paper_says.map(|words| format!("\u{201c}{words}\u{201d}"));
        let both: Vec<String> = [number, words].into_iter().flatten().collect();
        both.join(", ")
    }

    /// How far off we are, for people.
    pub fn error_text(&self) -> String {
        self.error.map_or_else(String::new, |error| format!("{:+.0} %", 100.0 * error))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
